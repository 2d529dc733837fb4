"""Exact search: by hand, in blocks, with ties; kept vectors that are refused when they lie."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tianci.errors import UserError
from tianci.evaluate import neighbours
from tianci.evaluate.neighbours import keep_vectors, nearest


def test_by_hand() -> None:
    texts = np.array([[2, 0], [3, 4], [0, 1], [-1, 0], [0, 0]], np.float32)
    found = nearest(np.array([[5, 0], [0, 2]], np.float32), texts, top=3)
    assert [[n for n, _ in one] for one in found] == [[0, 1, 2], [2, 1, 0]]
    assert [score for _, score in found[0]] == pytest.approx([1.0, 0.6, 0.0])
    # lines 2 and 4 (zeros) are equally near to the first query: the first comes first
    assert [n for n, _ in nearest(np.array([[1, 0]], np.float32), texts, 9)[0]] == [0, 1, 2, 4, 3]


def test_blocks_ties_and_what_is_not_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    r = np.random.default_rng(0)
    texts = r.integers(-1, 2, (200, 4)).astype(np.float32)  # many equal ones
    queries = r.normal(size=(7, 4)).astype(np.float32)
    allowed = r.random(200) < 0.8
    unit = texts / np.maximum(np.linalg.norm(texts, axis=1, keepdims=True), 1e-12)
    near = (queries / np.linalg.norm(queries, axis=1, keepdims=True)) @ unit.T
    for cells in (1 << 22, 7 * 30, 7):
        monkeypatch.setattr(neighbours, "CELLS", cells)
        for row, found in zip(near, nearest(queries, texts, 10, allowed), strict=True):
            scores = [row[n] for n, _ in found]
            assert all(allowed[n] for n, _ in found) and len(found) == 10
            best = np.sort(row[allowed])[::-1][:10]
            np.testing.assert_allclose(scores, best, atol=1e-6)
            assert [one[1] for one in found] == sorted((one[1] for one in found), reverse=True)


def test_fewer_texts_than_asked_for() -> None:
    texts = np.eye(2, dtype=np.float32)
    assert len(nearest(texts[:1], texts, 5)[0]) == 2
    assert nearest(texts[:1], texts, 5, np.array([False, True]))[0] == [(1, 0.0)]


def embed(texts: list[str]) -> np.ndarray:
    return np.array([[len(t), t.count("a") + 1] for t in texts], np.float32)


def test_kept_vectors(tmp_path: Path) -> None:
    path, texts = tmp_path / "x.npy", ["a", "bbb", "aab"]
    first = keep_vectors(path, texts, embed)
    calls: list[int] = []

    def counted(some: list[str]) -> np.ndarray:
        calls.append(len(some))
        return embed(some)

    again = keep_vectors(path, [*texts], counted)
    assert np.array_equal(first, again) and calls == [3]  # only the probes
    with pytest.raises(UserError, match="of other texts"):
        keep_vectors(path, ["a", "bbb", "aac"], embed)
    with pytest.raises(UserError, match="of other texts"):
        keep_vectors(path, texts[:2], embed)
    with pytest.raises(UserError, match="of another model"):
        keep_vectors(path, texts, lambda some: embed(some)[:, ::-1])
    with pytest.raises(UserError, match="of another model"):
        keep_vectors(path, texts, lambda some: np.ones((len(some), 3), np.float32))


def test_vectors_of_embed_have_no_hash(tmp_path: Path) -> None:
    path, texts = tmp_path / "x.npy", ["a", "bbb"]
    np.save(path, embed(texts))
    assert np.array_equal(keep_vectors(path, texts, embed), embed(texts))
    path.write_text("no array")
    with pytest.raises(UserError, match="not a NumPy array"):
        keep_vectors(path, texts, embed)
