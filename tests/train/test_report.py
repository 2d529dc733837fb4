"""Reports of made-up runs: the numbers, the pictures, hostile text and odd logs."""

from __future__ import annotations

import json
import math
import re
import struct
import subprocess
import sys
import time
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tianci.errors import UserError
from tianci.train.charts import accuracy_chart, loss_chart, small_charts
from tianci.train.history import Track, rate, read_history
from tianci.train.page import duration, large, verdict
from tianci.train.picture import Chart, Level, Line, compact, draw, path, tick_step
from tianci.train.report import write_report

VOID = {"meta", "br", "link", "img", "input", "hr"}
EVIL = '<script>alert("1")</script><img src=x onerror=alert(2)>'
LEARNED = "it has learned to read: held-out masked loss 3.00, accuracy 44.4%"


class Page(HTMLParser):
    """Reads a page, and fails where a tag is closed that is not open."""

    def __init__(self, run: Path) -> None:
        super().__init__()
        self.source = (run / "report.html").read_text(encoding="utf-8")
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.feed(self.source)
        self.close()
        assert self.open == []
        self.text = " ".join(" ".join(self.words).split())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open and self.open[-1] == tag, f"</{tag}> closes {self.open[-1:]}"
        self.open.pop()

    def handle_data(self, data: str) -> None:
        if not {"script", "style"} & set(self.open):
            self.words.append(data)

    def all(self, tag: str, look: str | None = None) -> list[dict[str, str | None]]:
        return [a for t, a in self.tags if t == tag and look in (None, a.get("class"))]

    def readings(self) -> dict[str, Any]:
        found = re.search(r'id="readings">(.*?)</script>', self.source, re.DOTALL)
        assert found
        data = json.loads(found[1], parse_constant=lambda name: pytest.fail(f"{name} in JSON"))
        assert isinstance(data, dict)
        return data


def step(number: int, masked: float = 4.0, **more: Any) -> dict[str, Any]:
    return {
        "event": "step",
        "step": number,
        "loss": masked,
        "parts": {"masked": masked},
        "accuracy": {"masked": 0.25},
        "lr": 1e-4,
        "gradient": 0.5,
        "tokens_per_second": 2000.0,
        "tokens": 4096 * number,
        "seconds": 2.0 * number,
        **more,
    }


def held(number: int, loss: float, accuracy: float = 0.3) -> dict[str, Any]:
    result = {"masked": {"loss": loss, "accuracy": accuracy, "count": 100}}
    return {"event": "held", "step": number, "held": result, "seconds": 2.0 * number}


def end(number: int, **more: Any) -> dict[str, Any]:
    return {
        "event": "end",
        "step": number,
        "loss": 2.0,
        "steps": number,
        "tokens": 51_043_200,
        "seconds": 3678.0,
        "tokens_per_second": 13_877.4,
        "share_of_peak": 0.614,
        "precision": "float32",
        "held": {"masked": {"loss": 3.0, "accuracy": 0.444, "count": 100}},
        "unigram_entropy": 7.5,
        "bigram_entropy": 3.5,
        "verdict": LEARNED,
        "parameters": 11_170_816,
        "out": "run",
        **more,
    }


START = {"event": "start", "step": 0, "lr": 0.001, "warmup": 0.06}


def make(run: Path, *entries: Any, settings: dict[str, Any] | None = None) -> Path:
    run.mkdir(parents=True, exist_ok=True)
    record = {"tianci": "0.1.0", "seed": 7, "settings": settings or {}}
    (run / "run.json").write_text(json.dumps(record), encoding="utf-8")
    lines = "".join(json.dumps(e) + "\n" for e in entries)
    (run / "log.jsonl").write_text(lines, encoding="utf-8")
    return run


def report(run: Path) -> Page:
    write_report(run)
    return Page(run)


# --------------------------------------------------------------- by hand


def test_curve_and_floors_lie_where_the_numbers_say(tmp_path: Path) -> None:
    page = report(make(tmp_path, START, step(2, 8.0), step(6, 4.0), step(10, 2.0), end(10)))
    # 2 to 8 in steps of 2; the picture is 1000 by 1000, the last step is 10
    assert page.all("path", "train")[0]["d"] == "M200,0L600,666.7L1000,1000"
    levels = [a["y1"] for a in page.all("line", "level")][:2]
    assert levels == ["8.333%", "75%"]  # unigram 7.5, bigram 3.5
    assert "unigram floor 7.50" in page.text and "bigram floor 3.50" in page.text
    first = page.all("circle", "held")[0]  # measured at the end: loss 3 at step 10
    assert (first["cx"], first["cy"]) == ("100%", "83.33%")


def test_every_chart_has_words_and_one_axis(tmp_path: Path) -> None:
    page = report(make(tmp_path, START, step(5, 8.0), step(10, 2.0), end(10)))
    charts = page.all("svg", "chart")
    labels = [a["aria-label"] for a in charts]
    assert [a["role"] for a in charts] == ["img"] * 5
    assert labels[0] == (
        "Masked loss over 10 steps: train from 8.000 to 2.000, held-out from 3.000 to 3.000, "
        "unigram floor 7.50, bigram floor 3.50"
    )
    titles = [str(label).partition(" over ")[0] for label in labels]
    assert titles == ["Masked loss", "Masked accuracy", "Learning rate", "Gradient norm", "Speed"]
    assert {a["data-end"] for a in page.all("div", "plot")} == {"10"}


def test_key_figures(tmp_path: Path) -> None:
    page = report(make(tmp_path, START, step(10), end(12_480)))
    for shown in (
        "It has learned to read: held-out masked loss 3.00, accuracy 44.4%",
        "Held-out loss 3.000 bigram floor 3.50",
        "Held-out accuracy 44.4% masked",
        "Parameters 11.2M 11,170,816",
        "Tokens 51M 51,043,200",
        "Training time 61.3 min 12,480 steps",
        "Speed 13,877 tokens/s",
        "Share of peak 61%",
        "Precision float32",
        "seed 7",
    ):
        assert shown in page.text
    assert page.all("p", "verdict good")


@pytest.mark.parametrize(
    ("loss", "state"), [(3.4, "good"), (3.6, "fair"), (7.3, "fair"), (7.41, "bad")]
)
def test_colour_of_the_verdict_follows_the_floors(tmp_path: Path, loss: float, state: str) -> None:
    result = {"masked": {"loss": loss, "accuracy": 0.1, "count": 10}}
    history = read_history(make(tmp_path, step(1), end(1, held=result)))
    assert verdict(history) == (state, LEARNED)


def test_pair_goal_has_accuracy_with_chance_and_loss(tmp_path: Path) -> None:
    def both(number: int, right: float) -> dict[str, Any]:
        return step(
            number,
            parts={"masked": 4.0, "next_sentence": 0.6},
            accuracy={"masked": 0.2, "next_sentence": right},
        )

    history = read_history(make(tmp_path, START, both(5, 0.45), both(10, 0.8)))
    chart = accuracy_chart(history, "next_sentence")
    assert [level.value for level in chart.levels] == [0.5]
    assert chart.ticks() == [0.4, 0.5, 0.6, 0.7, 0.8]
    assert 'd="M500,875L1000,0"' in draw(chart)  # 0.45 and 0.8 between 0.4 and 0.8
    assert [c.title for c in small_charts(history, "masked")][:3] == [
        "Masked accuracy", "Next sentence accuracy", "Next sentence loss",
    ]  # fmt: skip
    assert loss_chart(history, "next_sentence").levels[0].value == pytest.approx(0.6931, abs=1e-4)


def test_events_are_marked_numbered_and_listed(tmp_path: Path) -> None:
    finding = {"event": "finding", "step": 6, "fault": "plateau", "message": "stays at 6.79"}
    resume = {"event": "resume", "step": 4, "lr": 0.001, "warmup": 0.1}
    page = report(make(tmp_path, START, step(4), resume, step(6), finding, step(8), end(8)))
    assert "2 step 4 8 s resume peak learning rate 1e-3, warm-up over 10% of the run" in page.text
    assert "3 step 6 12 s finding plateau: stays at 6.79" in page.text
    assert {a["x1"] for a in page.all("line", "mark resume")} == {"50%"}
    assert {a["x1"] for a in page.all("line", "mark finding")} == {"75%"}
    assert len(page.all("line", "mark finding")) == 5  # in every chart
    assert len(page.all("g", "badge finding")) == len(page.all("g", "badge resume")) == 1
    assert "3. finding at step 6: plateau: stays at 6.79" in page.text


def test_pointer_reads_what_the_log_says(tmp_path: Path) -> None:
    entries = [START, step(2, 8.0), held(3, 5.5), step(6, 4.0), step(10, 2.0)]
    data = report(make(tmp_path, *entries)).readings()
    assert data["steps"] == [2, 6, 10]
    assert data["where"][1] == "step 6 · 12 s · 24.6k tokens"
    assert data["series"]["0.0"] == {"text": ["8.000", "4.000", "2.000"], "down": [0, 66.7, 100]}
    assert data["series"]["0.1"]["text"] == ["–", "5.500", "5.500"]  # the newest so far
    assert data["series"]["0.1"]["down"] == [None, 41.7, 41.7]


def test_settings_table(tmp_path: Path) -> None:
    tables = {"train": {"lr": None, "eps": 1e-6, "clip": 2.0, "keep": 2, "batch_tokens": 4096}}
    page = report(make(tmp_path, START, step(10), settings=tables))
    assert "train lr not set eps 1e-06 clip 2 keep 2 batch_tokens 4,096" in page.text
    assert "clip 2" in [a["aria-label"] for a in page.all("svg", "chart")][3]  # type: ignore[operator]


# ----------------------------------------------------------------- parts


def test_ticks_are_round() -> None:
    assert tick_step(0, 12_480, 7) == 2000
    assert tick_step(2.9, 12.4, 5) == 2
    assert tick_step(0, 1e-3, 4) == pytest.approx(5e-4)
    assert tick_step(0, 1, 10) == pytest.approx(0.1)


def test_path_breaks_at_gaps_and_shows_lone_points() -> None:
    track = Track(np.arange(5.0), np.array([1.0, math.nan, 0.5, 0.0, math.nan]))
    assert path(track, 4, 0, 1) == "M0,0h0M500,500L750,1000"


def test_smoothing_by_hand() -> None:
    line = Track(np.arange(300.0), np.arange(300.0)).smooth()  # three neighbours to each side
    assert line.value[0] == 0 and line.value[1] == 1 and line.value[150] == 150
    assert line.value[299] == 297.5  # 296, 297, 298, 299
    gap = Track(np.arange(300.0), np.where(np.arange(300) == 151, np.nan, 1.0)).smooth()
    assert np.isnan(gap.value[151]) and gap.value[150] == 1


def test_thinning_keeps_spikes_and_order() -> None:
    values = np.zeros(100_000)
    values[54_321], values[777] = 9.0, -9.0
    thin = Track(np.arange(100_000.0), values).outline(400)
    assert len(thin.value) <= 800 and np.all(np.diff(thin.step) > 0)
    assert thin.step[thin.value == 9].tolist() == [54_321]
    assert thin.step[thin.value == -9].tolist() == [777]


def test_name_of_a_level_keeps_out_of_the_way() -> None:
    def below(curve: float, *levels: float) -> list[bool]:
        track = Track(np.arange(2.0), np.array([10.0, curve]))
        chart = Chart("x", "", [Line("", "train", track)], 1, [Level("", v) for v in levels])
        return [chart.name_below(level) for level in chart.levels]

    assert below(2.0, 7.0, 5.0) == [False, False]
    assert below(7.5, 7.0, 5.0) == [True, False]  # the curve runs just above the first
    assert below(2.0, 7.0, 6.9) == [False, True]  # two names do not fit above
    assert below(1.0, 0.0) == [False]  # the axis is below


def test_one_spike_does_not_flatten_the_picture() -> None:
    values = np.full(1000, 1.0)
    values[::2], values[500] = 2.0, 5000.0
    chart = Chart("x", "", [Line("", "raw", Track(np.arange(1000.0), values))], 999)
    assert chart.range()[1] <= 3
    assert chart.beyond() == 5000


def test_words_for_numbers() -> None:
    assert [large(v) for v in (999, 999_600, 11_170_816, 2.5e9)] == ["999", "1M", "11.2M", "2.5B"]
    assert [duration(v) for v in (45, 119, 600, 7500)] == ["45 s", "119 s", "10.0 min", "2 h 5 min"]
    assert [rate(v) for v in (0, 3e-4, 2.5e-5, 1)] == ["0", "3e-4", "2.5e-5", "1e0"]
    assert [compact(v) for v in (0, 500, 1500, 2e6)] == ["0", "500", "1.5k", "2M"]


# --------------------------------------------------------------- hostile


def test_markup_in_run_files_stays_text(tmp_path: Path) -> None:
    goal = f"goal{EVIL}"
    page = report(
        make(
            tmp_path / EVIL.replace("/", "∕"),
            START,
            step(5, parts={goal: 3.0}, accuracy={goal: 0.5}),
            {"event": "finding", "step": 5, "fault": EVIL, "message": f'"{EVIL}'},
            end(5, verdict=f"x: {EVIL}", precision=EVIL, held={goal: {"loss": 1, "accuracy": 1}}),
            settings={f"train{EVIL}": {EVIL: EVIL, "list": [EVIL]}, "pretrain": {"preset": EVIL}},
        )
    )
    assert [a for t, a in page.tags if t == "script"] == [
        {"type": "application/json", "id": "readings"}, {},
    ]  # fmt: skip
    assert not page.all("img")
    assert page.text.count(EVIL) >= 9
    assert "<script>alert" not in page.source.replace("\\u003c", "")
    assert not [k for _, a in page.tags for k in a if k.startswith("on")]


def test_page_needs_no_other_file_and_allows_only_its_own_script(tmp_path: Path) -> None:
    page = report(make(tmp_path, START, step(5), end(5)))
    assert not [a for _, a in page.tags if {"src", "href"} & set(a)]
    assert "url(" not in page.source and "http:" not in page.source and "https:" not in page.source
    [policy] = [a["content"] for a in page.all("meta") if "http-equiv" in a]
    assert policy and policy.startswith("default-src 'none'") and "'sha256-" in policy
    assert "prefers-color-scheme: dark" in page.source


def test_half_a_surrogate_pair_and_chinese(tmp_path: Path) -> None:
    finding = {"event": "finding", "step": 1, "fault": "词", "message": "半个 \ud83d 字"}
    page = report(make(tmp_path / "天池的运行", START, step(1), finding))
    assert page.all("h1") and "天池的运行" in page.text and "词: 半个 ? 字" in page.text


# ------------------------------------------------------------------- odd


@pytest.mark.parametrize(
    "entries",
    [
        [],
        [START],
        [START, end(0)],
        [step(1)],
        [step(0)],
        [START, held(3, 4.0)],
        [START, step(1, math.nan, gradient=math.inf, lr=None, seconds="soon")],
        [START, *[step(i, math.nan) for i in range(1, 1000)]],
        [START, *[step(i, 10.0 ** (3 * i)) for i in range(1, 101)]],
        [START, step(1, 1e17), step(2, 1e17 + 16)],
        [START, step(1, -1e308), step(2, 1e308), step(3, 10**400)],
        [START, step(1), {"event": "step"}, {"event": ["x"], "step": 1}, 5, None, {"step": "x"}],
        [START, step(1, parts=None, accuracy=3), step(2, parts={})],
        [START, step(1), {"event": "held", "step": 1, "held": None}, end(1, held={}, verdict="")],
        [START, step(9), {"event": "end", "step": 9}],
    ],
    ids=["empty", "start", "end", "one", "zero", "held", "nan", "all-nan", "huge", "close", "far",
         "junk", "no-parts", "no-held", "bare-end"],
)  # fmt: skip
def test_odd_logs_still_give_a_page(tmp_path: Path, entries: list[Any]) -> None:
    page = report(make(tmp_path, *entries))
    page.readings()
    assert not re.search(r"\b(nan|inf|None)\b", page.text)
    assert "nan" not in "".join(f"{v}" for t, a in page.tags if t != "meta" for v in a.values())


def test_run_without_an_end(tmp_path: Path) -> None:
    page = report(make(tmp_path, START, step(10, 4.0), step(20, 3.0)))
    assert "Not finished: the log ends at step 20; the masked loss stands at 3.00" in page.text
    assert "Tokens 81.9k 81,920" in page.text and "Speed 2,048 tokens/s" in page.text
    assert "Share of peak" not in page.text and "floor" not in page.text


def test_run_that_a_finding_ended(tmp_path: Path) -> None:
    fatal = {"event": "finding", "step": 8, "fault": "nan", "message": "the rate is too high"}
    page = report(make(tmp_path, START, step(4), step(8, math.nan), fatal))
    assert "Not finished: nan: the rate is too high" in page.source.replace("</strong>\n", " ")
    assert page.all("p", "verdict bad")


def test_run_resumed_after_its_end_is_not_finished(tmp_path: Path) -> None:
    resume = {"event": "resume", "step": 5, "lr": 0.001, "warmup": 0}
    history = read_history(make(tmp_path, START, step(5), end(5), resume, step(6, 3.5)))
    assert verdict(history)[1].startswith("not finished: the log ends at step 6")
    assert history.fact("unigram_entropy") == 7.5  # what does not change is still known
    assert history.total("tokens") == 6 * 4096


def test_goal_without_masked_words(tmp_path: Path) -> None:
    only = {"parts": {"sentence_order": 0.5}, "accuracy": {"sentence_order": 0.8}}
    page = report(make(tmp_path, START, step(1, **only), step(2, **only)))
    assert str(page.all("svg", "chart")[0]["aria-label"]).startswith("Sentence order loss")


def test_hundred_thousand_entries_are_thinned_out(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    noise = rng.normal(4.0, 0.1, 100_000).tolist()
    run = make(tmp_path, START, *[step(i + 1, v) for i, v in enumerate(noise)])
    began = time.perf_counter()
    write_report(run)
    assert time.perf_counter() - began < 20  # 2 s where it was measured
    page = Page(run)
    raw, train = page.all("path", "raw")[0]["d"], page.all("path", "train")[0]["d"]
    assert raw and train and raw.count("L") + 1 == 800 and train.count("L") + 1 == 400
    assert len(page.source) < 300_000


def test_directory_without_a_run(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"run\.json does not exist"):
        write_report(tmp_path)


# ------------------------------------------------------------------- PNG


@pytest.mark.parametrize(
    "entries", [[step(5)], [step(5, math.nan)], [step(1), held(1, 4.0), end(9)]]
)
def test_curve_is_a_picture(tmp_path: Path, entries: list[Any]) -> None:
    image = pytest.importorskip("matplotlib.image")
    run = make(tmp_path / "名字$x$", START, *entries)
    assert write_report(run) == [
        f"report: {run / 'report.html'}", f"curve: {run / 'curve.png'}",
    ]  # fmt: skip
    data = (run / "curve.png").read_bytes()
    assert data[:8] == b"\x89PNG\r\n\x1a\n" and struct.unpack(">II", data[16:24]) == (1080, 600)
    pixels = image.imread(run / "curve.png")
    assert 0.01 < float((pixels[..., :3].min(axis=-1) < 0.9).mean()) < 0.5  # ink on paper


def test_curve_draws_the_floors(tmp_path: Path) -> None:
    image = pytest.importorskip("matplotlib.image")

    def grey_rows(*entries: Any) -> int:
        write_report(make(tmp_path, START, step(2, 8.0), step(10, 2.0), *entries))
        pixels = image.imread(tmp_path / "curve.png")[..., :3]
        near = np.abs(pixels - np.array([0x6B, 0x72, 0x80]) / 255).max(axis=-1) < 0.15
        return int((near.sum(axis=1) > 300).sum())

    assert grey_rows() == 0
    assert grey_rows(end(10)) >= 2


def test_without_matplotlib_there_is_a_note(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.backends.backend_agg", None)
    run = make(tmp_path, START, step(5))
    assert write_report(run)[1:] == ["curve.png needs: pip install 'tianci[plot]'"]
    assert (run / "report.html").exists() and not (run / "curve.png").exists()


def test_importing_the_report_is_light() -> None:
    code = (
        "import sys, tianci.train.report; "
        "print([m for m in ('matplotlib', 'torch') if m in sys.modules])"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"


def test_nothing_half_written_is_left(tmp_path: Path) -> None:
    run = make(tmp_path, START, step(5))
    write_report(run)
    write_report(run)
    names = {p.name for p in run.iterdir()} - {"curve.png"}
    assert names == {"run.json", "log.jsonl", "report.html"}
