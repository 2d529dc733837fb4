"""docs/families.md: presets and their parameters are those of the code.

`TIANCI_WRITE=1 pytest tests/models/test_families_page.py` writes them.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import torch

from tests.conftest import ROOT
from tests.models.family import language_head
from tianci import checkpoint
from tianci.models import families, family

PAGE = ROOT / "docs" / "families.md"
BEGIN, END = "<!-- presets: written by tests/models/test_families_page.py -->", "<!-- end -->"


def table() -> str:
    """Parameters of all presets with their language-model head, and lines of the family's file."""
    rows = ["| family | lines | presets and parameters |", "|---|---|---|"]
    for name in families():
        module = family(name)
        sizes = []
        for size, config in module.PRESETS.items():
            with torch.device("meta"):
                made = checkpoint.create(name, config, (language_head(name),))
            sizes.append(f"`{name}-{size}` {made.parameter_count:,}")
        lines = len(Path(str(module.__file__)).read_text(encoding="utf-8").splitlines())
        rows.append(f"| {name} | {lines} | {', '.join(sizes)} |")
    return "\n".join(rows)


def test_the_page_is_up_to_date() -> None:
    text = PAGE.read_text(encoding="utf-8")
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    wanted = f"{before}{BEGIN}\n{table()}\n{END}{after}"
    if os.environ.get("TIANCI_WRITE"):
        PAGE.write_text(wanted, encoding="utf-8")
        return
    # lines are shown as they were when the page was written: a comment more breaks nothing
    lines = re.compile(r"^(\| \w+ \|) \d+ \|", re.MULTILINE)
    assert lines.sub(r"\1", text) == lines.sub(r"\1", wanted), (
        "docs/families.md differs from the code; TIANCI_WRITE=1 pytest "
        "tests/models/test_families_page.py"
    )
