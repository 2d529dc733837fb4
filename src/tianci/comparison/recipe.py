"""A recipe of a comparison, a TOML file:

[compare]           what all share: title, data, text, minutes, seeds
[vocab], [prepare], [train], [finetune], [sizes], [masked] ...   as in other recipes, for all
[[model]]           name, preset, objective; [model.vocab] and so on change one model
[[task]]            name, task, train, dev, test and any setting of a fine-tuning run
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tianci.comparison.settings import BUDGETS, Compare, Entry, Labels
from tianci.data.prepare import PrepareSettings
from tianci.errors import UserError, unknown
from tianci.goals.objectives import objective_names, parse
from tianci.goals.tasks import make_task, task_names
from tianci.models import family, preset
from tianci.settings import Table, build, merge, parse_assignment, read_toml
from tianci.text.learn import Vocabulary
from tianci.train.settings import Train
from tianci.tune.settings import Finetune

FILES = ("train", "dev", "test")  # of a task
RESERVED = ("vocab", "corpus", "parts", "baseline", "model")  # folders of a comparison
OWN = ("vocab", "prepare", "train", "sizes", "finetune")  # tables that a model may have


@dataclass(frozen=True)
class Recipe:
    """A comparison, checked; every file it names exists."""

    name: str
    compare: Compare
    tables: dict[str, dict[str, Any]]  # shared by all models
    given: dict[str, dict[str, Any]]  # on the command line, above everything
    models: tuple[Entry, ...]
    tasks: tuple[Labels, ...]
    texts: tuple[Path, ...]

    def table(self, entry: Entry, name: str) -> dict[str, Any]:
        """A shared table, with what one model has of its own, and then what was typed, on top."""
        return {**self.tables.get(name, {}), **entry.table(name), **self.given.get(name, {})}

    def vocabulary(self, entry: Entry) -> Vocabulary:
        return build(Vocabulary, self.table(entry, "vocab"), "vocab")

    def preparing(self, entry: Entry) -> PrepareSettings:
        return build(PrepareSettings, self.table(entry, "prepare"), "prepare")

    def objective(self, entry: Entry) -> str:
        """What a model learns from text; without a word its family's own objective."""
        return entry.objective or str(family(preset(entry.preset)[0]).OBJECTIVE)

    def objective_tables(self, entry: Entry) -> dict[str, dict[str, Any]]:
        return {name: self.table(entry, name) for name in objective_names()}

    def training(self, entry: Entry) -> Train:
        return build(Train, {**self.table(entry, "train"), **self.compare.budget}, "train")

    def tuning(self, entry: Entry, labels: Labels) -> Finetune:
        """Shared settings, then the task's, then the model's, then what was typed."""
        shared, typed = (tables.get("finetune", {}) for tables in (self.tables, self.given))
        table = {**shared, **labels.finetune, **entry.table("finetune"), **typed}
        return build(Finetune, table, "finetune")


def read_recipe(
    path: str | Path,
    assignments: Iterable[str] = (),
    options: Mapping[str, Mapping[str, Any]] | None = None,
) -> Recipe:
    """The recipe of a file, with `--set` and options on top."""
    path = Path(path)
    tables = read_toml(path)
    models, tasks = (_entries(tables.pop(name, []), name, path) for name in ("model", "task"))
    for name, table in tables.items():
        if not isinstance(table, dict):
            raise UserError(f'{path}: "{name}" stands outside a section; put it below [section]')
    given: dict[str, dict[str, Any]] = {}
    for text in assignments:
        section, key, value = parse_assignment(text)
        given.setdefault(section, {})[key] = value
    given = merge(given, options or {})
    known = ("compare", *OWN, *objective_names(), *task_names())
    for name in (*tables, *given):
        if name not in known:
            raise unknown("section of a comparison", name, [*known, "model", "task"])
    over = given.pop("compare", {})
    compare = build(Compare, {**_one_budget(tables.pop("compare", {}), over), **over}, "compare")
    # what the user types is seen from where he stands, what the recipe says from the recipe
    folder = Path(over["data"]) if "data" in over else path.parent / compare.data
    recipe = Recipe(
        path.stem,
        compare,
        tables,
        given,
        tuple(_entry(table, path) for table in models),
        tuple(_labels(table, merge(tables, given), folder, path) for table in tasks),
        tuple(_file(text, folder, path) for text in compare.text),
    )
    _check(recipe, path)
    return recipe


def _entries(value: Any, name: str, path: Path) -> list[Table]:
    if not isinstance(value, list) or not all(isinstance(one, dict) for one in value):
        raise UserError(f"{path}: each {name} stands below [[{name}]], with two brackets")
    names = [one.get("name") for one in value]
    for one in names:
        if not isinstance(one, str) or not one.strip():
            raise UserError(f'{path}: each [[{name}]] needs a name = "..."')
        if names.count(one) > 1:
            raise UserError(f'{path}: two of the {name}s are called "{one}"; rename one of them')
    return value


def _one_budget(table: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """A budget given on the command line takes the place of the recipe's."""
    typed = any(name in over for name in BUDGETS)
    return {name: v for name, v in table.items() if not (typed and name in BUDGETS)}


def _entry(table: Table, path: Path) -> Entry:
    plain = {f.name for f in dataclasses.fields(Entry)} - {"tables"}
    known = (*OWN, *objective_names())
    own = {name: value for name, value in table.items() if name not in plain}
    for name, value in own.items():
        if name not in known or not isinstance(value, dict):
            raise unknown("setting of a model", name, [*plain, *known])
    entry = build(Entry, {k: v for k, v in table.items() if k in plain}, "model")
    if bool(entry.preset) == bool(entry.directory):
        raise UserError(
            f'{path}: the model "{entry.name}" needs a preset such as "bert-tiny", or the '
            "directory of an existing model"
        )
    if entry.directory:
        place = _file(entry.directory, path.parent, path)
        entry = dataclasses.replace(entry, directory=str(place))
    return dataclasses.replace(entry, tables=own)


def _labels(table: Table, shared: Mapping[str, Any], folder: Path, path: Path) -> Labels:
    rest = {name: value for name, value in table.items() if name not in ("name", "task")}
    task = table.get("task")
    if not isinstance(task, str) or task not in task_names():
        named = task if isinstance(task, str) else f"a {type(task).__name__}"
        raise unknown("task", named, task_names())
    own = rest.pop(task, {})
    if not isinstance(own, dict):
        raise UserError(f'{path}: "{task}" of a task holds a {type(own).__name__}, not a table')
    settings = {**shared.get(task, {}), **own}
    for name in FILES:
        if name in rest:
            rest[name] = str(_file(rest[name], folder, path))
    if "train" not in rest:
        raise UserError(f'{path}: the task "{table["name"]}" needs train = "FILE"')
    return Labels(table["name"], task, rest, settings)


def _file(name: Any, folder: Path, path: Path) -> Path:
    if not isinstance(name, str):
        raise UserError(f"{path}: a file is named by a text, not by a {type(name).__name__}")
    place = folder / name
    try:
        there = place.exists()
    except (OSError, ValueError):  # a name that no file can have
        there = False
    if not there:
        raise UserError(
            f"{path} names {name}, but there is no {place}; fetch the data, or say with --data DIR "
            "where they are"
        )
    return place.resolve()


def _check(recipe: Recipe, path: Path) -> None:
    """All that can be wrong is said before anything is trained."""
    if not recipe.models:
        raise UserError(f"{path}: there is no [[model]] to compare")
    for names in ([m.name for m in recipe.models], [t.name for t in recipe.tasks]):
        folders: dict[str, str] = {}
        for name in names:
            twin = folders.setdefault(slug(name), name)
            if twin != name:
                raise UserError(f'{path}: "{twin}" and "{name}" would share a directory')
            if slug(name) in RESERVED:
                raise UserError(f'{path}: "{name}" is the name of another folder; take another')
    for entry in recipe.models:
        if entry.preset:
            _, config = preset(entry.preset)
            sizes = {**dataclasses.asdict(config), **recipe.table(entry, "sizes")}
            build(type(config), sizes, "sizes")
            parse(recipe.objective(entry), recipe.objective_tables(entry))
            recipe.vocabulary(entry)
            recipe.preparing(entry)
        if entry.preset and entry.pretrained and not recipe.compare.budget:
            raise UserError(
                f"{path}: nothing says how long the models are pre-trained; set compare.minutes, "
                "compare.tokens or compare.steps"
            )
        recipe.training(entry)
        for labels in recipe.tasks:
            recipe.tuning(entry, labels)
    for labels in recipe.tasks:
        make_task(labels.task, labels.settings)
    if not recipe.texts and any(entry.preset for entry in recipe.models):
        raise UserError(f'{path}: compare.text names no text; write text = ["wiki/train.txt.gz"]')


def slug(name: str) -> str:
    """A name as a folder: letters, digits and dashes."""
    kept = "".join(c if c.isalnum() or c in "._+" else "-" for c in name.strip().lower())
    return kept.strip("-.") or "model"
