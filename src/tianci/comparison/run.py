"""A comparison, from a recipe to its table; what is done is kept, so a stop costs little."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tianci import __version__
from tianci.claim import claim
from tianci.comparison.parts import Parts
from tianci.comparison.plan import Plan
from tianci.comparison.progress import Progress
from tianci.comparison.recipe import Recipe, read_recipe, slug
from tianci.comparison.settings import Entry
from tianci.comparison.table import make_row, write_results
from tianci.errors import Stopped, UserError
from tianci.tune.work import free_memory

BASELINE = "simple baseline"


def compare(
    recipes: Sequence[str | Path],
    assignments: Iterable[str] = (),
    options: Mapping[str, Mapping[str, Any]] | None = None,
    seed: int = 0,
    quiet: bool = False,
) -> dict[str, Any]:
    """Runs all recipes, or what is left of them; returns what `--json` prints."""
    if not recipes:
        raise UserError("name at least one recipe, such as recipes/lineage-zh.toml")
    assignments = list(assignments)
    read = [read_recipe(path, assignments, options) for path in recipes]
    names = [recipe.name for recipe in read]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise UserError(f"two recipes are called {twice}; they would share a directory")
    found = [_Comparison(recipe, seed, quiet).go() for recipe in read]
    return {
        "rows": [row for one in found for row in one["rows"]],
        "comparisons": [{k: v for k, v in one.items() if k != "rows"} for one in found],
    }


class _Comparison:
    def __init__(self, recipe: Recipe, seed: int, quiet: bool):
        self.recipe, self.seed, self.quiet = recipe, seed, quiet
        self.out = Path(recipe.compare.out) / recipe.name
        self.parts = Parts(self.out)
        self.plan = Plan(recipe, self.out, seed)

    def go(self) -> dict[str, Any]:
        """Does every part in turn, then writes the table."""
        with claim(self.out):
            return self._go()

    def _go(self) -> dict[str, Any]:
        began = time.monotonic()
        plan = self.plan.parts()
        left = [part for part in plan if self.parts.done(part.name, part.made_from) is None]
        total = sum(part.seconds for part in left)
        if left:
            kept = f", {len(plan) - len(left)} kept from before" if len(left) < len(plan) else ""
            self._tell(
                f"{self.recipe.name}: {len(left)} parts{kept}, about {total / 60:.0f} minutes "
                f"on this machine; stop at any time, the same command goes on"
            )
        bar = Progress(total, self.quiet or not left)
        results: dict[str, dict[str, Any]] = {}
        try:
            for part in plan:
                if part not in left:
                    results[part.name] = self.parts.do(part.name, part.made_from, part.work)
                    continue
                with bar.part(part.what, part.seconds):
                    results[part.name] = self.parts.do(part.name, part.made_from, part.work)
                free_memory()
        except Stopped as stop:
            message = f"stopped and saved in {self.out}; the same command goes on from here"
            raise Stopped(stop.number, message) from None
        finally:
            bar.close()
        return self._finish(results, total, time.monotonic() - began)

    def _finish(
        self, results: Mapping[str, dict[str, Any]], estimated: float, seconds: float
    ) -> dict[str, Any]:
        rows = [
            make_row(
                self.recipe,
                entry,
                results[f"{slug(entry.name)}/model"],
                {
                    labels.name: [
                        results[self.plan.tuning_name(entry, labels, n)] for n in self.plan.seeds
                    ]
                    for labels in self.recipe.tasks
                },
            )
            for entry in self.recipe.models
        ]
        simple = {
            labels.name: [results[f"baseline/{slug(labels.name)}"]] for labels in self.recipe.tasks
        }
        if any(one[0] for one in simple.values()):
            rows.append(make_row(self.recipe, Entry(BASELINE), {}, simple))
        record = {
            "tianci": __version__,
            "recipe": self.recipe.name,
            "title": self.recipe.compare.title or self.recipe.name,
            "seed": self.seed,
            "seeds": self.recipe.compare.seeds,
            "budget": self.recipe.compare.budget,
            "text": list(self.recipe.compare.text),
            "tasks": {
                one.name: {"task": one.task, "rows": results[f"baseline/{slug(one.name)}"]["rows"]}
                for one in self.recipe.tasks
            },
            "estimated_seconds": round(estimated, 1),
            "seconds": round(sum(one["part_seconds"] for one in results.values()), 1),
            "this_sitting_seconds": round(seconds, 1),
            "out": str(self.out),
            "rows": rows,
        }
        for note in write_results(self.out, record):
            self._tell(note)
        return record

    def _tell(self, text: str) -> None:
        if not self.quiet:
            print(text, file=sys.stderr)
