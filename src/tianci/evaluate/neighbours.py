"""Exact nearest neighbours by the cosine, block by block, and vectors that are kept in a file.

Shapes: Q queries, N texts, W width.
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tianci.errors import UserError
from tianci.files import read_json, write_file, write_json

Vectors = NDArray[np.float32]
CELLS = 1 << 22  # cosines held at once: 16 MB
ROWS = 1 << 14  # texts at most of a block, so that it stays near the processor
PROBES = 16  # texts that are embedded again, to see whether kept vectors are still theirs
NEAR = 1e-3  # cosine distance that other batches, versions or machines may bring


def nearest(
    queries: Vectors, texts: Vectors, top: int, allowed: NDArray[np.bool_] | None = None
) -> list[list[tuple[int, float]]]:
    """Of each query the `top` nearest texts as (number, cosine), best first.

    Of equally near ones the first comes first. `texts` may be a memory-mapped file. A vector of
    zeros has the cosine 0 to all.
    """
    asked = _unit(queries)
    found: list[list[tuple[int, float]]] = [[] for _ in asked]
    step = min(ROWS, max(1, CELLS // max(1, len(asked))))
    for start in range(0, len(texts), step):
        block = _unit(texts[start : start + step])
        near = asked @ block.T
        if allowed is not None:
            near[:, ~allowed[start : start + step]] = -np.inf
        for number, row in enumerate(near):
            least = np.partition(row, -top)[-top] if len(row) > top else -np.inf
            new = [(start + int(i), float(row[i])) for i in np.flatnonzero(row >= least)]
            best = sorted(
                (one for one in found[number] + new if one[1] > -np.inf),
                key=lambda one: (-one[1], one[0]),
            )
            found[number] = best[:top]
    return found


def _unit(vectors: Vectors) -> Vectors:
    length = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.asarray(vectors / np.maximum(length, 1e-12), np.float32)


def keep_vectors(
    path: Path, texts: Sequence[str], embed: Callable[[Sequence[str]], Vectors]
) -> Vectors:
    """The vectors of (some) texts from a file; where it does not exist they are made and written.

    Kept vectors are checked: a hash of all texts beside the file (where `tianci embed` wrote it
    there is none), and some of the vectors, made again by this model.
    """
    about = path.with_name(path.name + ".json")
    digest = hashlib.sha256("\n".join(texts).encode("utf-8", "surrogatepass")).hexdigest()
    if not path.exists():
        vectors = embed(texts)
        content = io.BytesIO()
        np.save(content, vectors)
        write_file(path, content.getvalue())
        write_json(about, {"texts": len(texts), "sha256": digest})
        return vectors
    kept = _read(path)
    other = about.exists() and read_json(about).get("sha256") != digest
    if other or kept.ndim != 2 or len(kept) != len(texts):
        raise UserError(f"{path} holds vectors of other texts; delete it or give another name")
    some = np.unique(np.linspace(0, len(texts) - 1, PROBES).astype(np.int64)).tolist()
    again = _unit(embed([texts[n] for n in some]))
    same = again.shape[1] == kept.shape[1]
    if not same or (1 - (_unit(kept[some]) * again).sum(1)).max() > NEAR:
        raise UserError(
            f"{path} holds vectors of another model (or pooling); delete it or give another name"
        )
    return kept


def _read(path: Path) -> Vectors:
    try:
        found = np.load(path, mmap_mode="r", allow_pickle=False)
    except Exception as error:  # numpy reads the header with Python's tokenizer, which has its own
        raise UserError(f"{path} is not a NumPy array of vectors ({error})") from error
    if not isinstance(found, np.ndarray) or not np.issubdtype(found.dtype, np.floating):
        raise UserError(f"{path} is not a NumPy array of vectors")
    return found
