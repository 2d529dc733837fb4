"""The first look at all text, before anything is written: what is there, and what is there again.

It finds bad input early (nothing half-written is left behind), and it gives the numbers without
which the second pass cannot decide: how many documents there are, which are copies, which lines
come too often.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tianci.data.documents import Document, Source, read_documents
from tianci.data.repeats import DocumentHashes, FrequentLines, first_flags, flagged

FEWEST_HELD, MOST_HELD = 20, 2000
EXAMPLES = 5
MOST_KEPT = 64_000_000  # bytes of documents in memory; of a larger text all is read twice
OVERHEAD = 250  # bytes for each of them besides its text

Progress = Callable[[int], object]


class Content(NamedTuple):
    """A document in few bytes: where it was found, its text in UTF-8 and a hash of it."""

    file: str
    line: int
    length: int  # in lines
    free: bool
    rows: bool  # as in Document
    text: bytes
    value: bytes  # never changes for the same text

    @property
    def short(self) -> int:
        """The 8 bytes by which copies are found and held-out documents are chosen."""
        return int.from_bytes(self.value[:8], "little")

    def lines(self) -> list[str]:
        return self.text.decode("utf-8", "surrogatepass").split("\n") if self.length else []


def content(document: Document) -> Content:
    """What is kept of a document."""
    text = "\n".join(document.lines).encode("utf-8", "surrogatepass")
    value = hashlib.blake2b(text, digest_size=16).digest()
    d = document
    return Content(d.file, d.line, len(d.lines), d.free, d.rows, text, value)


@dataclass
class Survey:
    """What the second pass has to know; a bit per document and little more."""

    sources: list[Source]
    field: str
    documents: int = 0
    characters: int = 0
    bytes: int = 0
    copies: npt.NDArray[np.uint8] = dataclasses.field(default_factory=lambda: np.empty(0, np.uint8))
    copy_count: int = 0
    copied: frozenset[int] = frozenset()  # hashes of the first few copies, to show the originals
    # hash of a line -> how often it came
    repeated: dict[int, int] = dataclasses.field(default_factory=dict)
    held_below: int = -1  # documents with a hash up to this one are held out
    kept: deque[Content] | None = dataclasses.field(default_factory=deque)  # if the text is short

    def is_copy(self, number: int) -> bool:
        """Whether a document came before, by its number in the stream."""
        return self.copy_count > 0 and flagged(self.copies, number)

    def again(self) -> Iterator[Content]:
        """All documents for the second time, from memory or from their files."""
        if self.kept is None:
            yield from map(content, documents_of(self.sources, self.field))
        while self.kept:
            yield self.kept.popleft()


def documents_of(
    sources: Iterable[Source], field: str, progress: Progress | None = None
) -> Iterator[Document]:
    """All documents of all files, in order."""
    for source in sources:
        yield from read_documents(source, field, progress)


def survey(
    sources: list[Source],
    field: str,
    *,
    held: float,
    repeated: int,
    progress: Progress | None = None,
) -> Survey:
    """Reads everything once; `held` is a share of documents, `repeated` how often is too often."""
    result = Survey(sources, field)
    lines = FrequentLines()
    with DocumentHashes() as hashes:
        for document in documents_of(sources, field, progress):
            found = content(document)
            hashes.add(found.short)
            lines.add(document.lines)
            result.characters += sum(map(len, document.lines))
            result.bytes += len(found.text)
            if result.kept is not None:
                result.kept.append(found)
                if result.bytes + OVERHEAD * hashes.count > MOST_KEPT:
                    result.kept = None
        result.documents = hashes.count
        result.copies = hashes.later_copies()
        result.copy_count = int(np.bitwise_count(result.copies).sum())
        result.copied = frozenset(hashes.at(first_flags(result.copies, EXAMPLES)))
        result.repeated = {h: n for h, n in lines.at_least(repeated).items() if h != hash("")}
        count = held_count(hashes.count - result.copy_count, held)
        if count:
            result.held_below = int(hashes.smallest(count)[-1])
    return result


def held_count(documents: int, share: float) -> int:
    """How many different documents are held out: the share, but some and never too many."""
    if share <= 0 or documents < 2:
        return 0
    least = min(FEWEST_HELD, max(1, documents // 10))
    return min(max(round(share * documents), least), MOST_HELD)
