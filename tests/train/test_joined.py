"""Documents joined by separators: numbered by hand, full sequences, the same from any position."""

from __future__ import annotations

from itertools import islice

import numpy as np
import pytest

from tests.goals.tiny import ids, store, tokenizer
from tianci.data.memory import MemoryStore
from tianci.errors import UserError
from tianci.goals.objectives import parse
from tianci.train.audit import audit
from tianci.train.examples import Examples, Position, Recipe
from tianci.train.joined import JoinedStore

CLS, SEP = ids("[CLS] [SEP]")
# new numbers: 0-4 and a separator at 5, 6 and 7, 8-10 and 11, 12-15 (and 16)
DOCUMENTS = MemoryStore([[[10, 11], [12, 13, 14]], [[20]], [[30, 31, 32]], [[40], [41, 42, 43]]])


def test_two_documents_each() -> None:
    joined = JoinedStore(DOCUMENTS, separator=SEP, tokens=8)
    assert joined.count() == 2
    assert joined.sentences(0).tolist() == [0, 2, 6, 7]
    assert joined.sentences(1).tolist() == [8, 12, 13, 16]
    assert joined.read(0, 7).tolist() == [10, 11, 12, 13, 14, SEP, 20]
    assert joined.read(3, 10).tolist() == [13, 14, SEP, 20, SEP, 30, 31]
    assert joined.read(5, 8).tolist() == [SEP, 20, SEP]
    assert joined.word_starts(0, 7) is None


def test_word_starts_come_from_the_store() -> None:
    class Known(MemoryStore):
        def word_starts(self, start: int, end: int) -> np.ndarray:
            return self.tokens[start:end] % 2 == 0

    known = Known([[[10, 11]], [[21, 20]]])
    joined = JoinedStore(known, SEP, 100)
    assert joined.word_starts(0, 5).tolist() == [True, False, True, False, True]


@pytest.mark.parametrize(
    ("span", "expected"),
    [
        ((0, 5), (0, 5)),
        ((0, 6), (0, 5)),  # a separator at the end
        ((5, 7), (6, 7)),  # at the beginning
        ((3, 7), (3, 7)),  # in the middle it stays
        ((5, 6), None),
        ((7, 8), None),
    ],
)
def test_no_separator_at_the_ends(span: tuple[int, int], expected: tuple[int, int] | None) -> None:
    found = JoinedStore(DOCUMENTS, SEP, 8).trimmed(np.array([(*span, 0, 0)]))
    assert found.tolist() == ([] if expected is None else [[*expected, 0, 0]])


def examples(packing: str, documents: MemoryStore, objective: str = "masked") -> Examples:
    made = Examples(
        documents,
        tokenizer(),
        Recipe(parse(objective), 40, 0.0, 400, 1, packing),  # type: ignore[arg-type]
    )
    made.pool_tokens = 3000
    return made


def test_sequences_are_full_and_true_to_the_text() -> None:
    documents = store(documents=200, sentences=2, length=8)
    lengths = {}
    for packing in ("document", "full"):
        source = examples(packing, documents)
        pools = [(pool, numbers) for pool, numbers in source.once(10**9)]
        lengths[packing] = np.concatenate([pool.lengths[numbers] for pool, numbers in pools])
        text = []
        for pool, numbers in pools:
            ends = np.cumsum(pool.lengths)
            for number in numbers:
                row = pool.original[ends[number] - pool.lengths[number] : ends[number]].tolist()
                assert row[0] == CLS and row[-1] == SEP and row[1] != SEP and row[-2] != SEP
                text += [token for token in row if token not in (CLS, SEP)]
        assert sorted(text) == sorted(documents.tokens.tolist())  # every token once
    assert lengths["full"].mean() > 33 > 22 > lengths["document"].mean()
    assert lengths["full"].max() <= 40


def test_goes_on_from_any_position() -> None:
    documents = store(documents=600, sentences=2, length=8)
    source = examples("full", documents)
    assert source.store.count() > 3
    drawn = list(islice(source.draws(Position()), 60))
    assert drawn[-1][2].epoch >= 1 and len({position.document for _, _, position in drawn}) > 2
    for number, (_, _, position) in enumerate(drawn[:-1]):
        pool, numbers, after = next(examples("full", documents).draws(position))
        expected, wanted, where = drawn[number + 1]
        assert after == where and numbers.tolist() == wanted.tolist()
        assert pool.seen.tolist() == expected.seen.tolist()


def test_the_audit_finds_nothing_wrong() -> None:
    report = audit(examples("full", store(documents=300, sentences=3)), 10**6)
    assert not report.off and report.rates["text"].value == 1.0


def test_pairs_cannot_cross_documents() -> None:
    with pytest.raises(UserError, match="packing full fills sequences .* next_sentence has to"):
        examples("full", store(), "masked+next_sentence")
