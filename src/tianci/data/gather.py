"""The second pass: documents in order become pieces of work, each for one split."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tianci.data.documents import Document
from tianci.data.piece import EXAMPLES, Fault, Piece, Rules
from tianci.data.survey import Survey, digest, documents_of, short

# Bytes of text per shard: some 50 shards, so that all cores have work to the end, but neither tiny
# ones nor such as do not fit into memory beside each other.
FEWEST, MOST, SHARDS = 400_000, 12_000_000, 48


class Gather:
    """Sorts documents into pieces, and sees copies and repeated lines on the way.

    All is decided here, in the order of the text, so that the number of workers cannot matter.
    """

    def __init__(self, survey: Survey, rules: Rules, dedupe: bool):
        self.survey = survey
        self.rules = rules
        self.dedupe = dedupe
        self.size = min(max(survey.bytes // SHARDS, FEWEST), MOST)
        self.copies = Fault()
        self.repeats: dict[int, dict[str, Any]] = {}  # by hash, the most frequent lines
        self.repeat_count = 0
        self.bytes: list[int] = []  # text in each piece, in order
        self._originals: dict[int, str] = {}
        self._seen: set[int] = set()
        often = sorted(survey.repeated.values(), reverse=True)
        self._shown = often[min(EXAMPLES, len(often)) - 1] if often else 0

    def pieces(self) -> Iterator[Piece]:
        """All work, bounded in size, the same for the same text and rules."""
        made = {"train": 0, "held": 0}
        pieces = {split: Piece(split, 0) for split in made}
        keys = {split: bytearray() for split in made}
        sizes = dict.fromkeys(made, 0)

        def hand_out(split: str) -> Piece:
            piece = pieces[split]
            piece.key = self.rules.key(bytes(keys[split]))
            self.bytes.append(sizes[split])
            made[split] += 1
            pieces[split], keys[split] = Piece(split, made[split]), bytearray()
            sizes[split] = 0
            return piece

        for number, document in enumerate(documents_of(self.survey.sources, self.survey.field)):
            value, text = digest(document)
            code = short(value)
            if self._is_dropped(number, code, document):
                continue
            if self.survey.repeated and self._without_repeats(document):
                value, text = digest(document)
            split = "held" if code <= self.survey.held_below else "train"
            pieces[split].add(document, text)
            place = f"{document.file}\0{document.line}\0{document.free:d}\0"
            keys[split] += value + place.encode("utf-8", "surrogateescape")
            sizes[split] += len(text)
            # many documents of a few characters weigh by their number
            if sizes[split] + 200 * len(pieces[split].places) >= self.size:
                yield hand_out(split)
        for split in made:
            if pieces[split].places:
                yield hand_out(split)

    def _is_dropped(self, number: int, code: int, document: Document) -> bool:
        """Whether a document is an unwanted copy; notes copies and where their originals are."""
        if not document.lines or not self.survey.is_copy(number):
            if code in self.survey.copied:
                self._originals[code] = f"{document.file}, line {document.line}"
            return False
        self.copies.add(document.file, document.line, document.lines[0])
        if self.copies.count <= EXAMPLES:
            self.copies.examples[-1]["copy_of"] = self._originals.get(code, "")
        return self.dedupe

    def _without_repeats(self, document: Document) -> bool:
        """Notes lines that come too often; empties all but the first when they are not wanted."""
        changed = False
        for at, line in enumerate(document.lines):
            code = hash(line)
            if code not in self.survey.repeated:
                continue
            self.repeat_count += 1
            times = self.survey.repeated[code]
            if code not in self._seen:
                self._seen.add(code)
                if times >= self._shown:
                    fault = Fault()
                    fault.add(document.file, document.line + (0 if document.free else at), line)
                    self.repeats[code] = {**fault.examples[0], "times": times}
            elif self.dedupe:
                document.lines[at] = ""  # not removed, so that line numbers stay right
                changed = True
        return changed
