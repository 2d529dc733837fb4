"""The linear tagger: learns words, neighbours, looks and what may follow what."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest

from tianci.evaluate import tag_baseline
from tianci.evaluate.tag_baseline import fit_tag_baseline
from tianci.metrics.entities import entity_scores, repair

WORDS = [["Ann", "met", "Bob"], ["in", "New", "York", "today"], ["Bob", "left", "New", "York"]]
TAGS = [["B-PER", "O", "B-PER"], ["O", "B-LOC", "I-LOC", "O"], ["B-PER", "O", "B-LOC", "I-LOC"]]


def test_learns_its_sentences() -> None:
    baseline = fit_tag_baseline(WORDS, TAGS)
    assert baseline.tags(WORDS) == TAGS
    new = [[], ["Ann", "left", "New", "York"], ["Ann", "in", "New", "York"], []]
    assert baseline.tags(new) == [[], TAGS[2], ["B-PER", "O", "B-LOC", "I-LOC"], []]
    assert (fit_tag_baseline(WORDS, TAGS).features == baseline.features).all()


def test_neighbours_decide() -> None:
    """The same word is a verb after "to" and a noun after "the"."""
    names = [f"w{i}" for i in range(40)]
    words = [[front, name] for name in names for front in ("to", "the")]
    tags = [["X", "VERB"] if front == "to" else ["X", "NOUN"] for front, _ in words]
    found = fit_tag_baseline(words[:40], tags[:40]).tags([["to", "new"], ["the", "new"]])
    assert found == [["X", "VERB"], ["X", "NOUN"]]


def test_sentences_do_not_see_each_other() -> None:
    baseline = fit_tag_baseline(WORDS, TAGS)
    alone = [baseline.tags([sentence])[0] for sentence in WORDS]
    assert baseline.tags(WORDS[::-1])[::-1] == alone


def test_viterbi_equals_trying_all_paths() -> None:
    from itertools import product

    rng = np.random.default_rng(0)
    weights = rng.normal(0, 1, (50, 3)).astype(np.float32)
    follows = rng.normal(0, 1, (4, 3)).astype(np.float32)
    found = rng.integers(0, 50, (9, 6))
    bounds = np.array([0, 4, 4, 9])  # an empty sentence among them
    expected: list[int] = []
    for start, end in ((0, 4), (4, 9)):
        emission = weights[found[start:end]].sum(1)

        def total(path: tuple[int, ...], emission: np.ndarray = emission) -> float:
            steps = sum(follows[a, b] for a, b in zip((3, *path), path, strict=False))
            return float(steps + sum(emission[at, tag] for at, tag in enumerate(path)))

        expected += max(product(range(3), repeat=end - start), key=total)
    assert tag_baseline._decode(weights, follows, found, bounds).tolist() == expected


def test_one_tag_and_wrong_lengths() -> None:
    assert fit_tag_baseline([["a", "b"]], [["O", "O"]]).tags([["x"]]) == [["O"]]
    with pytest.raises(ValueError, match="2 words, but 1 tags"):
        fit_tag_baseline([["a", "b"]], [["O"]])


def test_real_entities(shared_data: Path) -> None:
    """1,350 posts, 8 kinds of entities."""
    sets = []
    for name in ("train.conll.gz", "dev.conll"):
        data = (shared_data / "weibo_ner" / name).read_bytes()
        text = (gzip.decompress(data) if name.endswith("gz") else data).decode()
        blocks = [block.splitlines() for block in text.split("\n\n") if block.strip()]
        pairs = [[line.split() for line in block] for block in blocks]
        words = [[pair[0] for pair in row] for row in pairs]
        sets.append((words, [[pair[-1] for pair in row] for row in pairs]))
    baseline = fit_tag_baseline(*sets[0])
    words, gold = sets[1]
    found = baseline.tags(words)
    assert entity_scores(gold, found)["f1"] == pytest.approx(0.53, abs=0.02)
    assert all(repair(row) == row for row in found)
