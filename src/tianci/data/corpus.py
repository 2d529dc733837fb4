"""The token store: memory-mapped tokens with the borders of sentences and documents.

A corpus is a directory. `corpus.json` is written last, so a store without it is not finished. Each
shard is a directory with flat little-endian arrays and holds text of one split ("train" or "held"):

    tokens.bin     T token ids without special tokens, uint16 (uint32 for more than 65,536 entries)
    sentences.bin  S + 1 int32: sentence s is tokens[sentences[s] : sentences[s + 1]]
    documents.bin  D + 1 int32: document d is the sentences documents[d] to documents[d + 1]
    words.bin      one bit per token (first = highest): 1 where a word begins; only with --words
    shard.json     counts, checksums, and the key of the text and settings it was made from
"""

from __future__ import annotations

import bisect
import hashlib
from functools import cached_property
from itertools import accumulate, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tianci.data.store_record import check_record
from tianci.errors import UserError, unknown
from tianci.files import read_json, write_directory
from tianci.manifest import fault_of, inside, read_sealed, write_sealed

if TYPE_CHECKING:
    from tianci.text.tokenizer import Tokenizer

VERSION = 2  # 1 had no checksum of corpus.json and shard.json themselves
MANIFEST = "corpus.json"
SPLITS = ("train", "held")
BORDER = np.dtype("<i4")

Tokens = npt.NDArray[np.unsignedinteger[Any]]
Borders = npt.NDArray[np.int32]


def token_type(vocabulary: int) -> np.dtype[Any]:
    """Two bytes a token as long as they are enough."""
    return np.dtype("<u2" if vocabulary <= 1 << 16 else "<u4")


class Shard:
    """One piece of a split, mapped into memory when it is first touched."""

    def __init__(
        self, directory: Path, info: dict[str, Any], dtype: np.dtype[Any], vocabulary: int = 0
    ):
        self.directory = directory
        self.info = info
        self.document_count = int(info["documents"])
        self.sentence_count = int(info["sentences"])
        self.token_count = int(info["tokens"])
        self._dtype, self._vocabulary = dtype, vocabulary

    @cached_property
    def tokens(self) -> Tokens:
        """All token ids, in order."""
        tokens: Tokens = self._map("tokens.bin", self._dtype, self.token_count)
        if self._vocabulary and tokens.size and int(tokens.max()) >= self._vocabulary:
            raise UserError(
                f"{self.directory / 'tokens.bin'} is damaged: it holds {int(tokens.max())}, but "
                f"the vocabulary has {self._vocabulary:,} entries; prepare the text again"
            )
        return tokens

    @cached_property
    def sentences(self) -> Borders:
        """Where sentences start in `tokens`; one more value for the end."""
        return self._borders("sentences.bin", self.sentence_count, self.token_count)

    @cached_property
    def documents(self) -> Borders:
        """Where documents start in `sentences`; one more value for the end."""
        return self._borders("documents.bin", self.document_count, self.sentence_count)

    def word_starts(self, start: int, end: int) -> npt.NDArray[np.bool_] | None:
        """For tokens start to end: whether a word begins there; None when words are not stored."""
        if "words.bin" not in self.info["files"]:
            return None
        first = start // 8
        bits = np.unpackbits(self._words[first : (end + 7) // 8])
        return bits[start - first * 8 : end - first * 8].astype(np.bool_)

    def let_go(self) -> None:
        """Unmaps the files, for whoever reads many shards once; they are mapped again if needed."""
        for name in ("tokens", "sentences", "documents", "_words"):
            self.__dict__.pop(name, None)

    def document(self, number: int) -> list[Tokens]:
        """The sentences of one document."""
        first, last = self.documents[number], self.documents[number + 1]
        borders = self.sentences[first : last + 1].tolist()
        return [self.tokens[a:b] for a, b in pairwise(borders)]

    @cached_property
    def _words(self) -> npt.NDArray[np.uint8]:
        return self._map("words.bin", np.dtype("u1"), (self.token_count + 7) // 8)

    def _borders(self, name: str, count: int, end: int) -> Borders:
        """Borders from 0 to `end` that never go back: all reading rests on them."""
        borders: Borders = self._map(name, BORDER, count + 1)
        if borders[0] != 0 or borders[-1] != end or (borders[1:] <= borders[:-1]).any():
            raise UserError(
                f"{self.directory / name} is damaged: its numbers do not go up from 0 to {end:,}; "
                "prepare the text again"
            )
        return borders

    def _map(self, name: str, dtype: np.dtype[Any], count: int) -> npt.NDArray[Any]:
        if count == 0:  # an empty file cannot be mapped
            return np.empty(0, dtype)
        mapped = np.memmap(self.directory / name, dtype=dtype, mode="r", shape=(count,))
        return mapped.view(np.ndarray)  # memmap's own class makes every slice slower


class Split:
    """All shards of "train" or "held" as one row of documents."""

    def __init__(self, shards: list[Shard]):
        self.shards = shards
        self.documents = sum(shard.document_count for shard in shards)
        self.sentences = sum(shard.sentence_count for shard in shards)
        self.tokens = sum(shard.token_count for shard in shards)
        self._first = list(accumulate((shard.document_count for shard in shards), initial=0))

    def locate(self, number: int) -> tuple[Shard, int]:
        """The shard of a document and its number there."""
        if not 0 <= number < self.documents:
            raise IndexError(f"document {number} of {self.documents}")
        at = bisect.bisect_right(self._first, number) - 1
        return self.shards[at], number - self._first[at]

    def document(self, number: int) -> list[Tokens]:
        """The sentences of one document."""
        shard, local = self.locate(number)
        return shard.document(local)


class Corpus:
    """A finished token store; whoever is about to finish it passes what corpus.json will hold."""

    def __init__(self, directory: str | Path, info: dict[str, Any] | None = None):
        self.directory = Path(directory)
        self.info = read_manifest(self.directory) if info is None else info
        check_record(self.directory / MANIFEST, self.info)
        dtype = np.dtype(self.info["dtype"])
        self.splits = {
            name: Split([self._shard(shard, dtype) for shard in shards])
            for name, shards in self.info["splits"].items()
        }
        _allow_open_files(4 * sum(len(split.shards) for split in self.splits.values()))

    def split(self, name: str) -> Split:
        """The documents to learn from ("train") or to measure on ("held")."""
        if name not in self.splits:
            raise unknown("split", name, self.splits)
        return self.splits[name]

    def tokenizer(self) -> Tokenizer:
        """The tokenizer that made the ids, from the copy inside the store."""
        from tianci.text.tokenizer import Tokenizer

        if hash_of(self.directory / "tokenizer") != self.info["tokenizer"]:
            raise UserError(
                f"{self.directory / 'tokenizer'} is not the tokenizer that made this store: its "
                "files have changed; prepare the text again"
            )
        tokenizer = Tokenizer.load(self.directory / "tokenizer")
        if len(tokenizer) != self.info["vocabulary"]:
            raise UserError(
                f"{self.directory}: the tokenizer has {len(tokenizer):,} entries, but the store "
                f"was made with {self.info['vocabulary']:,}; prepare the text again"
            )
        return tokenizer

    @property
    def bytes(self) -> int:
        """How much there is to read."""
        return sum(
            int(about["bytes"])
            for split in self.splits.values()
            for shard in split.shards
            for about in shard.info["files"].values()
        )

    def check(self) -> None:
        """Reads everything once; refuses a store that is not as it was written.

        A flipped bit in a memory-mapped store would be learned in silence.
        """
        for split in self.splits.values():
            for shard in split.shards:
                if fault := damage(shard.directory, shard.info, content=True):
                    raise UserError(
                        f"{fault}; make it anew by the same tianci prepare, "
                        "which keeps the shards that are whole"
                    )

    def _shard(self, info: dict[str, Any], dtype: np.dtype[Any]) -> Shard:
        directory = self.directory / info["name"]
        if fault := damage(directory, info):
            raise UserError(f"{fault}; prepare the text again")
        return Shard(directory, info, dtype, self.info["vocabulary"])


def read_manifest(directory: Path) -> dict[str, Any]:
    """The content of corpus.json, or one sentence that says why there is none."""
    if not directory.is_dir():
        raise UserError(f"{directory}: no such directory; make it with tianci prepare")
    if not (directory / MANIFEST).is_file():
        started = any(directory.glob("*/shard.json"))
        reason = (
            "this corpus is not finished; run the same tianci prepare again and it goes on"
            if started
            else f"no {MANIFEST} here, so this is not a corpus; make one with tianci prepare"
        )
        raise UserError(f"{directory}: {reason}")
    info = read_json(directory / MANIFEST)
    if info.get("version") == 1 and "sha256" not in info:
        return info
    if info.get("version") != VERSION:
        raise UserError(
            f"{directory}: a corpus of version {info.get('version')!r:.40}, but this tianci reads "
            f"{VERSION}; prepare the text again"
        )
    return read_sealed(directory / MANIFEST)


def damage(directory: Path, info: dict[str, Any], content: bool = False) -> str | None:
    """What is wrong with the files of a shard, judged by their sizes or by their checksums."""
    for name, expected in info["files"].items():
        if fault := fault_of(directory / name, expected, content):
            return f"{directory / name} {fault}"
    return None


def hash_of(folder: Path) -> str:
    """One checksum of the files of a directory, by name and content."""
    total = hashlib.sha256()
    for name in sorted(inside(folder)):
        content = hashlib.sha256((folder / name).read_bytes()).digest()
        total.update(name.encode() + b"\0" + content)
    return total.hexdigest()


def write_shard(directory: Path, files: dict[str, bytes], info: dict[str, Any]) -> dict[str, Any]:
    """Writes a shard beside and renames it; gives back the content of its shard.json."""
    info["files"] = {
        name: {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
        for name, data in files.items()
    }
    with write_directory(directory) as beside:
        for name, data in files.items():
            (beside / name).write_bytes(data)
        write_sealed(beside / "shard.json", info)
    return info


def finished_shard(directory: Path, key: str) -> dict[str, Any] | None:
    """What an earlier run wrote about this shard, if it is whole and made from the same text."""
    if not (directory / "shard.json").is_file():
        return None
    try:
        info = read_sealed(directory / "shard.json")
    except UserError:  # damaged, or of an older version: it is made again
        return None
    return info if info.get("key") == key and not damage(directory, info, content=True) else None


def _allow_open_files(count: int) -> None:
    """Every memory map holds a file open; the usual limit of 1,024 is too low for large stores."""
    try:
        import resource
    except ImportError:  # not on Windows, which has no such limit
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = count + 256
    if soft != resource.RLIM_INFINITY and soft < wanted:
        allowed = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
