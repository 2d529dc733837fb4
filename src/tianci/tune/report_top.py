"""The top of the page: the verdict, the key figures, and what one should know first."""

from __future__ import annotations

import math
import re
from html import escape
from typing import Any

from tianci.train.history import number, rate, table
from tianci.train.page import duration, large
from tianci.tune import report_blocks as blocks
from tianci.tune import report_trials as trials
from tianci.tune.report_facts import (
    NONE,
    chosen_trial,
    confusion_of,
    digits,
    interval,
    metric_of,
    shown,
    splits,
    spread,
    strings,
    whole,
    words,
)


def state(record: dict[str, Any]) -> str:
    """The colour of the summary: bad where a trial is worth nothing, good or fair where dev can
    say whether it is better than always giving the most frequent label, else open."""
    if chosen_trial(record).get("trouble"):
        return "bad"
    floor, low = most_frequent(record), spread(record, "dev", "accuracy").low
    if record.get("metric") != "accuracy" or not math.isfinite(floor + low):
        return "open"
    return "good" if low > floor else "fair"


def most_frequent(record: dict[str, Any]) -> float:
    """The accuracy of always giving dev's most frequent label, or NaN."""
    matrix = confusion_of(record, "dev")  # where rows have several labels, there is none
    return math.nan if matrix is None else float(matrix.sum(1).max() / max(1, matrix.sum()))


def head(name: str, record: dict[str, Any]) -> str:
    sentence = shown(record.get("summary") or "no summary")
    # the beginning stands out: "Pre-training paid: ...", "dev accuracy 0.9 (0.8 to 1.0)"
    found = re.match(r"(.*?:(?=\s)|.*?(?= \()|.*)(.*)", sentence, re.DOTALL)
    first, rest = found.groups() if found else (sentence, "")
    picked = table(record.get("chosen"))
    lr = number(picked.get("lr"))
    about = [
        "fine-tuning",
        shown(record.get("task") or ""),
        f"from {shown(record.get('model'))}" if record.get("model") else "",
        f"rate {rate(lr)}" if math.isfinite(lr) else "",
        f"seed {shown(picked['seed'])}" if "seed" in picked else "",
    ]
    strong = escape(first[:1].upper() + first[1:])
    return f"""<header>
<p class="about">{escape(" · ".join(part for part in about if part))}</p>
<h1>{escape(name)}</h1>
<p class="verdict {state(record)}"><strong>{strong}</strong>{escape(rest)}</p>
</header>"""


def figures(record: dict[str, Any]) -> str:
    metric = metric_of(record)
    tiles: list[tuple[str, str, str]] = []
    for split in splits(record):
        found = spread(record, split, metric)
        note = interval(found.low, found.high) or "no interval"
        tiles.append((f"{words(metric).capitalize()}, {split}", digits(found.score, 3), note))
    floor = most_frequent(record)
    if metric == "accuracy" and math.isfinite(floor):
        tiles.append(("Most frequent label", digits(floor, 3), "by always saying it"))
    if metric != "auc" and math.isfinite((auc := spread(record, "dev", "auc")).score):
        tiles.append(("AUC, dev", digits(auc.score, 3), interval(auc.low, auc.high)))
    found_spread = {key: number(one) for key, one in table(record.get("spread")).items()}
    if math.isfinite(found_spread.get("mean", math.nan)):
        sd = digits(found_spread.get("sd", math.nan), 3)
        seeds = f"± {sd}, {whole(found_spread.get('count'))} seeds"
        tiles.append(("Mean over seeds", digits(found_spread["mean"], 3), seeds))
    decision, rows = table(record.get("decision")), table(record.get("rows"))
    threshold, heat = number(decision.get("threshold")), number(decision.get("temperature"))
    learned, size = number(record.get("learned")), number(record.get("parameters"))
    share = f"{learned / size:.1%} of {large(size)}" if learned < size else "all parameters"
    seconds, speed = number(record.get("seconds")), number(record.get("tokens_per_second"))
    tiles += [
        ("Threshold", digits(threshold, 2), "chosen on dev"),
        ("Temperature", digits(heat, 2), "of probabilities"),
        ("Labelled rows", whole(rows.get("train")), "to learn from"),
        ("Learned", large(learned) if math.isfinite(learned) else NONE, share),
        ("Time", duration(seconds) if math.isfinite(seconds) else NONE, "of training"),
        ("Speed", whole(speed), "tokens/s"),
    ]
    items = "".join(
        f"<div><dt>{escape(name)}</dt><dd>{escape(value)}<small>{escape(note)}</small></dd></div>"
        for name, value, note in tiles
        if value != NONE
    )
    return f'<dl class="figures">{items}</dl>' if items else ""


def notes(record: dict[str, Any]) -> str:
    """What one should know before one believes the figures."""
    trouble = chosen_trial(record).get("trouble")
    said = [f'<li class="finding">{escape(shown(trouble))}</li>'] if trouble else []
    said += [f"<li>{escape(note)}</li>" for note in strings(record.get("notes"))]
    listed = blocks.card("Notes", f'<ul class="notes">{"".join(said)}</ul>') if said else ""
    return listed + blocks.table_card(trials.check_table(record), "check")
