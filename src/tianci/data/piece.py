"""The work per shard: one pure function from a bounded piece of text to bytes and statistics."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tianci.data import scripts
from tianci.data.corpus import BORDER, finished_shard, write_shard
from tianci.data.documents import Document
from tianci.data.encoder import Encoder
from tianci.data.survey import Content
from tianci.data.words import WordStarts
from tianci.text.tokenizer import Tokenizer

EXAMPLES = 5  # of each fault in each shard
EXCERPT = 60  # characters of an example
HISTOGRAM = 24  # bins: 1, 2-3, 4-7, ... tokens
SCRIPT_BATCH = 4096


@dataclass
class Piece:
    """What a worker gets: documents of one split, and the key that names this work for ever."""

    split: str
    number: int
    key: str = ""
    texts: list[bytes] = field(default_factory=list)
    # file, line, number of lines, whether they are paragraphs, and whether they are the file's
    places: list[tuple[str, int, int, bool, bool]] = field(default_factory=list)

    @property
    def name(self) -> str:
        return f"{self.split}-{self.number:05d}-{self.key[:8]}"

    def add(self, found: Content) -> None:
        """Takes in a document."""
        self.texts.append(found.text)
        self.places.append((found.file, found.line, found.length, found.free, found.rows))

    def unpack(self) -> list[Document]:
        """The documents, made again from their texts, which are let go."""
        documents = []
        # one by one, for a single rare character would make all of a joined text several times
        # as large
        for text, (file, line, length, free, rows) in zip(self.texts, self.places, strict=True):
            lines = text.decode("utf-8", "surrogatepass").split("\n") if length else []
            documents.append(Document(file, line, lines, free, rows))
        self.texts = []
        return documents


@dataclass(frozen=True)
class Rules:
    """What decides the bytes of a shard besides its text."""

    tokenizer: str  # hash of the tokenizer's file
    words: str
    unbroken: int

    def key(self, text: bytes) -> str:
        """A name for these rules applied to a text."""
        rules = json.dumps([2, self.tokenizer, self.words, self.unbroken]).encode()
        return hashlib.blake2b(rules + text, digest_size=16).hexdigest()


@dataclass
class Fault:
    """How often something odd was seen, and where for the first time."""

    count: int = 0
    examples: list[dict[str, Any]] = field(default_factory=list)

    def add(self, file: str, line: int, text: str) -> None:
        self.count += 1
        if len(self.examples) < EXAMPLES:
            cut = text if len(text) <= EXCERPT else text[:EXCERPT] + "…"
            self.examples.append({"file": file, "line": line, "text": cut})

    def table(self) -> dict[str, Any]:
        return {"count": self.count, "examples": self.examples}


def encode_piece(
    piece: Piece, encoder: Encoder, rules: Rules, words: WordStarts | None
) -> tuple[dict[str, bytes], dict[str, Any]]:
    """The files of a shard and what is to be known about it; depends on the arguments only."""
    documents = piece.unpack()
    sentences: list[str] = []
    counts: list[int] = []
    for document in documents:
        found = document.sentences()
        sentences += found
        counts.append(len(found))
    data, lengths = encoder.encode(sentences)
    tokens = np.frombuffer(data, encoder.dtype)
    of_document = np.repeat(np.arange(len(counts)), counts)
    kept = np.bincount(of_document[lengths > 0], minlength=len(counts))
    stored = lengths[lengths > 0]
    borders = np.concatenate([[0], np.cumsum(stored)])
    first_sentences = np.concatenate([[0], np.cumsum(kept[kept > 0])])
    files = {
        "tokens.bin": data,
        "sentences.bin": borders.astype(BORDER).tobytes(),
        "documents.bin": first_sentences.astype(BORDER).tobytes(),
    }
    if words is not None:
        files["words.bin"] = np.packbits(words.mark(sentences)).tobytes()
    unknown = encoder.tokenizer.unknown
    info = {
        "name": piece.name,
        "key": piece.key,
        "documents": int((kept > 0).sum()),
        "sentences": len(stored),
        "tokens": len(tokens),
        "unknown": 0 if unknown is None else int((tokens == unknown).sum()),
        "sentence_lengths": histogram(stored),
        "document_lengths": histogram(np.diff(borders[first_sentences])),
        "scripts": script_lines(documents),
        **_document_faults(documents, sentences, counts, kept, rules.unbroken),
    }
    return files, info


def histogram(lengths: npt.NDArray[np.int64]) -> list[int]:
    """How many lengths are 1, 2-3, 4-7, 8-15, ..."""
    bins = np.log2(np.maximum(lengths, 1)).astype(np.int64)
    counts: list[int] = np.bincount(bins, minlength=HISTOGRAM).tolist()
    return counts


def _document_faults(
    documents: list[Document],
    sentences: list[str],
    counts: list[int],
    kept: npt.NDArray[np.int64],
    unbroken: int,
) -> dict[str, Any]:
    empty, long = Fault(), Fault()
    sizes = np.fromiter(map(len, sentences), np.int64, len(sentences))
    ends = np.cumsum(counts)
    for at in np.flatnonzero(kept == 0).tolist():
        document = documents[at]
        empty.add(document.file, document.line, "".join(document.lines[:1]))
    too_long = np.flatnonzero(sizes >= unbroken)
    for at in dict.fromkeys(np.searchsorted(ends, too_long, "right").tolist()):
        document = documents[at]
        worst = max(document.sentences(), key=len)
        long.add(document.file, document.line, worst)
    return {"empty": empty.table(), "unbroken": long.table()}


def script_lines(documents: list[Document]) -> dict[str, Any]:
    """How many lines are in which script, with examples of all but Chinese and Latin."""
    found = {name: Fault() for name in scripts.NAMES}
    lines = [line for document in documents for line in document.lines]
    starts = np.cumsum([0, *(len(document.lines) for document in documents)])
    for start in range(0, len(lines), SCRIPT_BATCH):
        kinds = scripts.scripts_of(lines[start : start + SCRIPT_BATCH])
        for number, count in enumerate(np.bincount(kinds, minlength=len(scripts.NAMES)).tolist()):
            fault = found[scripts.NAMES[number]]
            room = EXAMPLES - len(fault.examples)
            if scripts.NAMES[number] not in scripts.USUAL and room > 0:
                for at in (start + np.flatnonzero(kinds == number)[:room]).tolist():
                    owner = int(np.searchsorted(starts, at, "right")) - 1
                    document = documents[owner]
                    # a paragraph may have been broken over several lines, a record stands on one
                    inside = at - int(starts[owner]) if document.rows else 0
                    fault.add(document.file, document.line + inside, lines[at])
                    fault.count -= 1
            fault.count += count
    return {name: fault.table() for name, fault in found.items() if fault.count}


class ShardMaker:
    """Encodes pieces and stores them; what an earlier run has stored is not made again."""

    def __init__(self, out: str, rules: Rules):
        self.out = Path(out)
        self.rules = rules
        tokenizer = Tokenizer.load(self.out / "tokenizer")
        self.encoder = Encoder(tokenizer)
        self.words = WordStarts(tokenizer) if rules.words == "jieba" else None

    def __call__(self, piece: Piece) -> Callable[[], dict[str, Any]]:
        """Stores the shard when called, and gives back what is to be known about it."""
        directory = self.out / piece.name
        if done := finished_shard(directory, piece.key):
            return lambda: done
        files, info = encode_piece(piece, self.encoder, self.rules, self.words)
        return partial(write_shard, directory, files, info)
