"""The frame of the page and what holds for all of it: keys, languages, themes, errors, the key,
hostile texts, accessibility, widths, files; and the attention view."""

from __future__ import annotations

import dataclasses
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

pytest.importorskip("uvicorn")
pytest.importorskip("playwright")
httpx = pytest.importorskip("httpx")

from playwright.sync_api import expect  # noqa: E402

from tests.serve.browser import (  # noqa: E402
    HOSTILE,
    HOSTILE_SCRIPT,
    Opened,
    ask,
    bars,
    findings,
    run,
)
from tests.serve.conftest import KINDS, Live, fine_tuned, mark_more  # noqa: E402
from tianci import checkpoint, files  # noqa: E402
from tianci.serve.limits import Limits  # noqa: E402
from tianci.serve.log import Silence  # noqa: E402
from tianci.serve.models import Models, read_models  # noqa: E402
from tianci.serve.page_files import page_files  # noqa: E402
from tianci.serve.service import Service  # noqa: E402

Open = Callable[..., Opened]
TEXT = "今天天气不错"
TABS = ["fill", "classify", "pair", "tag", "answer", "choose", "generate", "score", "neighbours"]
KEY = "a-key-of-the-tests"


@pytest.mark.parametrize("tool", ["curl", "Python"])
def test_the_request_as_code(page_server: Live, opened: Open, tool: str) -> None:
    page = opened(page_server.url).go("#/playground/classify")
    text = '今天\'s "天气" \\n $HOME `x`'
    run(page, text=text)
    page.get_by_text("The same request by").click()
    page.get_by_role("button", name=tool, exact=True).click()
    code = page.locator(".code pre").inner_text()
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.get_by_role("button", name="Copy", exact=True).click()
    expect(page.get_by_role("button", name="Copied")).to_be_visible()
    assert page.evaluate("navigator.clipboard.readText()") == code
    if tool == "curl" and not shutil.which("curl"):
        pytest.skip("no curl here")
    command = ["sh", "-c", code + " -s"] if tool == "curl" else [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    value = httpx.Response(200, text=done.stdout.replace("'", '"')).json()
    assert value == ask(page_server, "/predict", {"inputs": text, "model": "classify"})


def test_keys_move_between_tabs(page_server: Live, opened: Open) -> None:
    page = opened(page_server.url).go()
    expect(page.get_by_role("tab")).to_have_count(len(TABS))
    page.get_by_role("tab", name="Fill in").focus()
    for name in ("Classify", "Two texts", "Tags"):
        page.keyboard.press("ArrowRight")
        expect(page.get_by_role("tab", name=name)).to_be_focused()
        expect(page.get_by_role("tabpanel", name=name)).to_be_visible()
    page.keyboard.press("End")
    expect(page.get_by_role("tab", name="Neighbours")).to_be_focused()
    page.keyboard.press("ArrowRight")
    expect(page.get_by_role("tab", name="Fill in")).to_be_focused()
    page.keyboard.press("Tab")  # one stop for all tabs, then the form
    expect(page.get_by_role("tab", name="Classify")).not_to_be_focused()


def test_language_and_theme(page_server: Live, opened: Open) -> None:
    one = opened(page_server.url, locale="zh-CN", color_scheme="dark")
    page = one.go("#/playground/classify")
    expect(page.get_by_role("tab", name="分类")).to_be_visible()
    assert page.evaluate("document.documentElement.lang") == "zh-CN"
    run(page, text=TEXT)
    page.locator("#language").click()
    expect(page.get_by_role("tab", name="Classify")).to_be_visible()
    expect(page.locator("[name=text]")).to_have_value(TEXT)  # nothing is lost
    expect(page.locator(".bar")).to_have_count(2)
    ground = "getComputedStyle(document.documentElement).backgroundColor"
    dark = page.evaluate(ground)
    page.get_by_label("Theme").select_option("light")
    assert page.evaluate(ground) != dark
    page.reload()
    expect(page.get_by_role("tab", name="Classify")).to_be_visible()  # both are remembered
    assert page.evaluate(ground) != dark
    page.get_by_label("Theme").select_option("auto")
    assert page.evaluate(ground) == dark


def test_errors_are_sentences(page_server: Live, opened: Open) -> None:
    one = opened(page_server.url)
    one.allowed = ("413", "ERR_CONNECTION_REFUSED", "ERR_FAILED", "ERR_EMPTY_RESPONSE")
    page = one.go("#/playground/classify")
    run(page, text=" ")
    expect(page.get_by_role("alert")).to_have_text("Type a text first.")
    run(page, text="天" * 60)
    expect(page.get_by_role("alert")).to_contain_text("must have at most 48 tokens")
    page.route("**/predict", lambda route: route.abort())
    run(page, text=TEXT)
    expect(page.get_by_role("alert")).to_contain_text("no answer from the server")
    page.unroute("**/predict")
    run(page, text=TEXT)
    expect(page.get_by_role("alert")).to_have_count(0)
    page.goto(f"{page_server.url}/#/nowhere")
    expect(page.get_by_role("alert")).to_have_text("There is no such view here.")


def test_a_server_with_a_key(page_models: Models, opened: Open) -> None:
    keyed = Live(Service(lambda: page_models, Limits(), KEY, log=Silence()))
    try:
        assert httpx.get(keyed.url + "/page/info").status_code == 401
        assert httpx.get(keyed.url + "/page/main.js").status_code == 200
        one = opened(keyed.url)
        one.allowed = ("401",)
        page = one.go("#/playground/classify")
        page.get_by_label("Key").fill("something-else")
        page.get_by_role("button", name="Use this key").click()
        expect(page.get_by_role("alert")).to_have_text("The server does not know this key.")
        assert not findings(page)
        page.get_by_label("Key").fill(KEY)
        page.keyboard.press("Enter")
        run(page, text=TEXT)
        expect(page.locator(".bar")).to_have_count(2)
        code = page.locator(".code pre").text_content() or ""
        assert "TIANCI_API_KEY" in code and KEY not in code
        assert KEY not in page.evaluate("JSON.stringify({...localStorage})")
        page.get_by_role("button", name="Forget the key").click()
        expect(page.get_by_label("Key")).to_be_visible()
        assert page.evaluate("sessionStorage.length") == 0
    finally:
        keyed.end()


def test_planted_scripts_never_run(
    folders: dict[str, Path], tmp_path: Path, opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "sync", lambda path: None)
    labels = [HOSTILE, HOSTILE_SCRIPT]
    checkpoint.write(tmp_path / "classify", fine_tuned("classify", {"labels": labels}))
    tags = ["O", f"B-{HOSTILE}", f"I-{HOSTILE}"]
    kind = {**KINDS["tag"], "labels": tags}
    checkpoint.write(tmp_path / "tag", fine_tuned("tag", kind))
    read = read_models([*(str(tmp_path / n) for n in ("classify", "tag")), str(folders["base"])])
    mark_more(read)
    names = [HOSTILE, HOSTILE_SCRIPT, "javascript:window.hacked()"]
    hostile = Models(
        [dataclasses.replace(one, name=n) for one, n in zip(read.served, names, strict=True)]
    )
    server = Live(Service(lambda: hostile, Limits(), log=Silence()))
    try:
        page = opened(server.url).go("#/playground/classify")
        run(page, text=HOSTILE + TEXT)
        expect(page.locator(".bar")).to_have_count(2)
        assert {name for name, _ in bars(page)} == set(labels)
        expect(page.locator(".token").first).to_be_visible()
        page.get_by_text("The same request by").click()
        expect(page.locator(".code pre")).to_contain_text("onerror")
        page.goto(f"{server.url}/#/playground/tag")
        run(page, text=TEXT + HOSTILE_SCRIPT)
        expect(page.locator("mark.entity").first).to_contain_text("<img")
        page.goto(f"{server.url}/#/playground/fill")
        run(page, text=f"[MASK]{HOSTILE}")
        page.locator(".bar button").first.click()
        page.goto(f"{server.url}/#/attention")
        page.locator("[name=first]").fill(HOSTILE)
        page.get_by_role("button", name="Look").click()
        expect(page.locator(".lines .from")).to_contain_text("onerror")
        page.goto(f"{server.url}/#/{HOSTILE}/{HOSTILE_SCRIPT}")
        expect(page.get_by_role("alert")).to_be_visible()
        page.goto(f"{server.url}/#/playground/{HOSTILE}")
        expect(page.get_by_role("tab").first).to_be_visible()
        assert page.locator("main img, main script").count() == 0
    finally:
        server.end()


# ---------------------------------------------------------------- attention


def test_attention_lines(page_server: Live, opened: Open) -> None:
    page = opened(page_server.url).go("#/attention")
    page.locator("[name=first]").fill("今天")
    page.locator("[name=second]").fill("dogs")
    page.get_by_role("button", name="Look").click()
    heads = page.locator(".heads button:not([disabled])")
    expect(page.locator(".lines .from button")).to_have_count(7)
    expect(heads).to_have_count(4)  # two layers of two heads
    page.get_by_role("button", name="Layer 1, head 1").focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowRight")
    expect(page.get_by_role("button", name="Layer 2, head 2")).to_be_focused()
    expect(page.get_by_role("heading", name="Layer 2, head 2")).to_be_visible()
    body = {"inputs": ["今天", "dogs"], "model": "base"}
    found = ask(page_server, "/attention", body)
    names = [one["text"] for one in found["tokens"]]

    def told(row: int) -> str:
        weights = found["weights"][1][1][row]
        best = sorted((n for n in range(7) if weights[n] >= 0.005), key=lambda n: -weights[n])[:5]
        return f"{names[row]} looks at " + " · ".join(f"{names[n]} {weights[n]:.2f}" for n in best)

    page.locator(".lines .from button").nth(4).hover()
    expect(page.locator(".told")).to_have_text(told(4))
    page.locator(".lines .from button").nth(1).focus()
    expect(page.locator(".told")).to_have_text(told(1))
    page.keyboard.press("ArrowDown")
    expect(page.locator(".told")).to_have_text(told(2))
    # lines are drawn, and as many dots of a head's small picture as it has weights
    pixels = "one => one.getContext('2d').getImageData(0, 0, one.width, one.height).data"
    assert page.locator(".lines canvas").evaluate(pixels + ".some((x) => x > 0)")
    heights = [page.locator(f".lines {one}").bounding_box() for one in (".from", "canvas")]
    assert heights[0] and heights[1] and heights[0]["height"] == heights[1]["height"]
    assert page.locator(".heads canvas").first.evaluate("one => [one.width, one.height]") == [7, 7]


# ---------------------------------------------------------------- for everyone


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_axe_finds_nothing_serious(page_server: Live, opened: Open, theme: str) -> None:
    page = opened(page_server.url, color_scheme=theme).go()
    for tab in TABS:
        page.goto(f"{page_server.url}/#/playground/{tab}")
        page.locator(".examples .chip").first.click()
        expect(page.locator(".code")).to_have_count(1)
        expect(page.locator(".result .waiting")).to_have_count(0)
        for box in page.get_by_role("checkbox").all():
            box.check()
        assert not findings(page), tab
    page.goto(f"{page_server.url}/#/attention")
    page.locator(".lines .from button").nth(2).hover()
    assert not findings(page)


@pytest.mark.parametrize("width", [360, 1600])
def test_nothing_sticks_out(page_server: Live, opened: Open, width: int) -> None:
    page = opened(page_server.url, viewport={"width": width, "height": 800}).go()
    for tab in (*(f"playground/{one}" for one in TABS), "attention"):
        page.goto(f"{page_server.url}/#/{tab}")
        page.locator(".examples .chip").last.click()
        expect(page.locator(".waiting")).to_have_count(0)
        assert page.evaluate("document.documentElement.scrollWidth") <= width, tab
    page.goto(f"{page_server.url}/docs")
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_the_files_of_the_page(page_server: Live) -> None:
    found = page_files()
    assert sum(len(body) for path, (body, _) in found.items() if path != "/") < 200_000
    for path, (body, _) in found.items():
        text = body.decode("utf-8").replace("http://www.w3.org/2000/svg", "")
        assert not re.search(r"""["'(]\s*(https?:)?//\w""", text), path  # nothing from elsewhere
        assert "innerHTML" not in text and "eval(" not in text, path
        got = httpx.get(page_server.url + path)
        assert got.status_code == 200 and got.content == body
        assert "default-src 'none'; script-src 'self'" in got.headers["content-security-policy"]
    assert httpx.get(page_server.url + "/page/../server.py").status_code == 404
    assert httpx.get(page_server.url + "/page/%2e%2e/server.py").status_code == 404
