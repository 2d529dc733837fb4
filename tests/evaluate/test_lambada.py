"""The last word of a passage."""

from __future__ import annotations

import json

import pytest
import torch

from tests.goals import tiny
from tests.parity.family import loud
from tianci import checkpoint
from tianci.batch import Batch
from tianci.errors import UserError
from tianci.evaluate.lambada import evaluate_lambada
from tianci.models import bert, gpt2


def decoder() -> checkpoint.Checkpoint:
    tokenizer = tiny.tokenizer()
    config = gpt2.Config(
        vocabulary=len(tokenizer), width=16, layers=1, heads=2, hidden=32, positions=12,
        begin=tokenizer.cls, end=tokenizer.sep,
    )  # fmt: skip
    model = checkpoint.create("gpt2", config, ("causal",))
    loud(model.model, 2)
    model.tokenizer = tokenizer
    return model


def test_a_word_counts_when_all_its_tokens_are_the_likeliest(tmp_path) -> None:
    model = decoder()
    tokenizer = model.tokenizer
    assert tokenizer is not None
    context = "the dog run a b the cat play the dog run a b c"  # longer than the model reads
    ids = [tokenizer.cls, *tokenizer.ids([context], special=False)[0]]
    with torch.inference_mode():
        states = model.model.eval()(Batch.of([ids[-11:]])).last
        logits = model.heads["causal"](states, model.model.token_table())[-1]
    words = [i for i in range(len(tokenizer)) if tokenizer.token(i).isascii()]
    expected = int(logits.argmax())
    rows = []
    for i in words:
        text = tokenizer.token(i)
        if text.startswith(("##", "[")) or not text.isalpha():
            continue
        rows.append((i, {"context": context, "target": text}))
    file = tmp_path / "test.jsonl"
    file.write_text("\n".join(json.dumps(row) for _, row in rows), encoding="utf-8")
    found = evaluate_lambada(model, tmp_path)
    assert found["count"] == len(rows)
    assert found["accuracy"] == pytest.approx(sum(i == expected for i, _ in rows) / len(rows))
    picked = logits.log_softmax(0)[[i for i, _ in rows]].mean()
    assert found["perplexity"] == pytest.approx(float((-picked).exp()), rel=1e-4)


def test_an_encoder_is_told(tmp_path) -> None:
    model = checkpoint.create("bert", bert.PRESETS["tiny"], ("masked",))
    with pytest.raises(UserError, match="needs a decoder"):
        evaluate_lambada(model, tmp_path)


def test_a_bad_row_is_named(tmp_path) -> None:
    (tmp_path / "rows.jsonl").write_text('{"context": "a"}\n', encoding="utf-8")
    with pytest.raises(UserError, match=r"rows.jsonl, line 1: lambada needs 'target'"):
        evaluate_lambada(decoder(), tmp_path / "rows.jsonl")
