"""Can a bag of words tell how two segments belong together? If so, a model may learn topics there
instead of reading.

The examples are those of the objective itself, drawn from a token store. A logistic regression sees
which tokens stand in each segment and which in both (tf-idf), but no order inside a segment. A pair
of random documents differs in topic, so for next_sentence that is much; swapped neighbours have one
topic, so for sentence_order nothing but a token's liking for beginnings is left. `shared` sees only
what does not change when the segments change places, and must be at chance on sentence_order.

P pairs, V entries of the vocabulary.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from tianci.data.corpus import Corpus
from tianci.data.store import SplitStore, Store
from tianci.errors import UserError
from tianci.evaluate.baseline import Sparse
from tianci.goals.objectives import parse
from tianci.train.audit import wilson
from tianci.train.examples import Examples, Recipe
from tianci.train.pool import Pool

PAIRINGS = ("next_sentence", "sentence_order")
CERTAINTY = 1.96  # deviations: 95 of 100 intervals hold the true accuracy
INVERSE_PENALTY = 1.0


def bag_of_words_on_pairs(
    corpus: Corpus, objective: str, pairs: int = 20_000, length: int = 128, seed: int = 0
) -> dict[str, Any]:
    """Accuracies with intervals of a bag of words on pairs that it has not seen.

    It learns from `pairs` pairs and is asked a quarter as many, of other documents.
    """
    goal = parse(objective)
    recipe = Recipe(goal, length, 0.1, 4096, seed)
    if recipe.paired is None:
        raise UserError(
            f"{objective} pairs no segments, so a bag of words has nothing to tell apart; use "
            f"{' or '.join(PAIRINGS)}"
        )
    store = SplitStore(corpus.split("train"))
    if store.count() < 10:
        raise UserError(f"{corpus.directory} has only {store.count()} documents; 10 are needed")
    learned, asked = _halves(store.count(), seed)
    tokenizer = corpus.tokenizer()
    recipe = replace(recipe, goal=parse(recipe.paired.name))  # masks would only hide words
    known, new = (
        _pairs(Examples(Documents(store, some), tokenizer, recipe), count, len(tokenizer))
        for some, count in ((learned, pairs), (asked, max(1, pairs // 4)))
    )
    both, shared = (_accuracy(known, new, order) for order in (True, False))
    return {"objective": recipe.goal.name, **both, "shared": shared, "learned": len(known[2])}


class Documents(Store):
    """Some documents of a store."""

    def __init__(self, store: SplitStore, chosen: npt.NDArray[np.int64]):
        self.store, self.chosen = store, chosen

    def count(self) -> int:
        return len(self.chosen)

    def sentences(self, document: int) -> npt.NDArray[np.int64]:
        return self.store.sentences(int(self.chosen[document]))

    def read(self, start: int, end: int) -> npt.NDArray[Any]:
        return self.store.read(start, end)

    def word_starts(self, start: int, end: int) -> npt.NDArray[np.bool_] | None:
        return self.store.word_starts(start, end)


def _halves(documents: int, seed: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Four documents of five to learn from, and the others: no text is in both."""
    order = np.random.default_rng([seed, 14]).permutation(documents)
    cut = max(2, documents // 5)
    return np.sort(order[cut:]), np.sort(order[:cut])


Pairs = tuple[Sparse, Sparse, npt.NDArray[np.int64]]


def _pairs(examples: Examples, count: int, vocabulary: int) -> Pairs:
    """Token counts of both segments (P, V), and labels (P,)."""
    from scipy.sparse import csr_matrix

    rows: tuple[list[npt.NDArray[np.int64]], list[npt.NDArray[np.int64]]] = ([], [])
    labels: list[int] = []
    for (a, a_end, b, b_end), label in _spans(examples, count):
        rows[0].append(examples.store.read(a, a_end).astype(np.int64))
        rows[1].append(examples.store.read(b, b_end).astype(np.int64))
        labels.append(label)

    def table(segments: list[npt.NDArray[np.int64]]) -> Sparse:
        starts = np.concatenate([[0], np.cumsum([len(one) for one in segments])])
        tokens = np.concatenate(segments)
        made = csr_matrix((np.ones(len(tokens)), tokens, starts), (len(segments), vocabulary))
        made.sum_duplicates()
        return made

    return table(rows[0]), table(rows[1]), np.array(labels, np.int64)


def _spans(examples: Examples, count: int) -> Iterator[tuple[tuple[int, int, int, int], int]]:
    """Where the segments of pairs stand, and their labels; never more than one epoch."""
    left = count
    for pool, numbers in examples.once(1 << 60):
        assert isinstance(pool, Pool)
        some = numbers[:left]
        for span, label in zip(pool.spans[some].tolist(), pool.labels[some].tolist(), strict=True):
            yield tuple(span), label
        left -= len(some)
        if left <= 0:
            return


def _accuracy(learned: Pairs, asked: Pairs, order: bool) -> dict[str, Any]:
    from scipy.sparse import csr_matrix, hstack, vstack
    from sklearn.feature_extraction.text import TfidfTransformer
    from sklearn.linear_model import LogisticRegression

    weigh = TfidfTransformer(sublinear_tf=True).fit(vstack(learned[:2]))

    def features(pairs: Pairs) -> Sparse:
        a, b = weigh.transform(pairs[0]), weigh.transform(pairs[1])
        both = a.multiply(b).tocsr()
        # the cosine once more: one number that needs no learning of single tokens
        parts = [both, abs(a - b), csr_matrix(10 * both.sum(1))]
        return hstack([*parts, a - b] if order else parts, format="csr")

    model = LogisticRegression(C=INVERSE_PENALTY, solver="liblinear", random_state=0)
    model.fit(features(learned), learned[2])
    right = model.predict(features(asked)) == asked[2]
    low, high = wilson(float(right.sum()), float(len(right)), CERTAINTY)
    return {"accuracy": float(right.mean()), "low": low, "high": high, "count": len(right)}
