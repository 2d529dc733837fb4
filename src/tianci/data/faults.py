"""What is odd about the text: each fault with its count, what to do, and the first places."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tianci.data.gather import Gather
from tianci.data.piece import EXAMPLES
from tianci.data.scripts import USUAL

USUAL_SHARE = 0.1  # a script of so many lines is what the text is written in


def list_faults(shards: Iterable[dict[str, Any]], gather: Gather) -> dict[str, dict[str, Any]]:
    """All kinds of faults by name, those that were not found too."""
    shards = list(shards)
    done = "removed" if gather.dedupe else "--dedupe removes all but the first"
    repeats = sorted(gather.repeats.values(), key=lambda line: -line["times"])
    return {
        "duplicate_documents": {**gather.copies.table(), "advice": done},
        "repeated_lines": {
            "count": gather.repeat_count,
            "different": len(gather.survey.repeated),
            "advice": done,
            "examples": repeats[:EXAMPLES],
        },
        "unexpected_script_lines": {
            **_unexpected(shards),
            "advice": "drop these lines, or make sure that the vocabulary was learned with them",
        },
        "empty_documents": {
            **_sum(shard["empty"] for shard in shards),
            "advice": "not stored; look at the field or the program that made the file",
        },
        "unbroken_documents": {
            **_sum(shard["unbroken"] for shard in shards),
            "advice": "very long sentences are cut in training; --layout paragraphs splits them",
        },
    }


def _sum(faults: Iterable[dict[str, Any]]) -> dict[str, Any]:
    faults = list(faults)
    examples = [example for fault in faults for example in fault["examples"]]
    return {"count": sum(fault["count"] for fault in faults), "examples": examples[:EXAMPLES]}


def _unexpected(shards: list[dict[str, Any]]) -> dict[str, Any]:
    """Lines in scripts that are neither Chinese nor Latin nor a good part of the text."""
    names = dict.fromkeys(name for shard in shards for name in shard["scripts"])
    by_script = {
        name: _sum(shard["scripts"][name] for shard in shards if name in shard["scripts"])
        for name in names
    }
    total = sum(fault["count"] for fault in by_script.values())
    odd = {
        name: fault
        for name, fault in by_script.items()
        if name not in USUAL and fault["count"] < USUAL_SHARE * total
    }
    examples = [{**e, "script": name} for name, fault in odd.items() for e in fault["examples"][:2]]
    return {
        "count": sum(fault["count"] for fault in odd.values()),
        "scripts": {name: fault["count"] for name, fault in odd.items()},
        "examples": examples[:EXAMPLES],
    }
