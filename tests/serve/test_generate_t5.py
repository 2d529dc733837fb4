"""Targets by T5: token by token those of transformers, alone or among sources of other lengths."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.conftest import PARITY
from tests.goals import tiny
from tests.parity.family import loud
from tianci import checkpoint
from tianci.batch import Batch
from tianci.cli import main
from tianci.errors import UserError
from tianci.models import t5
from tianci.nn.past import Following, Past, Recording
from tianci.serve.predictor import Predictor, load
from tianci.serve.ranking import rank
from tianci.text.tokenizer import Tokenizer

PROMPTS = ["我 们 的 the dog", "天", "a b c a b", "今 天 气 不 错 在 人 大 中 到", "the cat"]
SENTINELS = ["<extra_id_0>", "<extra_id_1>"]
VERSIONS = {
    "1.0": {},
    "1.1": {"feed": "gated-gelu", "tied": False, "scaled": False},
}


def vocabulary() -> Tokenizer:
    tokenizer = tiny.tokenizer([*tiny.VOCABULARY, *SENTINELS])
    tokenizer.engine.add_special_tokens(SENTINELS)
    return Tokenizer(tokenizer.engine, config=tokenizer.config)


@pytest.fixture(scope="module", params=list(VERSIONS))
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("t5") / "model"
    tokenizer = vocabulary()
    config = t5.Config(
        len(tokenizer) + 3, 32, 2, 2, 2, 16, 64, 64, buckets=8, distance=20,
        begin=tokenizer.cls or 0, end=tokenizer.sep or 0, pad=tokenizer.pad or 0,
        **VERSIONS[request.param],
    )  # fmt: skip
    model = checkpoint.create("t5", config, ("generation",))
    loud(model.model, 5)
    loud(model.heads["generation"], 6)
    model.tokenizer = tokenizer
    checkpoint.write(place, model)
    return place


@pytest.fixture(scope="module")
def model(folder: Path) -> Predictor:
    return load(folder)


@pytest.fixture(scope="module")
def other(folder: Path, model: Predictor) -> Any:
    transformers = pytest.importorskip("transformers", reason="parity needs the dev extra")
    found = transformers.T5ForConditionalGeneration.from_pretrained(folder).eval()
    tokenizer = model.tokenizer
    marks = {tokenizer.sep, *(tokenizer.id(s) for s in SENTINELS)}
    barred = sorted(tokenizer.special_ids - marks) + list(range(len(tokenizer), len(tokenizer) + 3))
    # their list of bad words works behind the softmax when there are beams; ours before it
    found.lm_head.register_forward_hook(
        lambda m, i, logits: logits.index_fill(-1, torch.tensor(barred), -torch.inf)
    )
    return found


def theirs(other: Any, tokenizer: Tokenizer, prompt: str, **how: Any) -> list[int]:
    ids = [*tokenizer.ids([prompt], special=False)[0], tokenizer.sep]
    out = other.generate(
        torch.tensor([ids]), attention_mask=torch.ones(1, len(ids)), do_sample=False,
        max_new_tokens=20, eos_token_id=tokenizer.sep, pad_token_id=tokenizer.pad, **how,
    )  # fmt: skip
    new: list[int] = out[0, 1:].tolist()
    return new[: new.index(tokenizer.sep)] if tokenizer.sep in new else new


@pytest.mark.parametrize(
    ("ours", "how"),
    [
        ({}, {}),
        ({"repetition": 1.3}, {"repetition_penalty": 1.3}),
        ({"no_repeat": 2}, {"no_repeat_ngram_size": 2}),
        ({"beams": 3}, {"num_beams": 3, "length_penalty": 1.0}),
        ({"beams": 4, "length_penalty": 0.5}, {"num_beams": 4, "length_penalty": 0.5}),
    ],
    ids=str,
)
def test_parity_with_transformers_generate(model, other, ours, how) -> None:
    found = model.generate(PROMPTS, longest=20, **ours)
    for prompt, one in zip(PROMPTS, found, strict=True):
        assert one["ids"] == theirs(other, model.tokenizer, prompt, **how), prompt
    assert len({tuple(one["ids"]) for one in found}) > 1


@torch.inference_mode()
def test_the_past_gives_what_reading_again_gives(model) -> None:
    """Sources of different lengths, targets that change places, are followed twice, or end."""
    sources = [[7, 8, 9, 10, 11], [12, 13, 14], [15, 16, 17], [18]]
    targets = [[2, 20, 21, 22, 23], [2, 24, 25, 26, 27], [2, 28, 29, 30, 31], [2, 32, 33, 34, 35]]
    body, past, worst = model.model, Past(room=6), 0.0
    begun = Batch.of([t[:1] for t in targets])
    begun = dataclasses.replace(begun, layout=Recording(begun.layout, past))
    body(dataclasses.replace(Batch.of(sources), decoder=begun))
    texts = [0, 1, 2, 3]
    for step, chosen in enumerate(([0, 1, 2, 3], [1, 0, 3, 2], [2, 2, 0], [0, 1, 2])):
        past.choose(chosen)
        texts = [texts[n] for n in chosen]
        more = torch.tensor([targets[n][step + 1] for n in texts])
        found = body(Batch(more, Following(past))).last
        for n, row in zip(texts, found, strict=True):
            whole = dataclasses.replace(
                Batch.of([sources[n]]), decoder=Batch.of([targets[n][: step + 2]])
            )
            expected = body(whole).last[-1]
            head, table = model.heads["generation"], body.token_table()
            worst = max(worst, (head(row, table) - head(expected, table)).abs().max().item())
    PARITY.append(("t5", "logits from the past", "reading again", worst))
    assert worst < 1e-5 * max(1.0, head(expected, table).abs().max().item())


def test_neighbours_and_order_change_nothing(model) -> None:
    for how in ({}, {"temperature": 1.0, "seed": 3}, {"beams": 2}):
        together = model.generate(PROMPTS, longest=12, **how)
        assert [model.generate(p, longest=12, **how) for p in PROMPTS] == together
        assert model.generate(PROMPTS[::-1], longest=12, **how)[::-1] == together


def test_it_may_name_sentinels_and_shows_them(model) -> None:
    found = [
        model.generate("天 <extra_id_0>", longest=30, temperature=3.0, seed=n) for n in range(8)
    ]
    marks = {model.tokenizer.id(s) for s in SENTINELS}
    for one in found:
        named = sum(i in marks for i in one["ids"])
        assert one["text"].count("<extra_id_") == named
    assert any(marks & set(one["ids"]) for one in found)


def test_rank_is_the_loss_of_the_target(model, other) -> None:
    """A candidate with its end, as the target of the context: what transformers calls the loss."""
    other.lm_head._forward_hooks.clear()  # nothing is barred when a text is judged
    found = rank(model, "我们", ["的人", "天", "不错了"])
    tokenizer = model.tokenizer
    source = torch.tensor([[*tokenizer.ids(["我们"], special=False)[0], tokenizer.sep]])
    for one in found:
        target = [*tokenizer.ids([one["text"]], special=False)[0], tokenizer.sep]
        with torch.inference_mode():
            loss = other(source, labels=torch.tensor([target])).loss.item()
        assert one["mean"] == pytest.approx(-loss, abs=1e-4) and len(one["tokens"]) == len(target)
    assert [one["score"] for one in found] == sorted((o["score"] for o in found), reverse=True)
    with pytest.raises(UserError, match="no token of its own"):
        rank(model, "我们", [""])


def test_the_halves_have_room_of_their_own(model) -> None:
    model.generate("天 " * 63, longest=60)  # 63 and the end: all that it reads
    with pytest.raises(UserError, match="has 65 tokens.*the model reads 64; shorten"):
        model.generate("天 " * 64, longest=4)
    with pytest.raises(UserError, match="64 new ones are wanted, but the model reads 64"):
        model.generate("天", longest=64)


def test_the_command(folder, capsys) -> None:
    with pytest.raises(SystemExit) as stop:
        main(["generate", str(folder), "天", "the dog", "--max-new-tokens", "5", "--json"])
    assert not stop.value.code
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [set(line) for line in lines] == [{"text", "ids"}] * 2
    assert lines == load(folder).generate(["天", "the dog"], longest=5)
