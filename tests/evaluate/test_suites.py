"""Suites of pairs: hand-made scores give hand-checked accuracies."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tianci.errors import UserError
from tianci.evaluate.suites import Pair, evaluate_suite, read_pairs, sample

ROWS = [
    {"good": "a good one", "bad": "bad", "paradigm": "p1", "phenomenon": "x"},
    {"good": "bad", "bad": "a good one", "paradigm": "p1", "phenomenon": "x"},
    {"good": "a good one", "bad": "bad", "paradigm": "p2", "phenomenon": "x"},
    {"good": "tie", "bad": "eit", "paradigm": "p3", "phenomenon": "y"},
]


class Lengths:
    """Finds longer texts more likely, but their tokens less so."""

    def scores(self, texts: Iterable[str], whole_words: bool = False) -> Iterator[dict[str, Any]]:
        for text in texts:
            yield {"score": float(len(text)), "mean": -float(len(text))}


def write(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.write_text("\n".join(json.dumps(row) for row in rows) + "\n", encoding="utf-8")
    return path


def test_accuracies_by_hand(tmp_path: Path) -> None:
    result = evaluate_suite(Lengths(), "blimp", write(tmp_path / "pairs.jsonl", ROWS))
    assert result["accuracy"] == 0.5 and result["count"] == 4 and result["ties"] == 1
    assert result["accuracy_by_mean"] == 0.25 and result["mean_of_paradigms"] == 0.5
    of = {name: (row["accuracy"], row["count"]) for name, row in result["paradigms"].items()}
    assert of == {"p1": (0.5, 2), "p2": (1.0, 1), "p3": (0.0, 1)}
    assert result["phenomena"]["x"]["accuracy"] == pytest.approx(2 / 3)
    # Wilson, 2 of 4 at 95 %
    assert result["low"] == pytest.approx(0.150, abs=1e-3)
    assert result["high"] == pytest.approx(0.850, abs=1e-3)


def test_spelling_leaves_out_equal_rows(tmp_path: Path) -> None:
    rows = [
        {"wrong": "我网袋散了", "correct": "我忘带伞了", "wrong_ids": [1, 2, 3]},
        {"wrong": "好", "correct": "好", "wrong_ids": []},
        {"wrong": "朋唷", "correct": "朋友", "wrong_ids": [1]},
    ]
    (tmp_path / "set").mkdir()
    packed = tmp_path / "set" / "test.jsonl.gz"
    packed.write_bytes(gzip.compress("\n".join(map(json.dumps, rows)).encode()))
    assert read_pairs("csc", tmp_path / "set") == [  # a directory means its test file
        Pair("我忘带伞了", "我网袋散了", "spelling", "3 errors or more"),
        Pair("朋友", "朋唷", "spelling", "1 error"),
    ]


def test_sample_is_the_same_each_time() -> None:
    pairs = [Pair(f"g{i}", f"b{i}", f"p{i % 3}", "x") for i in range(300)]
    some = sample(pairs, 10)
    assert some == sample(pairs, 10)
    assert [sum(pair.paradigm == p for pair in some) for p in ("p0", "p1", "p2")] == [10, 10, 10]
    assert some == sorted(some, key=pairs.index)
    assert [p for p in some if p.paradigm == "p0"] != [p for p in pairs if p.paradigm == "p0"][:10]
    assert sample(pairs, None) == pairs and sample(pairs, 1000) == pairs
    alone = sample([p for p in pairs if p.paradigm == "p1"], 10)  # other paradigms do not matter
    assert alone == [p for p in some if p.paradigm == "p1"]


def test_wrong_files(tmp_path: Path) -> None:
    with pytest.raises(UserError, match='unknown suite "blip"; did you mean "blimp"'):
        read_pairs("blip", tmp_path)
    with pytest.raises(UserError, match=r"has no test.jsonl"):
        read_pairs("blimp", tmp_path)
    with pytest.raises(UserError, match="line 1: blimp needs 'good'"):
        read_pairs("blimp", write(tmp_path / "a.jsonl", [{"bad": "x"}]))
    (tmp_path / "b.jsonl").write_text("{", encoding="utf-8")
    with pytest.raises(UserError, match="line 1: not JSON"):
        read_pairs("blimp", tmp_path / "b.jsonl")
    with pytest.raises(UserError, match="no pairs"):
        read_pairs("csc", write(tmp_path / "c.jsonl", [{"wrong": "a", "correct": "a"}]))


@pytest.mark.parametrize(
    ("suite", "name", "pairs", "paradigms"),
    [
        ("blimp", "blimp_en", 67000, 67),
        ("sling", "sling_zh", 40560, 43),
        ("csc", "sighan15_csc_zh", 0, 1),
    ],
)
def test_real_files(suite: str, name: str, pairs: int, paradigms: int, shared_data: Path) -> None:
    found = read_pairs(suite, shared_data / name)
    assert len({pair.paradigm for pair in found}) == paradigms
    assert all(pair.good != pair.bad for pair in found[:100])
    assert len(found) == pairs or (pairs == 0 and 400 < len(found) < 700)
