"""tianci audit"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

import click

from tianci.cli.command import Run, command

if TYPE_CHECKING:
    from tianci.train.audit import Report, Sample

MEANING = {
    "text": "tokens that are those of the corpus, special ones in place",
    "segments": "tokens with the right segment",
    "inside_document": "sequences whose segments do not cross a document border",
    "masked.chosen": "tokens to be guessed",
    "masked.mask": "of the chosen words: [MASK]",
    "masked.random": "of the chosen words: a random token",
    "masked.unchanged": "of the chosen words: unchanged",
    "masked.special_chosen": "special tokens to be guessed",
    "masked.changed_unchosen": "tokens changed without being asked for",
    "masked.random_special": "random tokens that are special ones",
    "masked.half_words": "chosen words of several tokens, but only in part",
    "masked.mixed_words": "chosen words hidden in more than one way",
    "next_sentence.random": 'pairs labelled "random"',
    "next_sentence.elsewhere": "of these: from another document",
    "next_sentence.follows": 'pairs labelled "next" that are neighbours',
    "sentence_order.swapped": 'pairs labelled "swapped"',
    "sentence_order.follows": 'pairs labelled "in order" that are neighbours in order',
    "sentence_order.leads": 'pairs labelled "swapped" that are neighbours swapped',
    "span.hidden": "tokens hidden behind sentinels",
    "span.spans": "spans per hidden token (a third where spans have 3)",
    "prefix.source": "tokens that are source",
    "once": "tokens of the documents that are in exactly one sequence",
    "several_tokens": "words of more than one token",
    "unknown": "unknown tokens",
    "shorter": "sequences below the full length",
    "mean_length": "tokens of a sequence, mean",
}
# what happened to a token -> colour, and how it is marked without colours
LOOKS = {
    "mask": ("30;43", "[{0}]"),
    "random": ("37;41", "[{0}>{1}]"),
    "kept": ("30;42", "[={0}]"),
}
SECTIONS = (
    *("pretrain", "train", "model", "masked", "next_sentence", "sentence_order"),
    *("causal", "span", "prefix"),
)


@command(
    "audit",
    example="tianci audit corpus --objective masked+next_sentence\n"
    "tianci audit corpus --set masked.rate=0.2 --set masked.span=3 --json\n"
    "tianci audit corpus --bag-of-words",
    settings=dict.fromkeys(SECTIONS, dict),
)
@click.argument("corpus")
@click.option("--objective", help="what is trained  [default: masked+next_sentence]")
@click.option(
    "--tokens",
    type=click.IntRange(1),
    default=1_000_000,
    show_default=True,
    help="how many to draw (fewer if the corpus is smaller)",
)
@click.option("--length", type=click.IntRange(8), help="tokens of a full sequence  [default: 128]")
@click.option("--split", default="train", show_default=True, help="train or held")
@click.option(
    "--bag-of-words", is_flag=True, help="how far words without order tell the pairs apart"
)
@click.option(
    "--pairs", type=click.IntRange(40), default=20_000, show_default=True,
    help="pairs that --bag-of-words learns from",
)  # fmt: skip
@click.option("--color/--no-color", default=None, help="colours (default: on a terminal)")
def audit(
    run: Run,
    corpus: str,
    objective: str | None,
    tokens: int,
    length: int | None,
    split: str,
    bag_of_words: bool,
    pairs: int,
    color: bool | None,
) -> None:
    """Draws examples exactly as training would and measures them: masking and pairing rates.

    Each share comes with the interval in which the true one must lie (99.99 %, binomial, counted in
    words where words are decided on) and with what it should be. Ten examples follow. The settings
    of an objective are given with --set, or with the --settings FILE of a training run.

    --bag-of-words asks instead whether a pairing objective needs reading: a linear model without
    word order learns the pairs (next_sentence and sentence_order, unless --objective says which).
    """
    if bag_of_words:
        _shortcuts(run, corpus, objective, pairs, length or 128)
        return
    from tianci.data.corpus import Corpus
    from tianci.data.store import SplitStore
    from tianci.goals.objectives import parse
    from tianci.settings import build
    from tianci.train.audit import audit as measure
    from tianci.train.examples import Examples, Recipe
    from tianci.train.settings import Train

    given = run.settings
    goal = parse(objective or given["pretrain"].get("objective") or "masked+next_sentence", given)
    train = build(Train, given["train"], "train")
    source = Corpus(corpus)
    recipe = Recipe(goal, length or train.length, train.short, train.batch_tokens or 2048, run.seed,
                    train.packing)  # fmt: skip
    examples = Examples(SplitStore(source.split(split)), source.tokenizer(), recipe)
    report = measure(examples, tokens)
    if run.json:
        run.result(_json(report, goal.name), "")
        return
    colored = _colored() if color is None else color
    click.echo(table(report))
    click.echo("\n" + verdict(report, goal.name) + "\n")
    click.echo(legend(colored) if recipe.laying is None else "examples:", color=colored)
    for number, sample in enumerate(report.samples, 1):
        click.echo(f"\n{number:>2}. {draw(sample, colored)}", color=colored)


def _shortcuts(run: Run, corpus: str, objective: str | None, pairs: int, length: int) -> None:
    """What a bag of words reaches on pairs."""
    from tianci.data.corpus import Corpus
    from tianci.evaluate.pair_shortcut import PAIRINGS, bag_of_words_on_pairs

    source = Corpus(corpus)
    found = {}
    for name in [objective] if objective else PAIRINGS:
        result = bag_of_words_on_pairs(source, name, pairs, length, run.seed)
        found[result.pop("objective")] = result

    def line(name: str, what: str, score: dict[str, Any]) -> str:
        interval = f"{score['low']:.1%} to {score['high']:.1%}"
        return f"{name:<16}{what:<32}{score['accuracy']:.1%}  ({interval})"

    def text() -> str:
        lines = ["accuracy of a bag of words (95 % intervals; guessing: 50 %)"]
        for name, result in found.items():
            lines.append(line(name, "tokens of each segment", result))
            lines.append(line("", "only what both share or not", result["shared"]))
        return "\n".join(lines)

    run.result({"bag_of_words": found}, text)


def _json(report: Report, objective: str) -> dict[str, Any]:
    return {
        "rates": {name: {**r._asdict(), "ok": r.ok} for name, r in report.rates.items()},
        "ok": not report.off,
        "off": report.off,
        "objective": objective,
        "tokens": report.tokens,
        "sequences": report.sequences,
        "examples": [sample._asdict() for sample in report.samples],
    }


def table(report: Report) -> str:
    """One row per rate."""
    head = ("", "expected", "measured", "low", "high", "")
    rows = [head]
    for name, rate in report.rates.items():
        number = (lambda x: f"{x:.1f}") if name == "mean_length" else _percent
        expected = "" if rate.expected is None else number(rate.expected)
        judged = "" if rate.expected is None else "ok" if rate.ok else "OFF"
        rows.append(
            (name, expected, number(rate.value), number(rate.low), number(rate.high), judged)
        )
    wide = [max(len(row[i]) for row in rows) for i in range(6)]
    lines = []
    for row in rows:
        cells = [row[0].ljust(wide[0]), *(row[i].rjust(wide[i]) for i in range(1, 5))]
        note = MEANING.get(row[0], "")
        lines.append("  ".join([*cells, row[5].ljust(wide[5]), note]).rstrip())
    return "\n".join(lines)


def _percent(share: float) -> str:
    return f"{100 * share:.3f} %"


def verdict(report: Report, objective: str) -> str:
    """One sentence: all as expected, or what is off."""
    drawn = f"{report.tokens:,} tokens in {report.sequences:,} sequences of {objective}"
    judged = sum(rate.expected is not None for rate in report.rates.values())
    several = report.rates.get("several_tokens")
    note = ""
    if "masked.mixed_words" in report.rates and several is not None and several.value == 0:
        note = "\nno word has more than one token, so masking whole words changes nothing here"
    if not report.off:
        return f"all as expected: {judged} rates measured on {drawn}{note}"
    count = len(report.off)
    are = "rates are" if count > 1 else "rate is"
    return f"{count} {are} off: {', '.join(report.off)}; measured on {drawn}{note}"


def _colored() -> bool:
    """On a terminal, unless NO_COLOR is set; FORCE_COLOR colours pipes too."""
    if os.environ.get("NO_COLOR"):
        return False
    return bool(os.environ.get("FORCE_COLOR")) or sys.stdout.isatty()


def legend(colored: bool) -> str:
    """How to read the examples."""
    signs = [
        (_mark("mask", "word", "", colored), "hidden by [MASK]"),
        (_mark("random", "word", "other", colored), "replaced by a random token"),
        (_mark("kept", "word", "", colored), "to be guessed, but left as it is"),
        (_paint("word", "36", colored) if colored else "‖ word", "second segment"),
    ]
    return "examples:  " + "   ".join(f"{sign} {text}" for sign, text in signs)


def draw(sample: Sample, colored: bool) -> str:
    """One example as text, its masks marked."""
    pieces: list[str] = []
    before = ""
    for place, original in enumerate(sample.original):
        second = sample.segments[place] == 1
        if second and sample.segments[place - 1] == 0:
            pieces.append(" ‖")
            before = "‖"
        pieces.append("" if not before or _joined(before, original) else " ")
        shown = original.removeprefix("##") if _joined(before, original) else original
        if what := sample.marks[place]:
            pieces.append(_mark(what, shown, sample.seen[place], colored))
        else:
            pieces.append(_paint(shown, "36" if second else "", colored))
        before = original
    label = f"{sample.label}: " if sample.label else ""
    return f"{label}{''.join(pieces)}"


def _joined(before: str, token: str) -> bool:
    """Whether a token is written without a space before it."""
    from tianci.text.words import is_chinese

    def dense(text: str) -> bool:
        return len(text) == 1 and (is_chinese(text) or not (text.isalnum() or text == "‖"))

    return token.startswith("##") or (dense(before) and dense(token))


def _mark(what: str, original: str, seen: str, colored: bool) -> str:
    color, brackets = LOOKS[what]
    if not colored:
        return brackets.format(original, seen)
    return _paint(f"{original}→{seen}" if what == "random" else original, color, True)


def _paint(text: str, color: str, colored: bool) -> str:
    return f"\x1b[{color}m{text}\x1b[0m" if colored and color else text
