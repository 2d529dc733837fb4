"""From a token store to batches of pre-training examples: shuffled, cut, masked, packed,
repeatable.

Documents are visited in a random order that depends on (seed, epoch) only. A *pool* is the
examples of the next so many documents; it is built in one go, masked in one go, shuffled and cut
into batches. The whole position in the data is therefore (epoch, first document of the pool, batch
in the pool), and going on from there gives the same batches, bit for bit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from tianci.batch import Batch
from tianci.data import end_to_end
from tianci.data.store import Store
from tianci.errors import UserError
from tianci.goals.base import Joint
from tianci.goals.laying import Laying
from tianci.goals.objectives.masked import Masked
from tianci.goals.objectives.segments import (
    Example,
    Pairing,
    Targets,
    whole,
)
from tianci.text.tokenizer import Tokenizer
from tianci.train.joined import JoinedStore
from tianci.train.laid import LaidPool
from tianci.train.pool import Pool
from tianci.train.word_borders import FREE as FIXED
from tianci.train.word_borders import Flags as Flags
from tianci.train.word_borders import Ids as Ids
from tianci.train.word_borders import Words as Words


@dataclass(frozen=True)
class Position:
    """Where in the data training stands."""

    epoch: int = 0
    document: int = 0  # in the order of this epoch: where the current pool begins
    batch: int = 0  # how many batches of the pool were used
    used: float = 0.0  # and how many of its documents that makes
    before: float = 0.0  # epochs that went before, with sequences of another length


@dataclass(frozen=True)
class Recipe:
    """All that decides what examples look like."""

    goal: Joint
    length: int  # tokens of a full sequence, special ones included
    short: float  # share of sequences that are shorter on purpose
    batch_tokens: int
    seed: int
    packing: Literal["document", "full"] = "document"

    @property
    def paired(self) -> Pairing | None:
        found: Pairing | None = self.goal.find(Pairing)
        return found

    @property
    def laying(self) -> Laying | None:
        found: Laying | None = self.goal.find(Laying)
        return found

    @property
    def masked(self) -> Masked | None:
        found: Masked | None = self.goal.find(Masked)
        return found


AnyPool = Pool | LaidPool


class Examples:
    """The batches of a store, in a repeatable order, from any position."""

    def __init__(self, store: Store, tokenizer: Tokenizer, recipe: Recipe):
        if store.count() == 0:
            raise UserError("the corpus has no documents")
        if recipe.laying is None:
            self.cls = _required(tokenizer.cls, "[CLS]", recipe)
            self.sep = _required(tokenizer.sep, "[SEP]", recipe)
        else:
            self.marks = recipe.laying.marks(tokenizer)
            self.cls, self.sep = self.marks.begin, self.marks.end
        self.mask = _required(tokenizer.mask, "[MASK]", recipe) if recipe.masked else -1
        room = recipe.length - (3 if recipe.paired else 2)
        if room < 4:
            raise UserError(
                f"a length of {recipe.length} tokens is too short for {recipe.goal.name}"
            )
        if recipe.packing == "full":
            if recipe.paired:
                raise UserError(
                    f"packing full fills sequences across documents, which {recipe.paired.name} "
                    "has to keep apart; use masked alone, or packing document"
                )
            # long enough that the unfilled last sequence of each does not count
            store = JoinedStore(store, self.sep, tokens=64 * recipe.length)
        self.store, self.tokenizer, self.recipe, self.room = store, tokenizer, recipe, room
        self.words = Words.of(tokenizer)
        # a text may contain "[SEP]" too, and the tokenizer obeys
        fixed = [i for i in (self.cls, self.sep, self.mask, tokenizer.pad) if i is not None]
        self.kinds = self.words.table.copy()  # one look-up for each token, not two
        self.kinds[[i for i in fixed if i >= 0]] |= FIXED
        self.ordinary = np.array(
            [i for i in range(len(tokenizer)) if i not in tokenizer.special_ids]
        )
        if not len(self.ordinary):
            raise UserError(
                "the vocabulary has special tokens only; learn one from this text with tianci "
                "vocab, and prepare again"
            )
        # enough batches in a pool for a good shuffle, few enough to be built in a moment
        self.pool_tokens = max(32 * recipe.batch_tokens, 1 << 18)

    def is_fixed(self, ids: NDArray[Any]) -> Flags:
        """Whether tokens are such that stand around text and are never to be guessed."""
        fixed: Flags = self.kinds[ids] >= FIXED
        return fixed

    def draws(self, position: Position) -> Iterator[tuple[AnyPool, Ids, Position]]:
        """Endlessly, from a position on: a pool, the examples of a batch, the position after it."""
        epoch, document, before = position.epoch, position.document, position.before
        used, started_inside = position.batch, document > 0 or position.batch > 0
        while True:
            order = self.order(epoch)
            produced = False
            while document < len(order):
                pool, after = self.pool(epoch, document, order)
                plan = pool.plan(self.recipe.batch_tokens, self.rng("plan", epoch, document))
                if isinstance(pool, Pool) and plan:
                    pool, plan = pool.arranged(plan)
                for number in range(used, len(plan)):
                    # a small corpus is one pool: without the share of it that was used, the
                    # rate would stand still for an epoch
                    share = (after - document) * (number + 1) / len(plan)
                    here = Position(epoch, document, number + 1, share, before)
                    if number + 1 == len(plan):
                        here = Position(epoch, after, before=before)
                    produced = True
                    yield pool, plan[number], here
                document, used = after, 0
            if not produced and not started_inside:
                raise UserError("the corpus is too small: it gives no single training example")
            epoch, document, started_inside = epoch + 1, 0, False

    def done(self, position: Position) -> float:
        """How many epochs lie before a position."""
        place = (position.document + position.used) / self.store.count()
        return position.before + position.epoch + place

    def fixed(self, tokens: int) -> list[Batch]:
        """The first batches, up to so many tokens: for evaluation, always the same."""
        found: list[Batch] = []
        for pool, numbers in self.once(tokens):
            found.append(pool.batch(numbers))
        return found

    def once(self, tokens: int) -> Iterator[tuple[AnyPool, Ids]]:
        """The first draws, up to so many tokens, never more than one epoch."""
        for pool, numbers, position in self.draws(Position()):
            if position.epoch > 0:
                break
            yield pool, numbers
            tokens -= int(pool.lengths[numbers].sum())
            if tokens <= 0 or position.document >= self.store.count():
                break

    def rng(self, *key: str | int) -> np.random.Generator:
        """A generator that depends on nothing but the seed and the key."""
        words = [hash_word(part) if isinstance(part, str) else part for part in key]
        return np.random.default_rng([self.recipe.seed, *words])

    def drawn(self, epoch: int) -> int:
        """The epoch whose dice decide: with static masks always the first, so that pools repeat."""
        return 0 if self.recipe.masked is not None and self.recipe.masked.static else epoch

    def order(self, epoch: int) -> Ids:
        """The documents in the order of an epoch."""
        order: Ids = self.rng("order", self.drawn(epoch)).permutation(self.store.count())
        return order

    def pool(self, epoch: int, document: int, order: Ids) -> tuple[AnyPool, int]:
        """The examples of the next documents, and where the pool after it begins."""
        epoch = self.drawn(epoch)
        rng = self.rng("cut", epoch, document)  # making one takes as long as cutting a document
        dice = self.rng("mask", epoch, document)
        if self.recipe.laying is None and self.recipe.paired is None:
            spans, place = self.single(document, order, rng)
            return self.templated(spans, np.zeros(len(spans), np.int64), dice), place
        examples: list[Example] = []
        tokens, place = 0, document
        cut = self.cutting(rng)
        while place < len(order) and tokens < self.pool_tokens:
            found = list(cut(int(order[place])))
            examples += found
            tokens += sum(example.tokens for example in found)
            place += 1
        return self.assemble(examples, dice), place

    def single(self, document: int, order: Ids, rng: np.random.Generator) -> tuple[Ids, int]:
        """Examples of one segment as (E, 4) spans, and where the pool after them begins.

        All documents of a pool at once: one by one they would take longer than all the rest.
        """
        borders, counts, place = self.next_documents(document, order)
        behind = np.cumsum(counts)
        firsts, lasts = borders[behind - counts], borders[behind - 1]
        sizes = lasts - firsts
        laid = end_to_end.begins(sizes)  # where a document begins when they lie end to end
        targets = Targets(self.room, self.recipe.short, rng)
        starts = whole(borders + np.repeat(laid - firsts, counts), laid, targets)
        shift = (firsts - laid)[np.searchsorted(laid, starts, side="right") - 1]
        spans = np.zeros((len(starts), 4), np.int64)
        spans[:, 0] = starts + shift
        spans[:, 1] = np.append(starts[1:], sizes.sum()) + shift
        if isinstance(self.store, JoinedStore):
            spans = self.store.trimmed(spans)
        return spans, place

    def next_documents(self, document: int, order: Ids) -> tuple[Ids, Ids, int]:
        """The sentences of the next documents, as many as a pool has tokens for, end to end; how
        many borders each has; and the document behind them."""
        found: list[tuple[Ids, Ids]] = []
        place, missing, count = document, self.pool_tokens, 64
        while place < len(order) and missing > 0:
            some = order[place : place + count]
            borders, counts = self.store.many_sentences(some)
            behind = np.cumsum(counts)
            sizes = np.cumsum(borders[behind - 1] - borders[behind - counts])
            taken = min(len(some), int(np.searchsorted(sizes, missing)) + 1)
            found.append((borders[: behind[taken - 1]], counts[:taken]))
            missing -= int(sizes[taken - 1])
            place += taken
            count = 1 + missing * taken // int(sizes[taken - 1])  # if the next ones are alike
        return (
            np.concatenate([borders for borders, _ in found]),
            np.concatenate([counts for _, counts in found]),
            place,
        )

    def cutting(self, rng: np.random.Generator) -> Callable[[int], Iterable[Example]]:
        """What cuts a document into examples, where these are more than one segment of text."""
        recipe, store = self.recipe, self.store
        if (laying := recipe.laying) is not None:
            return lambda document: laying.cut(store.sentences(document), recipe.length, rng)
        paired = recipe.paired
        assert paired is not None
        return lambda document: paired.cut(store, document, self.room, recipe.short, rng)

    def assemble(self, examples: list[Example], rng: np.random.Generator) -> AnyPool:
        """What the objective lays out, or special tokens around the segments, then masks."""
        if self.recipe.laying is not None:
            lay, marks = self.recipe.laying.lay, self.marks
            texts = (self.store.read(*e.a).astype(np.int64) for e in examples)
            laid = [lay(text, e, marks, rng) for text, e in zip(texts, examples, strict=True)]
            return LaidPool(examples, laid)
        spans = np.array([(*e.a, *(e.b or (0, 0))) for e in examples], np.int64).reshape(-1, 4)
        labels = np.array([e.label for e in examples], np.int64)
        return self.templated(spans, labels, rng)

    def templated(self, spans: Ids, labels: Ids, rng: np.random.Generator) -> Pool:
        """Special tokens around the segments, then masks."""
        paired = self.recipe.paired is not None
        first, second = spans[:, 1] - spans[:, 0], spans[:, 3] - spans[:, 2]
        lengths = first + second + (3 if paired else 2)
        total = int(lengths.sum())
        begins = end_to_end.begins(lengths)
        middles, lasts = begins + 1 + first, begins + lengths - 1
        special = np.zeros(total, bool)
        special[begins] = special[middles] = special[lasts] = True
        texts = joined_ranges(spans if paired else spans[:, :2])
        read = self.store.read_all(texts)
        ids = np.empty(total, read[0].dtype if read else np.int64)  # small ones are faster
        ids[begins] = self.cls
        ids[middles] = ids[lasts] = self.sep
        text = ~special
        ids[text] = np.concatenate([*read, ids[:0]])
        segments = None
        if paired:
            # from behind the middle [SEP] on, until the next example begins
            turns = np.zeros(total, np.int8)
            turns[middles + 1] = 1
            turns[begins[1:]] = -1
            segments = np.cumsum(turns, dtype=np.int8)
        if self.recipe.masked is None or not total:
            nothing = np.zeros(0, np.int64)
            return Pool(ids, nothing, nothing, segments, lengths, labels, spans)
        kinds = self.kinds.take(ids)
        starts = self.words.starts_of(kinds)
        special |= kinds >= FIXED
        if self.store.word_starts(*texts[0]) is not None:
            # a word of the store's dictionary joins Chinese characters; it never splits a "##" word
            known = (self.store.word_starts(*range_) for range_ in texts)
            starts[text] &= np.concatenate([flags for flags in known if flags is not None])
        hidden = self.recipe.masked.corrupt(
            ids, begins, special, starts, self.mask, self.ordinary, rng
        )
        answers = ids[hidden.places].astype(np.int64)
        return Pool(hidden.tokens, hidden.places, answers, segments, lengths, labels, spans)


def joined_ranges(ranges: NDArray[np.int64]) -> list[tuple[int, int]]:
    """The ranges in their order; one that begins where the one before ends is joined to it."""
    starts, ends = ranges.reshape(-1, 2).T
    apart = np.flatnonzero(starts[1:] != ends[:-1])
    firsts, lasts = np.r_[0, apart + 1], np.r_[apart, len(ends) - 1]
    return (
        list(zip(starts[firsts].tolist(), ends[lasts].tolist(), strict=True)) if len(ends) else []
    )


def _required(id: int | None, token: str, recipe: Recipe) -> int:
    if id is None:
        raise UserError(f"the vocabulary has no {token} token, which {recipe.goal.name} needs")
    return id


def hash_word(text: str) -> int:
    """A number for a word that is the same in every process (Python's own hash is not)."""
    return int.from_bytes(text.encode()[:8].ljust(8, b"\0"), "little")
