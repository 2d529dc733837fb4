"""Tasks on decoders: start, delimiter, extract; both orders; a language model beside the task."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import tokenizers
import torch
from tokenizers import decoders, models, pre_tokenizers

from tests.goals import tiny
from tests.goals.small_training import row
from tests.parity.family import loud
from tianci import checkpoint
from tianci.checkpoint import Checkpoint
from tianci.errors import UserError
from tianci.evaluate.tasks import answer
from tianci.goals.auxiliary import CausalBeside, auxiliary
from tianci.goals.base import Joint
from tianci.goals.objectives.causal import guessing
from tianci.goals.tasks import make_task
from tianci.models import family
from tianci.serve.predictor import load
from tianci.text.tokenizer import Tokenizer
from tianci.tune.run import finetune
from tianci.tune.settings import Finetune
from tianci.tune.start import begin
from tianci.tune.task_tokens import TOKENS, lacks_marks

SIZES = {"width": 16, "layers": 2, "heads": 2, "positions": 64}


def like_gpt2() -> Tokenizer:
    """Bytes without any template, and one token between all texts."""
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {piece: n for n, piece in enumerate([*letters, "<|endoftext|>"])}
    engine = tokenizers.Tokenizer(models.BPE(vocabulary, []))
    engine.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    engine.decoder = decoders.ByteLevel()
    engine.add_special_tokens(["<|endoftext|>"])
    names = {"bos_token": "<|endoftext|>", "eos_token": "<|endoftext|>"}
    return Tokenizer(engine, config={**names, "tokenizer_class": "GPT2Tokenizer"})


def write_base(folder: Path, kind: str, tokenizer: Tokenizer) -> Path:
    torch.manual_seed(0)
    sizes = {**SIZES, "hidden": 32} if kind == "gpt2" else SIZES
    end = tokenizer.id("<|endoftext|>") or tokenizer.sep
    config = family(kind).Config(vocabulary=len(tokenizer), begin=end, end=end, **sizes)
    model = checkpoint.create(kind, config, ("causal",))
    loud(model.model, 1)
    model.tokenizer = tokenizer
    checkpoint.write(folder, model)
    return folder


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_base(tmp_path_factory.mktemp("base") / "gpt2", "gpt2", like_gpt2())


def begun(base: Path, name: str, task_settings: dict | None = None, **more) -> tuple:
    settings = Finetune(model=str(base), **more)
    task = make_task(name, task_settings).suit(checkpoint.read(base))
    if name in ("classify", "pair"):
        task = task.learn([row(1, label="a"), row(2, label="b")])
    return task, begin(settings, task, seed=0)


# ---------------------------------------------------------------- start, delimiter, extract


def test_the_tokens_by_hand(base: Path) -> None:
    assert lacks_marks(like_gpt2()) and not lacks_marks(tiny.tokenizer())
    task, model = begun(base, "pair")
    tokenizer = model.tokenizer
    start, delimiter, extract = (tokenizer.id(name) for name in TOKENS)
    assert [start, delimiter, extract] == [257, 258, 259] and len(tokenizer) == 260
    (example,) = task.examples([row(1, text="ab", pair="c")], tokenizer, 64, labelled=False)
    a, b, c = (tokenizer.id(letter) for letter in "abc")
    assert example.parts[0].ids == [start, a, b, delimiter, c, extract]
    (example,) = make_task("classify").examples([row(1, text="ab")], tokenizer, 64, labelled=False)
    assert example.parts[0].ids == [start, a, b, extract]
    # new rows for them, all others as they were; the end of texts is still the end of texts
    old = checkpoint.read(base)
    assert torch.equal(model.model.token_table()[:257], old.model.token_table())
    assert model.model.config.vocabulary == 260
    assert (model.model.config.begin, model.model.config.end) == (256, 256)


def test_who_keeps_its_texts_as_they_are(base: Path) -> None:
    for name in ("tag", "similar"):  # nothing speaks for the whole text
        if name == "tag":
            task = make_task("tag").learn([row(1, words=["a", "b"], tags=["O", "B-X"])])
            model = begin(Finetune(model=str(base)), task, 0)
        else:
            _, model = begun(base, name)
        assert model.model.config.vocabulary == 257
    task, model = begun(base, "classify", task_tokens="keep")
    (example,) = task.examples([row(1, text="ab")], model.tokenizer, 64, labelled=False)
    assert len(example.parts[0].ids) == 2 and model.model.config.vocabulary == 257


def pairs(path: Path, count: int, seed: int) -> Path:
    """Do both texts have the same first letter?"""
    rng = np.random.default_rng(seed)
    lines = []
    for n in range(count):
        first, second = rng.choice(list("abcd"), 2, replace=False).tolist()
        second = first if n % 2 else second
        lines.append({"text": f"{first}{rng.integers(99)}", "pair": f"{second}{rng.integers(99)}",
                      "label": "same" if n % 2 else "other"})  # fmt: skip
    path.write_text("\n".join(json.dumps(line) for line in lines))
    return path


def test_a_whole_run_that_transformers_reads(base: Path, tmp_path: Path) -> None:
    settings = Finetune(
        model=str(base), train=str(pairs(tmp_path / "a.jsonl", 40, 0)), force=True,
        dev=str(pairs(tmp_path / "b.jsonl", 10, 1)), out=str(tmp_path / "run"), steps=3,
        language=0.5, precision="float32",
    )  # fmt: skip
    finetune("pair", settings, {}, quiet=True)
    saved = checkpoint.read(tmp_path / "run")
    assert saved.architecture == "GPT2ForSequenceClassification" and "causal" in saved.heads
    assert saved.tokenizer is not None and saved.tokenizer.id("<|extract|>") == 259
    texts, seconds = ["a1", "b22", "c333"], ["a", "bb", "d"]
    ours = load(tmp_path / "run")
    rows = [row(n, text=t, pair=p) for n, (t, p) in enumerate(zip(texts, seconds, strict=True))]
    logits = np.stack(answer(saved, ours.task, rows, 64))
    transformers = pytest.importorskip("transformers", reason="parity needs the dev extra")
    theirs, report = transformers.GPT2ForSequenceClassification.from_pretrained(
        tmp_path / "run", output_loading_info=True
    )
    assert not any(report.values())
    # their own tokenizer, padded: the last token that is no padding is the extract token
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "run")
    tokenizer.pad_token = TOKENS[0]
    inputs = tokenizer(texts, seconds, padding=True, return_tensors="pt")
    inputs.pop("token_type_ids", None)
    with torch.inference_mode():
        found = theirs.eval()(**inputs).logits.numpy()
    np.testing.assert_allclose(found, logits, atol=1e-4)


def test_adapters_with_new_tokens_are_saved_whole(base: Path, tmp_path: Path) -> None:
    """The base has other rows, so an adapter beside it would not fit."""
    settings = Finetune(
        model=str(base), train=str(pairs(tmp_path / "a.jsonl", 24, 0)), force=True,
        dev=str(pairs(tmp_path / "b.jsonl", 8, 1)), out=str(tmp_path / "run"), steps=1,
        strategy="adapters", adapter_size=4, precision="float32",
    )  # fmt: skip
    finetune("pair", settings, {}, quiet=True)
    assert (tmp_path / "run" / "model.safetensors").exists()
    assert load(tmp_path / "run")([("a1", "a2")])[0]["label"] in ("same", "other")


# ---------------------------------------------------------------- both orders


@pytest.mark.parametrize("kind", ["pair", "regress"])
def test_both_orders_are_added(kind: str, base: Path) -> None:
    task, model = begun(base, kind, {"symmetric": True})
    plain, _ = begun(base, kind)
    rows = [row(1, text="abc", pair="d"), row(2, text="a", pair="bcd"), row(3, text="b", pair="a")]
    turned = [row(r.line, text=r.values["pair"], pair=r.values["text"]) for r in rows]
    found = np.stack(answer(model, task, rows, 64))
    one, other = (np.stack(answer(model, plain, some, 64)) for some in (rows, turned))
    np.testing.assert_allclose(found, one + other, atol=1e-5)
    np.testing.assert_allclose(np.stack(answer(model, task, turned, 64)), found, atol=1e-5)
    assert np.abs(one - other).max() > 1e-3
    with pytest.raises(UserError, match="toy.jsonl, line 4: symmetric pairs need two texts"):
        task.examples([row(4, text="a")], model.tokenizer, 64, labelled=False)


# ---------------------------------------------------------------- L_task + lambda L_LM


def test_the_auxiliary_loss_by_hand(base: Path) -> None:
    task, model = begun(base, "classify", language=0.25, dropout=0.0)
    goal = auxiliary(model, model.tokenizer, 0.25)
    assert isinstance(goal, CausalBeside)
    rows = [row(1, text="abcd", label="a"), row(2, text="bc", label="b")]
    batch = task.collate(task.examples(rows, model.tokenizer, 64, labelled=True))
    losses = Joint((task, goal)).losses(model.model, model.heads, batch)
    at = guessing(batch.layout)
    logits = model.model(batch).last[at] @ model.model.token_table().T
    expected = torch.nn.functional.cross_entropy(logits, batch.tokens[at + 1], reduction="sum")
    torch.testing.assert_close(losses["language"].total, 0.25 * expected)
    assert goal.count(batch) == 4 + 2 + 2 * 2 - 2  # letters, start and extract, the first is given
    losses["language"].total.backward()
    assert model.model.token_table().grad is not None


def test_no_language_model_beside_a_task_on_t5(tmp_path: Path) -> None:
    tokenizer = tiny.tokenizer()
    sizes = {**SIZES, "decoder_layers": 1, "head_size": 8, "hidden": 16}
    saved = checkpoint.create("t5", family("t5").Config(vocabulary=len(tokenizer), **sizes),
                              ("generation",))  # fmt: skip
    saved.tokenizer = tokenizer
    checkpoint.write(tmp_path / "t5", saved)
    with pytest.raises(UserError, match="--language needs a decoder, or an encoder.*generation"):
        begun(tmp_path / "t5", "classify", language=0.5)


# ---------------------------------------------------------------- no answer


def test_a_decoder_says_no_answer_where_it_has_seen_all(base: Path) -> None:
    task, model = begun(base, "answer", {"longest": 5})
    assert task.nowhere == "last"
    one = row(1, context="abc", question="d", answers=[])
    (example,) = task.examples([one], model.tokenizer, 64, labelled=True)
    ids = example.parts[0].ids
    assert ids[-1] == model.tokenizer.id("<|extract|>") and example.target == (len(ids) - 1,) * 2
    batch = task.collate([example])
    assert batch.targets["document"].tolist() == [[len(ids) - 1, 3, 3]]
    bert = Checkpoint("bert", family("bert").build(family("bert").Config(50, 8, 1, 1, 8, 8)))
    assert make_task("answer").suit(bert).nowhere == "first"
