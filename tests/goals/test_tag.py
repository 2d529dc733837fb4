"""Tags: features by hand, decoding, scores, learning, and the same numbers as transformers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tests.goals.tiny import VOCABULARY, ids, tokenizer
from tests.parity.family import loud, padded_inputs, same
from tianci import checkpoint
from tianci.data.rows import Row, read_rows
from tianci.errors import UserError
from tianci.evaluate import tasks as evaluate
from tianci.evaluate.tasks import answer, answer_examples
from tianci.goals.tasks import make_task, restore, task_of
from tianci.goals.tasks.tag import Said, Tag
from tianci.models import bert
from tianci.nn.crf import Chain
from tianci.nn.task_heads import HeadPlan
from tianci.tune.settings import Finetune
from tianci.tune.trial import run_trial
from tianci.tune.work import Work

LABELS = ("O", "B-LOC", "I-LOC", "B-PER", "I-PER")
CONFIG = bert.Config(vocabulary=len(VOCABULARY), width=32, layers=2, heads=2, hidden=64,
                     positions=32, dropout=0.0, attention_dropout=0.0)  # fmt: skip


def row(line: int = 1, **values: Any) -> Row:
    for name in ("words", "tags"):
        if isinstance(values.get(name), str):
            values[name] = values[name].split(" ")
    return Row(values, "a.conll", line, {})


def logits(*labels: int, size: int = 5) -> np.ndarray:
    """Scores that are loud for one label at each word."""
    return np.eye(size, dtype=np.float32)[list(labels)] * 10


def tags_of(task: Tag, one: Row, emissions: np.ndarray, chain: Chain | None = None) -> list[str]:
    """What the task makes of these scores."""
    examples = task.examples([one], tokenizer(), 32, labelled=False)
    tags: list[str] = task.join(examples, [Said(emissions, chain)])[0].tags
    return tags


# ---------------------------------------------------------------- learning from rows


def test_labels_and_unit_come_from_the_rows() -> None:
    task = Tag().learn([row(words="a dog run", tags="B-PER I-PER O"), row(words="b", tags="B-LOC")])
    assert task.labels == ("O", "B-LOC", "B-PER", "I-PER")
    assert (task.unit, task.decoding, task.metric) == ("word", "valid", "f1")
    task = Tag().learn([row(words="我 在", tags="N V"), row(words="a", tags="X")])
    assert task.labels == ("N", "V", "X")
    assert (task.unit, task.metric) == ("character", "accuracy")
    assert restore(task.as_table()) == task


def test_other_schemes_become_iob2() -> None:
    # IOB1: I- begins an entity, B- only where one follows another of its type
    task = Tag().learn([row(words="a b c dog", tags="I-PER I-PER B-PER O")])
    assert task.labels == ("O", "B-PER", "I-PER")
    assert task.gold(row(words="a b c", tags="I-PER B-PER I-LOC")) == ["B-PER", "B-PER", "B-LOC"]
    task = Tag().learn([row(words="a b c dog", tags="B-PER I-PER E-PER S-LOC")])
    assert task.labels == ("B-LOC", "B-PER", "I-PER")


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([row(words="a b", tags="O O")], "a.conll: all words have the tag 'O'; there is nothing"),
        ([row(words=[], tags=[])], "a.conll: no row has a word"),
        ([row(words="a b", tags="O B-X"), row(5, tags="B-X O")], "a.conll, line 5: nothing to tag"),
    ],
)
def test_rows_that_teach_nothing(rows: list[Row], message: str) -> None:
    with pytest.raises(UserError, match=message):
        Tag().learn(rows)


def test_unknown_tags_are_named() -> None:
    task = Tag(labels=LABELS)
    with pytest.raises(UserError, match='a.conll, line 3: the tag "B-ORG" .word 2. does not occur'):
        task.target(row(3, words="a b", tags="O B-ORG"))
    with pytest.raises(UserError, match='line 3: word 2 has the tag "NOUN", but the tags of this'):
        task.target(row(3, words="a b", tags="O NOUN"))


# ---------------------------------------------------------------- features


def test_one_row_by_hand() -> None:
    one = row(words="the dog \x00 playing c", tags="O B-PER I-PER I-PER O")
    (example,) = Tag(labels=LABELS).examples([one], tokenizer(), 32, labelled=True)
    assert example.parts[0].ids == ids("[CLS] the dog play ##ing c [SEP]")
    assert example.parts[0].segments == [0] * 7
    assert example.target == [0, 3, 4, 0]  # the third word has no token
    assert example.info.numbers == [0, 1, 3, 4]
    assert example.info.at == [1, 2, 3, 5]


def test_a_batch_knows_where_its_words_are() -> None:
    task = Tag(labels=LABELS)
    rows = [row(words="a playing", tags="O B-PER"), row(words="a b c", tags="O O B-LOC")]
    batch = task.collate(task.examples(rows, tokenizer(), 32, labelled=True))
    assert [VOCABULARY[i] for i in batch.tokens[batch.targets["word_at"]]] == [
        "a",
        "play",
        "a",
        "b",
        "c",
    ]
    assert batch.targets["words"].tolist() == [2, 3]
    assert batch.targets["label"].tolist() == [0, 3, 0, 0, 1]
    assert task.count(batch) == 5


def test_long_sentences_are_read_in_windows() -> None:
    words = ["a", "b", "c", "dog", "cat", "run", "the"] * 2
    task = Tag(labels=LABELS)
    one = row(words=words, tags=["O"] * 13 + ["B-PER"])
    found = task.examples([one], tokenizer(), 8, labelled=True)  # 6 words and two special tokens
    assert all(example.length <= 8 and example.row == 0 for example in found)
    assert [n for example in found for n in example.info.numbers] == list(range(14))
    assert [label for example in found for label in example.target] == [0] * 13 + [3]
    for example in found:
        read = [VOCABULARY[example.parts[0].ids[at]] for at in example.info.at]
        assert read == [words[n] for n in example.info.numbers]
    # an answer over several windows is put together again
    said = [Said(logits(*example.target), None) for example in found]
    assert task.join(found, said)[0].tags == one.values["tags"]


def test_rows_without_words_are_answered_but_not_learned() -> None:
    task = Tag(labels=LABELS)
    rows = [row(text=""), row(text="\x00"), row(text="a")]
    found = task.examples(rows, tokenizer(), 32, labelled=False)
    assert [example.row for example in found] == [0, 1, 2]
    said = [Said(logits(), None), Said(logits(), None), Said(logits(3), None)]
    entities = [one["entities"] for one in task.predict(rows, task.join(found, said), {})]
    assert entities[:2] == [[], []] and entities[2][0]["word"] == "a"
    empty = [row(words=[], tags=[]), row(words=["\x00"], tags=["O"])]
    assert task.examples(empty, tokenizer(), 32, labelled=True) == []


def test_no_room_for_words() -> None:
    with pytest.raises(UserError, match="a limit of 2 tokens leaves no room"):
        Tag(labels=LABELS).examples([row(text="a")], tokenizer(), 2, labelled=False)


# ---------------------------------------------------------------- decoding


def test_the_best_valid_sequence() -> None:
    one = row(words="a b c")
    emissions = np.array(
        [[0, 0, 0, 2, 0], [0, 0, 5, 0, 4.5], [9, 0, 0, 0, 0]], np.float32
    )  # best one by one: B-PER I-LOC O
    # O B-LOC would be 0 + 0, B-LOC I-LOC 5, B-PER I-PER 6.5
    assert tags_of(Tag(labels=LABELS, decoding="valid"), one, emissions) == ["B-PER", "I-PER", "O"]
    assert tags_of(Tag(labels=LABELS, decoding="each"), one, emissions) == ["B-PER", "B-LOC", "O"]
    assert tags_of(Tag(labels=LABELS), one, logits(2, 2, 0)) == ["B-LOC", "I-LOC", "O"]


def test_a_crf_prefers_its_steps() -> None:
    task = Tag(labels=LABELS, decoding="valid")
    chain = Chain.free(5)
    emissions = np.zeros((3, 5), np.float32)
    chain.step[1, 2] = chain.step[2, 2] = 3.0
    chain.step[0, 4] = 100.0  # O I-PER is not valid, however loud
    assert tags_of(task, row(words="a b c"), emissions, chain) == ["B-LOC", "I-LOC", "I-LOC"]
    plain = Tag(labels=("N", "V"))  # no entities: nothing is barred
    chain = Chain.free(2)
    chain.step[0, 1] = chain.step[1, 0] = 1.0
    chain.begin[1] = 0.5
    found = tags_of(plain, row(words="a b c"), np.zeros((3, 2), np.float32), chain)
    assert found == ["V", "N", "V"]


def test_words_without_tokens_are_outside_or_inside_an_entity() -> None:
    task = Tag(labels=LABELS, decoding="valid")
    one = row(words=["\x00", "a", "\x00", "b", "\x00", "c", "\x00"])
    assert tags_of(task, one, logits(3, 4, 1)) == [
        "O",
        "B-PER",
        "I-PER",
        "I-PER",
        "O",
        "B-LOC",
        "O",
    ]


def test_places_are_those_of_the_original_text() -> None:
    task = Tag(labels=LABELS, decoding="valid", unit="word")
    rows = [row(text="the  \u200bDog\x00 cat, A"), row(words="我 在 中 国"), row(words="the cat")]
    found = task.examples(rows, tokenizer(), 32, labelled=False)
    # the (zero width) Dog (NUL) cat , A
    said = [logits(0, 3, 4, 0, 1), logits(0, 0, 1, 2), logits(0, 3)]
    first, second, third = task.predict(
        rows, task.join(found, [Said(one, None) for one in said]), {}
    )
    share = pytest.approx(np.exp(10) / (np.exp(10) + 4))
    assert first["text"] == rows[0].values["text"]
    assert first["entities"] == [
        {"label": "PER", "word": "Dog\x00 cat", "start": 6, "end": 14, "score": share},
        {"label": "LOC", "word": "A", "start": 16, "end": 17, "score": share},
    ]
    assert first["words"] == ["the", "\u200b", "Dog", "\x00", "cat", ",", "A"]
    assert first["tags"] == ["O", "O", "B-PER", "I-PER", "I-PER", "O", "B-LOC"]
    assert second["text"] == "我在中国"
    assert second["entities"] == [
        {"label": "LOC", "word": "中国", "start": 2, "end": 4, "score": share}
    ]
    assert (third["text"], third["entities"][0]["start"]) == ("the cat", 4)


def test_an_entity_is_as_sure_as_its_words_on_average() -> None:
    task = Tag(labels=("O", "B-X", "I-X"), decoding="valid")
    one = row(words="a b")
    emissions = np.log(np.array([[0.2, 0.7, 0.1], [0.1, 0.4, 0.5]], np.float32))
    found = task.join(task.examples([one], tokenizer(), 32, False), [Said(emissions, None)])
    assert task.predict([one], found, {})[0]["entities"][0]["score"] == pytest.approx(0.6)


def test_parts_of_speech_come_word_by_word() -> None:
    task = Tag(labels=("D", "N"))
    one = row(words="the dog \x00")
    found = task.join(
        task.examples([one], tokenizer(), 32, False), [Said(logits(0, 1, size=2), None)]
    )
    said = task.predict([one], found, {})[0]
    assert said["tags"] == ["D", "N", "O"]
    assert [(e["label"], e["word"]) for e in said["entities"]] == [("D", "the"), ("N", "dog")]


# ---------------------------------------------------------------- scores


ROWS = [
    row(1, words="a b c dog", tags="B-PER I-PER O B-LOC"),
    row(6, words="cat run", tags="O B-LOC"),
    row(9, words="the dog", tags="I-LOC O"),  # not valid: strict scores see no entity
]
# the first is right but for one entity too short, the second has one too many
SAID = [logits(3, 0, 0, 1), logits(3, 1), logits(1, 0)]


def judged(task: Tag) -> list[Any]:
    examples = task.examples(ROWS, tokenizer(), 32, labelled=False)
    return task.join(examples, [Said(one, None) for one in SAID])


def test_scores_by_hand() -> None:
    task = Tag(labels=LABELS, decoding="valid")
    scores = task.score(ROWS, judged(task), {})
    # there: a b PER, dog LOC, run LOC, the LOC; said: a PER, dog LOC, cat PER, run LOC, the LOC
    assert scores["precision"] == pytest.approx(3 / 5)
    assert scores["recall"] == pytest.approx(3 / 4)
    assert scores["f1"] == pytest.approx(2 * 3 / (5 + 4))
    assert scores["strict_f1"] == pytest.approx(2 * 2 / (5 + 3))
    assert scores["accuracy"] == pytest.approx(5 / 8)


def test_scores_equal_seqeval() -> None:
    seqeval = pytest.importorskip("seqeval.metrics")
    from seqeval.scheme import IOB2

    task = Tag(labels=LABELS, decoding="valid")
    gold, said = [one.values["tags"] for one in ROWS], [one.tags for one in judged(task)]
    scores = task.score(ROWS, judged(task), {})
    assert scores["f1"] == pytest.approx(seqeval.f1_score(gold, said))
    strict = seqeval.f1_score(gold, said, mode="strict", scheme=IOB2)
    assert scores["strict_f1"] == pytest.approx(strict)


def test_details_name_the_errors() -> None:
    task = Tag(labels=LABELS, decoding="valid")
    found = task.details(ROWS, judged(task), {})
    assert found["label_counts"] == {"LOC": 3, "PER": 1}
    assert found["types"]["LOC"] == {"precision": 1.0, "recall": 1.0, "f1": 1.0, "support": 3}
    assert found["errors"] == [
        {"place": "a.conll, line 1", "text": "a b c dog", "label": "a b PER", "predicted": "a PER"},
        {"place": "a.conll, line 6", "text": "cat run", "label": "", "predicted": "cat PER"},
    ]
    pos = Tag(labels=("D", "N"))
    rows = [row(words="the dog", tags="D N"), row(words="the cat", tags="D X")]
    examples = pos.examples(rows, tokenizer(), 32, labelled=False)
    answers = pos.join(examples, [Said(logits(0, 1, size=2), None)] * 2)
    found = pos.details(rows, answers, {})
    assert found["labels"] == ["D", "N", "X"]
    assert found["confusion"] == [[2, 0, 0], [0, 1, 0], [0, 1, 0]]
    assert found["types"]["N"] == {"precision": 0.5, "recall": 1.0, "f1": 2 / 3, "support": 1}
    assert pos.score(rows, answers, {})["accuracy"] == 0.75


def test_one_answer_for_everything_is_trouble() -> None:
    task = Tag(labels=LABELS, decoding="valid")
    rows = [row(words="a b", tags="O B-PER")] * 12
    examples = task.examples(rows, tokenizer(), 32, labelled=False)
    silent = task.join(examples, [Said(logits(0, 0), None)] * 12)
    assert task.trouble(rows, silent, {}) == "it finds no entity in 12 dev rows"
    assert task.trouble(rows, task.join(examples, [Said(logits(0, 3), None)] * 12), {}) is None
    wrong = task.join(examples, [Said(logits(3, 0), None)] * 12)
    assert (
        task.trouble(rows, wrong, {})
        == "none of the entities that it finds in 12 dev rows is right"
    )


# ---------------------------------------------------------------- models


def toy(count: int, seed: int, of: str = "a b dog cat playing") -> list[Row]:
    """dog is an entity, and so is the cat that follows it; a cat elsewhere is none."""
    r = np.random.default_rng(seed)
    rows = []
    for n in range(count):
        words = r.choice(of.split(), int(r.integers(2, 9))).tolist()
        tags: list[str] = []
        for at, word in enumerate(words):
            inside = word == "cat" and at and words[at - 1] == "dog"
            tags.append("B-PER" if word == "dog" else "I-PER" if inside else "O")
        rows.append(Row({"words": words, "tags": tags}, "toy", n + 1, {}))
    return rows


def base(folder: Path) -> Path:
    torch.manual_seed(0)
    model = checkpoint.create("bert", CONFIG)
    model.tokenizer = tokenizer()
    checkpoint.write(folder / "base", model)
    return folder / "base"


@pytest.mark.parametrize(
    ("head", "words", "epochs"),
    [({}, "a b dog playing", 1), ({"crf": True, "lstm": 16}, "a b dog cat playing", 3)],
    ids=["standard", "lstm-crf"],
)
def test_a_toy_is_learned_and_kept(
    head: dict[str, Any], words: str, epochs: int, tmp_path: Path
) -> None:
    train, dev = toy(200, 1, words), toy(60, 2, words)
    task = make_task("tag").learn(train)
    settings = Finetune(model=str(base(tmp_path)), epochs=epochs, batch=4, **head)
    work = Work(settings, task, train, dev, limit=32, quiet=True)
    result = run_trial(work, lr=3e-3, seed=0, folder=tmp_path / "run")
    assert result.score > 0.99 and result.scores["strict_f1"] == result.score

    saved = checkpoint.read(tmp_path / "run" / "best")
    back = task_of(saved)
    assert back == task
    answers = answer(saved, back, dev, limit=32)
    assert back.score(dev, answers, {}) == result.scores
    if not head:
        assert saved.architecture == "BertForTokenClassification"
        assert saved.labels == ("O", "B-PER")


def model_with(plan: HeadPlan | None) -> checkpoint.Checkpoint:
    model = checkpoint.create("bert", CONFIG)
    model.tokenizer = tokenizer()
    if plan is None:
        model.heads["token"] = checkpoint.fresh_task_head("bert", CONFIG, "token", len(LABELS))
    else:
        model.heads[checkpoint.OWN] = checkpoint.planned_head(CONFIG, plan)
    for part in (model.model, *model.heads.values()):
        loud(part, 0)
    return model


PLANS = [None, HeadPlan(5, per_token=True, lstm=8, crf=True, mixed_layers=3, dropout=0.5)]


@pytest.mark.parametrize("plan", PLANS, ids=["standard", "lstm-crf-mix"])
def test_batches_and_order_change_nothing(
    plan: HeadPlan | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, task = model_with(plan), Tag(labels=LABELS, decoding="valid")
    rows = toy(40, 3)
    examples = task.examples(rows, tokenizer(), 8, labelled=False)

    def told(some: list[Any]) -> np.ndarray:
        return np.concatenate([said.emissions for said in answer_examples(model, task, some)])

    spoken, usual = told(examples), task.predict(rows, answer(model, task, rows, limit=8), {})
    assert spoken.std(0).min() > 0.01  # words differ
    monkeypatch.setattr(evaluate, "BATCH_TOKENS", 1)
    monkeypatch.setattr("tianci.goals.tasks.tag.DECODED", 1)
    np.testing.assert_allclose(told(examples), spoken, atol=1e-5)
    alone = task.predict(rows[::-1], answer(model, task, rows[::-1], limit=8), {})[::-1]
    for one, other in zip(usual, alone, strict=True):
        assert one["tags"] == other["tags"] and one["words"] == other["words"]
        for ours, theirs in zip(one["entities"], other["entities"], strict=True):
            assert ours["score"] == pytest.approx(theirs["score"], abs=1e-4)


@pytest.mark.parametrize("plan", PLANS, ids=["standard", "lstm-crf-mix"])
def test_the_loss_of_a_batch_is_the_sum_over_its_rows(plan: HeadPlan | None) -> None:
    model, task = model_with(plan), Tag(labels=LABELS)
    for part in (model.model, *model.heads.values()):
        part.double().eval()
    examples = task.examples(toy(9, 4), tokenizer(), 8, labelled=True)

    def loss(some: list[Any]) -> tuple[float, int, int]:
        batch = task.collate(some)
        found = task.loss(model.model, model.heads, model.model(batch), batch)
        return found.total.item(), int(found.hits), task.count(batch)

    together, alone = loss(examples), [loss([one]) for one in examples]
    assert together[0] == pytest.approx(sum(one[0] for one in alone), rel=1e-5)
    assert together[1:] == (sum(one[1] for one in alone), sum(one[2] for one in alone))
    assert together[2] == sum(len(one.values["words"]) for one in toy(9, 4))


# ---------------------------------------------------------------- transformers


def compare(model: checkpoint.Checkpoint, theirs: Any, source: str) -> None:
    task = task_of(model)
    rows = [row(words=one.values["words"]) for one in toy(20, 5)]
    batch = task.collate(task.examples(rows, tokenizer(), 32, labelled=False))
    for part in (model.model, *model.heads.values()):
        part.double().eval()
    with torch.no_grad():
        ours = task.logits(model.heads, model.model(batch), batch)
        out = theirs.double().eval()(**padded_inputs(batch)).logits
    same("bert", "tag logits", source, ours, batch.layout.pack(out)[batch.targets["word_at"]])


def test_transformers_loads_ours(tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    model = model_with(None)
    model.name_labels(LABELS)
    checkpoint.write(tmp_path / "ours", model)
    theirs, report = transformers.BertForTokenClassification.from_pretrained(
        tmp_path / "ours", output_loading_info=True
    )
    assert not report["missing_keys"] and not report["unexpected_keys"]
    assert theirs.config.id2label == dict(enumerate(LABELS))
    compare(model, theirs, "transformers loads ours")


def test_we_load_transformers(tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    values = checkpoint.config_to_public(bert.PUBLIC, CONFIG)
    config = transformers.BertConfig(**values, id2label=dict(enumerate(LABELS)))
    theirs = transformers.BertForTokenClassification(config)
    loud(theirs, 1)
    theirs.save_pretrained(tmp_path / "theirs")
    model = checkpoint.read(tmp_path / "theirs")
    task = task_of(model)
    assert isinstance(task, Tag) and task.labels == LABELS
    compare(model, theirs, "we load transformers'")


# ---------------------------------------------------------------- real data


@pytest.mark.parametrize(
    ("name", "unit", "metric"),
    [("weibo_ner/dev.conll", "character", "f1"), ("ud_zh_gsd_pos/dev.conll", "word", "accuracy")],
)
def test_real_words_keep_their_places(name: str, unit: str, metric: str, shared_data: Path) -> None:
    task = make_task("tag")
    rows = read_rows(shared_data / name, task.columns())
    task = task.learn(rows)
    assert isinstance(task, Tag) and (task.unit, task.metric) == (unit, metric)
    found = task.examples(rows, tokenizer(), 128, labelled=True)
    for example in found:
        words = rows[example.row].values["words"]
        sentence, numbers, at = example.info
        assert [sentence.text[slice(*sentence.spans[n])] for n in numbers] == [
            words[n] for n in numbers
        ]
        assert len(set(at)) == len(at) and at == sorted(at)
        gold = task.target(rows[example.row])
        assert example.target == [gold[n] for n in numbers]
