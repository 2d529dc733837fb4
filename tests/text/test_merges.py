"""Merges and unigram pieces on texts small enough to work out by hand."""

from __future__ import annotations

import math
import random
from collections import Counter
from itertools import pairwise

import pytest

from tianci.text.merges import merge_pairs
from tianci.text.unigram import learn_unigram


def merges(words: dict[str, int], alphabet: str) -> list[tuple[int, str]]:
    def spell(word: str) -> list[int | None]:
        return [alphabet.index(c) if c in alphabet else None for c in word]

    found = merge_pairs(words, list(alphabet), spell, lambda left, right: left + right)
    return [(count, piece) for count, _, _, piece in found]


def test_by_hand() -> None:
    # ab 5+2, bc 5, then abc 5; xa 2, then with ab there is x-ab 2
    assert merges({"abc": 5, "xab": 2}, "abcx") == [(7, "ab"), (5, "abc"), (2, "xab")]


def test_overlaps() -> None:
    # aaaa has three pairs aa, but after one merge only two pieces are left
    assert merges({"aaaa": 1}, "a") == [(3, "aa"), (1, "aaaa")]
    assert merges({"aaa": 1}, "a") == [(2, "aa"), (1, "aaa")]
    assert merges({"ababab": 1}, "ab") == [(3, "ab"), (2, "abab"), (1, "ababab")]


def test_ties_go_to_the_earlier_letters() -> None:
    assert merges({"cd": 3, "ab": 3, "ac": 3}, "abcd") == [(3, "ab"), (3, "ac"), (3, "cd")]
    assert merges({"ac": 3, "cd": 3, "ab": 3}, "dcba") == [(3, "cd"), (3, "ac"), (3, "ab")]


def test_no_pair_crosses_an_unknown_letter() -> None:
    assert merges({"a?b": 9, "ab": 1}, "ab") == [(1, "ab")]


def test_counts_stay_right() -> None:
    """Every merge has the count that one gets by counting again from scratch."""
    rng = random.Random(2)
    words = {"".join(rng.choices("abc", k=rng.randint(1, 9))): rng.randint(1, 5) for _ in range(60)}
    spelled = {word: list(word) for word in words}
    for count, left, right, piece in merge_pairs(
        words, list("abc"), lambda word: ["abc".index(c) for c in word], lambda a, b: a + b
    ):
        pairs: Counter[tuple[str, str]] = Counter()
        for word, parts in spelled.items():
            for pair in pairwise(parts):
                pairs[pair] += words[word]
        assert pairs[left, right] == count == max(pairs.values())
        for parts in spelled.values():
            at = 0
            while at < len(parts) - 1:
                if (parts[at], parts[at + 1]) == (left, right):
                    parts[at : at + 2] = [piece]
                at += 1


def test_unigram_finds_the_words() -> None:
    rng = random.Random(4)
    vocabulary = ["tree", "house", "river", "cloud"]
    drawn = [rng.choices(vocabulary, k=3) for _ in range(200)]
    words = Counter("".join(three) for three in drawn)
    share = Counter(word for three in drawn for word in three)
    alphabet = sorted(set("".join(vocabulary)))
    pieces = learn_unigram(words, alphabet, len(alphabet) + 4, 2)
    assert {piece for piece, _ in pieces} == {*alphabet, *vocabulary}
    assert {piece for piece, _ in pieces[:4]} == set(vocabulary)
    for piece, score in pieces[:4]:  # nothing is left for the letters
        assert math.exp(score) == pytest.approx(share[piece] / 600, abs=0.01)


def test_unigram_probabilities_by_hand() -> None:
    """ab may also be a and b, but the more often ab is one piece, the better that explains it."""
    pieces = dict(learn_unigram({"ab": 100, "a": 50}, ["a", "b"], 3, 2))
    assert set(pieces) == {"a", "b", "ab"}
    assert math.exp(pieces["ab"]) == pytest.approx(100 / 150, abs=0.04)
    assert math.exp(pieces["a"]) == pytest.approx(50 / 150, abs=0.04)
    assert math.exp(pieces["b"]) < 0.05
