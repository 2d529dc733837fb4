"""Reports of made-up records: the numbers, the threshold, hostile text, and records with holes."""

from __future__ import annotations

import copy
import json
import math
import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tianci.metrics import calibration, classification, ranking
from tianci.tune.report import write_report
from tianci.tune.report_charts import (
    calibration_plane,
    compare_plane,
    ranking_planes,
    scatter_plane,
    training_charts,
)
from tianci.tune.report_errors import errors_table
from tianci.tune.report_facts import chosen_trial, digits, interval, shown
from tianci.tune.report_markdown import plain
from tianci.tune.report_plane import Cloud, Curve, Dot, Plane, draw_plane, unit_axis
from tianci.tune.report_scores import confused_table, labels_table, scores_table
from tianci.tune.report_threshold import sweep_of
from tianci.tune.report_top import head, most_frequent, state
from tianci.tune.report_trials import data_table, spread_sentence, trials_table

VOID = {"meta", "br", "input", "wbr"}
EVIL = '<script>alert("1")</script><img src=x onerror=alert(2)>'


class Page(HTMLParser):
    """Reads a page, and fails where a tag is closed that is not open."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.source = (folder / "report.html").read_text(encoding="utf-8")
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

    def all(self, tag: str, **wanted: str) -> list[dict[str, str | None]]:
        return [
            a for t, a in self.tags if t == tag and all(a.get(k) == v for k, v in wanted.items())
        ]

    def data(self, name: str) -> Any:
        found = re.search(rf'id="{name}">(.*?)</script>', self.source, re.DOTALL)
        assert found
        return json.loads(found[1], parse_constant=lambda odd: pytest.fail(f"{odd} in JSON"))


# four rows by hand: probabilities of "good", and what is right
PROBABILITIES, GOLD = [0.1, 0.4, 0.6, 0.9], [0, 1, 0, 1]


def binary(**more: Any) -> dict[str, Any]:
    """The record of a task with two labels, as `scores.json` holds it: lists, no tuples."""
    details = {
        "label_counts": {"bad": 2, "good": 2},
        "confusion": [[1, 1], [0, 2]],
        "curves": ranking.curves(GOLD, PROBABILITIES),
        "reliability": calibration.reliability([0.9, 0.6, 0.6, 0.9], [1, 0, 1, 1], 5),
        "calibration_error": 0.0125,
        "calibration_error_before": 0.25,
        "dev_probabilities": PROBABILITIES,
        "dev_gold": GOLD,
        "errors": [
            {"place": "d/dev.tsv, line 4", "text": "房间很小", "label": "bad", "predicted": "good",
             "score": 0.6},
        ],
    }  # fmt: skip
    trials = [
        trial(1e-4, 0, [0.5, 0.75], 0.75),
        trial(3e-4, 0, [0.5, 0.25], 0.5, trouble='it says "bad" for all 4 dev rows'),
    ]
    record = {
        "task": "classify",
        "metric": "accuracy",
        "labels": ["bad", "good"],
        "model": "models/base",
        "out": "runs/hotel",
        "settings": {"lr": "", "epochs": 2.0, "column": ["text=review"], "crf": False},
        "rows": {"train": 1200, "dev": 4, "test": 0},
        "files": {"train": "d/train.tsv", "dev": "d/dev.tsv"},
        "dev": {
            "scores": {"f1": 0.8, "accuracy": 0.75, "auc": 0.75},
            "intervals": {"accuracy": [0.6, 0.9], "f1": [0.5, 1.0]},
            "details": details,
        },
        "test": None,
        "decision": {"threshold": 0.4, "temperature": 1.3},
        "chosen": {"lr": 1e-4, "seed": 0},
        "trials": trials,
        "spread": {"mean": 0.7, "sd": 0.05, "low": 0.65, "high": 0.75, "count": 3},
        "compare": {
            "rows": [
                {"labels": 100, "system": "bag of words", "score": 0.6, "low": 0.5, "high": 0.7},
                {"labels": 1000, "system": "bag of words", "score": 0.7, "low": 0.6, "high": 0.8},
                {"labels": 100, "system": "fine-tuned", "score": 0.65, "low": 0.6, "high": 0.7},
                {"labels": 1000, "system": "fine-tuned", "score": 0.8, "low": 0.7, "high": 0.9},
            ],
            "sentence": "pre-training paid",
        },
        "check": [
            {"fault": "same_text", "severity": "warning", "count": 2, "advice": "drop them",
             "places": ["d/train.tsv, line 3", "d/dev.tsv, line 2"]},
        ],
        "parameters": 4_000_000,
        "learned": 1_000_000,
        "seconds": 90.0,
        "tokens_per_second": 8123.4,
        "notes": ["stopped early"],
        "summary": "good enough: dev accuracy 0.750",
    }  # fmt: skip
    return copy.deepcopy({**json.loads(json.dumps(record)), **more})


def trial(lr: float, seed: int, scores: list[float], best: float, **more: Any) -> dict[str, Any]:
    history = [
        {"step": 10 * (n + 1), "epoch": n + 1.0, "scores": {"accuracy": score},
         "decision": {"threshold": 0.4}, "seconds": 5.0}
        for n, score in enumerate(scores)
    ]  # fmt: skip
    log = [{"step": s, "loss": 1 / s, "lr": lr, "tokens_per_second": 8000.0} for s in (5, 10, 20)]
    return {
        "lr": lr, "seed": seed, "score": best, "scores": {"accuracy": best}, "step": 20,
        "epochs": 2.0, "steps": 20, "tokens": 12_345, "seconds": 10.0, "trouble": None,
        "history": history, "log": log, **more,
    }  # fmt: skip


def report(folder: Path, record: dict[str, Any]) -> Page:
    folder.mkdir(parents=True, exist_ok=True)
    write_report(folder, record)
    return Page(folder)


def text_of(folder: Path) -> str:
    return (folder / "report.md").read_text(encoding="utf-8")


# --------------------------------------------------------------- by hand


def test_key_figures_and_sections(tmp_path: Path) -> None:
    page = report(tmp_path / "hotel", binary())
    for said in (
        "fine-tuning · classify · from models/base · rate 1e-4 · seed 0",
        "Good enough: dev accuracy 0.750",
        "Accuracy, dev 0.750 0.600–0.900",
        "Most frequent label 0.500",
        "Mean over seeds 0.700 ± 0.050, 3 seeds",
        "Threshold 0.40",
        "Temperature 1.30",
        "Learned 1M 25.0% of 4M",
        "Time 90 s",
        "Speed 8,123 tokens/s",
        "stopped early",
        "same text warning 2 drop them d/train.tsv, line 3; d/dev.tsv, line 2",
        "Expected calibration error 0.0125, before temperature 0.2500.",
        "房间很小 bad good 0.600 line 4",
        "All from d/dev.tsv.",
        "pre-training paid",
        "3 seeds: mean 0.7000, standard deviation 0.0500, 0.6500–0.7500.",
        "lr not set epochs 2 column text=review crf no",
        "train 1,200 d/train.tsv dev 4 d/dev.tsv",
    ):
        assert said in page.text
    assert [a["href"] for a in page.all("a")] == [
        "#scores", "#compare", "#threshold", "#labels", "#errors", "#training", "#settings",
    ]  # fmt: skip
    assert {str(a["href"])[1:] for a in page.all("a")} <= {str(a.get("id")) for _, a in page.tags}


def test_scores_have_the_metric_first_and_bars_on_one_scale() -> None:
    found = scores_table(binary())
    assert found
    assert found.rows[0] == ["accuracy", ("0.7500", "0.600–0.900")]
    assert [row[0] for row in found.rows] == ["accuracy", "f1", "auc"] and found.strong == 0
    # the lowest border is 0.5, so bars run from 0.5 to 1
    assert found.scale == ("0.5", "1")
    assert found.bars[0] == [pytest.approx((0.2, 0.8, 0.5, "dev"))]
    assert found.bars[2] == [pytest.approx((0.5, 0.5, 0.5, "dev"))]  # without an interval: a dot


def test_test_scores_stand_beside_dev() -> None:
    test = {"scores": {"accuracy": 0.7, "mae": 0.2}, "intervals": {}, "details": {}}
    found = scores_table(binary(test=test))
    assert found and found.head == ["score", "dev", "test"]
    assert found.rows[0] == ["accuracy", ("0.7500", "0.600–0.900"), ("0.7000", "")]
    assert found.rows[3] == ["mae", ("–", ""), ("0.2000", "")]
    assert found.bars[3] == []  # less is better: no bar


def test_counts_at_thresholds() -> None:
    sweep = sweep_of(binary())
    assert sweep and len(sweep.stops) == 101 and sweep.stops[sweep.at] == 0.4
    now = sweep.reading(sweep.at)  # 0.4 itself counts as positive
    assert now.confusion == ((1, 1), (0, 2))
    assert (now.precision, now.recall, now.accuracy) == (pytest.approx(2 / 3), 1.0, 0.75)
    assert (now.f1, now.fall_out) == (pytest.approx(0.8), 0.5)
    later = sweep.reading(sweep.stops.index(0.41))
    assert later.confusion == ((1, 1), (1, 1)) and later.f1 == 0.5
    assert sweep.reading(0).confusion == ((0, 2), (0, 2))
    assert math.isnan(sweep.reading(100).precision)  # nothing is said to be positive


def test_threshold_between_the_stops_gets_its_own() -> None:
    sweep = sweep_of(binary(decision={"threshold": 0.405}))
    assert sweep and len(sweep.stops) == 102 and sweep.stops[sweep.at] == 0.405
    assert sweep.reading(sweep.at).confusion == ((1, 1), (1, 1))


def test_pointers_stand_where_the_threshold_is(tmp_path: Path) -> None:
    page = report(tmp_path, binary())
    [point] = page.all("circle", **{"data-now": "roc"})
    assert (point["cx"], point["cy"]) == ("50%", "0%")
    [point] = page.all("circle", **{"data-now": "precision_recall"})
    assert (point["cx"], point["cy"]) == ("100%", "33.33%")
    [line] = page.all("line", **{"data-now": "threshold"})
    assert line["x1"] == "40%"
    data = page.data("sweep")
    assert (data["positives"], data["negatives"], data["at"]) == (2, 2, 40)
    assert data["true"][40:42] == [2, 1] and data["false"][60:62] == [1, 0]


def test_curves_are_drawn_from_the_record_or_from_probabilities() -> None:
    record = binary()
    # true: 0.9, 0.4; false: 0.6, 0.1. ROC goes up, right, up, right.
    path = 'd="M0,1000L0,500L500,500L500,0L1000,0"'
    assert path in draw_plane(ranking_planes(record, sweep_of(record))[1])
    del record["dev"]["details"]["curves"]
    assert path in draw_plane(ranking_planes(record, sweep_of(record))[1])


def test_calibration_dots() -> None:
    plane = calibration_plane(binary())
    assert plane
    dots = [shape for shape in plane.shapes if isinstance(shape, Dot)]
    assert [(d.x, d.y) for d in dots] == [pytest.approx((0.6, 0.5)), pytest.approx((0.9, 1.0))]
    assert dots[0].words == "2 rows: 60.0% sure, 50.0% right"


def test_comparison_is_logarithmic() -> None:
    found = compare_plane(binary())
    assert found and found[1] == ["bag of words", "fine-tuned"]
    plane = found[0]
    assert [text for _, text in plane.across.ticks] == ["100", "1,000"]
    line = next(shape for shape in plane.shapes if isinstance(shape, Curve))
    assert line.x.tolist() == [2, 3] and line.y.tolist() == [0.6, 0.7]
    assert (plane.up.low, plane.up.high) == (0.5, 0.9)


def test_labels_from_the_matrix() -> None:
    found = labels_table(binary())
    assert found and found.head == ["label", "count", "precision", "recall", "F1"]
    assert found.rows == [
        ["bad", "2", "1.000", "0.500", "0.667"], ["good", "2", "0.667", "1.000", "0.800"],
    ]  # fmt: skip


def test_entity_types() -> None:
    types = {"PER": {"precision": 0.5, "recall": 0.25, "f1": 1 / 3, "support": 8}}
    record = binary(dev={"scores": {"f1": 0.3}, "details": {"types": types}}, labels=["O", "B-PER"])
    found = labels_table(record)
    assert found and found.title == "Entity types"
    assert found.rows == [["PER", "8", "0.500", "0.250", "0.333"]]


def test_what_is_most_often_confused() -> None:
    gold, said = [0, 0, 0, 0, 1, 1, 2], [0, 1, 1, 2, 0, 1, 2]
    matrix = classification.confusion(gold, said, 3).tolist()
    record = binary(labels=["a", "b", "c"], dev={"scores": {}, "details": {"confusion": matrix}})
    found = confused_table(record, "dev")
    assert found and found.rows == [
        ["a", "b", "2", "50%"], ["a", "c", "1", "25%"], ["b", "a", "1", "50%"],
    ]  # fmt: skip


def test_trials_name_trouble_and_the_chosen_one() -> None:
    found = trials_table(binary())
    assert found and found.strong == 0
    assert found.rows[1][:3] == ["3e-4", "0", "0.5000"]
    assert found.rows[1][-1] == 'it says "bad" for all 4 dev rows'
    assert chosen_trial(binary(chosen={"lr": 3e-4, "seed": 0}))["lr"] == 3e-4
    assert chosen_trial(binary(chosen={}))["score"] == 0.75  # else the best
    assert spread_sentence(binary(spread=None)) == ""


def test_dev_without_a_file_was_held_back() -> None:
    found = data_table(binary(files={"train": "t.tsv", "dev": "", "test": ""}))
    assert found and found.rows == [
        ["train", "1,200", "t.tsv"], ["dev", "4", "held back from train"],
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("summary", "strong", "rest"),
    [
        ("it works: all of it (yes)", "It works:", " all of it (yes)"),
        ("dev auc 0.98 (0.97 to 0.99)", "Dev auc 0.98", " (0.97 to 0.99)"),
        ("fine", "Fine", ""),
    ],
)
def test_beginning_of_the_summary_stands_out(summary: str, strong: str, rest: str) -> None:
    assert f"<strong>{strong}</strong>{rest}</p>" in head("x", binary(summary=summary))


def test_training_curves_of_the_chosen_trial() -> None:
    dev, loss, lr, speed = training_charts(binary())
    assert [line.look for line in dev.lines] == ["raw", "held"]
    assert dev.lines[1].track.step.tolist() == [10, 20]
    assert dev.lines[1].track.value.tolist() == [0.5, 0.75]
    assert [mark.step for mark in dev.marks] == [20] and dev.end == 20
    [line] = loss.lines  # nothing to smooth: one curve
    assert line.track.value.tolist() == pytest.approx([0.2, 0.1, 0.05])
    assert (lr.title, speed.title) == ("Learning rate", "Speed")


def test_pointer_reads_what_the_log_says(tmp_path: Path) -> None:
    data = report(tmp_path, binary()).data("readings")
    assert data["steps"] == [5, 10, 20] and data["where"][2] == "step 20"
    assert data["series"]["0.1"]["text"] == ["–", "0.500", "0.750"]  # the newest so far


@pytest.mark.parametrize(
    ("low", "trouble", "colour"), [(0.6, None, "good"), (0.5, None, "fair"), (0.6, "x", "bad")]
)
def test_colour_of_the_summary(low: float, trouble: str | None, colour: str) -> None:
    record = binary()
    record["dev"]["intervals"]["accuracy"] = [low, 0.9]
    record["trials"][0]["trouble"] = trouble
    assert most_frequent(record) == 0.5
    assert state(record) == colour
    assert state({**record, "metric": "f1"}) == ("bad" if trouble else "open")


def test_scatter_of_numbers(tmp_path: Path) -> None:
    details = {"scatter": [[0, 1], [5, 4.5], [2, None]], "errors": []}
    record = binary(task="regress", metric="pearson", labels=[], decision={},
                    dev={"scores": {"pearson": 0.9}, "details": details})  # fmt: skip
    plane = scatter_plane(record)
    assert plane and (plane.across.low, plane.across.high) == (0, 5)
    assert 'd="M0,800h0M1000,100h0"' in draw_plane(plane)
    page = report(tmp_path, record)
    assert "Said over right" in page.text and "Confusion" not in page.text


def test_errors_of_any_shape(tmp_path: Path) -> None:
    errors = [
        {"place": "a.json, question 3", "question": "谁？", "expected": ["王", "老王"],
         "predicted": "", "score": 0.9, "window": 2},
        {"place": "b.json, question 1", "question": "when", "expected": [["LOC", "厦门"]],
         "predicted": None, "score": 0.95},
    ]  # fmt: skip
    found = errors_table(binary(dev={"scores": {}, "details": {"errors": errors}}))
    assert found and found.head == ["question", "window", "right", "said", "score", "place"]
    assert found.rows == [
        ["谁？", "2", "王, 老王", "–", "0.900", "a.json, question 3"],
        ["when", "", "LOC 厦门", "–", "0.950", "b.json, question 1"],
    ]
    assert found.note == ""  # not in falling order, not of one file
    page = report(tmp_path, binary(task="tag", dev={"scores": {}, "details": {"errors": errors}}))
    assert "LOC 厦门" in page.text


def test_long_texts_and_many_errors_are_folded(tmp_path: Path) -> None:
    record = binary()
    one = {"place": "d, line 1", "text": "长" * 1000, "label": "bad", "predicted": "good"}
    record["dev"]["details"]["errors"] = [one] * 30
    page = report(tmp_path, record)
    assert "长" * 240 + " " + "长" * 760 in page.text
    assert "20 more" in page.text
    assert len(page.all("details")) == 31


def test_sixty_labels_are_colours_and_more_are_a_list(tmp_path: Path) -> None:
    for count, tables in ((12, "matrix"), (60, "matrix tiny"), (61, None)):
        names = [f"label {n}" for n in range(count)]
        matrix = (np.eye(count, dtype=int) * 5).tolist()
        matrix[3][4] = 2
        dev = {"scores": {"accuracy": 0.9}, "details": {"confusion": matrix}}
        record = binary(labels=names, decision={}, dev=dev)
        page = report(tmp_path, record)
        looks = [a.get("class") for a in page.all("table")]
        assert (tables in looks) if tables else not {"matrix", "matrix tiny"} & set(looks)
        assert "label 3 label 4 2 29%" in page.text


def test_plane_by_hand() -> None:
    x, y = np.array([0.0, 0.5, 1.0]), np.array([0.0, math.nan, 0.5])
    shapes = [Curve("s0", x, y), Cloud("points", x, y), Dot("s1", math.nan, 0.5, "no")]
    drawn = draw_plane(Plane("t", 'say "it"', unit_axis("x"), unit_axis("y"), shapes))
    assert 'd="M0,1000h0M1000,500h0"' in drawn
    assert 'aria-label="say &quot;it&quot;"' in drawn and "<circle" not in drawn


def test_words_for_numbers() -> None:
    assert [digits(v) for v in (0.91234, 12.3456, -0.5, math.nan)] == [
        "0.9123", "12.35", "-0.5000", "–",
    ]  # fmt: skip
    assert interval(-0.1, 0.2) == "-0.100 to 0.200" and interval(0.1, math.nan) == ""
    values = (True, 3, 12345, 0.123456, math.inf, None, {"a": 1}, [], ["x", "y"], [["x", 1], ["y"]])
    assert [shown(v) for v in values] == [
        "yes", "3", "12,345", "0.1235", "–", "–", "a: 1", "–", "x, y", "x 1; y",
    ]  # fmt: skip


# -------------------------------------------------------------- Markdown


def test_markdown_has_the_same_facts(tmp_path: Path) -> None:
    report(tmp_path / "hotel", binary())
    text = text_of(tmp_path / "hotel")
    for line in (
        "# hotel",
        "good enough: dev accuracy 0.750",
        "- stopped early",
        "| **accuracy** | **0.7500** (0.600–0.900) |",
        "| f1 | 0.8000 (0.500–1.000) |",
        "| **0.4** | **0.667** | **1.000** | **0.800** | **0.750** | **0.500** |",
        "| bad | 1 | 1 |",
        "| good | 2 | 0.667 | 1.000 | 0.800 |",
        "| 房间很小 | bad | good | 0.600 | line 4 |",
        "| 100 | 0.600 (0.500–0.700) | 0.650 (0.600–0.700) |",
        "| same text (warning) | 2 | drop them | d/train.tsv, line 3; d/dev.tsv, line 2 |",
        "Expected calibration error 0.0125, before temperature 0.2500.",
        "| train | 1,200 | d/train.tsv |",
        "| threshold | 0.4 |",
        "| lr | not set |",
        "| learned | 1,000,000 |",
    ):
        assert line in text.splitlines(), line
    widths = [[row.count("|") - row.count("\\|") for row in block.splitlines()]
              for block in text.split("\n\n") if block.startswith("|")]  # fmt: skip
    assert all(len(set(counts)) == 1 for counts in widths)


def test_markdown_escapes() -> None:
    assert plain("a | b\nc\\d") == r"a \| b c\\d"
    assert plain("<b>&amp; *x* `y` [z](u) macro_f1 _em_") == (
        r"&lt;b>&amp;amp; \*x\* \`y\` \[z\](u) macro_f1 \_em\_"
    )
    assert plain("# no title") == r"\# no title" and plain("C# & AT&T") == "C# & AT&T"
    assert plain("长" * 400) == "长" * 300 + " …"


# --------------------------------------------------------------- hostile


def evil() -> dict[str, Any]:
    record = binary(labels=[EVIL, f"x{EVIL}"], task=EVIL, model=EVIL, summary=f"a: {EVIL}",
                    notes=[EVIL], files={"train": EVIL}, settings={EVIL: EVIL, "x": [EVIL]},
                    decision={"threshold": 0.4, EVIL: EVIL})  # fmt: skip
    record["dev"]["details"]["label_counts"] = {EVIL: 2, f"x{EVIL}": 2}
    record["dev"]["details"]["errors"] = [
        {"place": f"{EVIL}, line 1", "text": EVIL * 20, "label": EVIL, "predicted": EVIL,
         EVIL: EVIL},
    ]  # fmt: skip
    record["dev"]["scores"][EVIL] = 0.5
    record["check"][0] = {"fault": EVIL, "severity": EVIL, "advice": EVIL, "places": [EVIL]}
    record["compare"]["rows"][0]["system"] = EVIL
    record["compare"]["sentence"] = EVIL
    record["trials"][0]["trouble"] = EVIL
    record["trials"][0]["seed"] = record["chosen"]["seed"] = EVIL
    return record


def test_markup_in_the_record_stays_text(tmp_path: Path) -> None:
    page = report(tmp_path / EVIL.replace("/", "∕"), evil())
    assert [a for t, a in page.tags if t == "script"] == [
        {"type": "application/json", "id": "readings"},
        {"type": "application/json", "id": "sweep"}, {}, {},
    ]  # fmt: skip
    assert not page.all("img")
    assert page.text.count(EVIL) >= 20
    assert "<script>alert" not in page.source
    assert not [k for _, a in page.tags for k in a if k.startswith("on")]
    [text] = [p.read_text(encoding="utf-8") for p in tmp_path.rglob("report.md")]
    assert "<script" not in text and "<img" not in text and "&lt;script>" in text


def test_metric_of_another_name_stays_text(tmp_path: Path) -> None:
    record = binary(metric=EVIL)
    record["dev"]["scores"][EVIL] = 0.5
    for one in record["trials"]:
        for entry in one["history"]:
            entry["scores"] = {EVIL: 0.5}
    page = report(tmp_path, record)
    assert not page.all("img") and len(page.all("script")) == 4


def test_page_needs_no_other_file_and_allows_only_its_own_scripts(tmp_path: Path) -> None:
    page = report(tmp_path, binary())
    assert not [a for _, a in page.tags if "src" in a]
    assert all(str(a["href"]).startswith("#") for _, a in page.tags if "href" in a)
    assert "url(" not in page.source and "http:" not in page.source and "https:" not in page.source
    [policy] = [a["content"] for a in page.all("meta") if "http-equiv" in a]
    assert policy and policy.startswith("default-src 'none'") and policy.count("'sha256-") == 2
    assert "prefers-color-scheme: dark" in page.source


def test_every_picture_has_words(tmp_path: Path) -> None:
    page = report(tmp_path, binary())
    charts = [a for a in page.all("svg") if a.get("class") == "chart"]
    labels = [str(a["aria-label"]) for a in charts]
    assert {a["role"] for a in charts} == {"img"} and len(labels) == len(set(labels)) == 10
    assert labels[1] == (
        "Precision, recall and F1 over the threshold: at 0.4 they are 0.667, 1.000 and 0.800; "
        "the highest F1 is 0.800 at 0.11"
    )


def test_half_a_surrogate_pair(tmp_path: Path) -> None:
    page = report(tmp_path / "酒店", binary(summary="半个 \ud83d 字"))
    assert "酒店" in page.text and "半个 ? 字" in page.text
    assert "半个 ? 字" in text_of(tmp_path / "酒店")


# ------------------------------------------------------------------- odd


ODD: list[Any] = [None, "x", -1, math.nan, [[1, "x"]], {"a": None}]


def holes() -> list[tuple[str, dict[str, Any]]]:
    """The record with each of its parts replaced by things that should not be there."""
    made: list[tuple[str, dict[str, Any]]] = [("empty", {})]
    full = binary()
    places = [(key,) for key in full]
    places += [("dev", key) for key in full["dev"]]
    places += [("dev", "details", key) for key in full["dev"]["details"]]
    places += [("trials", 0, key) for key in full["trials"][0]]
    places += [("compare", "rows"), ("compare", "rows", 0, "labels"), ("dev", "scores", "accuracy")]
    places += [("dev", "intervals", "accuracy"), ("trials", 0, "history", 0, "scores")]
    places += [("trials", 0, "log", 0, "loss"), ("decision", "threshold"), ("check", 0, "places")]
    for place in places:
        for number, odd in enumerate(ODD):
            record = binary()
            inner: Any = record
            for key in place[:-1]:
                inner = inner[key]
            inner[place[-1]] = odd
            made.append((f"{place} = {odd} ({number})", record))
    return made


def test_records_with_holes_still_give_a_page(tmp_path: Path) -> None:
    from tianci.tune.report_markdown import markdown
    from tianci.tune.report_page import page as page_of

    for name, record in holes():
        try:
            source, text = page_of("x", record), markdown("x", record)
        except Exception as error:
            raise AssertionError(f"{name}: {error!r}") from error
        body = re.sub(r"<(style|script)\b.*?</\1>", "", source, flags=re.DOTALL)
        attributes = re.findall(r'(?:[xyr]|[xy][12]|c[xy]|d|width|height|style)="([^"]*)"', body)
        assert not [a for a in attributes if re.search(r"nan|inf", a)], name
        for said in (re.sub("<[^>]*>", " ", body), text):
            assert not re.search(r"\b(nan|inf|None)\b", said), name


def test_not_finite_numbers_are_dashes(tmp_path: Path) -> None:
    record = binary()
    record["dev"]["scores"]["accuracy"] = math.nan
    record["dev"]["intervals"]["f1"] = [math.nan, math.inf]
    record["dev"]["details"]["dev_probabilities"][0] = math.nan
    record["trials"][0]["log"][1]["loss"] = math.inf
    record["trials"][0]["history"][0]["scores"]["accuracy"] = math.nan
    page = report(tmp_path, record)
    page.data("readings"), page.data("sweep")
    assert "accuracy –" in page.text and "f1 0.8000" in page.text
    assert "nan" not in "".join(f"{v}" for t, a in page.tags if t != "meta" for v in a.values())


def test_many_rows_make_no_larger_page(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    record = binary()
    record["dev"]["details"]["dev_probabilities"] = rng.random(50_000).tolist()
    record["dev"]["details"]["dev_gold"] = rng.integers(0, 2, 50_000).tolist()
    assert len(report(tmp_path, record).source) < 120_000


def test_both_files_are_there_and_nothing_half_written(tmp_path: Path) -> None:
    write_report(tmp_path, binary())
    write_report(tmp_path, binary())
    assert {p.name for p in tmp_path.iterdir()} == {"report.html", "report.md"}


def test_importing_the_report_is_light() -> None:
    code = "import sys, tianci.tune.report; print('torch' in sys.modules)"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "False"


# --------------------------------------------------------------- browser


def dump(page: Path) -> str:
    """The page as chromium has it after the scripts ran."""
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    if chromium is None:
        pytest.skip("needs chromium")
    command = [chromium, "--headless", "--no-sandbox", "--disable-gpu", "--dump-dom",
               f"--user-data-dir={page.parent / 'profile'}", page.as_uri()]  # fmt: skip
    found = subprocess.run(command, capture_output=True, timeout=60, check=True)
    return found.stdout.decode()


def test_script_moves_the_threshold(tmp_path: Path) -> None:
    page = report(tmp_path, evil())
    # as if the slider stood at 0.41: data, so the page's policy does not mind
    source = page.source.replace('"at":40}', '"at":41}')
    assert source != page.source
    moved = tmp_path / "moved.html"
    moved.write_text(source, encoding="utf-8")
    after = dump(moved)
    assert re.findall(r'data-read="(\w+)">([^<]*)<', after) == [
        ("threshold", "0.41"), ("precision", "0.500"), ("recall", "0.500"), ("f1", "0.500"),
        ("accuracy", "0.500"),
    ]  # fmt: skip
    assert re.findall(r'data-cell="(\d\d)"[^>]*><span>(\d+)</span><small>(\d+%)', after) == [
        ("00", "1", "50%"), ("01", "1", "50%"), ("10", "1", "50%"), ("11", "1", "50%"),
    ]  # fmt: skip
    assert 'data-now="roc" cx="50%" cy="50%"' in after
    assert 'class="slider"><input' in after  # shown, because there is a script
    assert 'class="slider" hidden><input' in source
