"""The rows of a comparison, and the table for people: compare.json, compare.md, compare.png."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tianci.comparison.recipe import Recipe
from tianci.comparison.settings import Entry
from tianci.files import write_file, write_json


def make_row(
    recipe: Recipe,
    entry: Entry,
    model: Mapping[str, Any],
    tuned: Mapping[str, Sequence[Mapping[str, Any]]],
) -> dict[str, Any]:
    """All that is known of one model: its size, its speed, held-out text, and each task."""
    row: dict[str, Any] = {"recipe": recipe.name, "model": entry.name}
    if entry.preset:
        wanted = recipe.vocabulary(entry)
        row |= {
            "preset": entry.preset,
            "objective": recipe.objective(entry) if entry.pretrained else None,
            "vocabulary": f"{wanted.kind}, {wanted.size:,}",
        }
    names = ("family", "parameters", "tokens", "steps", "seconds", "tokens_per_second")
    row |= {name: model[name] for name in names if name in model}
    row |= model.get("held_out", {})
    row["pairs"] = {
        name: found["accuracy"]
        for name, found in model.get("held", {}).items()
        if name in ("next_sentence", "sentence_order")
    }
    row["findings"] = list(model.get("findings", []))
    row["tasks"] = {
        name: _over_seeds(runs) for name, runs in tuned.items() if runs[0].get("metric")
    }
    return row


def _over_seeds(runs: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Mean and spread over the seeds; and how far other rows of the same kind might move it."""
    scores = [float(run["score"]) for run in runs]
    widths = [(run["interval"][1] - run["interval"][0]) / 2 for run in runs if run.get("interval")]
    return {
        "metric": runs[0]["metric"],
        "split": runs[0]["split"],
        "mean": statistics.fmean(scores),
        "sd": statistics.stdev(scores) if len(scores) > 1 else None,
        "low": min(scores),
        "high": max(scores),
        "scores": scores,
        "rows_half_width": statistics.fmean(widths) if widths else None,
        "notes": [note for run in runs for note in run.get("notes", [])],
    }


def write_results(out: Path, record: Mapping[str, Any]) -> list[str]:
    """Writes the three files; returns what to tell the user."""
    out.mkdir(parents=True, exist_ok=True)
    write_json(out / "compare.json", record)
    write_file(out / "compare.md", markdown(record))
    notes = [f"table: {out / 'compare.md'}"]
    try:
        from tianci.comparison.picture import draw

        picture = draw(record)
    except ImportError:
        return [*notes, "compare.png needs: pip install 'tianci[plot]'"]
    if picture:
        write_file(out / "compare.png", picture)
        notes.append(f"picture: {out / 'compare.png'}")
    return notes


# ---------------------------------------------------------------- for people


def markdown(record: Mapping[str, Any]) -> str:
    """The comparison as a page of Markdown."""
    budget = ", ".join(f"{value:g} {name}" for name, value in record["budget"].items())
    shared = [f"text: {', '.join(record['text'])}"] if record["text"] else []
    shared += [f"{budget} of pre-training each"] if budget else []
    shared += [f"{record['seeds']} seed{'s' if record['seeds'] > 1 else ''} per task"]
    lines = [f"# {record['title']}", "", f"The same for all: {'; '.join(shared)}.", ""]
    lines += table(record)
    lines += ["", *notes(record)]
    return "\n".join(lines) + "\n"


def table(record: Mapping[str, Any]) -> list[str]:
    """One line per model."""
    tasks = [name for name in record["tasks"] if any(name in r["tasks"] for r in record["rows"])]
    metrics = {
        name: next(r["tasks"][name] for r in record["rows"] if name in r["tasks"]) for name in tasks
    }
    paired = any(row["pairs"] for row in record["rows"])
    head = ["model", "objective", "vocabulary", "parameters", "tokens seen", "tokens/s",
            "held-out loss", "bits/byte"]  # fmt: skip
    head += ["pairs"] if paired else []
    head += [f"{name} ({m['metric']}, {m['split']})" for name, m in metrics.items()]
    rows = [head, ["---", "---", "---", *["---:"] * (len(head) - 3)]]
    for row in record["rows"]:
        loss = f"{row['loss']:.3f} ({row['guess']})" if "loss" in row else ""
        cells = [
            row["model"],
            row.get("objective") or "",
            row.get("vocabulary", ""),
            _whole(row.get("parameters")),
            _whole(row.get("tokens")),
            _whole(row.get("tokens_per_second")),
            loss,
            f"{row['bits_per_byte']:.3f}" if "bits_per_byte" in row else "",
        ]
        if paired:
            cells.append(", ".join(f"{value:.1%}" for value in row["pairs"].values()))
        cells += [_score(row["tasks"].get(name)) for name in tasks]
        rows.append(cells)
    return ["| " + " | ".join(cell.replace("|", "/") for cell in row) + " |" for row in rows]


def notes(record: Mapping[str, Any]) -> list[str]:
    """What the figures mean, and what must not be read from them."""
    found = [f"- {sentence}" for sentence in best_of_tasks(record)]
    kinds = {row["vocabulary"] for row in record["rows"] if "vocabulary" in row}
    guesses = {row["guess"] for row in record["rows"] if "guess" in row}
    if record["seeds"] > 1 and record["tasks"]:
        found.append(
            "- Scores are mean ± standard deviation over fine-tuning seeds from one pre-trained "
            "model: another pre-training run would move them too."
        )
    if guesses:
        per_token = "" if len(kinds) < 2 else " Losses per token of different vocabularies do not "\
            "compare; bits per byte do between decoders, and roughly between masked models (where "\
            "pieces are longer, more is hidden at once)."  # fmt: skip
        found.append(
            "- Held-out loss: nats per guessed token, the same text for all; masked models are "
            f"asked with 15 % hidden in single segments.{per_token}"
        )
    if len(guesses) > 1:
        found.append(
            "- A masked model sees both sides of what it guesses, a decoder only the left: their "
            "held-out figures do not compare, the scores of the tasks do."
        )
    for row in record["rows"]:
        found += [f"- {row['model']}: {text}" for text in row["findings"]]
        for name, task in row["tasks"].items():
            if task["notes"]:
                again = (
                    f"{len(task['notes'])} of {len(task['scores'])} seeds learned nothing at first"
                )
                found.append(
                    f"- {row['model']}, {name}: {again} and were tried once more, slower; their "
                    "reports say why."
                )
    estimated = record["estimated_seconds"]
    reckoned = f" ({estimated / 60:.1f} estimated)" if estimated else ""
    return [*found, f"- {record['seconds'] / 60:.1f} minutes in all{reckoned}."]


def best_of_tasks(record: Mapping[str, Any]) -> list[str]:
    """For each task one sentence: who is best, and who is within the spread of the seeds."""
    sentences = []
    for name in record["tasks"]:
        found = [
            (row["model"], row["tasks"][name]) for row in record["rows"] if name in row["tasks"]
        ]
        if len(found) < 2:
            continue
        found.sort(key=lambda pair: -pair[1]["mean"])
        (winner, best), rest = found[0], found[1:]
        near = [
            other
            for other, task in rest
            if best["mean"] - task["mean"] <= (best["sd"] or 0.0) + (task["sd"] or 0.0)
        ]
        text = f"{name}: {winner} is best ({_score(best)})"
        if near:
            text += f"; within the spread of the seeds: {', '.join(near)}"
        sentences.append(text + ".")
    return sentences


def _score(task: Mapping[str, Any] | None) -> str:
    if task is None:
        return ""
    return f"{task['mean']:.4f}" + ("" if task["sd"] is None else f" ± {task['sd']:.4f}")


def _whole(value: float | None) -> str:
    return "" if value is None else f"{value:,.0f}"
