"""Small sets of every task in which nothing is wrong, and files of the kinds that tasks read."""

from __future__ import annotations

import csv
import io
import json
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

Record = dict[str, Any]
Records = list[Record]

_CHARACTERS = [chr(0x4E00 + 37 * n) for n in range(400)]
NAMES = ["Anna Berg", "Omar Said", "Li Na", "Paul Mora", "Rosa Klein"]


def text(rng: random.Random) -> str:
    """A text of its own: nothing in common with the others but characters."""
    return "".join(rng.choices(_CHARACTERS, k=rng.randint(20, 40)))


def classify(rng: random.Random, n: int) -> Record:
    return {"text": text(rng), "label": ("good", "bad")[n % 2]}


def many(rng: random.Random, n: int) -> Record:
    return {"text": text(rng), "label": [["food", "room"], ["room"], ["food"], []][n % 4]}


def pair(rng: random.Random, n: int) -> Record:
    return {"text": text(rng), "pair": text(rng), "label": ("same", "other")[n % 2]}


def regress(rng: random.Random, n: int) -> Record:
    return {"text": text(rng), "score": round(rng.uniform(0, 5), 1)}


def tag(rng: random.Random, n: int) -> Record:
    first, last = NAMES[n % 5].split()
    words = [*text(rng)[:12], first, last, "saw", "Rome"]
    return {"words": words, "tags": [*["O"] * 12, "B-PER", "I-PER", "O", "B-LOC"]}


def entities(rng: random.Random, n: int) -> Record:
    name, before = NAMES[n % 5], text(rng)
    start = len(before) + 1
    spans = [{"label": "PER", "start": start, "end": start + len(name)}]
    return {"text": f"{before} {name} saw Rome", "entities": spans}


def answer(rng: random.Random, n: int) -> Record:
    context, said = text(rng), text(rng)[:6]
    at = len(context) // 2
    answers = [{"text": said, "answer_start": at}]
    return {"context": context[:at] + said + context[at:], "question": text(rng) + "?",
            "answers": answers, "is_impossible": False}  # fmt: skip


def choose(rng: random.Random, n: int) -> Record:
    return {"context": text(rng), "question": text(rng), "choices": [text(rng) for _ in range(4)],
            "label": n % 4}  # fmt: skip


def similar(rng: random.Random, n: int) -> Record:
    return {"text": text(rng), "pair": text(rng), "score": round(rng.uniform(0, 1), 2)}


def generate(rng: random.Random, n: int) -> Record:
    return {"source": text(rng), "target": text(rng)[:8]}


MAKERS: dict[str, Callable[[random.Random, int], Record]] = {
    "classify": classify, "many": many, "pair": pair, "regress": regress, "tag": tag,
    "entities": entities, "answer": answer, "choose": choose, "similar": similar,
    "generate": generate,
}  # fmt: skip
TASKS = {"many": "classify", "entities": "tag"}  # what is not called as its task


def records(name: str, count: int, seed: int) -> Records:
    """A clean split."""
    rng = random.Random(f"{name} {seed}")
    return [MAKERS[name](rng, n) for n in range(count)]


# ---------------------------------------------------------------- files


def lines_of(kind: str, rows: Sequence[Record]) -> list[str]:
    """The lines of a file of that kind."""
    if kind == "jsonl":
        return [json.dumps(row, ensure_ascii=False) for row in rows]
    if kind in ("tsv", "csv"):
        names = list(rows[0])
        cells = [[_cell(row.get(name)) for name in names] for row in rows]
        if kind == "tsv":
            return ["\t".join(line) for line in [names, *cells]]
        out = io.StringIO()
        csv.writer(out, lineterminator="\n").writerows([names, *cells])
        return out.getvalue().rstrip("\n").split("\n")
    if kind == "conll":
        found: list[str] = []
        for row in rows:
            found += [f"{word}\t{tag}" for word, tag in zip(row["words"], row["tags"], strict=True)]
            found.append("")
        return found
    paragraphs = [
        {"context": row["context"], "qas": [{k: v for k, v in row.items() if k != "context"}]}
        for row in rows
    ]
    return [json.dumps({"version": "2.0", "data": [{"title": "t", "paragraphs": paragraphs}]},
                       ensure_ascii=False)]  # fmt: skip


def _cell(value: Any) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def write(path: Path, lines: Sequence[str | bytes]) -> Path:
    """A file of these lines."""
    whole = [line if isinstance(line, bytes) else line.encode() for line in lines]
    path.write_bytes(b"\n".join(whole) + b"\n")
    return path
