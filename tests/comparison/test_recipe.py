"""Recipes: shared tables, a model's own, what is typed, and what is wrong said in one sentence."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.comparison.conftest import RECIPE
from tests.conftest import ROOT
from tianci.comparison.recipe import read_recipe, slug
from tianci.errors import UserError


def test_what_is_typed_stands_above_the_model_and_the_shared_table(toy: Path) -> None:
    text = RECIPE.replace("positions = 64}", "positions = 64}\nvocab = {size = 50}", 1)
    text = text.replace("rows = 60", "rows = 60\nepochs = 5")
    (toy / "own.toml").write_text(text, encoding="utf-8")
    recipe = read_recipe(toy / "own.toml")
    bert, gpt, _ = recipe.models
    assert [recipe.vocabulary(one).size for one in (bert, gpt)] == [50, 45]
    assert recipe.tuning(bert, recipe.tasks[0]).epochs == 5  # the task's
    assert (recipe.objective(bert), recipe.objective(gpt)) == ("masked+next_sentence", "causal")
    typed = read_recipe(
        toy / "own.toml", ["vocab.size=60", "finetune.epochs=1"], {"compare": {"tokens": 900}}
    )
    assert [typed.vocabulary(one).size for one in typed.models] == [60, 60, 60]
    assert typed.tuning(bert, typed.tasks[0]).epochs == 1
    train = typed.training(bert)  # a budget that is typed takes the place of the recipe's
    assert (train.tokens, train.steps, train.length) == (900, None, 32)


def test_data_may_lie_elsewhere(toy: Path, tmp_path: Path) -> None:
    shutil.copy(toy / "toy.toml", tmp_path / "toy.toml")
    with pytest.raises(UserError, match=r"names train.jsonl, but there is no .*--data DIR"):
        read_recipe(tmp_path / "toy.toml")
    found = read_recipe(tmp_path / "toy.toml", (), {"compare": {"data": str(toy / "data")}})
    assert found.texts == ((toy / "data" / "text.txt").resolve(),)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("[[task]]", "[task]", r"each task stands below \[\[task\]\]"),
        ('name = "fresh"', 'name = "bert"', '"BERT" and "bert" would share a directory'),
        ('name = "fresh"', 'name = "BERT"', 'two of the models are called "BERT"'),
        ('name = "fresh"', 'name = "vocab"', "is the name of another folder"),
        ('"gpt-tiny"', '"gpt-tyni"', 'did you mean "gpt-tiny"'),
        ('preset = "gpt-tiny"', "", "needs a preset"),
        ("steps = 30", "", "nothing says how long"),
        ("steps = 30", "steps = 30\nminutes = 1", "compare.minutes and compare.steps both"),
        ('task = "classify"', 'task = "clasify"', 'did you mean "classify"'),
        ("rows = 60", "row = 60", 'did you mean "finetune.rows"'),
        ('text = ["text.txt"]', "", "names no text"),
        ("[vocab]", "[vocabulary]", 'did you mean "vocab"'),
        ("width = 32, heads", "wide = 32, heads", 'did you mean "sizes.width"'),
        ("pretrained = false", "pretrained = false\nobjectiv = 1", 'did you mean "objective"'),
    ],
)
def test_what_is_wrong_is_said_before_anything_runs(
    toy: Path, old: str, new: str, message: str
) -> None:
    assert old in RECIPE
    (toy / "wrong.toml").write_text(RECIPE.replace(old, new, 1), encoding="utf-8")
    with pytest.raises(UserError, match=message):
        read_recipe(toy / "wrong.toml")


def test_names_become_folders() -> None:
    assert [slug(n) for n in ("BERT", "GPT small", "../x/y", "新闻")] == [
        "bert", "gpt-small", "x-y", "新闻",
    ]  # fmt: skip


@pytest.mark.parametrize(
    "name", ["lineage-zh", "lineage-en", "ablation-pairs", "ablation-direction"]
)
def test_the_recipes_of_the_project_can_be_read(shared_data: Path, name: str) -> None:
    recipe = read_recipe(
        ROOT / "recipes" / f"{name}.toml", (), {"compare": {"data": str(shared_data)}}
    )
    assert len(recipe.models) >= 3 and recipe.compare.budget and recipe.tasks
