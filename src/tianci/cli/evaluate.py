"""tianci evaluate"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import click

from tianci.cli.command import Run, command
from tianci.errors import UserError

SECTIONS = ("masked", "next_sentence", "sentence_order", "causal", "span", "prefix")


@command(
    "evaluate",
    example="tianci evaluate runs/hotel test.jsonl\n"
    "tianci evaluate runs/mini corpus --objective masked+next_sentence\n"
    "tianci evaluate runs/gpt2 corpus --stride 32\n"
    "tianci evaluate runs/gpt2 novel.txt --objective causal\n"
    "tianci evaluate runs/mini --suite csc test.jsonl.gz\n"
    "tianci evaluate runs/mini --suite blimp data/blimp_en --limit 50 --json",
    settings=dict.fromkeys(SECTIONS, dict),
)
@click.argument("model")
@click.argument("file")
@click.option(
    "--suite",
    metavar="NAME",
    help="FILE holds sentence pairs of blimp, sling or csc, or passages of lambada",
)
@click.option("--limit", type=click.IntRange(1), help="pairs of each paradigm (default: all)")
@click.option("--whole-words", is_flag=True, help="score pairs as tianci score --whole-words does")
@click.option("--objective", help="what to measure (default: what the model was trained with)")
@click.option("--split", default="held", show_default=True, help="of the corpus: held or train")
@click.option(
    "--tokens",
    type=click.IntRange(1),
    default=200_000,
    show_default=True,
    help="how much of the corpus",
)
@click.option(
    "--length",
    type=click.IntRange(8),
    default=128,
    show_default=True,
    help="tokens of a full sequence",
)
@click.option(
    "--stride",
    type=click.IntRange(1),
    help="causal: how far a window moves in a longer text  [default: half of the length]",
)
@click.option("--column", multiple=True, help="which column is which, for example text=review")
@click.option(
    "--int8",
    is_flag=True,
    help="labelled rows: the scores in int8; an error if more than half a point is lost",
)
def evaluate(
    run: Run,
    model: str,
    file: str,
    suite: str | None,
    limit: int | None,
    whole_words: bool,
    objective: str | None,
    split: str,
    tokens: int,
    length: int,
    stride: int | None,
    column: tuple[str, ...],
    int8: bool,
) -> None:
    """Measures a model: on labelled rows, on the held-out text of a corpus, or on a suite.

    FILE is a file of labelled rows for a fine-tuned model, a corpus made by tianci prepare, or with
    --suite a file of sentence pairs (or the directory with its test file); there the model is
    right when it finds the good sentence more likely. A decoder's perplexity (--objective causal)
    can also be measured on a file of plain text.
    """
    if suite == "lambada":
        words = _lambada(run, model, file, limit)
        run.result(words, lambda: _lambada_line(words))
    elif suite is not None:
        pairs = _suite(run, model, file, suite, limit, whole_words)
        run.result(pairs, lambda: _suite_table(pairs))
    elif stride or objective == "causal" or (Path(file).is_dir() and _is_decoder(model)):
        found = _perplexity(model, file, split, tokens, length, stride)
        run.result(found, lambda: _perplexity_table(found))
    elif Path(file).is_dir():
        result = _corpus(run, model, file, objective, split, tokens, length)
        run.result(result, lambda: _corpus_table(result))
    elif file != "-" and not Path(file).exists():
        raise UserError(f"{file}: no such file or directory; check the name")
    elif objective:
        raise UserError(
            f"{file} is a file, but {objective} is measured on a corpus; make one: tianci prepare "
            f"{file} --tokenizer {model} --out DIR"
        )
    else:
        scores = _rows(run, model, file, column, int8)
        run.result(scores, lambda: _rows_table(scores))


def _is_decoder(model: str) -> bool:
    """Whether a model's own record says that it reads from left to right."""
    from tianci.files import read_json

    names = [Path(model, name) for name in ("config.json", "tianci.json")]
    found = [read_json(path) for path in names if path.exists()]
    said = " ".join(str(name) for one in found for name in one.get("architectures") or ())
    heads = [name for one in found for name in one.get("heads") or ()]
    return "causal" in heads or "LMHead" in said


def _perplexity(
    model: str, file: str, split: str, tokens: int, length: int, stride: int | None
) -> dict[str, Any]:
    import torch

    from tianci.evaluate.perplexity import evaluate_perplexity

    device = "cuda" if torch.cuda.is_available() else "cpu"
    return evaluate_perplexity(model, file, split, tokens, length, stride, device)


def _perplexity_table(result: dict[str, Any]) -> str:
    rows = [
        ("perplexity per token", f"{result['causal_perplexity']:,.2f}"),
        ("perplexity per word", f"{result['word_perplexity']:,.2f}"),
        ("bits per byte", f"{result['bits_per_byte']:.4f}"),
        ("loss per token", f"{result['causal_loss']:.4f} nats"),
    ]
    lines = [f"{name:<24}{value:>14}" for name, value in rows]
    if "unigram_entropy" in result:
        lines[-1] += (
            f"  (token frequencies alone: {result['unigram_entropy']:.2f}, "
            f"the token before: {result['bigram_entropy']:.2f})"
        )
    lines.append(
        f"on {result['tokens']:,} tokens, {result['words']:,} words, {result['bytes']:,} bytes in "
        f"{result['texts']:,} texts; windows of {result['length']}, {result['stride']} apart"
    )
    return "\n".join(lines)


def _rows(run: Run, model: str, file: str, column: tuple[str, ...], int8: bool) -> dict[str, Any]:
    """Scores of a fine-tuned model on labelled rows, by the threshold that dev rows chose."""
    from tianci.data.rows import read_rows
    from tianci.serve.predictor import load
    from tianci.tune.run import measured
    from tianci.tune.settings import Finetune

    predictor = load(model)
    task = predictor.task
    rows = read_rows(file, task.columns(), Finetune(column=list(column)).columns)
    decision = predictor.checkpoint.about.get("decision") or {}
    known = (task, rows, predictor.task_limit, decision, predictor.device)
    found = measured(predictor.checkpoint, *known)
    more: dict[str, Any] = {}
    if int8:
        from tianci.engine.quality import check_score

        small = measured(load(model, int8=True).checkpoint, *known)
        name = task.chosen_by(rows)
        more["float32"] = check_score(name, found["scores"][name], small["scores"][name])
        found = small
    return {**found["scores"], "count": len(rows), "intervals": found["intervals"],
            "task": task.name, **more}  # fmt: skip


def _rows_table(result: dict[str, Any]) -> str:
    lines = [f"{result['task']}, {result['count']:,} rows{'':10}{'95 % interval':>20}"]
    for name, value in result.items():
        if isinstance(value, float):
            low, high = result["intervals"].get(name, (float("nan"),) * 2)
            lines.append(f"  {name:<20}{value:>9.4f}{f'{low:.4f} to {high:.4f}':>22}")
    return "\n".join(lines)


def _corpus(
    run: Run, model: str, corpus: str, objective: str | None, split: str, tokens: int, length: int
) -> dict[str, Any]:
    import torch

    from tianci.evaluate.objectives import evaluate_objectives

    return evaluate_objectives(
        model,
        corpus,
        objective,
        run.settings,
        split,
        tokens,
        length,
        seed=run.seed or None,
        device="cuda" if torch.cuda.is_available() else "cpu",
    )


def _corpus_table(result: dict[str, Any]) -> str:
    lines = [f"{'':16}{'loss':>9}{'perplexity':>13}{'accuracy':>11}{'judged':>10}"]
    for name in result["objective"].split("+"):
        loss, perplexity = result[f"{name}_loss"], result[f"{name}_perplexity"]
        right, count = result[f"{name}_accuracy"], result[f"{name}_count"]
        lines.append(f"{name:<16}{loss:>9.4f}{perplexity:>13,.2f}{right:>11.2%}{count:>10,}")
    lines.append(
        f"on {result['tokens']:,} tokens in {result['count']:,} sequences of split "
        f"{result['split']}"
    )
    if "unigram_entropy" in result:
        lines.append(
            f"for comparison: token frequencies alone give a loss of "
            f"{result['unigram_entropy']:.2f}, the token before {result['bigram_entropy']:.2f}"
        )
    return "\n".join(lines)


def _suite(
    run: Run, model: str, file: str, suite: str, limit: int | None, whole_words: bool
) -> dict[str, Any]:
    from tqdm import tqdm

    from tianci.evaluate.suites import evaluate_suite, read_pairs
    from tianci.serve.predictor import load

    def bar(texts: Iterable[str], total: int) -> Iterable[str]:
        return tqdm(texts, total=total, unit="text", delay=2, disable=run.quiet)

    read_pairs(suite, file)  # a wrong name or file is told before the model is loaded
    return evaluate_suite(load(model), suite, file, limit, whole_words, bar)


def _lambada(run: Run, model: str, file: str, limit: int | None) -> dict[str, Any]:
    from tqdm import tqdm

    from tianci.evaluate.lambada import evaluate_lambada
    from tianci.serve.predictor import load

    def bar(batches: Iterable[Any], total: int) -> Iterable[Any]:
        return tqdm(batches, total=total, unit="batch", delay=2, disable=run.quiet)

    return evaluate_lambada(load(model).checkpoint, file, limit, bar)


def _lambada_line(found: dict[str, Any]) -> str:
    return (
        f"lambada {found['accuracy']:.2%} ({found['low']:.2%} to {found['high']:.2%}) of "
        f"{found['count']:,} last words; perplexity of the word {found['perplexity']:,.1f}"
    )


def _suite_table(result: dict[str, Any]) -> str:
    names = [*result["paradigms"], *result["phenomena"]]
    width = max(len(name) for name in names) + 2
    lines: list[str] = []

    def add(name: str, row: dict[str, Any]) -> None:
        lines.append(
            f"{name:<{width}}{row['accuracy']:>8.1%}  ({row['low']:.1%} to {row['high']:.1%})"
            f"  of {row['count']:,}"
        )

    for kind in ("paradigms", "phenomena"):
        if len(result[kind]) > 1:
            lines.append(kind)
            for name, row in result[kind].items():
                add("  " + name, row)
    add(result["suite"], result)
    lines.append(
        f"mean of the paradigms {result['mean_of_paradigms']:.1%}; by the mean per token "
        f"{result['accuracy_by_mean']:.1%}; ties: {result['ties']}"
    )
    return "\n".join(lines)
