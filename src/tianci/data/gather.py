"""The second pass: documents in order become pieces of work, each for one split."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tianci.data.documents import Document
from tianci.data.piece import EXAMPLES, Fault, Piece, Rules
from tianci.data.survey import Content, Survey, content

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

        for number, found in enumerate(self.survey.again()):
            if self._is_dropped(number, found):
                continue
            split = "held" if found.short <= self.survey.held_below else "train"
            document = self._without_repeats(found) if self.survey.repeated else found
            pieces[split].add(document)
            place = f"{document.file}\0{document.line}\0{document.free:d}\0"
            keys[split] += document.value + place.encode("utf-8", "surrogateescape")
            sizes[split] += len(document.text)
            # many documents of a few characters weigh by their number
            if sizes[split] + 200 * len(pieces[split].places) >= self.size:
                yield hand_out(split)
        for split in made:
            if pieces[split].places:
                yield hand_out(split)

    def _is_dropped(self, number: int, found: Content) -> bool:
        """Whether a document is an unwanted copy; notes copies and where their originals are."""
        code = found.short
        if not found.length or not self.survey.is_copy(number):
            if code in self.survey.copied:
                self._originals[code] = f"{found.file}, line {found.line}"
            return False
        self.copies.add(found.file, found.line, found.lines()[0])
        if self.copies.count <= EXAMPLES:
            self.copies.examples[-1]["copy_of"] = self._originals.get(code, "")
        return self.dedupe

    def _without_repeats(self, found: Content) -> Content:
        """Notes lines that come too often; empties all but the first when they are not wanted."""
        lines = found.lines()
        changed = False
        for at, line in enumerate(lines):
            code = hash(line)
            if code not in self.survey.repeated:
                continue
            self.repeat_count += 1
            times = self.survey.repeated[code]
            if code not in self._seen:
                self._seen.add(code)
                if times >= self._shown:
                    fault = Fault()
                    fault.add(found.file, found.line + (at if found.rows else 0), line)
                    self.repeats[code] = {**fault.examples[0], "times": times}
            elif self.dedupe:
                lines[at] = ""  # not removed, so that line numbers stay right
                changed = True
        if not changed:
            return found
        return content(Document(found.file, found.line, lines, found.free, found.rows))
