"""The report of a fine-tuning run: `report.html` to look at, `report.md` to paste."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tianci.files import write_file
from tianci.tune.report_markdown import markdown
from tianci.tune.report_page import page


def write_report(folder: Path, record: dict[str, Any]) -> None:
    """Writes report.html and report.md; `record` is what scores.json holds."""
    name = folder.resolve().name
    # bytes: a text may hold half a surrogate pair, which strict UTF-8 would refuse
    write_file(folder / "report.html", page(name, record).encode("utf-8", "replace"))
    write_file(folder / "report.md", markdown(name, record).encode("utf-8", "replace"))
