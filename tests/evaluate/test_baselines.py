"""What shared words alone say, by hand; and that every task gets answers in its own form."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from tianci.data.rows import Row
from tianci.evaluate.baselines import baseline_answers, baseline_name
from tianci.evaluate.overlap_baseline import Rareness, first_words
from tianci.goals.tasks import make_task, task_names
from tianci.tune.compare import sentence


def row(**values: Any) -> Row:
    return Row(values, "toy.jsonl", 1, {})


def test_rareness_and_cosine_by_hand() -> None:
    rare = Rareness(["red car", "red house", "blue house", "green"])
    assert rare.weight("red") == pytest.approx(math.log(5 / 3) + 1)  # in two of four texts
    assert rare.weight("new") == pytest.approx(math.log(5) + 1)
    red, car, house = (rare.weight(word) for word in ("red", "car", "house"))
    expected = red**2 / math.sqrt((red**2 + car**2) * (red**2 + house**2))
    assert rare.cosine("Red car", "house red") == pytest.approx(expected)
    assert rare.cosine("", "car") == 0.0


def asked(context: str, question: str, answer: str) -> Row:
    at = context.find(answer)
    answers = [{"text": answer, "answer_start": at}] if answer else []
    return row(context=context, question=question, answers=answers, impossible=not answer)


def test_the_answer_is_what_the_question_does_not_say() -> None:
    context = "The bridge was built in 1880. The tower was painted by Anna Lee. It rained."
    train = [asked(context, "Who rained?", "Anna Lee"), asked(context, "When?", "in 1880")]
    dev = [asked(context, "Who painted the tower?", "Anna Lee")]
    task = make_task("answer").learn([*train, *dev])
    [said] = baseline_answers(task, train, dev, 0) or []
    begin, end = said.spans.places[0].tolist()
    # "was" stands alone; "by Anna" is the longest stretch, cut to two words as nine of ten answers
    assert context[begin:end] == "by Anna"
    assert said.spans.scores[0] > said.spans.scores[1]
    assert task.score(dev, [said], task.decide(dev, [said]))["f1"] == pytest.approx(0.5)


def test_questions_that_share_nothing_have_no_answer() -> None:
    context = "The tower was painted by Anna. The bridge was built in 1880."
    rows = [
        asked(context, "Who painted the tower?", "by Anna"),
        asked(context, "Who sells cheese?", ""),
        asked(context, "When was the bridge built?", "in 1880"),
        asked(context, "Why eat tomatoes?", ""),
    ]
    task = make_task("answer").learn(rows)
    answers = baseline_answers(task, rows, rows, 0) or []
    found = task.predict(rows, answers, task.decide(rows, answers))
    assert [bool(one["answer"]) for one in found] == [True, False, True, False]


def test_choices_that_stand_in_the_text_win() -> None:
    fruits = ["apple", "pear", "plum", "grape", "melon", "lemon"]
    rng = np.random.default_rng(0)
    rows = []
    for _ in range(60):
        a, b, c = rng.choice(fruits, 3, replace=False)
        at = int(rng.integers(3))
        choices = [str(b), str(c)]
        choices.insert(at, str(a))
        rows.append(
            row(context=f"she ate one {a}", question="what?", choices=choices, label=str(at))
        )
    task = make_task("choose").learn(rows)
    answers = baseline_answers(task, rows[:40], rows[40:], 0) or []
    assert task.score(rows[40:], answers, task.decide(rows[40:], answers))["accuracy"] == 1.0


def test_vectors_of_words_have_length_one_and_know_shared_words() -> None:
    rows = [
        row(text="a red car", pair="red car a", label="1"),
        row(text="a red car", pair="three green birds", label="0"),
    ]
    task = make_task("similar").learn(rows)
    same, other = baseline_answers(task, rows, rows, 0) or []
    assert np.linalg.norm(same, axis=1) == pytest.approx([1, 1], abs=1e-6)
    assert same[0] @ same[1] == pytest.approx(1.0, abs=1e-6) and other[0] @ other[1] < 0.1
    assert task.score(rows, [same, other], task.decide(rows, [same, other]))["auc"] == 1.0


def test_the_beginning_is_as_long_as_targets_are() -> None:
    train = [row(source="x", target=["一二三"]), row(source="x", target=["一二三四五"]),
             row(source="x", target=["一二三四"])]  # fmt: skip
    dev = [row(source="天气，很好。我们走吧", target=["天气很好"]), row(source="", target=["x"])]
    assert [one["text"] for one in first_words(train, dev)] == ["天气，很好", ""]


def test_every_task_has_a_named_baseline() -> None:
    names = {name: baseline_name(make_task(name)) for name in task_names()}
    assert names["classify"] == names["pair"] == names["regress"] == "bag of words"
    assert names["answer"] == names["choose"] == "word overlap"
    assert (names["tag"], names["similar"]) == ("linear tagger", "tf-idf cosine")
    rows = [{"labels": 9, "system": "word overlap", "score": 0.5},
            {"labels": 9, "system": "fine-tuned", "score": 0.4}]  # fmt: skip
    assert sentence(rows, "f1") == (
        "Pre-training did not pay: with all 9 labels the f1 0.4000 is 0.1000 below the word "
        "overlap baseline (0.5000)"
    )
