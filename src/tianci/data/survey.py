"""The first look at all text, before anything is written: what is there, and what is there again.

It finds bad input early (nothing half-written is left behind), and it gives the numbers without which the
second pass cannot decide: how many documents there are, which ones are copies, which lines are boilerplate.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt

from tianci.data.documents import Document, Form, examine, read_documents
from tianci.data.repeats import DocumentHashes, FrequentLines, flagged

FEWEST_HELD, MOST_HELD = 20, 2000

Progress = Callable[[int], object]


@dataclass
class Survey:
    """What the second pass has to know; a bit per document and little more."""

    files: list[tuple[Path, Form]]
    field: str
    documents: int = 0
    characters: int = 0
    bytes: int = 0
    copies: npt.NDArray[np.uint8] = field(default_factory=lambda: np.empty(0, np.uint8))
    copy_count: int = 0
    repeated: dict[int, int] = field(default_factory=dict)  # hash of a line -> how often it came
    held_below: int = -1  # documents with a hash up to this one are held out

    def is_copy(self, number: int) -> bool:
        """Whether a document came before, by its number in the stream."""
        return self.copy_count > 0 and flagged(self.copies, number)


def digest(document: Document) -> tuple[bytes, int]:
    """A hash of a document's text that never changes, and its size in UTF-8."""
    data = "\n".join(document.lines).encode("utf-8", "surrogatepass")
    return hashlib.blake2b(data, digest_size=16).digest(), len(data)


def short(value: bytes) -> int:
    """The 8 bytes by which copies are found and held-out documents are chosen."""
    return int.from_bytes(value[:8], "little")


def documents_of(
    files: Iterable[tuple[Path, Form]], field: str, progress: Progress | None = None
) -> Iterator[Document]:
    """All documents of all files, in order."""
    for path, form in files:
        yield from read_documents(path, form, field, progress)


def survey(
    files: list[tuple[Path, Form]],
    field: str,
    *,
    held: float,
    repeated: int,
    progress: Progress | None = None,
) -> Survey:
    """Reads everything once; `held` is a share of the documents, `repeated` how often is too often."""
    result = Survey(files, field)
    lines = FrequentLines()
    with DocumentHashes() as hashes:
        for document in documents_of(files, field, progress):
            value, size = digest(document)
            hashes.add(short(value))
            lines.add(document.lines)
            result.characters += sum(map(len, document.lines))
            result.bytes += size
        result.documents = hashes.count
        result.copies = hashes.later_copies()
        result.copy_count = int(np.bitwise_count(result.copies).sum())
        result.repeated = {h: n for h, n in lines.at_least(repeated).items() if h != hash("")}
        count = held_count(hashes.count - result.copy_count, held)
        if count:
            result.held_below = int(hashes.smallest(count)[-1])
    return result


def held_count(documents: int, share: float) -> int:
    """How many different documents are held out: the share, but at least some and never too many."""
    if share <= 0 or documents < 2:
        return 0
    least = min(FEWEST_HELD, max(1, documents // 10))
    return min(max(round(share * documents), least), MOST_HELD)


def examine_all(
    paths: Iterable[Path], layout: str, borders: str, field: str
) -> list[tuple[Path, Form]]:
    """How each file is to be read."""
    return [(path, examine(path, layout, borders, field)) for path in paths]  # type: ignore[arg-type]
