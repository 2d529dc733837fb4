"""The floors of SECURITY.md are those of pyproject.toml, and what is installed is above them."""

from __future__ import annotations

import re
import tomllib
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
USED = ("serve", "export", "openvino", "zh", "data", "plot")  # extras that the package itself needs


def table() -> dict[str, str]:
    """Package to floor, from SECURITY.md."""
    text = (ROOT / "SECURITY.md").read_text("utf-8")
    rows = re.findall(r"^\| ([a-z0-9-]+) \| ([0-9.]+) \| (.+) \|$", text, re.MULTILINE)
    assert all(reason.strip() for _, _, reason in rows)
    return {name: floor for name, floor, _ in rows}


def required() -> dict[str, str]:
    """Package to floor, from pyproject.toml."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    wanted = list(project["dependencies"])
    for extra in USED:
        wanted += project["optional-dependencies"][extra]
    found = {}
    for one in wanted:
        match = re.match(r"([A-Za-z0-9-]+)>=([0-9.]+)", one)
        assert match, f"{one} has no floor"
        found[match[1]] = match[2]
    return found


def numbers(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", text)[:4])


def test_the_table_is_what_is_required() -> None:
    assert table() == required()


@pytest.mark.parametrize("name", sorted(table()))
def test_installed_versions_are_above_the_floor(name: str) -> None:
    try:
        there = version(name)
    except PackageNotFoundError:
        pytest.skip(f"{name} is not installed")
    assert numbers(there.partition("+")[0]) >= numbers(table()[name])


def test_versions_are_compared_as_numbers() -> None:
    assert numbers("0.100") > numbers("0.49.1") and numbers("4.66.3") > numbers("4.66")
