"""Faults in labelled data: each is planted and found at its line; the real sets have those that
their README lists."""

from __future__ import annotations

import json
import random
from collections import Counter
from pathlib import Path

import pytest

from tests.goals.tiny import tokenizer
from tianci import cli
from tianci.data.rows import Row
from tianci.errors import UserError
from tianci.evaluate.check import Finding, check, check_files, examine, grouped, stops, summarise
from tianci.evaluate.check.finding import FAULTS, SEVERITIES
from tianci.evaluate.check.near import near_copies, normal
from tianci.evaluate.check.show import table
from tianci.evaluate.check.splits import by_split
from tianci.goals.tasks import make_task

Labelled = tuple[str, object]


def rows(file: str, *pairs: Labelled, field: str = "label") -> list[Row]:
    return [
        Row({"text": text, field: label}, file, line, {})
        for line, (text, label) in enumerate(pairs, 1)
    ]


def places(findings: list[Finding], fault: str) -> list[tuple[str, int]]:
    return [(place.file, place.line) for place in findings if place.fault == fault]


def faults(findings: list[Finding]) -> set[str]:
    return {finding.fault for finding in findings}


GOOD = rows("train", *[(f"good text number {n} of this kind", str(n % 2)) for n in range(12)])
FINE = rows("dev", *[(f"quite other words, the {n}th time", str(n % 2)) for n in range(12)])


def test_nothing_to_find() -> None:
    assert check({"train": GOOD, "dev": FINE}, "classify") == []


def test_all_faults_have_a_severity_and_advice() -> None:
    assert all(kind.severity in SEVERITIES and kind.advice for kind in FAULTS.values())


# ---------------------------------------------------------------- rows that cannot be read


def test_rows_that_cannot_be_read(tmp_path: Path) -> None:
    train, dev = tmp_path / "train.tsv", tmp_path / "dev.jsonl"
    train.write_bytes(b"text\tlabel\na\t0\nb\nc\t1\nd\xff\t1\ne\t\n")
    dev.write_text('{"text": "x", "label": "1"}\n{"text": "y"}\n{"text": 3, "label": "0"}\n{\n')
    report = examine({"dev": dev, "train": train}, "classify")
    found = [(Path(f.file).name, f.line, f.fault) for f in stops(report.findings)]
    assert found == [
        ("train.tsv", 5, "broken UTF-8"),
        ("dev.jsonl", 4, "not JSON"),
        ("train.tsv", 3, "ragged row"),
        ("dev.jsonl", 2, "missing column"),
        ("train.tsv", 6, "missing value"),
        ("dev.jsonl", 3, "wrong type"),
        ("dev.jsonl", 1, "one class only"),
    ]
    assert [len(rows) for rows in report.splits.values()] == [2, 1]
    assert "1 columns, but the header has 2" in report.findings[2].detail


def test_a_missing_column_is_one_finding(tmp_path: Path) -> None:
    path = tmp_path / "train.csv"
    path.write_text("body,label\na,0\nb,1\n")
    found = check({"train": path}, "classify")
    assert [(f.line, f.fault) for f in found] == [(1, "missing column")]
    assert "--column text=NAME" in found[0].detail
    assert check({"train": path}, "classify", {"text": "body"})[0].fault == "rare class"


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "train.jsonl").write_text("")
    found = check({"train": tmp_path / "train.jsonl"}, "classify")
    assert [(f.line, f.fault, f.severity) for f in found] == [(0, "unreadable file", "stops")]
    assert str(found[0]).startswith(f"{tmp_path / 'train.jsonl'}: unreadable file (no rows in it")
    with pytest.raises(UserError, match="dev.jsonl: no such file"):
        check({"dev": tmp_path / "dev.jsonl"}, "classify")
    with pytest.raises(UserError, match='unknown task "clasify"; did you mean "classify"'):
        check({}, "clasify")
    with pytest.raises(UserError, match='unknown field "txt"'):
        check({"train": tmp_path / "train.jsonl"}, "classify", {"txt": "a"})


# ---------------------------------------------------------------- labels


def test_one_class_only() -> None:
    same = rows("train", ("a", "1"), ("b", "1"))
    found = check({"train": same, "dev": FINE}, "classify")
    assert [(f.file, f.line, f.detail) for f in stops(found)] == [
        ("train", 1, 'all 2 rows have "1"')
    ]
    numbers = rows("train", ("a", 2.0), ("b", 2.0), field="number")
    assert places(check({"train": numbers}, "regress"), "one class only") == [("train", 1)]
    numbers = rows("train", ("a", 2.0), ("b", 2.5), field="number")
    assert check({"train": numbers}, "regress") == []


def test_labels_only_in_dev_and_rare_labels() -> None:
    train = [*GOOD, *rows("more", ("rare one", "2"), ("rare two", "2"))]
    dev = [*FINE, *rows("late", ("new one", "3"), ("new two", "3"), ("rare", "2"))]
    found = check({"train": train, "dev": dev}, "classify")
    assert [(f.file, f.line, f.fault, f.detail) for f in found] == [
        ("late", 1, "label not in train", '"3" in 2 rows'),
        ("more", 1, "rare class", '"2" in 2 rows'),
    ]


def test_several_labels_at_once() -> None:
    many = make_task("classify", {"many": True})
    train = rows("train", *[(f"{n} text of mine", ["a", "b"][: n % 3]) for n in range(15)])
    assert check({"train": train}, many) == []
    dev = rows("dev", ("text of mine", ["b", "c"]), ("0 text of mine", []), ("1 text of mine", []))
    found = check({"train": train, "dev": dev}, many)
    assert places(found, "label not in train") == [("dev", 1)]
    assert places(found, "also in train, with another label") == [("dev", 3)]


# ---------------------------------------------------------------- copies


def test_copies_inside_and_across() -> None:
    train = rows("t", ("好 的", "1"), ("坏", "0"), ("好的", "1"), (" 好的\n", "0"), ("坏", "0"))
    dev = rows("d", ("坏", "0"), ("好的", "1"), ("别的", "0"), ("又一个", "1"), ("第三", "1"))
    found = check({"train": train, "dev": dev}, "classify")
    assert places(found, "repeated row") == [("t", 3), ("t", 4), ("t", 5)]
    assert places(found, "two labels for one text") == [("t", 4)]
    assert places(found, "also in train") == [("d", 1), ("d", 2)]
    assert places(found, "also in train, with another label") == [("d", 2)]
    assert "most rows also in train" not in faults(found)  # 2 of 5
    two = next(f for f in found if f.fault == "two labels for one text")
    assert (two.twin, two.detail) == ("t, line 1", '"0" here, "1" in t, line 1')


def test_most_of_dev_in_train_stops() -> None:
    dev = [*FINE[:6], *GOOD[:6]]
    found = check({"train": GOOD, "dev": dev, "test": FINE[6:]}, "classify")
    assert [(f.fault, f.detail) for f in stops(found)] == [
        ("most rows also in train", "6 of 12 rows (50%)")
    ]
    assert stops(check({"train": GOOD, "dev": [*FINE[:7], *GOOD[:6]]}, "classify")) == []


def test_test_rows_are_also_compared_with_dev() -> None:
    found = check({"train": GOOD, "dev": FINE, "test": [*FINE[:2], *GOOD[:1]]}, "classify")
    assert places(found, "also in dev") == [("dev", 1), ("dev", 2)]
    assert places(found, "also in train") == [("train", 1)]


def test_near_copies_across() -> None:
    text = "".join(chr(0x4E00 + 7 * n) for n in range(100))
    train = rows("t", ("Ｈello, World!", "0"), (text, "1"), ("score: 1-0", "0"), ("other", "1"))
    changed = text[:50] + "的" + text[51:]  # 3 of 100 shingles differ: 97 / 103
    dev = rows(
        "d",
        ("hello world", "0"),
        (changed, "1"),
        ("score 10", "0"),
        (text[:50] + text[60:], "1"),  # 88 shared of 102
        ("《Hello World》", "1"),
        ("others", "1"),
    )
    found = check({"train": train, "dev": dev}, "classify")
    near = [f for f in found if f.fault == "nearly also in train"]
    assert [(f.line, f.detail) for f in near] == [
        (1, "100% like t, line 1"),
        (5, "100% like t, line 1"),
        (2, "94% like t, line 2"),
    ]


def test_both_texts_of_a_pair_must_be_similar() -> None:
    premise = "a long sentence that many pairs have in common because it was shown to many people"

    def pair(file: str, line: int, text: str, other: str) -> Row:
        return Row({"text": text, "pair": other, "label": str(line % 2)}, file, line, {})

    train = [pair("t", n, premise, f"it is {n}") for n in range(1, 11)]
    dev = [pair("d", 1, premise, "it is new"), pair("d", 2, premise.upper() + ".", "It is 4!")]
    found = check({"train": train, "dev": dev}, "pair")
    near = [(f.line, f.twin) for f in found if f.fault == "nearly also in train"]
    assert near == [(2, "t, line 4")]


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("Ａ１，b", "a1 b"),
        ("很好，  不错。", "很好不错"),
        ("1-0 Win!", "1 0 win"),
        ("用iPhone 7拍", "用iphone 7拍"),
        ("snake_case", "snake case"),
        ("…！", ""),
    ],
)
def test_normal_texts(text: str, same: str) -> None:
    assert normal(text) == same


def test_near_copies_are_those_of_a_plain_comparison() -> None:
    dice = random.Random(5)
    words = [f"w{n}" for n in range(30)] + list("天地玄黄宇宙洪荒")

    def change(text: list[str], times: int) -> list[str]:
        text = list(text)
        for _ in range(times):
            text[dice.randrange(len(text))] = dice.choice(words)
        return text

    before = [dice.choices(words, k=dice.randint(1, 120)) for _ in range(150)]
    after = [change(dice.choice(before), dice.randint(0, 5)) for _ in range(150)]
    after += [[*dice.choice(before), *dice.choices(words, k=3)] for _ in range(50)]

    def shingles(text: list[str]) -> set[tuple[str, ...]]:
        filled = [*text, "", ""]
        return {tuple(filled[n : n + 3]) for n in range(len(text))}

    def alike(one: set[tuple[str, ...]], other: set[tuple[str, ...]]) -> float:
        return len(one & other) / len(one | other)

    old, new = [shingles(text) for text in before], [shingles(text) for text in after]
    expected = {}
    for number, one in enumerate(new):
        value = max(alike(one, other) for other in old)
        if value >= 0.9:
            expected[number] = value
    found = near_copies([(" ".join(t),) for t in before], [(" ".join(t),) for t in after])
    assert {n: round(value, 9) for n, (_, value) in found.items()} == {
        n: round(value, 9) for n, value in expected.items()
    }
    assert 30 < len(expected) < 190  # some are and some are not
    assert near_copies([], [("a",)]) == near_copies([("a",)], []) == {}


# ---------------------------------------------------------------- texts


def test_empty_and_damaged_texts() -> None:
    bad = rows("bad", (" \n", "0"), ("落\ufffd了\ufffd", "1"))
    found = check({"train": [*GOOD, *bad]}, "classify")
    assert [(f.file, f.line, f.fault, f.detail) for f in found] == [
        ("bad", 1, "empty text", "text"),
        ("bad", 2, "replacement character", '2 times in text: "落\ufffd了\ufffd"'),
    ]


def test_texts_that_the_model_does_not_read_to_the_end() -> None:
    train = rows("t", ("the dog", "0"), ("the dog run a b c", "1"), ("a b c", "1"), ("a", "0"))
    long = check({"train": train}, "classify", tokenizer=tokenizer(), limit=7)
    assert [(f.line, f.severity, f.detail) for f in long if "longer" in f.fault] == [
        (2, "note", "8 tokens, 7 are read")
    ]
    longer = check({"train": train}, "classify", tokenizer=tokenizer(), limit=4)
    assert [(f.line, f.severity) for f in longer if "longer" in f.fault] == [
        (2, "warning"),
        (3, "warning"),
    ]


# ---------------------------------------------------------------- answers, choices, tags


def question(line: int, answers: list[tuple[str, int]], impossible: bool = False) -> Row:
    values = {
        "context": "天气很好，天气不错",
        "question": f"第{line}个问题？",
        "answers": [{"text": text, "answer_start": start} for text, start in answers],
        "impossible": impossible,
    }
    return Row(values, "q.json", line, {}, "question")


def test_answers() -> None:
    train = [
        question(1, [("天气", 5)]),
        question(2, [("很好", 0)]),
        question(3, [("很坏", 2)]),
        question(4, [("不错", 70)]),
        question(5, []),
        question(6, [("天气", 0)], impossible=True),
        question(7, [], impossible=True),
        question(8, [("天气", 5), ("", 0)]),
    ]
    found = check({"train": train}, "answer")
    assert [(f.line, f.fault, f.detail) for f in found] == [
        (3, "answer not in the passage", '"很坏"'),
        (8, "answer not in the passage", "the answer is empty"),
        (2, "answer not at its place", '"很好" is not at 0 but at 2'),
        (
            4,
            "answer not at its place",
            '"不错" is not at 70 but at 7; the passage has 9 characters',
        ),
        (5, "answer and no-answer", "not impossible, but no answer"),
        (6, "answer and no-answer", "impossible, but has an answer"),
    ]
    assert str(found[0]) == 'q.json, question 3: answer not in the passage ("很坏")'


def test_choices() -> None:
    def choice(line: int, choices: list[str], label: str) -> Row:
        values = {"context": f"text {line}", "choices": choices, "label": label}
        return Row(values, "c", line, {})

    train = [
        choice(1, ["a", "b"], "1"),
        choice(2, ["a", "b"], "2"),
        choice(3, ["a"], "0"),
        choice(4, ["a", "b", "c"], "C"),
        choice(5, ["a", "b"], "c"),
        choice(6, ["a", " "], "0"),
    ]
    found = check({"train": train}, "choose")
    assert [(f.line, f.fault, f.severity) for f in found] == [
        (3, "fewer than two choices", "stops"),
        (2, "label is no choice", "stops"),
        (5, "label is no choice", "stops"),
        (6, "empty text", "warning"),
    ]


def tagged(tmp_path: Path, text: str) -> list[Finding]:
    (tmp_path / "train.conll").write_text(text, encoding="utf-8")
    return [f for f in check({"train": tmp_path / "train.conll"}, "tag") if f.fault != "rare class"]


def test_tags(tmp_path: Path) -> None:
    text = (
        "a\tB-PER\nb\tI-PER\nc\tO\n\nd\tO\ne\tI-PER\n\nf\tB-LOC\ng\tI-PER\nh\tI-PER\n\n"
        "i\tX-PER\nj\tPER\n\nk\tB-LOC\nl\tE-LOC\nm\tS-PER\n"
    )
    found = tagged(tmp_path, text)
    assert [(f.line, f.fault, f.detail) for f in found] == [
        (6, "I- without B-", 'word 2 "e": I-PER after O'),
        (9, "I- without B-", 'word 2 "g": I-PER after B-LOC'),
        (12, "unknown tag prefix", 'word 1 "i": "X-PER"'),
        (13, "unknown tag prefix", 'word 2 "j": "PER"'),
    ]


def test_parts_of_speech_have_no_prefixes(tmp_path: Path) -> None:
    assert tagged(tmp_path, "a\tNOUN\nb\tVERB\nc\tI\n") == []


def test_all_words_outside_is_one_class(tmp_path: Path) -> None:
    assert [f.fault for f in tagged(tmp_path, "a\tO\nb\tO\n\nc\tO\n")] == ["one class only"]


def test_the_same_words_with_other_tags() -> None:
    def sentence(file: str, *tags: str) -> Row:
        return Row({"words": ["x", "y", "z"], "tags": list(tags)}, file, 1, {})

    splits = {"train": [sentence("t", "O", "B-A", "O")], "dev": [sentence("d", "O", "B-B", "O")]}
    found = {f.fault: f for f in check(splits, "tag")}
    said = found["also in train, with another label"].detail
    assert said == '"B-B" at word 2 here, "B-A" in t, line 1'


# ---------------------------------------------------------------- the command


def test_which_file_is_which_split() -> None:
    names = ["a/dev_0.jsonl", "train.tsv.gz", "zh_valid.json", "b/test_public.jsonl", "x.csv"]
    assert by_split(names, {}) == {
        "train": ["train.tsv.gz"],
        "dev": ["a/dev_0.jsonl", "zh_valid.json"],
        "test": ["b/test_public.jsonl", "x.csv"],
    }
    assert by_split(["a.csv", "b.csv"], {}) == {"train": ["a.csv"], "dev": ["b.csv"]}
    assert by_split(["pretrained.csv"], {"train": ["dev.csv"], "test": ()}) == {
        "train": ["dev.csv"],
        "dev": ["pretrained.csv"],
    }


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = [f'{{"text": "some words {n}", "label": {n % 2}}}\n' for n in range(10)]
    (tmp_path / "train.jsonl").write_text("".join(lines))
    (tmp_path / "dev.jsonl").write_text(lines[3] + "\n" + lines[4].replace("some", "no"))
    arguments = ["check", str(tmp_path / "train.jsonl"), str(tmp_path / "dev.jsonl")]
    with pytest.raises(SystemExit) as stop:
        cli.main([*arguments, "--task", "classify", "--json"])
    assert not stop.value.code
    found = json.loads(capsys.readouterr().out)
    assert [(f["fault"], f["severity"], f["line"]) for f in found] == [
        ("most rows also in train", "stops", 1),
        ("also in train", "warning", 1),
    ]
    assert found[1]["file"] == str(tmp_path / "dev.jsonl")
    assert found[1]["advice"]
    with pytest.raises(SystemExit):
        cli.main([*arguments, "--task", "classify"])
    text = capsys.readouterr().out
    assert "also in train: 1 in dev\n         dev.jsonl, line 1: as train.jsonl, line 4\n" in text
    assert "1 x stops, 1 x warning; results would mean nothing" in text
    with pytest.raises(SystemExit) as stop:
        cli.main(["check", "--task", "classify"])
    assert stop.value.code == 2


def test_summary_and_table() -> None:
    report = examine({"train": [*GOOD, *GOOD[:4], *GOOD[:1]]}, "classify")
    assert summarise(report.findings) == [
        {
            "fault": "repeated row",
            "severity": "note",
            "split": "train",
            "count": 5,
            "texts": 4,
            "advice": FAULTS["repeated row"].advice,
            "examples": [
                {"file": "train", "line": n, "detail": f"as train, line {n}"} for n in (1, 2, 3)
            ],
        }
    ]
    text = table(report, 2)
    assert 'train        17 rows  "0" 9  "1" 8  train' in text
    assert "note     repeated row: 5 of 17 in train, 4 different texts" in text
    assert "and 3 more (--json lists all)" in text
    assert table(examine({"train": GOOD}, "classify")).endswith("no faults found")


# ---------------------------------------------------------------- the real sets


def counts(shared: Path, names: str, task: str) -> dict[tuple[str, str], tuple[int, int]]:
    """(fault, split) to places and different texts."""
    report = check_files(sorted(shared.glob(names)), task=task)
    return {(g.fault, g.split): (len(g.places), g.texts) for g in grouped(report.findings)}


def test_known_faults_of_chnsenticorp(shared_data: Path) -> None:
    found = counts(shared_data, "chnsenticorp/*", "classify")
    assert found["repeated row", "train"][0] == 1358
    assert found["two labels for one text", "train"][0] == 24
    assert found["also in train", "dev"][1] == 337
    assert found["also in train, with another label", "dev"][1] == 9
    assert found["nearly also in train", "dev"][0] < 20


def test_known_faults_of_book_review(shared_data: Path) -> None:
    found = counts(shared_data, "book_review/*", "classify")
    assert found["also in train", "dev"][1] == 166
    assert found["also in train", "test"][1] == 139
    assert found["also in train, with another label", "dev"][1] == 14
    assert found["also in train, with another label", "test"][1] == 7
    assert found["two labels for one text", "train"][0] == 8
    assert found["replacement character", "train"] == (1, 1)


def test_known_faults_of_other_sets(shared_data: Path) -> None:
    weibo = counts(shared_data, "weibo_emotion/*", "classify")
    assert weibo["also in train", "dev"][1] == 127
    assert weibo["also in train", "test"][1] == 233
    assert weibo["two labels for one text", "train"][0] == 82
    sst2 = counts(shared_data, "sst2/train*", "classify")
    assert sst2["repeated row", "train"][0] == 379
    assert sst2["two labels for one text", "train"][0] == 7
    stsb = counts(shared_data, "stsb_zh/*", "regress")
    assert stsb["also in train", "dev"][1] == 13
    assert stsb["also in train, with another label", "dev"][1] == 5
    conll = counts(shared_data, "conll2003/*", "tag")
    assert conll["also in train", "dev"][0] == 193
    imdb = counts(shared_data, "imdb_subset/t*", "classify")
    assert imdb["also in train", "test"][1] == 3


def test_known_faults_of_answers_and_characters(shared_data: Path) -> None:
    found = counts(shared_data, "cmrc2018/*", "answer")
    assert found == {("answer not in the passage", "dev"): (193, 174)}
    report = check_files(sorted((shared_data / "weibo_ner").iterdir()), task="tag")
    damaged = [f for f in report.findings if f.fault == "replacement character"]
    times = [int(f.detail.split()[0]) if f.detail[0].isdigit() else 1 for f in damaged]
    assert sum(times) == 128


@pytest.mark.parametrize(
    ("name", "task"),
    [
        ("ag_news", "classify"),
        ("trec", "classify"),
        ("subj", "classify"),
        ("ocnli", "pair"),
        ("thucnews_title", "classify"),
    ],
)
def test_clean_sets_do_not_stop(shared_data: Path, name: str, task: str) -> None:
    report = check_files(sorted((shared_data / name).iterdir()), task=task)
    assert stops(report.findings) == []
    assert Counter(f.severity for f in report.findings)["warning"] < 0.01 * sum(
        len(rows) for rows in report.splits.values()
    )
