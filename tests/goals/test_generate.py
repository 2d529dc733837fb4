"""Generation by an encoder: features, the target never seen, learning to turn strings round."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.goals import tiny
from tests.goals.small_training import predictions, row, teach
from tests.parity.family import loud, same
from tianci import checkpoint
from tianci.batch import Batch, Layout
from tianci.checkpoint import Checkpoint
from tianci.data.rows import read_rows
from tianci.errors import UserError
from tianci.evaluate import tasks
from tianci.evaluate.tasks import answer
from tianci.goals.tasks import make_task, restore
from tianci.goals.tasks.generate import Generate
from tianci.models import bert
from tianci.serve.predictor import load
from tianci.tune.remember import Remembering
from tianci.tune.settings import Finetune
from tianci.tune.start import give_head
from tianci.tune.trial import run_trial
from tianci.tune.work import Work

LETTERS = list("abcdef")
VOCABULARY = [*tiny.SPECIAL, *LETTERS]
TOY = tiny.tokenizer(VOCABULARY)
PAD, UNK, CLS, SEP, MASK = range(5)
LIMIT = 16


def ids(text: str) -> list[int]:
    return [VOCABULARY.index(token) for token in text.split()]


def model_for(task: Generate, old: tuple[str, ...] = ()) -> Checkpoint:
    torch.manual_seed(0)
    config = bert.Config(  # three rows more than tokens, as real tables often have
        vocabulary=len(TOY) + 3, width=32, layers=2, heads=4, hidden=64, positions=LIMIT,
        dropout=0.0, attention_dropout=0.0, initial_std=0.1,
    )  # fmt: skip
    model = checkpoint.create("bert", config, heads=old)
    model.tokenizer = TOY
    give_head(model, task, Finetune())
    model.about = {"task": task.as_table(), "limit": LIMIT}
    return model


def turned(seed: int, count: int) -> list:
    """Two to five letters, and the same from the back."""
    r = np.random.default_rng(seed)
    rows = []
    for line in range(1, count + 1):
        letters = [LETTERS[n] for n in r.integers(0, len(LETTERS), int(r.integers(2, 6)))]
        rows.append(row(line, source=" ".join(letters), target=[" ".join(letters[::-1])]))
    return rows


# ---------------------------------------------------------------- features


def test_features_by_hand() -> None:
    task = Generate(longest=3)
    rows = [row(1, source="a b", target=["c"]), row(2, source="f", target=["a b c d", "e"])]
    first, cut, second = task.examples(rows, TOY, LIMIT, labelled=True)
    assert first.parts[0] == ([CLS, *ids("a b"), SEP, *ids("c"), SEP], [0, 0, 0, 0, 1, 1])
    assert first.target == [*ids("c"), SEP] and first.info.source == 4
    # four tokens do not fit: the cut target has no end, and two references are two examples
    assert cut.parts[0].ids == [CLS, *ids("f"), SEP, *ids("a b c")] and cut.target == ids("a b c")
    assert second.parts[0].ids == [CLS, *ids("f"), SEP, *ids("e"), SEP] and second.row == 1
    batch = task.collate([first, cut, second])
    assert batch.layout.lengths == (6, 6, 5) and batch.layout.prefix == (4, 3, 3)
    assert batch.targets["at"].tolist() == [3, 4, 8, 9, 10, 14, 15]
    assert batch.targets["is"].tolist() == [*ids("c"), SEP, *ids("a b c"), *ids("e"), SEP]
    assert task.count(batch) == 7
    (asked,) = task.examples(rows[:1], TOY, LIMIT, labelled=False)
    assert asked.parts[0] == ([CLS, *ids("a b"), SEP], [0, 0, 0, 0]) and asked.target is None


def test_a_long_source_is_cut_alike_with_and_without_target() -> None:
    task = Generate(longest=4)  # 16 - 3 special - 4 = 9 tokens of the source
    long = row(1, source="a b c d e f " * 3, target=["a"])
    (learned,) = task.examples([long], TOY, LIMIT, True)
    (asked,) = task.examples([long], TOY, LIMIT, False)
    assert learned.info.source == asked.info.source == 11
    with pytest.raises(UserError, match="leave no room for a source in 16"):
        Generate(longest=13).examples([long], TOY, LIMIT, True)


def test_rows_without_targets() -> None:
    with pytest.raises(UserError, match="toy.jsonl, line 3: no target"):
        Generate(longest=4).examples([row(3, source="a")], TOY, LIMIT, True)


def test_the_target_is_never_seen_too_early() -> None:
    """Other later tokens, the same loss of the earlier ones; the source feels nothing of them."""
    task = Generate(longest=6)
    model = model_for(task)
    loud(model.model, 1)
    one, other = (
        task.collate(task.examples([row(1, source="a b c", target=[text])], TOY, LIMIT, True))
        for text in ("d e f a", "d e b b")
    )
    states = [model.model(batch) for batch in (one, other)]
    for a, b in zip(states[0].layers, states[1].layers, strict=True):
        assert torch.equal(a[:7], b[:7])  # [CLS] a b c [SEP] d e
    head = model.heads["masked"]
    logits = [head(s.last[one.targets["at"]], model.model.token_table()) for s in states]
    assert torch.equal(logits[0][:3], logits[1][:3])
    assert (logits[0][3:] - logits[1][3:]).abs().max() > 1e-3


def test_score_by_hand() -> None:
    task = Generate()
    rows = [row(1, source="x", target=["a b c d"]), row(2, source="y", target=["e f", "a b"])]
    said = [{"text": "a b c d", "ids": []}, {"text": "a c", "ids": []}]
    scores = task.score(rows, said, {})
    # the second: one of two words is right, against the better of its references
    assert scores["rouge_l"] == pytest.approx((1 + 0.5) / 2)
    assert scores["exact_match"] == 0.5 and 0 < scores["bleu"] < 100
    assert task.details(rows, said, {})["texts"][1]["target"] == "e f"


def test_one_text_for_all_is_trouble() -> None:
    rows = turned(0, 12)
    said = [{"text": "a", "ids": [5]}] * 12
    assert Generate().trouble(rows, said, {}) == 'it writes "a" for all 12 dev rows'
    assert Generate().trouble(rows, [*said[1:], {"text": "b", "ids": []}], {}) is None


# ---------------------------------------------------------------- learning and writing


@pytest.fixture(scope="module")
def learned() -> tuple[Generate, Checkpoint]:
    task = Generate(longest=6).learn(turned(0, 600))
    model = model_for(task)
    teach(model, task, turned(0, 600), LIMIT, steps=160, lr=8e-3)
    return task, model


def test_it_turns_strings_round(learned: tuple[Generate, Checkpoint]) -> None:
    task, model = learned
    rows = turned(1, 60)
    found = answer(model, task, rows, LIMIT)
    assert task.score(rows, found, {})["exact_match"] >= 0.95
    assert found[0]["ids"] == ids(found[0]["text"])
    assert task.trouble(rows, found, {}) is None


def test_ways_to_write(learned: tuple[Generate, Checkpoint]) -> None:
    task, model = learned
    rows = turned(2, 20)
    greedy = predictions(model, task, rows, LIMIT)
    assert predictions(model, dataclasses.replace(task, beams=3), rows, LIMIT) == greedy
    cold = dataclasses.replace(task, temperature=0.01)
    assert predictions(model, cold, rows, LIMIT) == greedy
    wild = dataclasses.replace(task, temperature=30.0)
    assert predictions(model, wild, rows, LIMIT) != greedy
    narrow = dataclasses.replace(wild, top_k=1)
    assert predictions(model, narrow, rows, LIMIT) == greedy


def test_only_real_tokens_are_written() -> None:
    task = Generate(longest=5, temperature=50.0)  # nearly uniform
    rows = turned(3, 40)
    for found in predictions(model_for(task), task, rows, LIMIT):
        assert set(found["ids"]) <= set(ids(" ".join(LETTERS)))


@pytest.mark.parametrize("settings", [{}, {"beams": 2}, {"temperature": 2.0}], ids=str)
def test_batches_and_order_change_nothing(
    settings: dict, learned: tuple[Generate, Checkpoint], monkeypatch: pytest.MonkeyPatch
) -> None:
    _, model = learned
    task = Generate(longest=6, **settings)
    rows = turned(4, 25)
    whole = answer(model, task, rows, LIMIT)
    monkeypatch.setattr(tasks, "BATCH_TOKENS", 1)
    assert answer(model, task, rows[::-1], LIMIT)[::-1] == whole


@torch.inference_mode()
def test_the_past_gives_what_reading_again_gives(learned: tuple[Generate, Checkpoint]) -> None:
    task, model = learned
    for one in turned(5, 5):
        (example,) = task.examples([one], TOY, LIMIT, False)
        source, written = example.parts[0].ids, []
        while len(written) < task.longest:
            whole = [*source, *written]
            batch = Batch(
                torch.tensor(whole),
                Layout([len(whole)], prefix=[len(source)]),
                torch.tensor([0] * len(source) + [1] * len(written)),
            )
            logits = model.heads["masked"](model.model(batch).last[-1:], model.model.token_table())
            logits[:, [PAD, UNK, CLS, MASK]] = -torch.inf
            token = int(logits[:, : len(TOY)].argmax())
            if token == SEP:
                break
            written.append(token)
        assert answer(model, task, [one], LIMIT)[0]["ids"] == written


def test_saved_and_read_again(learned: tuple[Generate, Checkpoint], tmp_path: Path) -> None:
    task, model = learned
    checkpoint.write(tmp_path / "m", model)
    again = checkpoint.read(tmp_path / "m")
    assert restore(again.about["task"]) == task and again.architecture == "BertForMaskedLM"
    rows = turned(6, 10)
    assert predictions(again, task, rows, LIMIT) == predictions(model, task, rows, LIMIT)
    source = rows[0].values["source"]
    assert load(tmp_path / "m")(source) == predictions(model, task, rows[:1], LIMIT)[0]


@pytest.mark.parametrize("strategy", ["full", "head", "adapters"])
def test_a_whole_trial(strategy: str, tmp_path: Path) -> None:
    task = Generate(longest=6)
    checkpoint.write(tmp_path / "base", model_for(task))
    settings = Finetune(model=str(tmp_path / "base"), epochs=2, batch=16, strategy=strategy)
    work = Work(settings, task, turned(0, 48), turned(1, 10), limit=LIMIT, quiet=True)
    result = run_trial(work, lr=1e-3, seed=0, folder=tmp_path / "run")
    assert work.metric == "rouge_l" and len(result.history) == 2
    again = checkpoint.read(tmp_path / "run" / "best")
    found = answer(again, task, turned(1, 10), LIMIT)
    assert task.score(turned(1, 10), found, {}) == pytest.approx(result.scores)


# ---------------------------------------------------------------- heads, other strategies, parity


def test_the_pretraining_head_is_kept() -> None:
    task = Generate(longest=4)
    torch.manual_seed(0)
    config = bert.Config(vocabulary=len(TOY), width=16, layers=1, heads=2, hidden=16, positions=16)
    model = checkpoint.create("bert", config, heads=("masked", "next_sentence"))
    head = model.heads["masked"]
    give_head(model, task, Finetune())
    assert model.heads == {"masked": head}
    with pytest.raises(UserError, match="generate speaks with the language-model head"):
        give_head(model, task, Finetune(hidden=8))


def test_a_frozen_body_writes_too(learned: tuple[Generate, Checkpoint]) -> None:
    task, model = learned
    frozen = dataclasses.replace(model, model=Remembering(model.model, all_layers=False))
    rows = turned(7, 8)
    assert predictions(frozen, task, rows, LIMIT) == predictions(model, task, rows, LIMIT)
    model.model.requires_grad_(True)
    batch = task.collate(task.examples(rows, TOY, LIMIT, True))
    for _ in range(2):  # computed, then remembered
        torch.testing.assert_close(frozen.model(batch).last, model.model(batch).last)


@pytest.mark.parametrize("theirs_first", [False, True])
def test_parity_with_transformers(theirs_first: bool, tmp_path: Path) -> None:
    """The same logits as BertForMaskedLM under the same mask, whoever wrote the files."""
    transformers = pytest.importorskip("transformers", reason="parity needs the dev extra")
    task = Generate(longest=5)
    model = model_for(task)
    for number, part in enumerate((model.model, *model.heads.values())):
        loud(part, number)
    checkpoint.write(tmp_path / "ours", model)
    theirs = transformers.BertForMaskedLM.from_pretrained(
        tmp_path / "ours", attn_implementation="eager"
    ).eval()
    if theirs_first:
        theirs.save_pretrained(tmp_path / "theirs")
        model = checkpoint.read(tmp_path / "theirs")
    rows = turned(8, 6)
    batch = task.collate(task.examples(rows, TOY, LIMIT, True))
    layout = batch.layout
    seen = torch.arange(layout.longest) <= layout.pad(layout.reach)[:, :, None]
    seen = seen & layout.mask[:, None, :]
    low = torch.finfo(torch.float32).min
    mask = torch.zeros(seen.shape).masked_fill(~seen, low)[:, None]
    with torch.inference_mode():
        expected = theirs(
            input_ids=layout.pad(batch.tokens),
            token_type_ids=layout.pad(batch.segments),
            attention_mask=mask,
        ).logits
        states = model.model.eval()(batch)
        ours = model.heads["masked"](states.last, model.model.token_table())
    same("bert", "prefix mask, logits", "transformers", ours, layout.pack(expected))


def test_real_columns(shared_data: Path) -> None:
    task = make_task("generate")
    for name, count in (("dialogsum/test.jsonl.gz", 3), ("csl_title_zh/dev.jsonl", 1)):
        rows = read_rows(shared_data / name, task.columns())
        assert len(rows[0].values["target"]) == count and rows[0].values["source"]
