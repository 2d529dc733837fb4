"""Sentence vectors: what rows teach, features, three ways to learn, files of
sentence-transformers."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
import torch

import tianci
from tests.goals import tiny
from tests.goals.small_training import row, teach
from tests.parity.family import loud
from tianci import checkpoint
from tianci.checkpoint import OWN, Checkpoint
from tianci.data.rows import read_rows
from tianci.errors import UserError
from tianci.evaluate import tasks
from tianci.evaluate.tasks import answer
from tianci.goals.tasks import make_task, restore
from tianci.goals.tasks.base import Example, Part
from tianci.goals.tasks.similar import Similar
from tianci.models import bert
from tianci.serve.predictor import load
from tianci.tune.settings import Finetune
from tianci.tune.start import give_head
from tianci.tune.trial import run_trial
from tianci.tune.work import Work

LETTERS, CHINESE = list("abcdefghijkl"), list("天地人大中上下国说到你我")  # the same, translated
TOY = tiny.tokenizer([*tiny.SPECIAL, *LETTERS, *CHINESE])
LIMIT = 16


def model_for(task: Similar, dropout: float = 0.0, **settings) -> Checkpoint:
    torch.manual_seed(0)
    config = bert.Config(
        vocabulary=len(TOY), width=32, layers=2, heads=4, hidden=64, positions=32,
        dropout=dropout, attention_dropout=0.0, initial_std=0.1,
    )  # fmt: skip
    model = checkpoint.create("bert", config)
    model.tokenizer = TOY
    give_head(model, task, Finetune(**settings))
    model.about = {"task": task.as_table(), "limit": LIMIT}
    return model


def words(r: np.random.Generator, of: list[str], numbers: np.ndarray) -> str:
    return " ".join(of[n] for n in r.permutation(numbers))


def pairs(seed: int, count: int) -> list:
    """Four letters, and their translation in another order; all pairs are different."""
    r = np.random.default_rng(seed)
    sets = np.array(list(combinations(range(12), 4)))
    found = sets[r.permutation(len(sets))[:count]]
    return [
        row(n, text=words(r, LETTERS, one), pair=words(r, CHINESE, one))
        for n, one in enumerate(found, 1)
    ]


def scored(seed: int, count: int) -> list:
    """Two texts of four; the score counts what they share."""
    r = np.random.default_rng(seed)
    rows = []
    for n in range(1, count + 1):
        one, two = (r.choice(8, 4, replace=False) for _ in range(2))
        score = str(len(set(one.tolist()) & set(two.tolist())))
        rows.append(row(n, text=words(r, LETTERS, one), pair=words(r, CHINESE, two), label=score))
    return rows


def scores(task: Similar, model: Checkpoint, rows: list) -> dict[str, float]:
    found = answer(model, task, rows, LIMIT)
    return task.score(rows, found, task.decide(rows, found))


# ---------------------------------------------------------------- rows


def test_rows_say_what_is_learned() -> None:
    learn = lambda *rows, **settings: make_task("similar", settings).learn(rows).how  # noqa: E731
    single, pair = {"text": "a"}, {"text": "a", "pair": "b"}
    assert learn(row(**single)) == "texts"
    assert learn(row(**pair)) == "pairs"
    assert learn(row(**pair, label="1"), row(**pair, label="1")) == "pairs"
    assert learn(row(**pair, label="1"), row(**pair, label="0")) == "scores"
    assert learn(row(**pair, label="4.5"), row(**pair, label="0")) == "scores"
    assert learn(row(**pair, label="1"), row(**pair, label="0"), how="scores") == "scores"
    assert learn(row(**pair), how="texts") == "texts"
    scored = [replace(row(**pair, label=n), file="dev.jsonl") for n in "04"]
    assert learn(row(**single), *scored) == "texts"  # dev may know more than train
    assert learn(row(**pair), *scored) == "pairs"
    known = {"positive": "entailment"}
    assert learn(row(**pair, label="entailment"), row(**pair, label="x"), **known) == "scores"


@pytest.mark.parametrize(
    ("rows", "settings", "message"),
    [
        ([{"text": "a"}, {"text": "a", "pair": "b"}], {}, "toy.jsonl, line 1: no second text"),
        ([{"text": "a", "pair": "b", "label": "1"}, {"text": "a", "pair": "b"}], {},
         "line 2: no label"),
        ([{"text": "a", "pair": "b", "label": "good"}], {}, 'line 1: the label "good" is no numb'),
        ([{"text": "a"}], {"how": "pairs"}, "needs two texts"),
        ([{"text": "a", "pair": "b", "label": "3"}], {"how": "scores"}, "two scores"),
        ([{"text": "a", "pair": "b", "label": "0"}], {}, "needs rows labelled 1"),
    ],
)  # fmt: skip
def test_rows_that_teach_nothing(rows: list, settings: dict, message: str) -> None:
    with pytest.raises(UserError, match=message):
        make_task("similar", settings).learn([row(n, **one) for n, one in enumerate(rows, 1)])


def test_features_by_hand() -> None:
    ids = {token: n for n, token in enumerate([*tiny.SPECIAL, *LETTERS, *CHINESE])}
    first = Part([ids["[CLS]"], ids["a"], ids["b"], ids["[SEP]"]], [0, 0, 0, 0])
    second = Part([ids["[CLS]"], ids["天"], ids["[SEP]"]], [0, 0, 0])
    rows = [row(1, text="a b", pair="天", label="1"), row(2, text="b", pair="天", label="0")]
    assert Similar(how="pairs").examples(rows, TOY, LIMIT, True) == [
        Example(0, (first, second), 1.0)  # the other one is no positive pair
    ]
    both = Similar(how="scores").examples(rows, TOY, LIMIT, True)
    assert [e.target for e in both] == [1.0, 0.0] and both[0].parts == (first, second)
    twice = Similar(how="texts").examples([row(1, text="a b")], TOY, LIMIT, True)
    assert twice == [Example(0, (first, first), 1.0)]
    asked = Similar().examples([row(1, text="a b"), rows[0]], TOY, LIMIT, False)
    assert [len(e.parts) for e in asked] == [1, 2] and asked[0].target is None


def test_equal_texts_are_no_strangers() -> None:
    task = Similar(how="pairs")
    rows = [row(1, text="a", pair="天"), row(2, text="b", pair="地"), row(3, text="c", pair="天")]
    batch = task.collate(task.examples(rows, TOY, LIMIT, True))
    assert batch.targets["text"].tolist() == [[0, 1], [2, 3], [4, 1]]
    model = model_for(task)
    states = model.model(batch)
    alone = task.collate(task.examples(rows[::2], TOY, LIMIT, True))
    nothing = task.loss(model.model, model.heads, model.model(alone), alone)
    assert nothing.total.item() == pytest.approx(0.0, abs=1e-6)  # nobody is there to be told apart
    assert task.loss(model.model, model.heads, states, batch).total.item() > 0.01


# ---------------------------------------------------------------- learning


@pytest.fixture(scope="module")
def learned() -> tuple[Similar, Checkpoint]:
    task = Similar().learn(pairs(0, 300))
    model = model_for(task)
    teach(model, task, pairs(0, 300), LIMIT, steps=70)
    return task, model


def test_pairs_are_found_among_strangers(learned: tuple[Similar, Checkpoint]) -> None:
    task, model = learned
    fresh = scores(task, model_for(task), pairs(1, 60))
    found = scores(task, model, pairs(1, 60))
    assert fresh["mrr"] < 0.4 and found["mrr"] > 0.95
    assert task.chosen_by(pairs(1, 60)) == "mrr"


def test_labelled_dev_rows(learned: tuple[Similar, Checkpoint]) -> None:
    task, model = learned
    good, bad = pairs(2, 40), pairs(3, 40)
    rows = [row(n, **one.values, label="1") for n, one in enumerate(good, 1)]
    rows += [
        row(n, text=a.values["text"], pair=b.values["pair"], label="0")
        for n, (a, b) in enumerate(zip(good, bad, strict=True), 41)
    ]
    found = scores(task, model, rows)
    assert found["auc"] > 0.97 and found["accuracy"] > 0.9 and found["spearman"] > 0.8
    assert task.chosen_by(rows) == "spearman"
    answers = answer(model, task, rows, LIMIT)
    decision = task.decide(rows, answers)
    said = task.predict(rows, answers, decision)
    right = np.mean([one["label"] == r.values["label"] for one, r in zip(said, rows, strict=True)])
    assert right == found["accuracy"]
    details = task.details(rows, answers, decision)
    assert len(details["errors"]) == 30 and "roc" in details["curves"]


def test_scores_put_cosines_in_order() -> None:
    train, dev = scored(0, 400), scored(1, 100)
    task = Similar().learn(train)
    model = model_for(task)
    before = scores(task, model, dev)["spearman"]
    teach(model, task, train, LIMIT, steps=120)
    after = scores(task, model, dev)["spearman"]
    assert before < 0.5 and after > 0.9


def test_raw_texts_find_themselves_under_another_dropout() -> None:
    rows = [row(n, text=one.values["text"]) for n, one in enumerate(pairs(0, 200), 1)]
    task = Similar().learn(rows)
    model = model_for(task, dropout=0.1)
    model.model.train()
    batch = task.collate(task.examples(rows[:3], TOY, LIMIT, True))
    vectors = task.vectors(model.heads, model.model(batch), batch)
    assert (vectors[0] - vectors[1]).abs().max() > 1e-3  # the same ids, another dropout
    before = scores(task, model, rows)["uniformity"]
    losses = teach(model, task, rows, LIMIT, steps=60, lr=1e-3)
    assert scores(task, model, rows)["uniformity"] > before + 0.2
    assert np.mean(losses[-5:]) < 0.7 * np.mean(losses[:5])
    assert task.chosen_by(rows) == "uniformity"


def test_one_vector_for_all_is_trouble() -> None:
    task = Similar()
    rows = pairs(0, 12)
    same = [np.array([[1.0, 0.0], [1.0, 0.0]], np.float32)] * 12
    assert task.trouble(rows, same, {}) == "all 12 dev texts get the same vector"
    good = answer(model_for(task), task, rows, LIMIT)
    assert task.trouble(rows, good, {}) is None


# ---------------------------------------------------------------- answers


def test_batches_and_order_change_nothing(
    learned: tuple[Similar, Checkpoint], monkeypatch: pytest.MonkeyPatch
) -> None:
    task, model = learned
    rows = [*pairs(5, 9), row(10, text="a b c"), *pairs(6, 5), row(16, text="天")]
    whole = answer(model, task, rows, LIMIT)
    monkeypatch.setattr(tasks, "BATCH_TOKENS", 1)
    for one, other in zip(answer(model, task, rows[::-1], LIMIT)[::-1], whole, strict=True):
        np.testing.assert_allclose(one, other, atol=2e-6)
    said = task.predict(rows, whole, {})
    assert list(said[9]) == ["embedding"] and list(said[0]) == ["score"]
    assert np.linalg.norm(said[9]["embedding"]) == pytest.approx(1.0, abs=1e-6)


def test_saved_and_read_again(learned: tuple[Similar, Checkpoint], tmp_path: Path) -> None:
    task, model = learned
    checkpoint.write(tmp_path / "m", model)
    again = checkpoint.read(tmp_path / "m")
    assert restore(again.about["task"]) == task and set(again.heads) == {OWN}
    rows = pairs(5, 9)
    for one, other in zip(
        answer(again, task, rows, LIMIT), answer(model, task, rows, LIMIT), strict=True
    ):
        assert np.array_equal(one, other)
    predictor = load(tmp_path / "m")
    text, pair = rows[0].values["text"], rows[0].values["pair"]
    both = predictor.embed([text, pair])
    assert predictor((text, pair))["score"] == pytest.approx(float(both[0] @ both[1]), abs=1e-6)


@pytest.mark.parametrize("pooling", ["mean", "first", "max", "last"])
def test_parity_sentence_transformers_loads_it(pooling: str, tmp_path: Path) -> None:
    st = pytest.importorskip("sentence_transformers", reason="parity needs the dev extra")
    task = Similar(how="pairs")
    model = model_for(task, pooling=pooling)
    loud(model.model, 3)
    checkpoint.write(tmp_path / "m", model)
    texts = ["a b c", "天", "h g f e d c b a 天地人大中上下国 a b", ""]  # the third is cut to 16
    theirs = st.SentenceTransformer(str(tmp_path / "m"), device="cpu")
    expected = theirs.encode(texts, batch_size=2)
    assert theirs.max_seq_length == LIMIT
    rows = [row(n, text=text) for n, text in enumerate(texts, 1)]
    ours = np.stack([one[0] for one in answer(model, task, rows, LIMIT)])
    np.testing.assert_allclose(ours, expected, atol=1e-5)
    np.testing.assert_allclose(load(tmp_path / "m").embed(texts), expected, atol=1e-5)


def test_a_finished_run_loads_in_sentence_transformers(tmp_path: Path) -> None:
    """Learned from raw text, chosen by scored pairs, pooled in another way than the usual one."""
    st = pytest.importorskip("sentence_transformers", reason="parity needs the dev extra")
    checkpoint.write(tmp_path / "base", model_for(Similar(how="pairs")))
    (tmp_path / "train.txt").write_text("a b c\n天 地\nh g f e\nb a\n" * 5, encoding="utf-8")
    scored = [{"text": "a b", "pair": "a c", "label": 4}, {"text": "天", "pair": "d", "label": 1}]
    lines = [json.dumps(one, ensure_ascii=False) for one in scored]
    (tmp_path / "dev.jsonl").write_text("\n".join(lines), encoding="utf-8")
    found = tianci.finetune(
        "similar", model=tmp_path / "base", train=tmp_path / "train.txt", pooling="max",
        dev=tmp_path / "dev.jsonl", out=tmp_path / "out", steps=1, force=True,
    )  # fmt: skip
    assert found["metric"] == "spearman"
    theirs = st.SentenceTransformer(str(tmp_path / "out"), device="cpu").encode(["a b c", "天"])
    np.testing.assert_allclose(tianci.load(tmp_path / "out").embed(["a b c", "天"]), theirs,
                               atol=1e-5)  # fmt: skip


def test_a_whole_trial(tmp_path: Path) -> None:
    task = Similar().learn(pairs(0, 60))
    checkpoint.write(tmp_path / "base", model_for(task))
    settings = Finetune(model=str(tmp_path / "base"), epochs=2, batch=16, pooling="first")
    work = Work(settings, task, pairs(0, 60), pairs(1, 20), limit=LIMIT, quiet=True)
    result = run_trial(work, lr=3e-3, seed=0, folder=tmp_path / "run")
    assert work.metric == "mrr" and len(result.history) == 2
    assert (tmp_path / "run" / "best" / "modules.json").exists()
    predictor = load(tmp_path / "run" / "best")
    assert predictor.defaults == {"pooling": "first", "normalize": True, "limit": LIMIT}
    assert predictor.task == task
    settings_file = tmp_path / "run" / "best" / "config_sentence_transformers.json"
    settings_file.write_text('{"prompts": {"query": "query: "}}')
    assert load(tmp_path / "run" / "best").defaults["prompts"] == {"query": "query: "}
    settings_file.write_text('{"prompts": {"query": 3}}')
    with pytest.raises(UserError, match="prompts must map names to texts"):
        load(tmp_path / "run" / "best")


def test_what_sentence_transformers_cannot_say_is_not_claimed(tmp_path: Path) -> None:
    for number, settings in enumerate(({"pooling": "mean-max"}, {"mix": True}, {"hidden": 8})):
        model = model_for(Similar(how="pairs"), **settings)
        checkpoint.write(tmp_path / str(number), model)
        assert not (tmp_path / str(number) / "modules.json").exists()
        assert set(checkpoint.read(tmp_path / str(number)).heads) == {OWN}


def test_real_columns(shared_data: Path) -> None:
    task = Similar()
    for name, how in (("stsb_en", "scores"), ("stsb_zh", "scores"), ("mrpc", "scores")):
        path = next((shared_data / name).glob("dev.jsonl*"))
        assert task.learn(read_rows(path, task.columns())).how == how
