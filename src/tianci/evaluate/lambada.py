"""LAMBADA (Paperno and others, 2016): the last word of a passage, guessed token by token."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import torch

from tianci.batch import Batch
from tianci.checkpoint import Checkpoint
from tianci.data.collate import by_budget
from tianci.errors import UserError
from tianci.evaluate.perplexity import BATCH_TOKENS, begin_token
from tianci.evaluate.suites import USUAL
from tianci.evaluate.tasks import tokenizer_of
from tianci.text.source import read_lines
from tianci.train.audit import wilson


def read_passages(path: str | Path) -> list[tuple[str, str]]:
    """(context, last word) of each row."""
    folder = Path(path)
    names = ("test.jsonl", "test.jsonl.gz")
    file = next((folder / n for n in names if (folder / n).is_file()), folder)
    found = []
    for number, line in read_lines(file):
        try:
            row = json.loads(line)
            found.append((str(row["context"]), str(row["target"])))
        except json.JSONDecodeError as error:
            raise UserError(f"{file}, line {number}: not JSON ({error.msg})") from error
        except (KeyError, TypeError) as error:
            raise UserError(f"{file}, line {number}: lambada needs {error}") from error
    if not found:
        raise UserError(f"{file} has no passages")
    return found


@torch.inference_mode()
def evaluate_lambada(
    model: Checkpoint,
    path: str | Path,
    limit: int | None = None,
    progress: Callable[[Iterable[Any], int], Iterable[Any]] = lambda rows, total: rows,
) -> dict[str, Any]:
    """How often all tokens of the last word are the likeliest ones, and the word's perplexity."""
    if "causal" not in model.heads:
        raise UserError("lambada asks for the next word, so it needs a decoder (gpt2, gpt)")
    tokenizer, positions = tokenizer_of(model), int(model.model.config.positions)
    passages = read_passages(path)[:limit]
    begin = begin_token(tokenizer)
    before = tokenizer.ids([context for context, _ in passages], special=False)
    whole = tokenizer.ids([f"{c} {word}" for c, word in passages], special=False)
    rows = []
    for first, both in zip(before, whole, strict=True):
        same = next((n for n, (a, b) in enumerate(zip(first, both, strict=False)) if a != b),
                    min(len(first), len(both)))  # fmt: skip
        answer = both[same:]  # where the word joins its context, from the joint on
        rows.append(([begin, *both[:same]][-(positions - len(answer)) :], answer))
    right, total, tokens = 0, 0.0, 0
    batches = by_budget([len(a) + len(b) for a, b in rows], BATCH_TOKENS)
    head, table = model.heads["causal"].eval(), model.model.token_table()
    for numbers in progress(batches, len(batches)):
        batch = Batch.of([rows[n][0] + rows[n][1] for n in numbers]).to(model.model.device)
        states, starts = model.model.eval()(batch).last, batch.layout.starts.tolist()
        for n, start in zip(numbers, starts, strict=False):
            context, answer = rows[n]
            at = start + len(context) - 1  # the place before a token guesses it
            logits = head(states[at : at + len(answer)], table).float()
            wanted = torch.tensor(answer, device=logits.device)
            right += bool(torch.eq(logits.argmax(1), wanted).all())
            total += float(logits.log_softmax(1).gather(1, wanted[:, None]).sum())
            tokens += len(answer)
    low, high = wilson(right, len(rows), USUAL)
    return {
        "suite": "lambada",
        "accuracy": right / len(rows),
        "low": low,
        "high": high,
        "perplexity": math.exp(min(700.0, -total / len(rows))),
        "count": len(rows),
    }
