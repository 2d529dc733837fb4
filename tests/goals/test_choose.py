"""Multiple choice: features, the softmax over ragged rows, learning, parity."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from tests.goals import tiny
from tests.goals.small_training import predictions, row, small_model, teach
from tests.parity.family import loud, padded_inputs, same
from tianci import checkpoint
from tianci.data.rows import read_rows
from tianci.errors import UserError
from tianci.evaluate.tasks import answer, answer_examples
from tianci.goals.tasks import restore
from tianci.goals.tasks.choose import Choose, right, statement
from tianci.models.base import States
from tianci.nn.task_heads import HeadPlan

LETTERS, DIGITS, CHINESE = list("abcdefgh"), list("0123456789"), list("天地人大中上下国")
TOY = tiny.tokenizer([*tiny.SPECIAL, *LETTERS, *DIGITS, *CHINESE, "?"])
LIMIT = 20


def toy_rows(seed: int, count: int) -> list:
    """The context asks for digits or for Chinese; one of two to four choices has it."""
    r = np.random.default_rng(seed)
    rows = []
    for line in range(1, count + 1):
        wanted = int(r.integers(2))
        size = int(r.integers(2, 5))
        number = int(r.integers(size))
        kinds = [wanted if n == number else 1 - wanted for n in range(size)]
        choices = [f"{r.choice((DIGITS, CHINESE)[kind][1:])} {r.choice(LETTERS)}" for kind in kinds]
        context = f"{r.choice(LETTERS)} {('0', '天')[wanted]} {r.choice(LETTERS)}"
        rows.append(row(line, context=context, choices=choices, label=str(number)))
    return rows


@pytest.fixture(scope="module")
def learned():
    """A task and a model that have learned the toy set."""
    train = toy_rows(0, 300)
    task = Choose().learn(train)
    model = small_model(task, TOY)
    losses = teach(model, task, train, LIMIT, steps=80, lr=8e-3)
    assert losses[0] > 0.5 and np.mean(losses[-10:]) < 0.1
    return task, model


class Fixed(nn.Module):
    """A head that says what was written down, in the order of the batch's sequences."""

    def __init__(self, *said: float):
        super().__init__()
        self.said = torch.tensor(said)[:, None]

    def forward(self, layers, layout):
        return self.said


def states_of(batch) -> States:
    return States([torch.zeros(batch.layout.tokens, 1)], batch.layout)


# ---------------------------------------------------------------- features


def test_features_by_hand() -> None:
    rows = [
        row(1, context="the dog", question="a b", choices=["cat", "dog run"], label="1"),
        row(2, context="今天", choices=["天", "我们", "人"], label="0"),
    ]
    examples = Choose().examples(rows, tiny.tokenizer(), 20, labelled=True)
    assert [[part.ids for part in e.parts] for e in examples] == [
        [
            tiny.ids("[CLS] the dog [SEP] a b cat [SEP]"),
            tiny.ids("[CLS] the dog [SEP] a b dog run [SEP]"),
        ],
        [
            tiny.ids("[CLS] 今 天 [SEP] 天 [SEP]"),
            tiny.ids("[CLS] 今 天 [SEP] 我 们 [SEP]"),
            tiny.ids("[CLS] 今 天 [SEP] 人 [SEP]"),
        ],
    ]
    assert examples[0].parts[0].segments == [0, 0, 0, 0, 1, 1, 1, 1]
    assert [e.target for e in examples] == [1, 0]
    batch = Choose().collate(examples)
    assert batch.layout.lengths == (9, 8, 7, 6, 6)
    assert batch.targets["place"].tolist() == [1, 0, 3, 2, 4]
    assert batch.targets["choices"].tolist() == [2, 3]
    assert batch.targets["label"].tolist() == [1, 0]
    assert Choose().count(batch) == 2


def test_the_context_is_cut_first() -> None:
    rows = [row(context="a b c a b c", question="the dog", choices=["cat", "cat run"])]
    (example,) = Choose().examples(rows, tiny.tokenizer(), 9, labelled=False)
    assert [part.ids for part in example.parts] == [
        tiny.ids("[CLS] a b c [SEP] the dog cat [SEP]"),
        tiny.ids("[CLS] a b [SEP] the dog cat run [SEP]"),
    ]
    # the choice is the last to go
    (short,) = Choose().examples(rows, tiny.tokenizer(), 6, labelled=False)
    assert [part.ids for part in short.parts] == [
        tiny.ids("[CLS] [SEP] the dog cat [SEP]"),
        tiny.ids("[CLS] [SEP] dog cat run [SEP]"),
    ]
    with pytest.raises(UserError, match="no room"):
        Choose().examples(rows, tiny.tokenizer(), 3, labelled=False)


def test_where_the_choice_goes() -> None:
    assert statement(None, "cat") == statement("", "cat") == "cat"
    assert statement("Who?", "A cat.") == "Who? A cat."
    assert statement("It is ____ .", "a\\1 cat") == "It is a\\1 cat ."
    assert statement("文中 __①__ 处应填：", "天") == "文中 __①__ 处应填： 天"


@pytest.mark.parametrize(("label", "number"), [("0", 0), ("2", 2), ("A", 0), ("c", 2)])
def test_labels(label: str, number: int) -> None:
    assert right(row(context="a", choices=["x", "y", "z"], label=label)) == number


@pytest.mark.parametrize("label", ["3", "-1", "D", "yes", "1.5"])
def test_wrong_labels(label: str) -> None:
    with pytest.raises(UserError, match=rf'toy.jsonl, line 7: the label "{label}" is none of its'):
        right(row(7, context="a", choices=["x", "y", "z"], label=label))


def test_no_choices() -> None:
    rows = [row(3, context="a", choices=[])]
    with pytest.raises(UserError, match=r"toy.jsonl, line 3: the list of choices is empty"):
        Choose().examples(rows, tiny.tokenizer(), 20, labelled=False)


# ---------------------------------------------------------------- loss and answers


def ragged_batch():
    rows = [
        row(context="a", choices=["a b", "c"], label="1"),
        row(context="a", choices=["a b c", "b"], label="0"),
        row(context="a", choices=["a b c a"], label="0"),
    ]
    task = Choose()
    examples = task.examples(rows, tiny.tokenizer(), 20, labelled=True)
    return task, rows, task.collate(examples)


def test_loss_by_hand() -> None:
    task, _, batch = ragged_batch()
    # lengths 5 4 6 4 7, so the sequences come as: row 2; row 1, 0; row 0, 0; row 0, 1; row 1, 1
    head = Fixed(9.0, 1.0, 2.0, 0.5, 3.0)
    loss = task.loss(None, {"choice": head}, states_of(batch), batch)

    def surprise(logits: list[float], gold: int) -> float:
        return math.log(sum(map(math.exp, logits))) - logits[gold]

    expected = surprise([2.0, 0.5], 1) + surprise([1.0, 3.0], 0)  # of one choice: 0
    assert loss.total.item() == pytest.approx(expected, rel=1e-5)
    assert loss.hits.item() == 1


def test_predictions_and_scores_by_hand() -> None:
    task, rows, batch = ragged_batch()
    head = Fixed(9.0, 1.0, 2.0, 0.5, 3.0)
    answers = task.answers({"choice": head}, states_of(batch), batch)
    assert [one.tolist() for one in answers] == [[2.0, 0.5], [1.0, 3.0], [9.0]]
    first, second, third = task.predict(rows, answers, {})
    share = 1 / (1 + math.exp(-1.5))
    assert first == {
        "label": 0,
        "choice": "a b",
        "score": pytest.approx(share),
        "scores": [pytest.approx(share), pytest.approx(1 - share)],
    }
    assert (second["label"], second["choice"]) == (1, "b")
    assert third == {"label": 0, "choice": "a b c a", "score": 1.0, "scores": [1.0]}
    assert task.score(rows, answers, {}) == {"accuracy": pytest.approx(1 / 3)}
    (cool,) = task.predict(rows[:1], answers[:1], {"temperature": 3.0})
    assert cool["score"] == pytest.approx(1 / (1 + math.exp(-0.5)))
    details = task.details(rows, answers, {})
    assert [(e["label"], e["predicted"]) for e in details["errors"]] == [
        ("a b c", "b"),
        ("c", "a b"),
    ]
    assert details["label_counts"] == {"0": 2, "1": 1}
    assert task.predict([], [], {}) == []


def test_guessing() -> None:
    two = row(context="a", choices=["x", "y"], label="0")
    four = row(context="a", choices=["x", "y", "z", "w"], label="0")
    assert Choose().chance is None
    assert Choose().learn([two, four]).chance == pytest.approx((1 / 2 + 1 / 4) / 2)


def test_always_the_same_choice_is_trouble() -> None:
    rows = [row(n, context="a", choices=["x", "y"], label=str(n % 2)) for n in range(12)]
    same_one = [np.array([0.0, 1.0])] * 12
    assert Choose().trouble(rows, same_one, {}) == "it takes choice 2 in all 12 dev rows"
    assert Choose().trouble(rows, [*same_one[:11], np.array([2.0, 1.0])], {}) is None


# ---------------------------------------------------------------- learning


def test_a_small_model_learns(learned) -> None:
    task, model = learned
    dev = toy_rows(1, 100)
    answers = answer(model, task, dev, LIMIT)
    decision = task.decide(dev, answers)
    assert 0.01 < decision["temperature"] < 20
    assert task.score(dev, answers, decision)["accuracy"] > 0.97
    fresh = answer(small_model(task, TOY, seed=5), task, dev, LIMIT)
    assert task.score(dev, fresh, {})["accuracy"] < 0.75


def test_the_batch_changes_nothing(learned) -> None:
    task, model = learned
    examples = task.examples(toy_rows(2, 20), TOY, LIMIT, labelled=False)
    together = answer_examples(model, task, examples)
    backwards = answer_examples(model, task, examples[::-1])[::-1]
    for number, example in enumerate(examples):
        (alone,) = answer_examples(model, task, [example])
        np.testing.assert_allclose(together[number], alone, atol=1e-4)
        np.testing.assert_allclose(together[number], backwards[number], atol=1e-4)


def test_saved_and_loaded(learned, tmp_path: Path) -> None:
    task, model = learned
    rows = toy_rows(3, 12)
    checkpoint.write(tmp_path / "model", model)
    loaded = checkpoint.read(tmp_path / "model")
    again = restore(loaded.about["task"])
    assert again == task
    assert predictions(loaded, again, rows, LIMIT) == predictions(model, task, rows, LIMIT)


def test_a_head_of_our_own() -> None:
    task, rows = Choose(), toy_rows(4, 8)
    model = small_model(task, TOY)
    plan = HeadPlan(outputs=1, pooling="attention", hidden=6)
    model.heads = {"own": checkpoint.planned_head(model.model.config, plan)}
    batch = task.collate(task.examples(rows, TOY, LIMIT, labelled=True))
    task.loss(model.model, model.heads, model.model(batch), batch).total.backward()
    assert all(p.grad is not None for p in model.heads["own"].parameters())
    assert len(predictions(model, task, rows, LIMIT)) == 8


# ---------------------------------------------------------------- parity and real data


@pytest.mark.parametrize("ours_first", [True, False])
def test_parity_with_transformers(ours_first: bool, tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers", reason="parity needs the dev extra")
    task = Choose()
    ours = small_model(task, TOY)
    if ours_first:
        for seed, part in enumerate((ours.model, *ours.heads.values())):
            loud(part, seed)
        checkpoint.write(tmp_path / "model", ours)
        theirs, report = transformers.BertForMultipleChoice.from_pretrained(
            tmp_path / "model", output_loading_info=True
        )
        assert not report["missing_keys"] and not report["unexpected_keys"]
    else:
        public = checkpoint.config_to_public(ours.public, ours.model.config)
        theirs = transformers.BertForMultipleChoice(transformers.BertConfig(**public))
        loud(theirs, 7)
        theirs.save_pretrained(tmp_path / "model")
        ours = checkpoint.read(tmp_path / "model")
    assert list(ours.heads) == ["choice"] and ours.architecture == "BertForMultipleChoice"
    ours.model.double().eval()
    ours.heads["choice"].double().eval()
    theirs = theirs.double().eval()
    kind = "transformers loads ours" if ours_first else "we load transformers'"
    for one in toy_rows(5, 5):  # row by row: transformers wants as many choices everywhere
        batch = task.collate(task.examples([one], TOY, LIMIT, labelled=True))
        states = ours.model(batch)
        logits = task.logits(ours.heads, states, batch)[:, 0]
        inputs = {name: value[None] for name, value in padded_inputs(batch).items()}
        out = theirs(**inputs, labels=batch.targets["place"][batch.targets["label"]])
        same("bert", "choice logits", kind, logits, out.logits[0][batch.targets["place"]])
        loss = task.loss(ours.model, ours.heads, states, batch).total
        same("bert", "choice loss", kind, loss.double(), out.loss)


@pytest.mark.parametrize(
    ("name", "counts"),
    [
        ("copa/dev.jsonl", {2}),
        ("c3/dev.jsonl.gz", {2, 3, 4}),
        ("dream/dev.jsonl.gz", {3}),
        ("race_expmrc/dev.jsonl.gz", {2, 3, 4}),
    ],
)
def test_real_rows(name: str, counts: set[int], shared_data: Path) -> None:
    task = Choose()
    rows = read_rows(shared_data / name, task.columns())
    assert {len(one.values["choices"]) for one in rows} == counts
    examples = task.examples(rows[:50], TOY, 64, labelled=True)
    assert max(len(part.ids) for example in examples for part in example.parts) <= 64
    assert all(0 <= example.target < len(example.parts) for example in examples)
