"""Extractive question answering: features, loss, spans over windows, no-answer, learning."""

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
from tianci.data.windows import Spans
from tianci.errors import UserError
from tianci.evaluate.tasks import answer, answer_examples
from tianci.goals.tasks import make_task, restore
from tianci.goals.tasks.answer import Answer, Said
from tianci.models.base import States
from tianci.nn.task_heads import HeadPlan

LETTERS, DIGITS, CHINESE = list("abcdefgh"), list("0123456789"), list("天地人大中上下国")
TOY = tiny.tokenizer([*tiny.SPECIAL, *LETTERS, *DIGITS, *CHINESE, "?"])
LIMIT = 40


def question(context: str, text: str = "dog", answers=(), line: int = 1, **more):
    found = [{"text": t, "answer_start": s} for t, s in answers]
    return row(line, context=context, question=text, answers=found, **more)


def toy_rows(seed: int, count: int, length: int = 14) -> list:
    """Letters with a run of digits and one of Chinese in them; asked is for one of the two, which
    is missing in three of ten."""
    r = np.random.default_rng(seed)
    rows = []
    for line in range(1, count + 1):
        asked, words, answers = int(r.integers(2)), r.choice(LETTERS, length).tolist(), []
        places = (int(r.integers(5)), int(r.integers(7, 12)))
        for kind, begin in zip(r.permutation(2).tolist(), places, strict=True):
            if kind == asked and r.random() < 0.3:
                continue
            low, high = ((DIGITS[:5], DIGITS[5:]), (CHINESE[:4], CHINESE[4:]))[kind]
            end = begin + int(r.integers(1, 3))
            words[begin], words[end] = str(r.choice(low)), str(r.choice(high))
            if kind == asked:
                answers = [(" ".join(words[begin : end + 1]), 2 * begin)]
        rows.append(question(" ".join(words), ("0 ?", "天 ?")[asked], answers, line))
    return rows


@pytest.fixture(scope="module")
def learned():
    """A task and a model that have learned the toy set."""
    train = toy_rows(0, 400)
    task = Answer().learn(train)
    model = small_model(task, TOY)
    losses = teach(model, task, train, LIMIT, steps=130, lr=8e-3)
    assert losses[0] > 2 and np.mean(losses[-10:]) < 0.2
    return task, model


class Fixed(nn.Module):
    """A head that says what was written down, in the order of the batch's tokens."""

    def __init__(self, first, last):
        super().__init__()
        self.said = torch.tensor(np.array([first, last], np.float32)).T

    def forward(self, layers, layout):
        return self.said


def states_of(batch) -> States:
    return States([torch.zeros(batch.layout.tokens, 1)], batch.layout)


# ---------------------------------------------------------------- features


def test_features_by_hand() -> None:
    # a b c the 天 气 cat: the answer is whole in the second and in the third window of four tokens
    rows = [question("a b c the 天气 cat", "dog", [("天气", 10)])]
    examples = Answer(stride=2).examples(rows, tiny.tokenizer(), 8, labelled=True)
    assert [e.parts[0].ids for e in examples] == [
        tiny.ids("[CLS] dog [SEP] a b c the [SEP]"),
        tiny.ids("[CLS] dog [SEP] c the 天 气 [SEP]"),
        tiny.ids("[CLS] dog [SEP] 天 气 cat [SEP]"),
    ]
    assert [e.parts[0].segments for e in examples] == [
        [0, 0, 0, 1, 1, 1, 1, 1],
        [0, 0, 0, 1, 1, 1, 1, 1],
        [0, 0, 0, 1, 1, 1, 1],
    ]
    assert [e.target for e in examples] == [(0, 0), (5, 6), (3, 4)]
    batch = Answer().collate(examples)
    assert batch.targets["label"].tolist() == [[0, 0], [5, 6], [3, 4]]
    assert batch.targets["document"].tolist() == [[0, 3, 4], [8, 11, 4], [16, 19, 3]]
    readable = "1001111010011110" + "1001110"
    assert batch.targets["readable"].tolist() == [mark == "1" for mark in readable]


def test_long_questions_are_cut() -> None:
    rows = [question("a b c the", "dog cat dog cat dog")]
    cut = Answer(question_limit=2).examples(rows, tiny.tokenizer(), 40, labelled=False)
    assert cut[0].parts[0].ids == tiny.ids("[CLS] dog cat [SEP] a b c the [SEP]")
    half = Answer(stride=0).examples(rows, tiny.tokenizer(), 7, labelled=False)  # room for 4
    assert [e.parts[0].ids for e in half] == [
        tiny.ids("[CLS] dog cat [SEP] a b [SEP]"),
        tiny.ids("[CLS] dog cat [SEP] c the [SEP]"),
    ]


def test_what_is_wrong_is_repaired_or_left_out() -> None:
    tokenizer = tiny.tokenizer()
    rows = [
        question("a b c a", answers=[("a", 5)]),  # nearest: the last one
        question("a b c", answers=[("the", 0)]),  # not there
        question("a b c", answers=[("the", 0), ("c", 0)]),  # the second is
        question("a b c", answers=[]),
        question("a b c", answers=[("b", 2)], impossible=True),
    ]
    examples = Answer().examples(rows, tokenizer, 20, labelled=True)
    assert [(e.row, e.target) for e in examples] == [
        (0, (6, 6)), (2, (5, 5)), (3, (0, 0)), (4, (0, 0)),
    ]  # fmt: skip
    assert len(Answer().examples(rows, tokenizer, 20, labelled=False)) == 5
    with pytest.raises(UserError, match=r"toy.jsonl: in no row"):
        Answer().examples(rows[1:2], tokenizer, 20, labelled=True)
    with pytest.raises(UserError, match="no room"):
        Answer().examples(rows, tokenizer, 4, labelled=True)


def test_training_rows_say_what_is_usual() -> None:
    english = [question("the dog", answers=[("dog", 4)])]
    chinese = [question("今天天气", answers=[("天气", 2)]), question("今天天气")]
    assert (Answer().learn(english).longest, Answer().learn(english).no_answer) == (30, False)
    assert (Answer().learn(chinese).longest, Answer().learn(chinese).no_answer) == (50, True)
    assert Answer(longest=7).learn(chinese).longest == 7
    with pytest.raises(UserError, match="answer.stride"):
        make_task("answer", {"stride": -1})


# ---------------------------------------------------------------- loss


def test_loss_goes_over_the_document_and_cls_only() -> None:
    rows = [
        question("a b", "dog", [("b", 2)]),
        question("a b c", "cat dog", []),
    ]
    task = Answer()
    batch = task.collate(task.examples(rows, tiny.tokenizer(), 20, labelled=True))
    # the second is longer, so it stands first:  [CLS] cat dog [SEP] a b c [SEP] | [CLS] dog [SEP] a
    # b [SEP]; what is said of questions and [SEP] must not matter
    first = [1.0, 99.0, 99.0, 99.0, 0.0, 2.0, 0.0, 99.0, 0.0, 99.0, 99.0, 1.0, 3.0, 99.0]
    last = [0.0, 77.0, 77.0, 77.0, 0.0, 0.0, 0.0, 77.0, 4.0, 77.0, 77.0, 0.0, 5.0, 77.0]
    loss = task.loss(None, {"span": Fixed(first, last)}, states_of(batch), batch)

    def surprise(logits: list[float], right: int) -> float:
        return math.log(sum(map(math.exp, logits))) - logits[right]

    expected = (
        surprise([0.0, 1.0, 3.0], 2) + surprise([4.0, 0.0, 5.0], 2)
        + surprise([1.0, 0.0, 2.0, 0.0], 0) + surprise([0.0, 0.0, 0.0, 0.0], 0)
    ) / 2  # fmt: skip
    assert loss.total.item() == pytest.approx(expected, rel=1e-5)
    assert loss.hits.item() == 1  # of the second row the beginning is wrong
    assert task.count(batch) == 2


# ---------------------------------------------------------------- answers


def test_the_best_span_of_all_windows() -> None:
    rows = [question("a b c the 天气 cat", "dog")]
    task = Answer(stride=2, longest=2)
    examples = task.examples(rows, tiny.tokenizer(), 8, labelled=False)
    batch = task.collate(examples)
    first, last = np.zeros((2, 23), np.float32)
    first[[1, 7]] = last[[1, 7]] = 50.0  # the question and [SEP] are no candidates
    first[0], first[8], first[16] = 6.0, 2.0, 4.0  # [CLS] of the three windows
    first[13], last[14] = 3.0, 3.5  # 天 气 in the second window
    first[19], last[20] = 4.0, 4.5  # ... and in the third
    first[11], last[14] = 9.0, 9.5  # c ... 气 has four tokens, too many
    said = task.answers({"span": Fixed(first, last)}, states_of(batch), batch)
    assert [one.null for one in said] == [6.0, 2.0, 4.0]
    assert all(len(one.spans.places) <= 20 for one in said)
    (joined,) = task.join(examples, said)
    assert joined.null == 2.0
    (shown,) = task.predict(rows, [joined], {})
    # 天 (3) and 气 (9.5) in the second window
    assert (shown["answer"], shown["start"], shown["end"]) == ("天气", 10, 12)
    assert joined.spans.scores[0] == 12.5
    spans = [tuple(place) for place in joined.spans.places.tolist()]
    assert len(set(spans)) == len(spans)


def said(null: float, *spans: tuple[int, int, float]) -> Said:
    places = np.array([(begin, end) for begin, end, _ in spans], np.int32).reshape(-1, 2)
    return Said(Spans(places, np.array([score for *_, score in spans], np.float32)), null)


def test_predictions_by_hand() -> None:
    rows = [question("Der Hund bellt.")] * 3
    answers = [
        said(1.0, (4, 8, 3.0), (0, 8, 2.0)),
        said(5.0, (4, 8, 3.0), (0, 8, 2.0)),
        said(1.0),
    ]
    plain = Answer().predict(rows, answers, {})
    e = math.exp(-1)
    assert plain[0]["answer"] == plain[1]["answer"] == "Hund"  # nobody said that it may be missing
    assert plain[0]["score"] == pytest.approx(1 / (1 + e))
    assert plain[0]["others"] == [
        {"answer": "Der Hund", "start": 0, "end": 8, "score": pytest.approx(e / (1 + e))}
    ]
    assert "no_answer" not in plain[0]
    assert plain[2] == {"answer": "", "start": 0, "end": 0, "score": 1.0, "others": []}

    with_none = Answer(no_answer=True).predict(rows, answers, {})
    assert [one["answer"] for one in with_none] == ["Hund", "", ""]
    total = math.exp(-2) + math.exp(-3) + 1
    assert with_none[1]["score"] == with_none[1]["no_answer"] == pytest.approx(1 / total)
    assert [one["answer"] for one in with_none[1]["others"]] == ["Hund", "Der Hund"]

    # a threshold shifts "no answer", so that the most probable is what is said
    (late,) = Answer().predict(rows[1:2], answers[1:2], {"null_threshold": 2.5})
    assert late["answer"] == "Hund" and late["score"] > late["no_answer"]
    (early,) = Answer().predict(rows[:1], answers[:1], {"null_threshold": -2.5})
    assert early["answer"] == "" and early["score"] > early["others"][0]["score"]


def test_scores_by_hand() -> None:
    rows = [
        question("the big dog ran", answers=[("big dog", 4), ("dog", 8)]),
        question("the big dog ran", answers=[("dog ran", 8)]),
        question("the big dog ran"),
    ]
    answers = [
        said(-9.0, (8, 11, 1.0)),
        said(-9.0, (4, 11, 1.0)),  # "big dog": one of two words, both ways
        said(3.0, (4, 7, 1.0)),
    ]
    scores = Answer(no_answer=True).score(rows, answers, {})
    assert scores == {
        "em": pytest.approx(2 / 3),
        "f1": pytest.approx((1 + 0.5 + 1) / 3),
        "has_answer_em": 0.5,
        "has_answer_f1": 0.75,
        "no_answer_accuracy": 1.0,
    }
    details = Answer(no_answer=True).details(rows, answers, {})
    assert details["answered"] == {"with_answer": 2, "without_answer": 0}
    (worst,) = details["errors"]
    assert (worst["predicted"], worst["label"], worst["f1"]) == ("big dog", ["dog ran"], 0.5)


def test_the_threshold_comes_from_dev() -> None:
    there, none = question("the dog", answers=[("dog", 4)]), question("the dog")
    answers = [
        said(0.0, (4, 7, 5.0)),  # doubts: -5, -1, 2 (wrong span), 3
        said(0.0, (4, 7, 1.0)),
        said(4.0, (0, 3, 2.0)),
        said(6.0, (4, 7, 3.0)),
    ]
    rows = [there, there, none, none]
    assert Answer().decide(rows, answers) == {"null_threshold": 0.5}  # half way from -1 to 2
    assert Answer().score(rows, answers, {"null_threshold": 0.5})["f1"] == 1.0
    assert Answer().decide([there, there], answers[:2]) == {}
    silent = Answer().decide([none, none], answers[:2])["null_threshold"]
    assert silent < -5
    talking = Answer().decide([there, there, none], [answers[0], answers[1], said(0.0)])
    assert -1 < talking["null_threshold"] < 1e6


def test_answers_are_pieces_of_the_original_text() -> None:
    # composed accents, full width, capitals, an emoji, a character that is dropped
    context = "The Cafe\u0301\u200b ＤＯＧ 今天🙂气"
    tokenizer = tiny.tokenizer([*tiny.SPECIAL, "the", "cafe", "dog", "今", "天", "气", "c", "##a"])
    rows = [question(context, "the dog", [("Cafe\u0301", 4)])]
    (example,) = Answer().examples(rows, tokenizer, 30, labelled=True)
    offsets = example.info.offsets
    begin, end = (offsets[place - example.info.lead] for place in example.target)
    assert context[begin[0] : end[1]].startswith("Cafe\u0301")
    task = Answer()
    for found in predictions(small_model(task, tokenizer), task, rows, 30):
        for one in (found, *found["others"]):
            assert one["answer"] and one["answer"] == context[one["start"] : one["end"]]


def test_empty_texts() -> None:
    rows = [question("", "dog"), question("the dog", ""), question(" \n", "")]
    task = Answer()
    found = predictions(small_model(task, tiny.tokenizer()), task, rows, 20)
    assert [bool(one["answer"]) for one in found] == [False, True, False]
    assert found[0]["others"] == []


# ---------------------------------------------------------------- learning


def test_a_small_model_learns(learned) -> None:
    task, model = learned
    dev = toy_rows(1, 120)
    answers = answer(model, task, dev, LIMIT)
    decision = task.decide(dev, answers)
    scores = task.score(dev, answers, decision)
    assert scores["em"] > 0.95 and scores["f1"] > 0.95
    assert scores["no_answer_accuracy"] > 0.9
    # the threshold is dev's; without it the model knows by itself
    assert task.score(dev, answers, {})["em"] > 0.9
    assert task.trouble(dev, answers, decision) is None
    fresh = answer(small_model(task, TOY, seed=5), task, dev, LIMIT)
    assert task.score(dev, fresh, {})["em"] < 0.5


def test_windows_find_what_one_window_finds(learned) -> None:
    task, model = learned
    dev = [one for one in toy_rows(2, 60) if one.values["answers"]]
    narrow = Answer(stride=5, longest=30, no_answer=True)
    examples = narrow.examples(dev, TOY, 14, labelled=False)
    assert len(examples) >= 2 * len(dev)
    scores = narrow.score(dev, answer(model, narrow, dev, 14), {})
    assert scores["em"] > 0.8  # it has never seen such short documents


def test_the_batch_changes_nothing(learned) -> None:
    task, model = learned
    rows = [*toy_rows(3, 9), *toy_rows(4, 9, length=13), question("a 3 8 b", "0 ?")]
    examples = task.examples(rows, TOY, 16, labelled=False)
    together = task.join(examples, answer_examples(model, task, examples))
    alone = task.join(examples, [answer_examples(model, task, [e])[0] for e in examples])
    backwards = answer_examples(model, task, examples[::-1])[::-1]
    for one, other in ((together, alone), (together, task.join(examples, backwards))):
        for mine, its in zip(one, other, strict=True):
            assert mine.null == pytest.approx(its.null, abs=1e-4)
            np.testing.assert_allclose(mine.spans.scores, its.spans.scores, atol=1e-4)
            assert mine.spans.places[0].tolist() == its.spans.places[0].tolist()


def test_saved_and_loaded(learned, tmp_path: Path) -> None:
    task, model = learned
    rows = toy_rows(5, 12)
    checkpoint.write(tmp_path / "model", model)
    loaded = checkpoint.read(tmp_path / "model")
    again = restore(loaded.about["task"])
    assert again == task
    assert predictions(loaded, again, rows, LIMIT) == predictions(model, task, rows, LIMIT)


def test_a_head_of_our_own() -> None:
    task, rows = Answer(), toy_rows(6, 8)
    model = small_model(task, TOY)
    plan = HeadPlan(outputs=2, per_token=True, mixed_layers=3, lstm=8, hidden=6)
    model.heads = {"own": checkpoint.planned_head(model.model.config, plan)}
    batch = task.collate(task.examples(rows, TOY, LIMIT, labelled=True))
    task.loss(model.model, model.heads, model.model(batch), batch).total.backward()
    assert all(p.grad is not None for p in model.heads["own"].parameters())
    assert len(predictions(model, task, rows, LIMIT)) == 8


def test_answers_that_are_worth_nothing() -> None:
    rows = [question("the dog ran", answers=[("dog", 4)], line=n) for n in range(12)]
    task = Answer(no_answer=True)
    assert "no answer" in (task.trouble(rows, [said(9.0, (4, 7, 1.0))] * 12, {}) or "")
    assert "shares a word" in (task.trouble(rows, [said(0.0, (8, 11, 1.0))] * 12, {}) or "")
    assert task.trouble(rows, [said(0.0, (4, 7, 1.0))] * 12, {}) is None


# ---------------------------------------------------------------- parity and real data


@pytest.mark.parametrize("ours_first", [True, False])
def test_parity_with_transformers(ours_first: bool, tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers", reason="parity needs the dev extra")
    task = Answer()
    ours = small_model(task, TOY)
    if ours_first:
        for seed, part in enumerate((ours.model, *ours.heads.values())):
            loud(part, seed)
        checkpoint.write(tmp_path / "model", ours)
        theirs, report = transformers.BertForQuestionAnswering.from_pretrained(
            tmp_path / "model", output_loading_info=True
        )
        assert not report["missing_keys"] and not report["unexpected_keys"]
    else:
        public = checkpoint.config_to_public(ours.public, ours.model.config)
        theirs = transformers.BertForQuestionAnswering(transformers.BertConfig(**public))
        loud(theirs, 7)
        theirs.save_pretrained(tmp_path / "model")
        ours = checkpoint.read(tmp_path / "model")
    assert list(ours.heads) == ["span"] and ours.architecture == "BertForQuestionAnswering"
    batch = task.collate(task.examples(toy_rows(7, 6), TOY, 18, labelled=True))
    ours.model.double().eval()
    ours.heads["span"].double().eval()
    states = ours.model(batch)
    logits = ours.heads["span"](states.layers, states.layout)
    out = theirs.double().eval()(**padded_inputs(batch))
    kind = "transformers loads ours" if ours_first else "we load transformers'"
    for column, their_logits in enumerate((out.start_logits, out.end_logits)):
        same("bert", "span logits", kind, logits[:, column], batch.layout.pack(their_logits))


@pytest.mark.parametrize("name", ["cmrc2018/dev.json.gz", "squad2_half/dev.json.gz"])
def test_real_answers_are_found_again(name: str, shared_data: Path) -> None:
    task = Answer()
    rows = read_rows(shared_data / name, task.columns())
    assert sum(not row.values["answers"] for row in rows) == (0 if "cmrc" in name else 535)
    rows = rows[:300]
    symbols = sorted({c for row in rows for c in row.values["context"].lower() if not c.isspace()})
    tokenizer = tiny.tokenizer([*tiny.SPECIAL, *symbols, *("##" + s for s in symbols)])
    examples = task.examples(rows, tokenizer, 384, labelled=True)
    found = {}
    for example in examples:
        begin, end = example.target
        if end:
            window = example.info
            shift = window.first - window.lead
            low, high = window.offsets[begin + shift, 0], window.offsets[end + shift, 1]
            found[example.row] = int(low), int(high)
    for number, row_ in enumerate(rows):
        if not row_.values["answers"]:
            assert number not in found
            continue
        right = row_.values["answers"][0]
        low, high = found[number]
        assert row_.values["context"][low:high] == right["text"].strip()
        assert abs(low - right["answer_start"]) <= 1
