"""Every family and everything that is done with models: each cell works, or is refused in words.

`TIANCI_WRITE=1 pytest tests/test_matrix.py -k page` writes docs/matrix.md.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.matrix.cells import CELLS, heads
from tests.matrix.families import FAMILIES, Place
from tianci.errors import UserError
from tianci.models import family as module_of

PAGE = ROOT / "docs" / "matrix.md"
ENCODERS = ("bert", "roberta", "albert", "distilbert")
DECODERS = ("gpt", "gpt2")

NO_MASK = "a decoder never sees what stands behind a gap: rank the candidates"
SENTINELS = "T5 fills in by writing what a sentinel hides: write on without a task"
ONE_WAY = "it was made to see both sides: score gives a pseudo-log-likelihood"
TWO_HALVES = "T5 judges a target by its source, not a text by itself: rank"
NO_WRITER = "an encoder writes only after fine-tuning for generate"
NO_DECODER = "span corruption needs a decoder of its own: prefix"
OTHER_HEAD = "the family has no such head"
NO_LANGUAGE = "a task reads T5's encoder, which has no language-model head"

NOT_APPLICABLE: dict[tuple[str, str], str] = {
    **{("objective masked", f): OTHER_HEAD for f in (*DECODERS, "t5")},
    **{("objective causal", f): OTHER_HEAD for f in (*ENCODERS, "t5")},
    **{("objective span", f): NO_DECODER for f in (*ENCODERS, *DECODERS)},
    **{("fill a mask", f): NO_MASK for f in DECODERS},
    ("fill a mask", "t5"): SENTINELS,
    ("score a text", "t5"): TWO_HALVES,
    **{("perplexity from left to right", f): ONE_WAY for f in ENCODERS},
    ("perplexity from left to right", "t5"): TWO_HALVES,
    **{("write on without a task", f): NO_WRITER for f in ENCODERS},
    ("language model beside a task", "t5"): NO_LANGUAGE,
}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    return Place(tmp_path_factory.mktemp("matrix"))


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("name", list(CELLS))
def test_cell(name: str, family: str, place: Place, tmp_path: Path) -> None:
    place.base(family)
    if (name, family) not in NOT_APPLICABLE:
        CELLS[name](place, family, tmp_path)
        return
    with pytest.raises(UserError) as refused:
        CELLS[name](place, family, tmp_path)
    said = str(refused.value)
    assert 30 < len(said) < 250 and "\n" not in said


def test_every_declared_cell_exists() -> None:
    assert all(name in CELLS and family in FAMILIES for name, family in NOT_APPLICABLE)


def page() -> str:
    """docs/matrix.md."""
    cells = [(name, family) for name in CELLS for family in FAMILIES]
    reasons = list(dict.fromkeys(NOT_APPLICABLE[c] for c in cells if c in NOT_APPLICABLE))

    def shown(name: str, family: str) -> str:
        reason = NOT_APPLICABLE.get((name, family))
        return "yes" if reason is None else f"- ({reasons.index(reason) + 1})"

    lines = [
        "# Everything on everything",
        "",
        "Written by `tests/test_matrix.py`, which runs every cell on a tiny model. Where a cell is",
        "declared not applicable, the test sees that the product refuses it with one sentence.",
        "",
        f"| | {' | '.join(FAMILIES)} |",
        f"|---|{'---|' * len(FAMILIES)}",
        *(f"| {name} | {' | '.join(shown(name, f) for f in FAMILIES)} |" for name in CELLS),
        "",
        *(f"{n}. {reason}" for n, reason in enumerate(reasons, 1)),
        "",
        "In every task's cell the rows are also answered one by one and in another order: the",
        "answers are the same to 1e-5.",
        "",
        "## What transformers loads",
        "",
        "The class for a fine-tuned model with the standard head. `own`: transformers has none;",
        "the head is saved beside the body, which transformers loads without it.",
        "",
    ]
    table = {family: heads(family) for family in FAMILIES}
    tasks = list(table[FAMILIES[0]])
    lines += [f"| | objective | {' | '.join(tasks)} |", f"|---|---|{'---|' * len(tasks)}"]
    for family in FAMILIES:
        classes = [table[family][task] or "own" for task in tasks]
        lines.append(f"| {family} | {module_of(family).OBJECTIVE} | {' | '.join(classes)} |")
    return "\n".join(lines) + "\n"


def test_the_page_is_up_to_date() -> None:
    if os.environ.get("TIANCI_WRITE"):
        PAGE.write_text(page(), encoding="utf-8")
    assert PAGE.exists() and PAGE.read_text(encoding="utf-8") == page(), (
        "docs/matrix.md differs from what the tests say; TIANCI_WRITE=1 pytest tests/test_matrix.py"
    )
