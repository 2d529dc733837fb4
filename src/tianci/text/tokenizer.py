"""Text to token ids and back, with offsets into the text as it was given.

The engine is the `tokenizers` library. It is only asked for encodings without special tokens,
padding or truncation; the template and the cutting are done here, because the engine keeps these
as mutable state that threads would share.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tokenizers

from tianci.errors import UserError, unknown
from tianci.text import formats, long_words
from tianci.text.clean import NUMBER_TOKEN
from tianci.text.offsets import LONE_SURROGATE, Surface

CUTS = ("longest", "first", "second")
LONGEST_TEXT = 1 << 25  # characters of one text, as many as a line of a file may have


@dataclass(frozen=True, slots=True)
class Encoded:
    """One text or pair as tokens; offsets of text 1 count in the second text."""

    ids: list[int]
    tokens: list[str]
    offsets: list[tuple[int, int]]
    segments: list[int]
    special: list[
        bool
    ]  # [CLS] and [SEP] of the template; a [MASK] typed in the text is not special
    words: list[int | None]  # which word of its text a token belongs to
    texts: list[int]  # which of the two texts: RoBERTa's pairs have one segment

    def __len__(self) -> int:
        return len(self.ids)

    def surfaces(self, text: str, pair: str = "") -> list[str]:
        """What each token looks like in the text; empty for the template's tokens."""
        both = (text, pair)
        return [
            both[number][start:end]
            for (start, end), number in zip(self.offsets, self.texts, strict=True)
        ]


@dataclass(frozen=True, slots=True)
class Template:
    """Special tokens around one text or a pair: (id, segment) before, between and after."""

    before: tuple[tuple[int, int], ...]
    between: tuple[tuple[int, int], ...]
    after: tuple[tuple[int, int], ...]
    segments: tuple[int, int]  # of the first and of the second text

    @property
    def around(self) -> tuple[tuple[int, int], ...]:
        return (*self.before, *self.between, *self.after)

    @property
    def extra(self) -> int:
        return len(self.around)


class Tokenizer:
    """A vocabulary with its rules; safe to use from several threads."""

    def __init__(
        self,
        engine: tokenizers.Tokenizer,
        kind: str | None = None,
        config: dict[str, Any] | None = None,
    ):
        engine.no_padding()  # a tokenizer.json may bring both, and would change results silently
        engine.no_truncation()
        self.engine = engine
        self.config = dict(config or {})
        self.kind = kind or formats.kind_of(engine, self.config)
        self._pairs = isinstance(engine.model, tokenizers.models.BPE)
        names = formats.special_names(engine, self.config)
        self.pad = names.get("pad_token")
        self.unknown = names.get("unk_token")
        self.cls = names.get("cls_token")
        self.sep = names.get("sep_token")
        self.mask = names.get("mask_token")
        self.number = engine.token_to_id(NUMBER_TOKEN)
        added = engine.get_added_tokens_decoder()
        self.special_ids = frozenset(
            [id for id, token in added.items() if token.special] + list(names.values())
        )
        try:
            self._single, self._pair = _templates(engine)
        except BaseException as error:
            raise formats.fault_of(error) from error
        self._surface = Surface(engine)
        self._names = _names(engine)
        for id, _ in (*self._single.around, *self._pair.around):
            self.token(id)  # a template may name any number
        self._cuts = _keep_begin

    def __len__(self) -> int:
        return int(self.engine.get_vocab_size(with_added_tokens=True))

    @classmethod
    def load(cls, directory: str | Path) -> Tokenizer:
        """The tokenizer in a directory: tokenizer.json, vocab.txt, or vocab.json and merges.txt."""
        engine, config = formats.read(Path(directory))
        return cls(engine, config=config)

    def save(self, directory: str | Path) -> None:
        """Write the files that transformers and `load` read into an existing directory."""
        formats.write(self.engine, self.kind, self.config, Path(directory))

    def id(self, token: str) -> int | None:
        found = self.engine.token_to_id(token)
        return None if found is None else int(found)

    def token(self, id: int) -> str:
        if id not in self._names:
            raise UserError(f"token id {id} is not in the vocabulary of {len(self):,} entries")
        return self._names[id]

    def keeping_ends(self) -> Tokenizer:
        """The same, but `ids` and `inputs` cut texts that are too long at their beginning."""
        other = copy.copy(self)
        other._cuts = _keep_end
        return other

    def ids(
        self,
        texts: Sequence[str],
        pairs: Sequence[str] | None = None,
        *,
        limit: int | None = None,
        cut: str = "longest",
        special: bool = True,
    ) -> list[list[int]]:
        """Ids only: the fast way."""
        if pairs is None:
            firsts = self._run(texts, fast=True)
            template = self._single if special else NOTHING
            room = _room(limit, template)
            before = [id for id, _ in template.before]
            after = [id for id, _ in template.after]
            if room is None:
                return [[*before, *encoding.ids, *after] for encoding in firsts]
            return [[*before, *self._cuts(encoding.ids, room), *after] for encoding in firsts]
        return [
            first for first, _ in self.inputs(texts, pairs, limit=limit, cut=cut, special=special)
        ]

    def inputs(
        self,
        texts: Sequence[str],
        pairs: Sequence[str] | None = None,
        *,
        limit: int | None = None,
        cut: str = "longest",
        special: bool = True,
    ) -> list[tuple[list[int], list[int]]]:
        """Ids and segments: all that a model reads."""
        if pairs is None:
            segment = self._single.segments[0]
            single = self.ids(texts, limit=limit, special=special)
            return [(ids, [segment] * len(ids)) for ids in single]
        _check_pairs(texts, pairs, cut)
        room = _room(limit, self._pair if special else NOTHING)
        both = []
        for first, second in zip(
            self._run(texts, fast=True), self._run(pairs, fast=True), strict=True
        ):
            keep_first, keep_second = _keep(len(first), len(second), room, cut)
            kept = self._cuts(first.ids, keep_first), self._cuts(second.ids, keep_second)
            both.append(self.wrap(*kept, special))
        return both

    def wrap(
        self, first: list[int], second: list[int] | None = None, special: bool = True
    ) -> tuple[list[int], list[int]]:
        """Ids and segments of one or two lists of ids with the template's special tokens."""
        template = self._single if second is None else self._pair
        if not special:
            template = NOTHING
        ids, segments = [], []
        between = template.between if second is not None else ()
        for content, number, around in (
            (first, 0, (template.before, between)),
            (second or [], 1, ((), template.after)),
        ):
            for id, segment in around[0]:
                ids.append(id)
                segments.append(segment)
            ids += content
            segments += [template.segments[number]] * len(content)
            for id, segment in around[1]:
                ids.append(id)
                segments.append(segment)
        return ids, segments

    def room(self, limit: int, pair: bool = False) -> int:
        """How many tokens of text fit beside the template's special tokens."""
        return _room(limit, self._pair if pair else self._single) or 0

    def encode(
        self,
        texts: Sequence[str],
        pairs: Sequence[str] | None = None,
        *,
        limit: int | None = None,
        cut: str = "longest",
        special: bool = True,
    ) -> list[Encoded]:
        """Tokens with offsets, segments and words; `limit` counts special tokens too."""
        firsts = self._run(texts)
        if pairs is None:
            template = self._single if special else NOTHING
            room = _room(limit, template)
            return [
                self._assemble(template, [(text, encoding, room)])
                for text, encoding in zip(texts, firsts, strict=True)
            ]
        _check_pairs(texts, pairs, cut)
        template = self._pair if special else NOTHING
        room = _room(limit, template)
        both = []
        for text, pair, first, second in zip(texts, pairs, firsts, self._run(pairs), strict=True):
            keep_first, keep_second = _keep(len(first), len(second), room, cut)
            both.append(
                self._assemble(template, [(text, first, keep_first), (pair, second, keep_second)])
            )
        return both

    def decode(self, ids: Sequence[int], skip_special: bool = True) -> str:
        """Readable text; exact only for byte-bpe, because the other kinds clean the text first."""
        text = str(self.engine.decode(list(ids), skip_special_tokens=skip_special))
        if self.number is None:
            return text
        # the engine shows it as the cleaning leaves it: #num#
        return text.replace(str(self.engine.id_to_token(self.number)), NUMBER_TOKEN)

    def numbers(self, encoded: Encoded, text: str, pair: str = "") -> list[str]:
        """The numbers that became #NUM#, as they were written, in order."""
        surfaces = encoded.surfaces(text, pair)
        return [
            surface for id, surface in zip(encoded.ids, surfaces, strict=True) if id == self.number
        ]

    def restore(self, ids: Sequence[int], numbers: Iterable[str]) -> str:
        """`decode` with the remembered numbers put back in place of #NUM#."""
        numbers = iter(numbers)
        text = self.decode(
            [id for id in ids if id == self.number or id not in self.special_ids], False
        )
        return re.sub(re.escape(NUMBER_TOKEN), lambda found: next(numbers, found.group()), text)

    def _run(self, texts: Sequence[str], fast: bool = False) -> list[tokenizers.Encoding]:
        if (longest := max(map(len, texts), default=0)) > LONGEST_TEXT:
            raise UserError(
                f"a text of {longest:,} characters; at most {LONGEST_TEXT:,} are read at once, so "
                "break it into lines"
            )
        if self._pairs:
            long_words.check(texts)
        batch = self.engine.encode_batch_fast if fast else self.engine.encode_batch
        try:
            return list(batch(texts, add_special_tokens=False))
        except (UnicodeEncodeError, TypeError):
            # Half a surrogate pair is no character; the replacement character keeps all positions.
            whole = [LONE_SURROGATE.sub("\ufffd", text) for text in texts]
            return list(batch(whole, add_special_tokens=False))
        except BaseException as error:
            raise formats.fault_of(error) from error

    def _assemble(
        self, template: Template, parts: list[tuple[str, tokenizers.Encoding, int | None]]
    ) -> Encoded:
        result = Encoded([], [], [], [], [], [], [])
        self._add_special(result, template.before)
        for number, (text, encoding, keep) in enumerate(parts):
            if number:
                self._add_special(result, template.between)
            ids = encoding.ids[:keep]
            try:
                # the engine shows #num# and unknown text
                tokens = [self._names[id] for id in ids]
            except KeyError as missing:
                raise UserError(
                    f"this tokenizer gives the id {missing}, which its vocabulary does not have"
                ) from None
            result.ids.extend(ids)
            result.tokens.extend(tokens)
            result.offsets.extend(self._surface.correct(text, tokens, encoding.offsets[:keep]))
            result.words.extend(encoding.word_ids[:keep])
            result.segments.extend([template.segments[number]] * len(ids))
            result.texts.extend([number] * len(ids))
            result.special.extend([False] * len(ids))
        self._add_special(result, template.after)
        return result

    def _add_special(self, result: Encoded, tokens: tuple[tuple[int, int], ...]) -> None:
        for id, segment in tokens:
            result.ids.append(id)
            result.tokens.append(self._names[id])
            result.offsets.append((0, 0))
            result.words.append(None)
            result.segments.append(segment)
            result.texts.append(0)
            result.special.append(True)


NOTHING = Template((), (), (), (0, 1))


def _names(engine: tokenizers.Tokenizer) -> dict[int, str]:
    """Id to token. A piece that is listed twice has two ids, but only one in get_vocab."""
    names = {id: token for token, id in engine.get_vocab().items()}
    if len(names) < engine.get_vocab_size():
        for id in range(engine.get_vocab_size()):
            if id not in names and (token := engine.id_to_token(id)) is not None:
                names[id] = token
    return names


def _templates(engine: tokenizers.Tokenizer) -> tuple[Template, Template]:
    """What the post-processor adds, found by watching it work: every kind is obeyed."""
    for probe in ("a", "的", "1", ".", *engine.get_vocab()):
        if engine.encode(probe, add_special_tokens=False).ids:
            break
    else:
        return NOTHING, NOTHING
    found = []
    for encoding in (engine.encode(probe), engine.encode(probe, probe)):
        places: dict[int | None, list[tuple[int, int]]] = {None: [], 0: [], 1: []}
        segments = {0: 0, 1: 1}
        seen: int | None = None
        for id, segment, sequence in zip(
            encoding.ids, encoding.type_ids, encoding.sequence_ids, strict=True
        ):
            if sequence is None:
                places[seen].append((id, segment))
            else:
                seen = sequence
                segments[sequence] = segment
        after, between = (places[0], []) if encoding.n_sequences == 1 else (places[1], places[0])
        found.append(
            Template(tuple(places[None]), tuple(between), tuple(after), (segments[0], segments[1]))
        )
    return found[0], found[1]


def _room(limit: int | None, template: Template) -> int | None:
    if limit is None:
        return None
    if limit < template.extra:
        raise UserError(
            f"a limit of {limit} tokens leaves no room for the {template.extra} special tokens; "
            f"use at least {template.extra + 1}"
        )
    return limit - template.extra


def _keep_begin(ids: list[int], count: int) -> list[int]:
    return ids[:count]


def _keep_end(ids: list[int], count: int) -> list[int]:
    return ids[max(0, len(ids) - count) :]


def _check_pairs(texts: Sequence[str], pairs: Sequence[str], cut: str) -> None:
    if cut not in CUTS:
        raise unknown("way to cut", cut, CUTS)
    if len(texts) != len(pairs):
        raise UserError(f"{len(texts)} first texts but {len(pairs)} second texts")


def _keep(first: int, second: int, room: int | None, cut: str) -> tuple[int, int]:
    """How many tokens stay of each text; the same rule as the engine's own truncation."""
    if room is None or first + second <= room:
        return first, second
    if cut == "longest":
        short = min(first, second)
        if 2 * short <= room:  # only the longer text has to give
            return (short, room - short) if first <= second else (room - short, short)
        half, rest = divmod(room, 2)
        return (half + rest, half) if first > second else (half, half + rest)
    whole, name = (second, "second") if cut == "first" else (first, "first")
    if whole >= room:
        raise UserError(
            f"the {name} text alone has {whole} tokens, but only {room} fit; "
            f"use cut=longest or a larger limit"
        )
    return (room - whole, whole) if cut == "first" else (whole, room - whole)
