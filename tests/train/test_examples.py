"""From a store to batches: the same from any position, true to the text, words whole."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.goals.tiny import VOCABULARY, ids, store, tokenizer
from tianci.batch import Batch
from tianci.data.memory import MemoryStore
from tianci.errors import UserError
from tianci.goals.objectives import parse
from tianci.text.learn import Vocabulary, learn
from tianci.train.examples import Examples, Ids, Position, Recipe, Words
from tianci.train.pool import Pool

CLS, SEP, MASK = ids("[CLS] [SEP] [MASK]")
BOTH = "masked+next_sentence"


def examples(
    objective: str = BOTH, documents: MemoryStore | None = None, seed: int = 1, **settings: object
) -> Examples:
    """Small pools, so that a few batches cross pools and epochs."""
    goal = parse(objective, {"masked": settings})
    made = Examples(documents or store(), tokenizer(), Recipe(goal, 40, 0.1, 300, seed))
    made.pool_tokens = 700
    return made


def drawn(source: Examples, position: Position, count: int) -> list[tuple[Batch, Position]]:
    return [(pool.batch(n), after) for pool, n, after in islice(source.draws(position), count)]


def equal(one: Batch, other: Batch) -> bool:
    assert one.segments is not None and other.segments is not None
    return (
        one.layout.lengths == other.layout.lengths
        and torch.equal(one.tokens, other.tokens)
        and torch.equal(one.segments, other.segments)
        and all(torch.equal(one.targets[n], other.targets[n]) for n in one.targets)
    )


@pytest.mark.parametrize("objective", ["masked", BOTH, "masked+sentence_order"])
@pytest.mark.parametrize("static", [False, True])
def test_goes_on_from_any_position(objective: str, static: bool) -> None:
    source = examples(objective, store(documents=12, sentences=8), static=static)
    all_ = drawn(source, Position(), 40)
    assert all_[-1][1].epoch >= 1, "the test must cross an epoch"
    assert len({p.document for _, p in all_}) > 3, "and pools"
    for number, (_, position) in enumerate(all_[:-3]):
        again = examples(objective, store(documents=12, sentences=8), static=static)
        for (batch, after), (expected, where) in zip(
            drawn(again, position, 3), all_[number + 1 :], strict=False
        ):
            assert equal(batch, expected) and after == where


def test_every_batch_brings_the_end_of_the_epoch_nearer() -> None:
    source = examples(BOTH, store(documents=12, sentences=8))
    source.pool_tokens = 1 << 18  # all of the text in one pool, as with a small corpus
    places = [position for _, position in drawn(source, Position(before=0.5), 40)]
    done = [source.done(place) for place in places]
    batches = next(n for n, place in enumerate(places, 1) if place.document == 12)
    assert batches > 3
    assert done[:batches] == pytest.approx([0.5 + n / batches for n in range(1, batches + 1)])
    assert done == sorted(set(done)) and done[-1] > 1.5


def test_seeds_differ() -> None:
    one, other = (drawn(examples(seed=s), Position(), 1)[0][0] for s in (1, 2))
    assert not equal(one, other)


def epoch(source: Examples, number: int) -> list[Pool]:
    order, document, pools = source.order(number), 0, []
    while document < len(order):
        pool, document = source.pool(number, document, order)
        pools.append(pool)
    return pools


def test_static_masks_repeat_and_dynamic_ones_do_not() -> None:
    def masks(source: Examples, number: int) -> dict[tuple[int, ...], tuple[int, ...]]:
        found = {}
        for pool in epoch(source, number):
            ends = np.cumsum(pool.lengths)
            for span, end, length in zip(pool.spans, ends, pool.lengths, strict=True):
                found[tuple(span)] = tuple(pool.seen[end - length : end])
        return found

    static = examples("masked", static=True)
    assert masks(static, 0) == masks(static, 1) != {}
    batches = [[b for b, _ in drawn(static, Position(e), 3)] for e in (0, 1)]
    assert not equal(batches[0][0], batches[1][0])  # the order of examples changes all the same

    dynamic = examples("masked")
    first, second = masks(dynamic, 0), masks(dynamic, 1)
    common = set(first) & set(second)
    assert len(common) > 50
    same = sum(first[span] == second[span] for span in common)
    assert same < 0.2 * len(common)  # only short ones happen to be equal


def restored(batch: Batch) -> Ids:
    tokens: Ids = batch.tokens.numpy().copy()
    tokens[batch.targets["masked_at"].numpy()] = batch.targets["masked_is"].numpy()
    return tokens


@pytest.mark.parametrize("objective", ["masked", BOTH, "masked+sentence_order"])
def test_batches_are_true_to_the_text(objective: str) -> None:
    source = examples(objective)
    documents = source.store
    for pool, numbers, _ in islice(source.draws(Position()), 30):
        batch = pool.batch(numbers)
        tokens, at = restored(batch), 0
        assert batch.segments is not None
        assert list(batch.layout.lengths) == sorted(batch.layout.lengths, reverse=True)
        for place, number in enumerate(pool.sort(numbers).tolist()):
            a, a_end, b, b_end = pool.spans[number].tolist()
            expected = [CLS, *documents.read(a, a_end), SEP]
            segments = [0] * len(expected)
            if objective != "masked":
                expected += [*documents.read(b, b_end), SEP]
                segments += [1] * (b_end - b + 1)
            end = at + batch.layout.lengths[place]
            assert tokens[at:end].tolist() == expected
            assert batch.segments[at:end].tolist() == segments
            assert len(expected) <= 40
            assert batch.targets["label"][place] == pool.labels[number]
            at = end
        asked = tokens[batch.targets["masked_at"].numpy()]
        assert not np.isin(asked, [CLS, SEP]).any()


def test_an_epoch_of_masked_has_every_token_once() -> None:
    source = examples("masked")
    spans = np.concatenate([pool.spans for pool in epoch(source, 0)])
    used = np.sort(np.concatenate([np.arange(a, b) for a, b, _, _ in spans]))
    assert isinstance(source.store, MemoryStore)
    assert used.tolist() == list(range(len(source.store.tokens)))


def test_batches_have_about_the_budget() -> None:
    source = examples()
    sizes = [batch.layout.tokens for batch, _ in drawn(source, Position(), 40)]
    assert min(sizes) > 150 and max(sizes) < 600


def test_fixed_never_repeats() -> None:
    source = examples("masked")
    assert isinstance(source.store, MemoryStore)
    everything = source.fixed(10**9)
    examples_drawn = sum(len(batch.layout) for batch in everything)
    tokens = sum(batch.layout.tokens for batch in everything)
    assert tokens - 2 * examples_drawn == len(source.store.tokens)  # one epoch, to the token
    some = source.fixed(1000)
    assert 1000 <= sum(batch.layout.tokens for batch in some) < 1600
    assert all(equal(a, b) for a, b in zip(some, everything, strict=False))
    assert all(equal(a, b) for a, b in zip(some, examples("masked").fixed(1000), strict=True))


def test_special_tokens_written_in_the_text_are_never_asked_for() -> None:
    text = ids("我 [SEP] 你 [MASK] 他 [CLS] 的 [PAD]")
    source = examples("masked", MemoryStore([[text] * 200]), rate=0.5)
    for batch in source.fixed(10**6):
        answers = batch.targets["masked_is"].numpy()
        assert np.isin(answers, ids("我 你 他 的")).all()
        assert len(answers)


@pytest.mark.parametrize(
    ("objective", "documents", "message"),
    [
        ("masked", [], "no documents"),
        ("masked+sentence_order", [[[9]], [[8]]], "too small"),  # no pair can be cut
        (BOTH, [[[9, 8]] * 3], "at least two documents"),
    ],
)
def test_corpus_that_gives_nothing(
    objective: str, documents: list[list[list[int]]], message: str
) -> None:
    with pytest.raises(UserError, match=message):
        next(examples(objective, MemoryStore(documents)).draws(Position()))


def test_documents_without_examples_are_passed_over() -> None:
    # small pools: some of them hold nothing but one-token documents, which cannot be paired
    documents = MemoryStore([[[9]]] * 3000 + [[[9, 8, 7, 6]] * 5])
    source = examples("masked+sentence_order", documents)
    assert sum(len(batch.layout) for batch in source.fixed(10**6)) >= 1


def test_room() -> None:
    with pytest.raises(UserError, match="too short"):
        Examples(store(), tokenizer(), Recipe(parse(BOTH), 6, 0.1, 300, 0))


def test_needs_special_tokens() -> None:
    with pytest.raises(UserError, match=r"has no \[MASK\] token, which masked"):
        vocabulary = tokenizer([t for t in VOCABULARY if t != "[MASK]"])
        Examples(store(), vocabulary, Recipe(parse("masked"), 40, 0.1, 300, 0))


class WithWords(MemoryStore):
    """A store that knows that every odd token goes on with the word before it."""

    def word_starts(self, start: int, end: int) -> np.ndarray:
        return np.arange(start, end) % 2 == 0


def test_words_of_the_store_stay_whole() -> None:
    characters = [i for i, t in enumerate(VOCABULARY) if i > 4 and t >= "一"]
    r = np.random.default_rng(0)
    documents = WithWords([[r.choice(characters, 20).tolist() for _ in range(50)]])
    source = examples("masked", documents)
    pairs = 0
    for pool in epoch(source, 0):
        flags = np.isin(np.arange(len(pool.seen)), pool.places)
        ends = np.cumsum(pool.lengths)
        for (a, b, _, _), end, length in zip(pool.spans, ends, pool.lengths, strict=True):
            chosen = flags[end - length + 1 : end - 1]
            for place in range(b - a - 1):
                if (a + place) % 2 == 0:
                    assert chosen[place] == chosen[place + 1]
                    pairs += bool(chosen[place])
    assert pairs > 50


@pytest.fixture(scope="module")
def mixed_text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    lines = [
        "今天天气不错，我们去公园。",
        "hello world, playing the game",
        "他说 hello 了",
        "3.14 café",
    ]
    r = np.random.default_rng(0)
    for _ in range(200):  # enough different words for every way to learn a vocabulary
        lines.append(" ".join("".join(r.choice(list("aeiourstlnmg"), 4)) for _ in range(4)))
    path = tmp_path_factory.mktemp("text") / "text.txt"
    path.write_text("\n".join(lines * 40), encoding="utf-8")
    return path


@pytest.mark.parametrize("kind", ["bpe", "byte-bpe", "unigram", "char", "wordpiece"])
def test_words_of_every_kind_of_vocabulary(kind: str, mixed_text: Path) -> None:
    size = 320 if kind == "byte-bpe" else 90
    wanted = Vocabulary(kind=kind, size=size, hold_back=0.0)  # type: ignore[arg-type]
    vocabulary, _ = learn([mixed_text], wanted)
    words = Words.of(vocabulary)
    text = "我们今天去公园 playing the game，hello"
    row = vocabulary.encode([text], special=False)[0]
    starts = words.starts(np.array(row.ids))
    groups: list[list[tuple[int, int]]] = []
    for start, span in zip(starts, row.offsets, strict=True):
        if start:
            groups.append([])
        groups[-1].append(span)
    found = [text[min(a for a, _ in g) : max(b for _, b in g)].strip() for g in groups]
    whole = [word for word in found if word]
    for word in ("playing", "the", "game", "hello"):
        assert word in whole, whole
    # Chinese has no spaces, but a clause is not one word: each piece stands alone
    chinese = [word for word in whole if word[0] >= "一" and word[0] <= "鿿"]
    assert len(chinese) >= 2 and max(map(len, chinese)) <= 4, whole
    assert "".join(whole) == text.replace(" ", "")


def test_recipe_finds_its_parts() -> None:
    recipe = Recipe(parse(BOTH), 40, 0.1, 300, 0)
    assert recipe.masked is not None and recipe.paired is not None
    assert replace(recipe, goal=parse("masked")).paired is None


def test_a_vocabulary_of_special_tokens_only() -> None:
    specials = [token for token in VOCABULARY if token.startswith("[")]
    with pytest.raises(UserError, match="the vocabulary has special tokens only"):
        Examples(store(), tokenizer(specials), Recipe(parse("masked", {}), 40, 0.1, 300, 1))
