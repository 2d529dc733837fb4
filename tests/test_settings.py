"""Settings from files, --set and options; wrong names are answered with the right one."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import pytest

from tianci.errors import UserError
from tianci.settings import parse_assignment, resolve, setting, to_toml


@dataclass(frozen=True)
class Learn:
    lr: float = setting(1e-4, "peak rate")
    steps: int | None = setting(None, "how many")
    kind: Literal["linear", "cosine"] = setting("linear", "schedule")
    names: list[str] = setting([], "some names")


SECTIONS = {"train": Learn}


def test_later_sources_win(tmp_path: Path) -> None:
    file = tmp_path / "a.toml"
    file.write_text('[train]\nlr = 0.5\nsteps = 7\nkind = "cosine"\n')
    found = resolve(
        SECTIONS, file, ["train.lr=3e-5", "train.names=['a', 'b']"], {"train": {"steps": 9}}
    )
    assert found["train"] == Learn(lr=3e-5, steps=9, kind="cosine", names=["a", "b"])


def test_printed_settings_can_be_read_back(tmp_path: Path) -> None:
    settings = {"train": Learn(lr=2e-5, names=['quo"te', "中文"])}
    text = to_toml(settings)
    assert to_toml(resolve(SECTIONS, None, ["train.lr=2e-5"])).count("=") == 4  # all, not only lr
    assert "lr = 2e-05  # peak rate" in text and "# steps = (not set)  # how many" in text
    (tmp_path / "again.toml").write_text(text)
    assert resolve(SECTIONS, tmp_path / "again.toml") == settings


@pytest.mark.parametrize(
    ("text", "parsed"),
    [
        ("train.lr=3e-5", ("train", "lr", 3e-5)),
        ("train.kind=cosine", ("train", "kind", "cosine")),
        ("a.b=true", ("a", "b", True)),
        ("a.b = [1, 2]", ("a", "b", [1, 2])),
    ],
)
def test_assignments(text: str, parsed: object) -> None:
    assert parse_assignment(text) == parsed


@pytest.mark.parametrize(
    ("assignment", "message"),
    [
        ("train.rl=1", 'unknown setting "train.rl"; did you mean "train.lr"?'),
        ("trian.lr=1", 'unknown section of settings "trian"; did you mean "train"?'),
        ("train.lr=fast", "setting train.lr: expected `float`"),
        ("train.kind=square", "setting train.kind: invalid enum value 'square'"),
        ("lr=1", '"lr=1" is not section.key=value'),
    ],
)
def test_bad_settings(assignment: str, message: str) -> None:
    with pytest.raises(UserError) as raised:
        resolve(SECTIONS, None, [assignment])
    assert message in str(raised.value)


def test_bad_files(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="does not exist"):
        resolve(SECTIONS, tmp_path / "none.toml")
    (tmp_path / "a.toml").write_text("[train\n")
    with pytest.raises(UserError, match=r"a\.toml is not TOML"):
        resolve(SECTIONS, tmp_path / "a.toml")
    (tmp_path / "b.toml").write_text("lr = 1\n")
    with pytest.raises(UserError, match='"lr" stands outside a section'):
        resolve(SECTIONS, tmp_path / "b.toml")
