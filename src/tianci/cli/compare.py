"""tianci compare"""

from __future__ import annotations

from typing import Any

import click

from tianci.cli.command import Run, command
from tianci.comparison.settings import Compare

# all tables of a recipe but [compare] are free here: they are checked where their names are known
SECTIONS: dict[str, type] = {
    "compare": Compare,
    **dict.fromkeys(("vocab", "prepare", "train", "sizes", "finetune"), dict),
    **dict.fromkeys(("masked", "next_sentence", "sentence_order"), dict),
    **dict.fromkeys(("causal", "span", "prefix"), dict),
    **dict.fromkeys(("classify", "pair", "regress", "tag"), dict),
    **dict.fromkeys(("answer", "choose", "similar", "generate"), dict),
}


@command(
    "compare",
    example="tianci compare recipes/lineage-zh.toml recipes/lineage-en.toml --out runs/lineage\n"
    "tianci compare recipes/ablation-pairs.toml --minutes 2 --seeds 2 --data ../shared/data",
    settings=SECTIONS,
)
@click.argument("recipes", nargs=-1, required=True, metavar="RECIPE...")
def compare(run: Run, recipes: tuple[str, ...]) -> None:
    """Compares models on the same text, with the same budget and the same labels.

    A RECIPE (TOML) names text, models and tasks. For each model: vocabulary, token store,
    pre-training, fine-tuning with several seeds; then one table. Every part is an ordinary run and
    is kept: after a stop the same command goes on.
    """
    from tianci.comparison.run import compare as run_comparison

    found = run_comparison(recipes, run.assignments, run.options, run.seed, run.quiet)
    run.result(found, lambda: _text(found))


def _text(found: dict[str, Any]) -> str:
    from tianci.comparison.table import markdown

    pages = []
    for one in found["comparisons"]:
        rows = [row for row in found["rows"] if row["recipe"] == one["recipe"]]
        pages.append(markdown({**one, "rows": rows}))
    return "\n".join(pages).rstrip()
