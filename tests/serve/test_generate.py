"""Continuations by decoders: token by token those of transformers, alone or among others."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from tests.goals import tiny
from tests.parity.family import loud
from tianci import checkpoint
from tianci.cli import main
from tianci.errors import UserError
from tianci.models import gpt2
from tianci.serve.predictor import Predictor, load
from tianci.serve.writing import prepare, text_of

PROMPTS = ["我 们 的 the dog", "天", "a b c a b", "今 天 气 不 错 在 人 大 中 到"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("gpt2") / "model"
    tokenizer = tiny.tokenizer()
    config = gpt2.Config(
        vocabulary=len(tokenizer), width=32, layers=2, heads=2, hidden=64, positions=64,
        begin=tokenizer.cls, end=tokenizer.sep,
    )  # fmt: skip
    model = checkpoint.create("gpt2", config, ("causal",))
    loud(model.model, 5)
    model.tokenizer = tokenizer
    checkpoint.write(place, model)
    return place


@pytest.fixture(scope="module")
def model(folder: Path) -> Predictor:
    return load(folder)


def theirs(folder: Path, model: Predictor, prompt: str, **how) -> list[int]:
    transformers = pytest.importorskip("transformers", reason="parity needs the dev extra")
    other = transformers.GPT2LMHeadModel.from_pretrained(folder).eval()
    tokenizer = model.tokenizer
    ids = [tokenizer.cls, *tokenizer.ids([prompt], special=False)[0]]
    # their list of bad words works behind the softmax when there are beams; ours before it
    barred = sorted(tokenizer.special_ids - {tokenizer.sep})
    other.lm_head.register_forward_hook(
        lambda m, i, logits: logits.index_fill(-1, torch.tensor(barred), -torch.inf)
    )
    out = other.generate(
        torch.tensor([ids]), attention_mask=torch.ones(1, len(ids)), do_sample=False,
        max_new_tokens=20, eos_token_id=tokenizer.sep, pad_token_id=tokenizer.pad,
        **how,
    )  # fmt: skip
    new = out[0, len(ids) :].tolist()
    return new[: new.index(tokenizer.sep)] if tokenizer.sep in new else new


@pytest.mark.parametrize(
    ("ours", "other"),
    [
        ({"temperature": 0.0}, {}),
        ({"temperature": 0.0, "repetition": 1.3}, {"repetition_penalty": 1.3}),
        ({"temperature": 0.0, "no_repeat": 2}, {"no_repeat_ngram_size": 2}),
        ({"beams": 3}, {"num_beams": 3, "length_penalty": 1.0}),
        ({"beams": 4, "length_penalty": 0.5}, {"num_beams": 4, "length_penalty": 0.5}),
    ],
    ids=str,
)
def test_parity_with_transformers_generate(folder, model, ours, other) -> None:
    found = model.generate(PROMPTS, longest=20, **ours)
    for prompt, one in zip(PROMPTS, found, strict=True):
        assert one["ids"] == theirs(folder, model, prompt, **other), prompt


def test_neighbours_and_order_change_nothing(model) -> None:
    for how in ({"temperature": 0.0}, {"temperature": 1.0, "seed": 3}, {"beams": 2}):
        together = model.generate(PROMPTS, longest=12, **how)
        assert [model.generate(p, longest=12, **how) for p in PROMPTS] == together
        assert model.generate(PROMPTS[::-1], longest=12, **how)[::-1] == together


def test_seeds_decide(model) -> None:
    first = model.generate("天", longest=30, temperature=1.5, seed=1)
    assert model.generate("天", longest=30, temperature=1.5, seed=1) == first
    assert any(
        model.generate("天", longest=30, temperature=1.5, seed=n) != first for n in range(2, 6)
    )


def test_a_string_stops_the_text(model) -> None:
    whole = model.generate("a b c a b", longest=20, temperature=0.0)["text"]
    assert len(whole) > 3
    stop = whole[len(whole) // 2]
    cut = model.generate("a b c a b", longest=20, temperature=0.0, stop=[stop])
    assert cut["text"] == whole[: whole.index(stop)]


def test_what_is_told_grows_to_the_whole(model) -> None:
    heard: list[str] = []
    found = model.generate("天", longest=10, temperature=0.0, tell=lambda n, t: heard.append(t))
    assert heard and all(found["text"].startswith(text.rstrip()) for text in heard)


def test_an_empty_text_is_refused_with_the_way_out(model, folder, capsys) -> None:
    for text in ("", "  \n"):
        with pytest.raises(UserError, match="the text is empty; give the word it begins with"):
            model.generate(text, longest=3)
    with pytest.raises(SystemExit) as stop:
        main(["generate", str(folder), ""])
    assert stop.value.code == 2 and capsys.readouterr().err.count("\n") == 1


def test_the_text_fits_behind_its_prompt(model) -> None:
    """Chinese without blanks, words with one; as if the whole had been written at once."""
    ids = model.tokenizer.ids(["我们的 the dog 天"], special=False)[0]
    assert text_of(model, ids[3:], prepare(model, "我们的")) == "the dog天"
    assert text_of(model, ids[4:], prepare(model, "我们的 the")) == " dog天"


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"longest": 200}, "the model reads 64"),
        ({"temperature": -1.0}, "must not be negative"),
        ({"top_p": 0.0}, "above 0"),
        ({"beams": 2, "temperature": 1.0}, "give one"),
        ({"min_p": 2.0}, "min_p"),
        ({"tempreature": 1.0}, 'did you mean "temperature"'),
    ],
)
def test_bad_ways_get_one_sentence(model, how, message) -> None:
    with pytest.raises(UserError, match=message):
        model.generate("天", **how)


def test_the_command(folder, capsys) -> None:
    with pytest.raises(SystemExit) as stop:
        main(
            [
                "generate",
                str(folder),
                "天",
                "the dog",
                "--greedy",
                "--max-new-tokens",
                "5",
                "--json",
            ]
        )
    assert not stop.value.code
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [set(line) for line in lines] == [{"text", "ids"}] * 2
    with pytest.raises(SystemExit) as stop:
        main(["generate", str(folder), "天", "--greedy", "--beams", "2"])
    assert stop.value.code == 2


def test_an_encoder_says_that_it_does_not_write(tmp_path) -> None:
    from tianci.models import bert

    tokenizer = tiny.tokenizer()
    config = bert.Config(vocabulary=len(tokenizer), width=8, layers=1, heads=1, hidden=8)
    saved = checkpoint.create("bert", config, ("masked",))
    saved.tokenizer = tokenizer
    with pytest.raises(UserError, match="does not write texts"):
        Predictor(saved).generate("天")
