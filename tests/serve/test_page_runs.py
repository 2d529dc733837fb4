"""The page's views on runs, reports and maps, used as a person would, in a real browser."""

from __future__ import annotations

import json
import math
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")
httpx = pytest.importorskip("httpx")

from tests.serve.browser import HOSTILE, HOSTILE_SCRIPT, Opened, findings  # noqa: E402
from tests.serve.browser import chromium as chromium  # noqa: E402
from tests.serve.browser import opened as opened  # noqa: E402
from tests.serve.conftest import wait  # noqa: E402
from tests.serve.run_server import RunServer  # noqa: E402
from tianci.train.journal import Journal  # noqa: E402
from tianci.tune.report_threshold import sweep_of  # noqa: E402

if TYPE_CHECKING:
    from playwright.sync_api import Page

Open = Callable[..., Opened]
HOSTILE_NAME = HOSTILE.replace("/", "")


def expect(what: Any) -> Any:
    from playwright.sync_api import expect as made

    return made(what)


# ---------------------------------------------------------------- runs to look at


def step(number: int, loss: float | None = None) -> dict[str, Any]:
    loss = 9 / number**0.2 if loss is None else loss
    return {
        "event": "step", "step": number, "loss": loss, "parts": {"masked": loss},
        "accuracy": {"masked": 0.1}, "lr": 1e-4 * number, "gradient": 2.0,
        "tokens_per_second": 5000 + number, "tokens": 100 * number, "seconds": time.perf_counter(),
    }  # fmt: skip


def pretraining(fault: str = "plateau") -> list[dict[str, Any]]:
    entries: list[dict[str, Any]] = [
        {"event": "start", "step": 0, "lr": 0.001, "unigram_entropy": 6.84, "bigram_entropy": 5.06}
    ]
    for number in range(1, 121):
        entries.append(step(number, float("nan") if number == 70 else None))
        if number % 40 == 0:
            held = {"masked": {"loss": 9 / number**0.2 + 0.1, "accuracy": 0.2, "count": 5}}
            entries.append({"event": "held", "step": number, "held": held, "seconds": 1.0})
            entries.append({"event": "save", "step": number})
    entries[60:60] = [
        {"event": "resume", "step": 58, "lr": 0.001},
        {"event": "finding", "step": 58, "fault": fault, "message": f"stuck {HOSTILE_SCRIPT}"},
    ]
    return entries


def write(path: Path, entries: list[dict[str, Any]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(one) + "\n" for one in entries))


def record() -> dict[str, Any]:
    rng = np.random.default_rng(1)
    gold = rng.integers(0, 2, 200)
    probability = np.clip(0.5 + (gold - 0.5) * 0.5 + rng.normal(0, 0.25, 200), 0, 1).round(3)
    details = {
        "dev_probabilities": probability.tolist(), "dev_gold": gold.tolist(),
        "label_counts": {"bad": int((gold == 0).sum()), HOSTILE: int(gold.sum())},
        "confusion": [[80, 20], [15, 85]],
        "reliability": [{"confidence": 0.6, "accuracy": 0.55, "rows": 90},
                        {"confidence": 0.9, "accuracy": 0.88, "rows": 110}],
        "errors": [{"text": HOSTILE, "label": HOSTILE_SCRIPT, "predicted": "bad", "score": 0.9,
                    "place": f"/{'a_long_name/' * 6}dev.jsonl.gz, line 7"}],
    }  # fmt: skip
    return {
        "task": "classify", "metric": "f1", "labels": ["bad", HOSTILE], "model": HOSTILE_SCRIPT,
        "summary": HOSTILE, "notes": [HOSTILE_SCRIPT], "decision": {"threshold": 0.37},
        "chosen": {"lr": 0.1, "seed": 0}, "settings": {"epochs": 3, "out": HOSTILE},
        "dev": {"scores": {"f1": 0.8, "accuracy": 0.81},
                "intervals": {"f1": [0.7, 0.9], "accuracy": [0.7, 0.9]}, "details": details},
        "trials": [{"lr": 0.1, "seed": 0, "score": 0.8, "steps": 20, "history": []}],
    }  # fmt: skip


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("shown")
    for name, length in (("first", 64), (HOSTILE_NAME, 128)):
        write(found / name / "log.jsonl", pretraining())
        settings = {"train": {"length": length, "batch_tokens": 2048}, "pretrain": {"out": HOSTILE}}
        (found / name / "run.json").write_text(json.dumps({"seed": 0, "settings": settings}))
    trial = found / "tuned" / "trials" / "one" / "log.jsonl"
    scores = [{"f1": 0.5, "accuracy": 0.9}, {"f1": 0.8, "accuracy": 0.7}]
    write(trial, [
        {"event": "start", "step": 0, "lr": 0.1, "metric": "f1"}, step(10), step(20),
        *({"event": "dev", "step": 10 * n, "scores": one, "seconds": 1.0}
          for n, one in enumerate(scores, 1)),
        {"event": "end", "step": 20},
    ])  # fmt: skip
    (found / "tuned" / "run.json").write_text('{"task": "classify", "settings": {"epochs": 3}}')
    (found / "tuned" / "scores.json").write_text(json.dumps(record()))
    return found


@pytest.fixture(scope="module")
def server(root: Path, folders: dict[str, Path]) -> Iterator[RunServer]:
    made = RunServer(root, str(folders["base"]))
    yield made
    made.end()


def identities(server: RunServer) -> dict[str, str]:
    found = httpx.get(f"{server.url}/runs").json()["runs"]
    return {one["name"]: one["id"] for one in found}


def points(page: Page) -> int:
    return int(page.locator(".board").get_attribute("data-points") or 0)


# ---------------------------------------------------------------- runs


def test_curves_of_two_runs(opened: Open, server: RunServer) -> None:
    known = identities(server)
    page = opened(server.url).go(f"#/runs/{known['first']}")
    expect(page.locator(".board")).to_have_attribute("data-points", "120")
    expect(page.locator(f'[data-run="{known["first"]}"]')).to_be_checked()
    loss = page.locator('[data-chart="loss"]')
    expect(loss).to_contain_text("unigram floor 6.84")
    expect(loss).to_contain_text("bigram floor 5.06")
    assert loss.locator(".mark.resume").count() == 1 and loss.locator(".mark.nan").count() == 1
    assert loss.locator(".star").count() == 1 and loss.locator(".dot").count() == 3
    for name in ("lr", "gradient", "speed", "accuracy masked"):
        assert page.locator(f'[data-chart="{name}"] .curve.line').count() == 1
    events = page.locator(".events")
    for said in ("resumed", "plateau: stuck", "loss is not a number", "saved 3 times", "best"):
        expect(events).to_contain_text(said)

    page.locator(f'[data-run="{known[HOSTILE_NAME]}"]').check()  # a second one in the same charts
    expect(page.locator(".board")).to_have_attribute("data-points", "240")
    expect(loss.locator(".curve.line")).to_have_count(2)
    differing = page.locator(".settings tbody tr")
    expect(differing).to_have_count(1)
    expect(differing).to_contain_text("train.length")
    expect(differing).to_contain_text("128")
    page.get_by_label("Show all").check()
    expect(page.locator(".settings tbody tr")).to_have_count(5)
    assert known[HOSTILE_NAME] in page.url  # the address shows the same again


def test_the_controls_of_the_curves(opened: Open, server: RunServer) -> None:
    page = opened(server.url).go(f"#/runs/{identities(server)['first']}")
    loss = page.locator('[data-chart="loss"]')
    expect(loss.locator(".curve.raw")).to_have_count(1)  # smoothed, and the raw one behind
    smooth = loss.locator(".curve.line").get_attribute("d")
    page.locator("#smoothing").fill("0")
    expect(loss.locator(".curve.raw")).to_have_count(0)
    raw = loss.locator(".curve.line").get_attribute("d")
    assert raw != smooth
    page.locator("#logarithmic").check()
    assert loss.locator(".curve.line").get_attribute("d") != raw
    page.locator("#across").select_option("tokens")
    loss.focus()
    page.keyboard.press("Home")
    value = 9.0
    expect(loss).to_have_attribute("aria-valuetext", f"tokens 100: first {value:g}")
    page.keyboard.press("ArrowRight")
    expect(loss.locator(".reading")).to_contain_text("tokens 200")
    box = loss.bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + box["width"] - 4, box["y"] + 60)
    expect(loss.locator(".reading")).to_contain_text("tokens 12,000")
    expect(loss.locator(".reading")).to_contain_text(f"{9 / 120**0.2:.3f}")
    expect(page.locator('[data-chart="speed"] .reading')).to_contain_text("5,120")  # all at once


def test_dev_scores_of_a_trial(opened: Open, server: RunServer) -> None:
    page = opened(server.url).go(f"#/runs/{identities(server)['tuned/trials/one']}")
    dev = page.locator('[data-chart="dev"]')
    expect(dev.locator("xpath=..")).to_contain_text("Dev: f1")  # what the log says it chose by
    expect(dev.locator(".dot")).to_have_count(2)
    page.locator("#metric").select_option("accuracy")
    expect(dev.locator("xpath=..")).to_contain_text("Dev: accuracy")
    expect(page.locator(".events")).to_contain_text("best · accuracy 0.9")
    page.get_by_role("link", name="Report: tuned").click()
    expect(page.locator("h1")).to_have_text("tuned")


class Writer:
    """Appends steps to a log until it is told to stop."""

    def __init__(self, log: Path):
        self.log, self.number, self.over = log, 0, threading.Event()
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    def run(self) -> None:
        journal = Journal(self.log)
        while not self.over.wait(0.02):
            self.number += 1
            journal.write(**step(self.number))
        journal.close()

    def stop(self) -> None:
        self.over.set()
        self.thread.join()


def start_process(root: Path, port: int) -> subprocess.Popen[bytes]:
    process = subprocess.Popen(
        [sys.executable, "-m", "tianci", "page", str(root), "--port", str(port), "-q"],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )

    def answers() -> bool:
        try:
            return bool(httpx.get(f"http://127.0.0.1:{port}/ready").status_code == 200)
        except httpx.HTTPError:
            assert process.poll() is None
            return False

    wait(answers, 120)
    return process


def settled(page: Page) -> int:
    """How many points are drawn when what has arrived is drawn."""
    before, now = -1, points(page)
    while before != now:
        time.sleep(0.5)
        before, now = now, points(page)
    return now


def test_the_curve_goes_on_after_a_killed_server(opened: Open, tmp_path: Path) -> None:
    """Lines are written all the time; the server dies and comes back; a resume cuts the log."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    log = tmp_path / "live" / "log.jsonl"
    writer = Writer(log)
    process = start_process(tmp_path, port)
    try:
        one = opened(f"http://127.0.0.1:{port}")
        # chromium says of each failed request that it failed; 503: the new server is not ready yet
        one.allowed = ("net::ERR_", "status of 503")
        page = one.go("#/runs")
        expect(page.locator('.board[data-link="live"]')).to_be_visible()
        before = points(page)
        wait(lambda: points(page) > before + 10)  # it is live
        process.send_signal(signal.SIGKILL)
        process.wait()
        expect(page.get_by_text("The server does not answer")).to_be_visible()
        stood, written = settled(page), writer.number
        wait(lambda: writer.number > written + 20)
        assert points(page) - stood <= 1
        process = start_process(tmp_path, port)
        expect(page.get_by_text("The server does not answer")).to_be_hidden()
        wait(lambda: points(page) > stood + 20)
        writer.stop()
        wait(lambda: points(page) == writer.number)  # none is missing, none came twice
        assert len(log.read_text().splitlines()) == writer.number
        resumed = Journal(log, 10)
        resumed.write("resume", step=10)
        resumed.write(**step(11))
        wait(lambda: points(page) == 11)
        expect(page.locator('[data-chart="loss"] .mark.resume')).to_have_count(1)
        resumed.close()
    finally:
        writer.stop()
        process.terminate()
        process.wait()


def test_a_key_reaches_the_stream(opened: Open, root: Path, tmp_path: Path) -> None:
    log = tmp_path / "one" / "log.jsonl"
    write(log, [step(1)])
    guarded = RunServer(tmp_path, key="12345678")
    try:
        one = opened(guarded.url)
        one.allowed = ("401",)
        page = one.go("#/runs")
        page.locator("#key").fill("12345678")
        page.keyboard.press("Enter")
        expect(page.locator(".board")).to_have_attribute("data-points", "1")
        with open(log, "a") as file:
            file.write(json.dumps(step(2)) + "\n")
        expect(page.locator(".board")).to_have_attribute("data-points", "2")
    finally:
        guarded.end()


# ---------------------------------------------------------------- report


def test_the_threshold_moves(opened: Open, server: RunServer) -> None:
    page = opened(server.url).go(f"#/report/{identities(server)['tuned']}")
    sweep = sweep_of(record())
    assert sweep is not None and sweep.reading(sweep.at).threshold == 0.37
    slider = page.locator("#threshold")

    def shown(name: str) -> str:
        return page.locator(f'[data-read="{name}"]').inner_text()

    for stop in (sweep.at, 0, 20, 55, 80, len(sweep.stops) - 1):
        if stop != sweep.at:
            slider.fill(str(stop))
        found = sweep.reading(stop)
        assert shown("threshold") == f"{found.threshold:.2f}"
        for name in ("precision", "recall", "f1", "accuracy", "fall_out"):
            value = getattr(found, name)
            assert shown(name) == ("–" if math.isnan(value) else f"{value:.3f}"), (stop, name)
        for right in (0, 1):
            for said in (0, 1):
                cell = page.locator(f'[data-cell="{right}{said}"]').inner_text()
                assert cell.split()[0] == str(found.confusion[right][said])
    page.get_by_role("button", name="Back to the model's own").click()
    assert shown("threshold") == "0.37"
    slider.focus()
    page.keyboard.press("ArrowRight")
    assert shown("threshold") == "0.38"
    expect(page.locator('[data-table="errors"]')).to_contain_text(HOSTILE)
    expect(page.locator('[data-table="scores"]')).to_contain_text("0.8000")


# ---------------------------------------------------------------- map

LINES = [
    ("animals", "我们 今天"), ("animals", "今天 天气"), ("animals", HOSTILE),
    ("tools", "天气 我们"), ("tools", "我们 我们"), (HOSTILE, "今天 今天 今天"),
]  # fmt: skip


SWEEP = """(canvas) => {
  const seen = new Set(), box = canvas.getBoundingClientRect();
  for (let x = 10; x < box.width; x += 10) {
    for (let y = 10; y < box.height; y += 16) {
      const at = { clientX: box.left + x, clientY: box.top + y, pointerId: 1 };
      canvas.dispatchEvent(new PointerEvent("pointermove", at));
      const read = document.querySelector(".canvas .reading");
      if (!read.hidden) seen.add(read.textContent);
    }
  }
  return [...seen];
}"""


def test_a_map_of_a_file(opened: Open, server: RunServer) -> None:
    page = opened(server.url).go("#/map")
    text = "".join(json.dumps({"text": text, "label": label}) + "\n" for label, text in LINES)
    file = {"name": "rows.jsonl", "mimeType": "application/json", "buffer": text.encode()}
    page.set_input_files("#map-file", file)  # type: ignore[arg-type]
    expect(page.get_by_text("6 texts")).to_be_visible()
    page.get_by_role("button", name="Draw the map").click()
    expect(page.locator("canvas")).to_have_attribute("data-points", "6")
    expect(page.locator("progress")).to_be_hidden()
    expect(page.locator('[data-layout="tsne"]')).to_be_visible()
    expect(page.locator(".maplegend button")).to_have_count(3)
    drawn = "(box) => { const p = box.getContext('2d').getImageData(0, 0, box.width, box.height)"
    drawn += ".data; let n = 0; for (let i = 3; i < p.length; i += 4) n += p[i] > 0; return n; }"
    assert page.locator("canvas").evaluate(drawn) > 6 * 30

    page.get_by_role("listbox").focus()  # by keyboard: the list says what the map shows
    page.keyboard.press("End")
    expect(page.locator(".canvas .reading")).to_contain_text("今天 今天 今天")
    page.keyboard.press("Home")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    expect(page.locator(".canvas .reading")).to_have_text(f"animals{HOSTILE}")

    page.get_by_role("button", name="Principal components").click()
    seen = page.locator("canvas").evaluate(SWEEP)  # by pointer: somewhere lies each point
    assert len(seen) >= len(LINES) - 1  # two may lie on each other
    assert set(seen) <= {f"{label}{text}" for label, text in LINES}
    page.locator("#map-find").fill("我们")
    expect(page.get_by_text("3 found")).to_be_visible()


WORK = """async ([vectors, width]) => {
  const worker = new Worker("/page/map_worker.js", { type: "module" });
  const found = await new Promise((done) => {
    const all = [];
    worker.onmessage = ({ data }) => {
      all.push({ ...data, place: [...data.place] });
      if (data.done) done([all[0], all.at(-1)]);
    };
    const flat = Float32Array.from(vectors);
    worker.postMessage({ vectors: flat, count: flat.length / width, width });
  });
  worker.terminate();
  return found;
}"""


def test_the_layouts_of_a_map(opened: Open, server: RunServer) -> None:
    """Principal components as numpy has them; t-SNE keeps clusters apart."""
    page = opened(server.url).go("#/map")
    rng = np.random.default_rng(0)
    middle = 4 * rng.normal(size=(3, 1, 40))
    vectors = (middle + rng.normal(size=(3, 20, 40))).reshape(60, 40).astype(np.float32)
    first, last = page.evaluate(WORK, [vectors.ravel().tolist(), 40])
    centred = vectors - vectors.mean(0)
    left, size, _ = np.linalg.svd(centred.astype(np.float64), full_matrices=False)
    found = np.array(first["place"]).reshape(60, 2)
    for axis in (0, 1):
        expected = left[:, axis] * size[axis]
        sign = np.sign(expected @ found[:, axis])
        np.testing.assert_allclose(found[:, axis], sign * expected, atol=1e-3)
    np.testing.assert_allclose(first["shares"], size[:2] ** 2 / (size**2).sum(), rtol=1e-4)
    place = np.array(last["place"]).reshape(60, 2)
    far = np.linalg.norm(place[:, None] - place[None], axis=-1) + 1e9 * np.eye(60)
    assert (far.argmin(1) // 20 == np.arange(60) // 20).all()


# ---------------------------------------------------------------- everybody can use it

VIEWS = ("#/runs", "#/report", "#/map")


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_axe(opened: Open, server: RunServer, theme: str) -> None:
    known = identities(server)
    both = f"#/runs/{known['first']},{known['tuned/trials/one']}"
    page = opened(server.url, color_scheme=theme).go(both)
    expect(page.locator(".board")).to_have_attribute("data-points", "122")
    assert findings(page) == []
    page.goto(f"{server.url}/#/report/{known['tuned']}")
    expect(page.locator("#threshold")).to_be_visible()
    assert findings(page) == []
    page.goto(f"{server.url}/#/map")
    page.get_by_role("button", name="Example").click()
    page.get_by_role("button", name="Draw the map").click()
    expect(page.locator("progress")).to_be_hidden()
    expect(page.locator(".maplegend button")).to_have_count(3)
    assert findings(page) == []


@pytest.mark.parametrize(("width", "locale"), [(360, "zh-CN"), (360, "en-US"), (1600, "zh-CN")])
def test_nothing_sticks_out(opened: Open, server: RunServer, width: int, locale: str) -> None:
    one = opened(server.url, viewport={"width": width, "height": 800}, locale=locale)
    for view in VIEWS:
        page = one.go(view)
        expect(page.locator("h1")).to_be_visible()
        if view != "#/map":
            expect(page.locator(".plot svg path").first).to_be_attached()
        assert page.evaluate("document.documentElement.scrollWidth") <= width, view
        # all views are in sight, none has to be looked for sideways
        assert (
            page.evaluate("(n => n.scrollWidth - n.clientWidth)(document.querySelector('nav'))")
            <= 0
        )


def test_the_report_speaks_chinese(opened: Open, server: RunServer) -> None:
    page = opened(server.url, locale="zh-CN").go(f"#/report/{identities(server)['tuned']}")
    expect(page.locator("#threshold")).to_be_visible()
    said = page.locator("main").inner_text()
    for english in ("95% interval", "in all.", "surest", "All from", "calibration", "resamples"):
        assert english not in said, english
    for chinese in ("95% 区间", "按验证集统计"):
        assert chinese in said, chinese
