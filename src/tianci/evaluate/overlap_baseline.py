"""What shared words alone reach where there is nothing to classify: questions, choices, similarity,
texts to write. Words are those of `split_words`: Chinese characters one by one.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tianci.data.rows import Row
from tianci.data.windows import Spans
from tianci.goals.tasks.answer import Said
from tianci.goals.tasks.answer import gold as answers_of
from tianci.goals.tasks.choose import choices_of, right
from tianci.metrics.score import FloatArray
from tianci.text.sentences import split_sentences
from tianci.text.words import split_words

DIMENSIONS = 1 << 12  # of hashed tf-idf vectors
SENTENCES = 20  # candidates of a question


def words_of(text: str) -> list[str]:
    """The words of a text in lower case."""
    return [text[start:end].lower() for start, end in split_words(text)]


class Rareness:
    """How much it says that two texts share a word: the logarithm of how rare it is."""

    def __init__(self, texts: Sequence[str]):
        self.texts = len(texts)
        self.counts = Counter(word for text in texts for word in set(words_of(text)))

    def weight(self, word: str) -> float:
        return math.log((self.texts + 1) / (self.counts[word] + 1)) + 1

    def cosine(self, one: str, other: str) -> float:
        """Of the tf-idf vectors of two texts."""
        first, second = (self._vector(text) for text in (one, other))
        size = math.sqrt(_square(first) * _square(second))
        return sum(value * second.get(word, 0.0) for word, value in first.items()) / (size or 1.0)

    def _vector(self, text: str) -> dict[str, float]:
        counts = Counter(words_of(text))
        return {w: (1 + math.log(n)) * self.weight(w) for w, n in counts.items()}


def _square(vector: dict[str, float]) -> float:
    return sum(value * value for value in vector.values())


# ---------------------------------------------------------------- answer


def answer_by_overlap(train: Sequence[Row], asked: Sequence[Row]) -> list[Said]:
    """Of the sentence that shares the rarest words with the question, the longest stretch that the
    question does not have; not longer than nine of ten answers in the training rows."""
    contexts = list(dict.fromkeys(row.values["context"] for row in train))
    rare = Rareness([part for text in contexts for part in split_sentences(text)])
    lengths = [len(words_of(text)) for row in train for text in answers_of(row)[:1]]
    longest = max(1, int(np.quantile(lengths, 0.9))) if lengths else 10
    return [_best_stretches(row, rare, longest) for row in asked]


def _best_stretches(row: Row, rare: Rareness, longest: int) -> Said:
    context: str = row.values["context"]
    question = set(words_of(row.values["question"]))
    total = sum(rare.weight(word) for word in question) or 1.0
    found: list[tuple[float, tuple[int, int]]] = []
    at = 0
    for sentence in split_sentences(context):
        start = context.find(sentence, at)
        if start < 0:  # a sentence is a piece of the text, but never trust blanks
            continue
        at = start + len(sentence)
        shared = question & set(words_of(sentence))
        place = _stretch(sentence, question, longest)
        if place is not None:
            share = sum(rare.weight(word) for word in shared) / total
            found.append((share, (start + place[0], start + place[1])))
    found.sort(key=lambda one: -one[0])
    places = np.array([place for _, place in found[:SENTENCES]], np.int32).reshape(-1, 2)
    scores = np.array([share for share, _ in found[:SENTENCES]], np.float32)
    return Said(Spans(places, scores), 0.0)


def _stretch(sentence: str, question: set[str], longest: int) -> tuple[int, int] | None:
    """Begin and end of the longest run of words that are not in the question, cut to `longest`."""
    runs: list[list[tuple[int, int]]] = [[]]
    for start, end in split_words(sentence):
        if sentence[start:end].lower() in question:
            runs.append([])
        else:
            runs[-1].append((start, end))
    best = max(runs, key=len)[:longest]
    return (best[0][0], best[-1][1]) if best else None


# ---------------------------------------------------------------- choose


def choose_by_overlap(
    train: Sequence[Row], asked: Sequence[Row], seed: int
) -> list[npt.NDArray[np.float32]]:
    """Logits of the choices: a logistic regression on what each shares with text and question, how
    long it is, and each of them beside the other choices."""
    from sklearn.linear_model import LogisticRegression

    rare = Rareness([row.values["context"] for row in train])
    features = [_choice_features(row, rare) for row in train]
    labels = np.concatenate(
        [np.arange(len(some)) == right(row) for some, row in zip(features, train, strict=True)]
    )
    model = LogisticRegression(random_state=seed).fit(np.concatenate(features), labels)
    return [
        model.decision_function(_choice_features(row, rare)).astype(np.float32) for row in asked
    ]


def _choice_features(row: Row, rare: Rareness) -> FloatArray:
    """(choices, 3), the row's mean taken away: only the choices are compared."""
    context, question = row.values["context"], row.values.get("question") or ""
    table = np.array(
        [
            [rare.cosine(context, one), rare.cosine(question, one), math.log1p(len(one))]
            for one in choices_of(row)
        ]
    )
    return np.asarray(table - table.mean(0), np.float64)


# ---------------------------------------------------------------- similar


def vectors_by_words(train: Sequence[Row], asked: Sequence[Row]) -> list[npt.NDArray[np.float32]]:
    """Hashed tf-idf vectors of length 1 of the one or two texts of each row."""
    from sklearn.feature_extraction.text import HashingVectorizer, TfidfTransformer

    hashed = HashingVectorizer(
        analyzer=lambda text: words_of(text), n_features=DIMENSIONS, norm=None, alternate_sign=False
    )
    weigh = TfidfTransformer(sublinear_tf=True)
    weigh.fit(hashed.transform([text for row in train for text in _texts(row)]))
    counts = [len(_texts(row)) for row in asked]
    every = weigh.transform(hashed.transform([text for row in asked for text in _texts(row)]))
    found, at = [], 0
    for count in counts:
        found.append(every[at : at + count].toarray().astype(np.float32))
        at += count
    return found


def _texts(row: Row) -> list[str]:
    return [row.values[name] for name in ("text", "pair") if name in row.values]


# ---------------------------------------------------------------- generate


def first_words(train: Sequence[Row], asked: Sequence[Row]) -> list[dict[str, Any]]:
    """The beginning of each source, as many words as targets have in the middle."""
    lengths = [len(split_words(text)) for row in train for text in row.values.get("target") or []]
    count = max(1, int(np.median(lengths))) if lengths else 10
    found = []
    for row in asked:
        source: str = row.values["source"]
        spans = split_words(source)[:count]
        found.append({"text": source[: spans[-1][1]] if spans else "", "ids": []})
    return found
