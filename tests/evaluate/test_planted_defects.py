"""Forty and more defects, each planted alone into a clean set, all found at their line.

`TIANCI_WRITE=1 pytest tests/evaluate/test_planted_defects.py -k page` writes docs/checking.md.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import ROOT
from tests.evaluate.clean_sets import TASKS, Records, lines_of, records, text, write
from tianci.evaluate.check import check_files
from tianci.evaluate.check.finding import FAULTS

PAGE = ROOT / "docs" / "checking.md"
Lines = list[Any]
Change = Callable[[Records, Records], object]  # of the train and the dev rows
Mangle = Callable[[Lines], object]  # of the lines of the file with the defect


@dataclass(frozen=True)
class Defect:
    """One defect: which set and file, what is done to it, and what must be said where."""

    what: str
    set: str
    kind: str
    fault: str
    line: int  # question in SQuAD files
    change: Change | None = None
    mangle: Mangle | None = None
    split: str = "train"


def put(split: int, row: int, **values: Any) -> Change:
    """Values of one row are replaced; None removes the column."""

    def change(*splits: Records) -> None:
        for name, value in values.items():
            splits[split][row][name] = value
            if value is None:
                del splits[split][row][name]

    return change


def copy(from_row: int, to_row: int, **values: Any) -> Change:
    """A row of train stands in dev too, perhaps with another value."""

    def change(train: Records, dev: Records) -> None:
        dev[to_row] = {**train[from_row], **values}

    return change


def line(number: int, new: str | bytes | Callable[[str], str | bytes]) -> Mangle:
    """One line of the file is replaced."""

    def mangle(lines: Lines) -> None:
        lines[number - 1] = new(lines[number - 1]) if callable(new) else new

    return mangle


def double(lines: Lines) -> None:
    lines[:] = [f"{one},{'label' if n == 0 else 'good'}" for n, one in enumerate(lines)]


def near(train: Records, dev: Records) -> None:
    dev[3]["text"] = "《" + train[8]["text"].replace(
        train[8]["text"][4], "，" + train[8]["text"][4]
    )


def one_class(train: Records, dev: Records) -> None:
    for row in dev:
        row["label"] = "good"


def most_copied(train: Records, dev: Records) -> None:
    dev[:8] = [dict(row) for row in train[:8]]


def swap(train: Records, dev: Records) -> None:
    dev[4]["text"], dev[4]["pair"] = train[9]["pair"], train[9]["text"]


def shift(train: Records, dev: Records) -> None:
    train[6]["answers"][0]["answer_start"] += 1


def outside(train: Records, dev: Records) -> None:
    train[5]["entities"][0]["end"] = 999


def overlapping(train: Records, dev: Records) -> None:
    one = train[5]["entities"][0]
    train[5]["entities"].append({**one, "start": one["start"] + 1, "label": "LOC"})


def no_tag(train: Records, dev: Records) -> None:
    train[3]["tags"].pop()


def retag(row: int, word: int, tag: str, split: int = 0) -> Change:
    def change(*splits: Records) -> None:
        splits[split][row]["tags"][word] = tag

    return change


def same_choice(train: Records, dev: Records) -> None:
    train[7]["choices"][3] = train[7]["choices"][1]


def again(train: Records, dev: Records) -> None:
    train[10] = dict(train[2])


def contradict(train: Records, dev: Records) -> None:
    train[11] = {**train[2], "label": "bad"}  # row 2 is good


DEFECTS = [
    # classify
    Defect("the line ends in the middle", "classify", "jsonl", "not JSON", 5,
           mangle=line(5, lambda old: old[:20])),
    Defect("a list instead of an object", "classify", "jsonl", "not JSON", 4,
           mangle=line(4, '["text", "good"]')),
    Defect("a row without its label", "classify", "jsonl", "missing column", 7,
           put(0, 6, label=None)),
    Defect("an empty label", "classify", "jsonl", "missing value", 3, put(0, 2, label=" ")),
    Defect("a number where the text should be", "classify", "jsonl", "wrong type", 9,
           put(0, 8, text=12)),
    Defect("a blank text", "classify", "jsonl", "empty text", 2, put(1, 1, text="  "),
           split="dev"),
    Defect("a line in GB18030", "classify", "jsonl", "broken UTF-8", 6,
           mangle=line(6, lambda old: old.encode("gb18030"))),
    Defect("a NUL byte", "classify", "tsv", "broken UTF-8", 6,
           mangle=line(6, lambda old: old.encode()[:9] + b"\0" + old.encode()[9:])),
    Defect("a lost tab", "classify", "tsv", "ragged row", 8,
           mangle=line(8, lambda old: old.replace("\t", " "))),
    Defect("a tab inside a text", "classify", "tsv", "ragged row", 5,
           mangle=line(5, lambda old: old[:7] + "\t" + old[7:])),
    Defect("a quote that is opened and not closed", "classify", "csv", "ragged row", 14,
           mangle=line(14, lambda old: '"' + old)),
    Defect("no column with the text", "classify", "csv", "missing column", 1,
           mangle=line(1, "body,label")),
    Defect("two columns of one name", "classify", "csv", "column twice", 1,
           mangle=double),
    Defect("the header of a second file in the middle", "classify", "tsv", "header again", 7,
           mangle=line(7, "text\tlabel")),
    Defect("a label that train does not have", "classify", "jsonl", "label not in train", 5,
           put(1, 4, label="awful"), split="dev"),
    Defect("a slip in a label", "classify", "tsv", "rare class", 4, put(0, 2, label="goood")),
    Defect("a label in capitals", "classify", "csv", "label spelled in two ways", 10,
           put(0, 8, label="Good")),
    Defect("dev has one class only", "classify", "jsonl", "one class only", 1, one_class,
           split="dev"),
    Defect("the same row twice", "classify", "jsonl", "repeated row", 11, again),
    Defect("one text with two labels", "classify", "tsv", "two labels for one text", 13,
           contradict),
    Defect("a dev row that train has", "classify", "csv", "also in train", 6, copy(3, 4),
           split="dev"),
    Defect("a dev row that train has with another label", "classify", "jsonl",
           "also in train, with another label", 5, copy(3, 4, label="good"), split="dev"),
    Defect("a dev row that train has, with other punctuation", "classify", "jsonl",
           "nearly also in train", 4, near, split="dev"),
    Defect("most of dev is in train", "classify", "tsv", "most rows also in train", 2,
           most_copied, split="dev"),
    Defect("a replacement character", "classify", "csv", "replacement character", 5,
           put(0, 3, text="天地玄黄\ufffd宇宙洪荒日月盈昃")),
    # several labels at once
    Defect("labels as an object", "many", "jsonl", "wrong type", 8,
           put(0, 7, label={"food": 1})),
    Defect("labels with the wrong separator", "many", "jsonl", "label not in train", 3,
           put(1, 2, label="food,room"), split="dev"),
    # pair
    Defect("an empty second text", "pair", "tsv", "empty text", 5, put(0, 3, pair="")),
    Defect("a pair of train, swapped", "pair", "jsonl", "swapped in train", 5, swap, split="dev"),
    Defect("a row without its label", "pair", "csv", "missing value", 6, put(0, 4, label="")),
    # regress
    Defect("n/a instead of a number", "regress", "tsv", "not a finite number", 9,
           put(0, 7, score="n/a")),
    Defect("a decimal comma", "regress", "csv", "not a finite number", 4, put(0, 2, score="3,5")),
    Defect("an infinite number", "regress", "jsonl", "not a finite number", 2,
           put(1, 1, score="inf"), split="dev"),
    Defect("a lost decimal point", "regress", "jsonl", "number far off", 6, put(0, 5, score=350)),
    # tag
    Defect("an entity that begins with I-", "tag", "conll", "I- without B-", 30,
           retag(1, 12, "I-PER")),
    Defect("a tag without a prefix", "tag", "conll", "unknown tag prefix", 16, retag(0, 15, "LOC")),
    Defect("a word without its tag", "tag", "conll", "ragged row", 20,
           mangle=line(20, lambda old: old.split("\t")[0])),
    Defect("an entity type that train does not have", "tag", "conll", "label not in train", 18,
           retag(1, 15, "B-ORG", 1), split="dev"),
    Defect("an entity type in small letters", "tag", "conll", "label spelled in two ways", 35,
           retag(2, 15, "B-loc")),
    Defect("fewer tags than words", "tag", "jsonl", "tags and words differ", 4, no_tag),
    Defect("an entity behind the end of the text", "entities", "jsonl", "wrong entities", 6,
           outside),
    Defect("entities that overlap", "entities", "jsonl", "wrong entities", 6, overlapping),
    # answer
    Defect("an answer that the passage does not have", "answer", "json",
           "answer not in the passage", 4,
           put(0, 3, answers=[{"text": "nowhere", "answer_start": 3}])),
    Defect("an answer one character off", "answer", "json", "answer not at its place", 7, shift),
    Defect("an impossible question with an answer", "answer", "json", "answer and no-answer", 2,
           put(0, 1, is_impossible=True)),
    Defect("a question without any answer", "answer", "json", "answer and no-answer", 5,
           put(1, 4, answers=[]), split="dev"),
    Defect("an empty question", "answer", "json", "empty text", 9, put(0, 8, question="")),
    Defect("answers and their places of different number", "answer", "jsonl", "wrong type", 3,
           put(0, 2, answers={"text": ["a", "b"], "answer_start": [1]})),
    # choose
    Defect("a label behind the last choice", "choose", "jsonl", "label is no choice", 6,
           put(0, 5, label=4)),
    Defect("one choice only", "choose", "jsonl", "fewer than two choices", 3,
           put(0, 2, choices=["a"], label=0)),
    Defect("an empty choice", "choose", "jsonl", "empty text", 5,
           put(1, 4, choices=["天地", "玄黄", " ", "宇宙"]), split="dev"),
    Defect("the same choice twice", "choose", "jsonl", "same choice twice", 8, same_choice),
    # similar
    Defect("an empty second text", "similar", "tsv", "empty beside the others", 8,
           put(0, 6, pair="")),
    Defect("a word among the scores", "similar", "csv", "label is no number", 5,
           put(0, 3, score="high")),
    # generate
    Defect("a row without its target", "generate", "jsonl", "empty beside the others", 4,
           put(0, 3, target=None)),
    Defect("an empty target", "generate", "tsv", "empty beside the others", 7,
           put(0, 5, target="")),
    Defect("an empty source", "generate", "jsonl", "empty text", 2, put(0, 1, source="")),
]  # fmt: skip


def checked(folder: Path, name: str, kind: str, defect: Defect | None = None) -> list[Any]:
    """The findings in a clean set, or in one with this defect."""
    splits = {"train": records(name, 24, 1), "dev": records(name, 12, 2)}
    if defect and defect.change:
        defect.change(*splits.values())
    paths = []
    for split, rows in splits.items():
        lines: Lines = list(lines_of(kind, rows))
        if defect and defect.mangle and defect.split == split:
            defect.mangle(lines)
        paths.append(write(folder / f"{split}.{kind}", lines))
    settings = {"many": True} if name == "many" else None
    return check_files(paths, task=TASKS.get(name, name), settings=settings).findings


CLEAN = [
    ("classify", "jsonl"), ("classify", "tsv"), ("classify", "csv"), ("many", "jsonl"),
    ("pair", "tsv"), ("pair", "csv"), ("pair", "jsonl"), ("regress", "csv"), ("regress", "tsv"),
    ("regress", "jsonl"), ("tag", "conll"), ("tag", "jsonl"), ("entities", "jsonl"),
    ("answer", "json"), ("answer", "jsonl"), ("choose", "jsonl"), ("similar", "tsv"),
    ("similar", "csv"), ("generate", "jsonl"), ("generate", "tsv"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "kind"), CLEAN)
def test_no_false_alarm(tmp_path: Path, name: str, kind: str) -> None:
    assert checked(tmp_path, name, kind) == []


@pytest.mark.parametrize("defect", DEFECTS, ids=[f"{d.set}: {d.what}" for d in DEFECTS])
def test_each_defect_is_found_at_its_line(tmp_path: Path, defect: Defect) -> None:
    findings = checked(tmp_path, defect.set, defect.kind, defect)
    wanted = (str(tmp_path / f"{defect.split}.{defect.kind}"), defect.line, defect.fault)
    assert wanted in [(f.file, f.line, f.fault) for f in findings]
    assert all(f.advice for f in findings)
    # nothing else is found, but what follows from it: the same place, or a count of the split
    follows = (
        "one class only",
        "rare class",
        "repeated row",
        "also in train",
        "label not in train",
    )
    others = [f for f in findings if (f.file, f.line) != wanted[:2] and f.fault not in follows]
    assert others == []


def test_every_task_and_kind_of_file_is_there() -> None:
    assert len(DEFECTS) >= 40
    assert {d.set for d in DEFECTS} >= {"classify", "many", "pair", "regress", "tag", "answer",
                                        "choose", "similar", "generate"}  # fmt: skip
    assert {d.kind for d in DEFECTS} == {"jsonl", "tsv", "csv", "conll", "json"}
    clean = {(d.set, d.kind) for d in DEFECTS} - set(CLEAN)
    assert not clean, "a set with defects, but not tried without"


def test_texts_of_the_sets_differ() -> None:
    rng = random.Random(0)
    assert len({text(rng) for _ in range(500)}) == 500


def page() -> str:
    """docs/checking.md."""
    rows = [
        f"| {d.what} | {TASKS.get(d.set, d.set)}{' (many)' if d.set == 'many' else ''} "
        f"| .{d.kind} | {d.fault} ({FAULTS[d.fault].severity}) | {FAULTS[d.fault].advice} |"
        for d in DEFECTS
    ]
    return "\n".join([
        "# What `tianci check` finds",
        "",
        "Written by `tests/evaluate/test_planted_defects.py`, which plants each of these "
        f"{len(DEFECTS)} defects alone",
        f"into a clean set and wants it found in its file at its line. {len(CLEAN)} clean sets "
        "(every task, every kind of",
        "file) must come out without any finding. `stops`: `tianci finetune` refuses the data "
        "(`--force` goes on).",
        "",
        "| defect | task | file | what is said | advice |",
        "|---|---|---|---|---|",
        *rows,
        "",
    ])  # fmt: skip


def test_the_page_is_up_to_date() -> None:
    if os.environ.get("TIANCI_WRITE"):
        PAGE.write_text(page(), encoding="utf-8")
    assert PAGE.exists() and PAGE.read_text(encoding="utf-8") == page(), (
        "docs/checking.md differs from the tests; TIANCI_WRITE=1 pytest "
        "tests/evaluate/test_planted_defects.py -k page"
    )
