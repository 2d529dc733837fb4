"""The tabs of the playground, used as a person would."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable

import pytest

pytest.importorskip("uvicorn")
pytest.importorskip("playwright")
pytest.importorskip("httpx")

from playwright.sync_api import expect

from tests.serve.browser import Opened, ask, bars, run, shown
from tests.serve.conftest import Live, wait

Open = Callable[..., Opened]
TEXT = "今天天气不错"


def test_fill_in(page_server: Live, opened: Open) -> None:
    page = opened(page_server.url).go()
    expect(page.get_by_role("tab", name="Fill in")).to_have_attribute("aria-selected", "true")
    page.locator("[name=text]").fill("今天气[MASK]错")
    page.locator("[name=text]").press("Control+Enter")
    expect(page.locator(".bar")).to_have_count(8)
    (best,) = ask(page_server, "/fill", {"inputs": "今天气[MASK]错", "top": 8})
    rows = bars(page)
    assert [number for _, number in rows] == [shown(one["score"]) for one in best]
    assert [name for name, _ in rows] == [one["token"].removeprefix("##") for one in best]
    page.locator(".bar button").nth(1).click()
    expected = "今天气" + best[1]["token"].removeprefix("##") + "错"
    expect(page.locator("[name=text]")).to_have_value(expected)
    # a gap is put in where the cursor is; two gaps are filled one after the other
    page.locator("[name=text]").fill("大")
    page.get_by_role("button", name="Insert [MASK]").click()
    page.get_by_role("button", name="Insert [MASK]").click()
    expect(page.locator("[name=text]")).to_have_value("大[MASK][MASK]")
    run(page)
    expect(page.locator(".bar")).to_have_count(16)
    page.locator(".bar button").nth(8).click()
    expect(page.locator("[name=text]")).to_have_value(re.compile(r"^大\[MASK\][^\[]+$"))
    expect(page.locator(".bar")).to_have_count(8)


def test_classify_and_why(page_server: Live, opened: Open) -> None:
    page = opened(page_server.url).go("#/playground/classify")
    run(page, text=TEXT)
    said = ask(page_server, "/predict", {"inputs": TEXT, "model": "classify"})
    assert bars(page) == [(one["label"], shown(one["score"])) for one in said]
    why = ask(
        page_server, "/attribute", {"inputs": TEXT, "model": "classify", "label": said[1]["label"]}
    )
    page.get_by_role("button", name=f"Explain {said[1]['label']}", exact=True).click()
    expect(page.locator(".reasons h2")).to_have_text(f"Why “{said[1]['label']}”?")
    tokens = page.locator(".token")
    assert [one.locator("span").inner_text() for one in tokens.all()] == ["[CLS]", *TEXT, "[SEP]"]
    for place, one in zip(tokens.all(), why["tokens"], strict=True):
        sign = "−" if one["share"] < 0 else "+"
        number = "" if one["special"] else f"{sign}{abs(one['share']):.2f}"
        assert place.locator("small").text_content() == number  # also for screen readers
    box = page.get_by_role("checkbox", name="Show the numbers")
    first = tokens.nth(1).locator("small")
    width = "one => one.getBoundingClientRect().width"
    assert first.evaluate(width) <= 1
    box.focus()
    page.keyboard.press("Space")
    assert first.evaluate(width) > 10
    # of all tokens the one that speaks loudest has the strongest colour
    loudest = max(range(8), key=lambda n: abs(why["tokens"][n]["share"]))
    assert "0.45" in tokens.nth(loudest).evaluate("one => getComputedStyle(one).backgroundColor")


def test_the_label_that_the_threshold_decides_for_is_explained(
    page_server: Live, opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert page_server.service.models is not None
    served = next(one for one in page_server.service.models.served if one.name == "classify")
    said = ask(page_server, "/predict", {"inputs": TEXT, "model": "classify"})
    plus = next(one["score"] for one in said if one["label"] == "+")
    for threshold, answer in ((plus / 2, "+"), ((1 + plus) / 2, "-")):
        monkeypatch.setitem(served.__dict__, "about", {**served.about, "threshold": threshold})
        page = opened(page_server.url).go("#/playground/classify")
        run(page, text=TEXT)
        expect(page.locator(".bar.best .name")).to_have_text(answer)
        expect(page.locator(".reasons h2")).to_have_text(f"Why “{answer}”?")


def test_two_texts(page_server: Live, opened: Open) -> None:
    page = opened(page_server.url).go("#/playground/pair")
    run(page, first="今天", second="天气")
    said = ask(page_server, "/predict", {"inputs": ["今天", "天气"], "model": "pair"})
    assert bars(page) == [(one["label"], shown(one["score"])) for one in said]
    expect(page.locator(".token")).to_have_count(7)
    page.get_by_label("Model").select_option("similar")
    expect(page.locator(".bar")).to_have_count(0)
    run(page)
    body = {"inputs": {"source_sentence": "今天", "sentences": ["天气"]}, "model": "similar"}
    expect(page.locator(".big")).to_have_text(
        f"{ask(page_server, '/similarity', body)[0]:.3f}".replace("-", "−")
    )
    page.get_by_label("Model").select_option("regress")
    run(page)
    number = ask(page_server, "/predict", {"inputs": ["今天", "天气"], "model": "regress"})
    expect(page.locator(".big")).to_have_text(f"{number[0]['score']:.3f}".replace("-", "−"))


def test_tags_are_where_the_words_are(page_server: Live, opened: Open) -> None:
    page = opened(page_server.url).go("#/playground/tag")
    text = "😀今天天气不错，我们大家😀有伞"  # two characters that JavaScript counts double
    run(page, text=text)
    entities = ask(page_server, "/tag", {"inputs": text})["entities"]
    assert entities, "the random model marks nothing; choose another text"
    marks = page.locator("mark.entity").all()
    labels = [one["label"] for one in entities]
    assert [one.locator("small").inner_text() for one in marks] == labels
    words = [one.evaluate("one => one.firstChild.data") for one in marks]
    assert words == [one["word"] for one in entities]
    whole = page.locator(".passage").evaluate(
        "one => [...one.childNodes].map(n => n.firstChild?.data ?? n.data).join('')"
    )
    assert whole == text
    expect(page.locator("tbody tr")).to_have_count(len(entities))


def test_question(page_server: Live, opened: Open) -> None:
    page = opened(page_server.url).go("#/playground/answer")
    question, context = "天气", "今天天气不错，我们有伞"
    run(page, question=question, context=context)
    found = ask(page_server, "/answer", {"inputs": {"question": question, "context": context}})
    expect(page.locator(".big")).to_have_text(found["answer"])
    expect(page.locator("mark.best")).to_have_text(found["answer"])
    assert page.locator(".passage").inner_text() == context
    spans = [found, *found["others"]]
    assert bars(page) == [(one["answer"], shown(one["score"])) for one in spans]
    inside = page.locator(".result").bounding_box()
    mark = page.locator("mark.best").bounding_box()
    assert inside and mark and inside["y"] < mark["y"] < inside["y"] + inside["height"]
    page.set_viewport_size({"width": 360, "height": 800})  # a long answer has the whole line
    name, track = (
        page.locator(f".bar {part}").first.bounding_box() for part in (".name", ".track")
    )
    assert name and track and name["y"] + name["height"] <= track["y"]


def test_choice(page_server: Live, opened: Open) -> None:
    page = opened(page_server.url).go("#/playground/choose")
    run(page, context="今天", choices="天气\n我们\n\n大")
    body = {"context": "今天", "question": "", "choices": ["天气", "我们", "大"]}
    found = ask(page_server, "/choose", {"inputs": body})
    expect(page.locator(".big")).to_have_text(found["choice"])
    names = zip(body["choices"], found["scores"], strict=True)
    assert bars(page) == [(name, shown(score)) for name, score in names]
    assert page.locator(".bar.best .name").inner_text() == found["choice"]


def test_writing_streams_and_stops(
    page_server: Live, opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = opened(page_server.url).go("#/playground/generate")
    page.get_by_label("Model").select_option("gpt2")
    page.get_by_text("Options").click()
    run(page, text="今天天气", max_new_tokens="8", temperature="0")
    body = {"inputs": "今天天气", "model": "gpt2", "max_new_tokens": 8, "temperature": 0}
    found = ask(page_server, "/generate", body)
    assert page.locator(".written").text_content() == found["text"]
    assert page.locator(".passage").text_content() == "今天天气" + found["text"]
    expect(page.locator(".result")).to_contain_text(f"{len(found['ids'])} tokens in")
    # it pauses after some tokens, so that there is something to stop
    steps: list[bool] = []
    stopped = threading.Event()

    def pause() -> None:
        steps.append(True)
        if len(steps) > 3:
            stopped.wait(60)

    monkeypatch.setattr(page_server.service.batcher, "_between", pause)
    page.locator("[name=max_new_tokens]").fill("40")
    page.locator("form button.main").click()
    # not wait_for_function: what it asks again and again, it asks by eval, which our policy forbids
    begun = "document.querySelector('.caret')?.previousSibling.textContent"
    wait(lambda: bool(page.evaluate(begun)))
    page.get_by_role("button", name="Stop").click()
    expect(page.locator(".caret")).to_have_count(0)
    expect(page.locator(".written")).not_to_be_empty()  # what came stays
    wait(lambda: not page_server.service.open)  # the server knows that nobody listens any more
    stopped.set()
    ask(page_server, "/score", {"inputs": "今", "model": "gpt2"})  # and has time for others again
    assert len(steps) < 8


def test_a_target_stands_for_itself(page_server: Live, opened: Open) -> None:
    page = opened(page_server.url).go("#/playground/generate")
    page.get_by_label("Model").select_option("generate")
    run(page, text="今天天气")
    found = ask(page_server, "/generate", {"inputs": "今天天气", "model": "generate"})
    assert page.locator(".passage").text_content() == found["text"]


def test_score_as_heat(page_server: Live, opened: Open) -> None:
    page = opened(page_server.url).go("#/playground/score")
    run(page, text="今天 dogs")
    found = ask(page_server, "/score", {"inputs": "今天 dogs", "model": "base"})
    expect(page.locator(".big")).to_have_text(f"{found['score']:.2f}".replace("-", "−"))
    texts = [one.inner_text() for one in page.locator(".token span").all()]
    assert texts == ["今", "天", "dog", "s"]
    numbers = [one.text_content() for one in page.locator(".token small").all()]
    assert numbers == [f"{one:.2f}".replace("-", "−") for one in found["token_scores"]]
    assert [i for i, one in enumerate(page.locator(".token").all())
            if "apart" in (one.get_attribute("class") or "")] == [2]  # the space  # fmt: skip


def test_neighbours(page_server: Live, opened: Open) -> None:
    page = opened(page_server.url).go("#/playground/neighbours")
    lines = ["天气", "我们大", "今天", "不错"]
    expect(page.get_by_label("Model")).to_have_value("similar")  # made for it: comes first
    run(page, text="今天天气", list="\n".join(lines) + "\n")
    body = {"inputs": {"source_sentence": "今天天气", "sentences": lines}, "model": "similar"}
    cosines = dict(zip(lines, ask(page_server, "/similarity", body), strict=True))
    best = sorted(lines, key=lambda one: -cosines[one])
    assert bars(page) == [(one, f"{cosines[one]:.3f}") for one in best]
    expect(page.locator(".spark rect")).to_have_count(32)
