"""What can be wrong with labelled data, how much it matters, and what to do about it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from tianci.data.rows import Row

SEVERITIES = ("stops", "warning", "note")  # stops: results would mean nothing

EXAMPLES = 3  # places of a fault in a summary


class Fault(NamedTuple):
    """One kind of fault."""

    severity: str
    advice: str


FAULTS = {
    # rows that cannot be read
    "unreadable file": Fault("stops", "make the file again"),
    "broken UTF-8": Fault("stops", "convert the file, for example: iconv -f GB18030 -t UTF-8"),
    "not JSON": Fault("stops", "repair or remove the line; one JSON object per line"),
    "ragged row": Fault("stops", "give each row as many columns as the header"),
    "column twice": Fault("stops", "rename or remove one of the two columns"),
    "header again": Fault("stops", "remove the line; files were joined with their headers"),
    "missing column": Fault("stops", "name the column with --column OURS=YOURS, or add it"),
    "missing value": Fault("stops", "fill it in, or remove the row"),
    "wrong type": Fault("stops", "write the value in the form that the task reads"),
    "not a finite number": Fault("stops", "write a number, or remove the row"),
    "tags and words differ": Fault("stops", "give one tag per word"),
    "wrong entities": Fault("stops", "correct label, start and end (characters, from 0)"),
    # labels
    "one class only": Fault(
        "stops", "there is nothing to tell apart; add rows of another class, or mix the split anew"
    ),
    "label not in train": Fault(
        "warning", "it can never be predicted; correct it, add rows to train, or leave these out"
    ),
    "label spelled in two ways": Fault(
        "warning", "case, width or blanks are all that differs; write it in one way"
    ),
    "label is no number": Fault("warning", "the others are numbers; write one, or remove the row"),
    "number far off": Fault(
        "warning", "it lies far outside of the others and will decide the loss; look at it"
    ),
    "rare class": Fault("note", "too few to learn from; add rows, or join classes"),
    "two labels for one text": Fault("warning", "decide on one label, or remove the text"),
    # copies
    "most rows also in train": Fault(
        "stops", "the score would show memory, not skill; remove the copies from train"
    ),
    "also in train": Fault(
        "warning", "the score counts what was memorised; remove these texts from train"
    ),
    "also in train, with another label": Fault(
        "warning", "one of the labels is wrong; decide on one, and remove the text from train"
    ),
    "nearly also in train": Fault(
        "warning", "look at some pairs; remove from train what says the same"
    ),
    "also in dev": Fault("warning", "dev data choose the model; remove these texts from dev"),
    "also in dev, with another label": Fault(
        "warning", "one of the labels is wrong; decide on one"
    ),
    "nearly also in dev": Fault("note", "look at some pairs; remove from dev what says the same"),
    "swapped in train": Fault(
        "note",
        "the same two texts, the other way round; remove the pair from train, unless the "
        "order matters",
    ),
    "repeated row": Fault("note", "it counts several times; keep one, unless that is meant"),
    # texts
    "empty text": Fault(
        "warning", "there is nothing to read; remove the row, or look at the column"
    ),
    "empty beside the others": Fault("warning", "most rows have it; fill it in, or remove the row"),
    "replacement character": Fault(
        "note", "text was lost in an earlier conversion (U+FFFD); convert from the source again"
    ),
    "longer than the model reads": Fault(
        "note", "the rest is cut off; raise --length, shorten the text, or split it"
    ),
    # spans and tags
    "answer not in the passage": Fault(
        "warning", "it cannot be learned or found; correct the answer or the passage"
    ),
    "answer not at its place": Fault("warning", "correct answer_start (characters, from 0)"),
    "answer and no-answer": Fault(
        "warning", "a question has an answer or is impossible; correct one of the two"
    ),
    "I- without B-": Fault(
        "warning", "begin each entity with B- (files in IOB1: convert them to BIO)"
    ),
    "unknown tag prefix": Fault("warning", "write O, or B- or I- before the type"),
    "fewer than two choices": Fault("stops", "give at least two choices, or remove the row"),
    "same choice twice": Fault("warning", "only one of them can be right; correct one"),
    "label is no choice": Fault(
        "stops", "the label is the number of a choice from 0, or its letter"
    ),
}


@dataclass(frozen=True)
class Finding:
    """One place where something is wrong."""

    file: str
    line: int  # from 1 (in .json files the number of the question); 0: the file as a whole
    fault: str
    advice: str
    severity: str
    split: str
    detail: str = ""
    twin: str = ""  # of a copy: the place of the first row with that text
    unit: str = "line"

    def __str__(self) -> str:
        place = f"{self.file}, {self.unit} {self.line}" if self.line else self.file
        return f"{place}: {self.fault}" + (f" ({self.detail})" if self.detail else "")


class Group(NamedTuple):
    """All places of one fault in one split."""

    fault: str
    severity: str
    split: str
    places: list[Finding]

    @property
    def texts(self) -> int:
        """How many different texts are concerned: copies of one text count once."""
        return len({place.twin or (place.file, place.line) for place in self.places})


def found(fault: str, split: str, row: Row, detail: str = "", twin: Row | None = None) -> Finding:
    """A finding at a row."""
    kind = FAULTS[fault]
    place = twin.place if twin else ""
    return Finding(
        row.file, row.line, fault, kind.advice, kind.severity, split, detail, place, row.unit
    )


def ranked(findings: Sequence[Finding]) -> list[Finding]:
    """The most serious first, then by fault; the places of a fault in their order."""
    faults = list(FAULTS)
    return sorted(findings, key=lambda f: (SEVERITIES.index(f.severity), faults.index(f.fault)))


def grouped(findings: Sequence[Finding]) -> list[Group]:
    """The findings by fault and split, the most serious first."""
    groups: dict[tuple[str, str, str], Group] = {}
    for place in ranked(findings):
        key = (place.fault, place.severity, place.split)
        groups.setdefault(key, Group(*key, [])).places.append(place)
    return list(groups.values())


def summarise(findings: Sequence[Finding]) -> list[dict[str, Any]]:
    """One table per fault and split, the most serious first, with the first places."""
    return [
        {
            "fault": group.fault,
            "severity": group.severity,
            "split": group.split,
            "count": len(group.places),
            "texts": group.texts,
            "advice": group.places[0].advice,
            "examples": [
                {"file": place.file, "line": place.line, "detail": place.detail}
                for place in group.places[:EXAMPLES]
            ],
        }
        for group in grouped(findings)
    ]


def stops(findings: Sequence[Finding]) -> list[Finding]:
    """Those that make results meaningless."""
    return [finding for finding in findings if finding.severity == "stops"]
