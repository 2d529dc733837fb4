"""Labelled files: every format, columns by name, and errors that name the right line."""

from __future__ import annotations

import gzip
import io
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from tianci.data.rows import Field, Row, RowError, read_rows, stream_rows
from tianci.data.rows_fields import (
    ANSWERS,
    CHOICES,
    CONTEXT,
    IMPOSSIBLE,
    LABEL,
    PAIR,
    QUESTION,
    SOURCE,
    TAGS,
    TARGET,
    TEXT,
    WORDS,
    match_columns,
)
from tianci.errors import UserError

CLASSIFY = (Field("text", TEXT), Field("label", LABEL, kind="label"))
PAIRS = (Field("text", TEXT), Field("pair", PAIR), Field("label", LABEL, kind="label"))
MANY = (Field("text", TEXT), Field("labels", LABEL, kind="labels"))
NUMBERS = (Field("text", TEXT), Field("label", LABEL, kind="number"))
WORDED = (Field("words", WORDS, kind="words"), Field("tags", TAGS, kind="tags"))
ASKED = (
    Field("context", CONTEXT),
    Field("question", QUESTION),
    Field("answers", ANSWERS, kind="answers"),
    Field("impossible", IMPOSSIBLE, required=False, kind="flag"),
)
CHOSEN = (
    Field("context", CONTEXT, required=False),
    Field("question", QUESTION, required=False),
    Field("choices", CHOICES, kind="texts"),
    Field("label", LABEL, kind="label"),
)
WRITTEN = (Field("source", SOURCE), Field("target", TARGET, kind="texts"))


def write(path: Path, text: str | bytes) -> Path:
    content = text.encode() if isinstance(text, str) else text
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return path


def read(path: Path, fields: tuple[Field, ...]) -> list[Row | UserError]:
    return list(stream_rows(path, fields, labelled=True))


@pytest.mark.parametrize("name", ["a.jsonl", "a.ndjson.gz", "a.json"])
def test_json_lines(tmp_path: Path, name: str) -> None:
    lines = '{"text_a": "一\\n二", "label": 1, "id": 7}\n\n{"text_a": "b", "label": "x "}\r\n'
    rows = read_rows(write(tmp_path / name, lines), CLASSIFY)
    assert [row.values for row in rows] == [
        {"text": "一\n二", "label": "1"},
        {"text": "b", "label": "x"},
    ]
    assert [row.line for row in rows] == [1, 3]
    assert [row.extra for row in rows] == [{"id": 7}, {}]
    assert rows[1].place == f"{tmp_path / name}, line 3"


@pytest.mark.parametrize(
    ("written", "label"),
    [("1", "1"), ("1.0", "1"), ("0.5", "0.5"), ("true", "true"), ('"1.0"', "1.0")],
)
def test_a_label_is_a_string(tmp_path: Path, written: str, label: str) -> None:
    path = write(tmp_path / "a.jsonl", f'{{"text": "a", "label": {written}}}')
    assert read_rows(path, CLASSIFY)[0].values["label"] == label


@pytest.mark.parametrize("written", ['["a", "b"]', '"a|b"', '" a | b|a"', '"[\\"a\\",\\"b\\"]"'])
def test_several_labels(tmp_path: Path, written: str) -> None:
    path = write(tmp_path / "a.jsonl", f'{{"text": "x", "labels": {written}}}')
    assert read_rows(path, MANY)[0].values["labels"] == ["a", "b"]


def test_several_labels_with_another_separator_and_none(tmp_path: Path) -> None:
    path = write(tmp_path / "a.tsv", "text\tlabels\nx\ta;b|c\ny\t\n")
    fields = (CLASSIFY[0], Field("labels", kind="labels", separator=";"))
    assert [row.values["labels"] for row in read_rows(path, fields)] == [["a", "b|c"], []]


def test_tables(tmp_path: Path) -> None:
    tsv = write(tmp_path / "a.tsv", '\ufeffSentence\tLabel\n"a" b\t0\n\nc\t1\n')
    assert [(row.values["text"], row.line) for row in read_rows(tsv, CLASSIFY)] == [
        ('"a" b', 2),
        ("c", 4),
    ]
    csv = write(tmp_path / "a.csv.gz", 'id,text,label\r\n1,"a, ""b""\r\nc",0\r\n\r\n2,d,1\r\n')
    rows = read_rows(csv, CLASSIFY)
    assert [row.values["text"] for row in rows] == ['a, "b"\nc', "d"]
    assert [row.line for row in rows] == [2, 5]
    assert rows[1].extra == {"id": "2"}


def test_a_table_without_header_by_numbers(tmp_path: Path) -> None:
    path = write(tmp_path / "a.tsv", "0\tgood\n1\tbad\n")
    rows = read_rows(path, CLASSIFY, {"text": "2", "label": "1"})
    assert [(row.values, row.line) for row in rows] == [
        ({"text": "good", "label": "0"}, 1),
        ({"text": "bad", "label": "1"}, 2),
    ]


def test_conll(tmp_path: Path) -> None:
    text = "-DOCSTART- -X- O O\n\nEU NNP B-NP B-ORG\nrejects VBZ B-VP O\n\n\n\u3000\tO\na b\tB-X"
    rows = read_rows(write(tmp_path / "a.conll", text), WORDED)
    assert [row.values for row in rows] == [
        {"words": ["EU", "rejects"], "tags": ["B-ORG", "O"]},
        {"words": ["\u3000", "a b"], "tags": ["O", "B-X"]},
    ]
    assert [row.line for row in rows] == [3, 7]


def test_words_without_tags_are_for_prediction(tmp_path: Path) -> None:
    path = write(tmp_path / "a.bio", "EU\nrejects\n\nit\n")
    rows = read_rows(path, WORDED, labelled=False)
    assert [row.values for row in rows] == [{"words": ["EU", "rejects"]}, {"words": ["it"]}]
    with pytest.raises(UserError, match="a.bio, line 1: no tags beside the words"):
        read_rows(path, WORDED)


def test_squad(tmp_path: Path) -> None:
    text = """{"version": "v2.0", "data": [{"title": "T", "paragraphs": [{"context": "ab c",
        "qas": [
        {"id": "1", "question": "?", "answers": [{"text": "c", "answer_start": 3, "x": 1}]},
        {"id": "2", "question": "??", "answers": [], "is_impossible": true},
        {"id": "3", "question": "???"}]}]}]}"""
    path = write(tmp_path / "a.json.gz", text)
    rows = read(path, ASKED)
    assert isinstance(rows[0], Row)
    assert rows[0].values == {
        "context": "ab c",
        "question": "?",
        "answers": [{"text": "c", "answer_start": 3}],
        "impossible": False,
    }
    assert rows[0].extra == {"id": "1", "title": "T"}
    assert isinstance(rows[1], Row)
    assert rows[1].place == f"{path}, question 2"
    assert (rows[1].values["answers"], rows[1].values["impossible"]) == ([], True)
    assert str(rows[2]).startswith(f"{path}, question 3: no column for answers (there is: ")
    assert list(read_rows(path, ASKED, labelled=False)[2].values) == ["context", "question"]


def test_a_list_of_records(tmp_path: Path) -> None:
    path = write(tmp_path / "a.json", '[{"text": "a", "label": "0"},\n {"text": "b", "label": 1}]')
    rows = read_rows(path, CLASSIFY)
    assert [row.values["label"] for row in rows] == ["0", "1"]
    assert rows[1].place == f"{path}, record 2"


def test_plain_text_keeps_all_lines(tmp_path: Path) -> None:
    path = write(tmp_path / "a.txt", "{a}\n\nb\n")
    rows = read_rows(path, CLASSIFY, labelled=False)
    assert [row.values for row in rows] == [{"text": "{a}"}, {"text": ""}, {"text": "b"}]
    with pytest.raises(UserError, match="line 1: a .txt file holds one text per line and no label"):
        read_rows(path, CLASSIFY)


def test_standard_input_is_json_or_text(monkeypatch: pytest.MonkeyPatch) -> None:
    content = b'good\n{"sentence": "bad", "id": 3}\n{oh}\nlast'
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(content)))
    rows = list(stream_rows("-", CLASSIFY))
    assert [row.values for row in rows if isinstance(row, Row)] == [
        {"text": "good"},
        {"text": "bad"},
        {"text": "last"},
    ]
    assert str(rows[2]).startswith("standard input, line 3: not JSON")


@pytest.mark.parametrize(
    ("columns", "found"),
    [
        (("sentence1", "sentence2", "score"), ("sentence1", "sentence2", "score")),
        (("question", "sentence", "label"), ("question", "sentence", "label")),  # QNLI
        (("query", "document", "target"), ("query", "document", "target")),
        (("sentence", "pair", "text", "label"), ("text", "pair", "label")),
        (("premise", "hypothesis", "gold_label"), ("premise", "hypothesis", "gold_label")),
        (("ID", "Text_A", "Text_B", " Label"), ("Text_A", "Text_B", " Label")),
    ],
)
def test_columns_are_understood(columns: tuple[str, ...], found: tuple[str, ...]) -> None:
    match = match_columns(PAIRS, columns, {})
    assert (match["text"], match["pair"], match["label"]) == found


def test_columns_by_name(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", "text,review,label,stars\nid1,good,x,5\n")
    row = read_rows(path, CLASSIFY, {"text": "review", "label": "stars"})[0]
    assert (row.values, row.extra) == (
        {"text": "good", "label": "5"},
        {"text": "id1", "label": "x"},
    )
    with pytest.raises(UserError, match='line 1: no column "body" for text .there is: text, rev'):
        read_rows(path, CLASSIFY, {"text": "body"})
    with pytest.raises(UserError, match='unknown field "txt"; did you mean "text"'):
        read_rows(path, CLASSIFY, {"txt": "review"})


def test_hub_form_of_answers_and_lists_in_cells(tmp_path: Path) -> None:
    line = '{"context": "ab", "question": "?", "answers": {"text": ["b"], "answer_start": [1]}}'
    row = read_rows(write(tmp_path / "a.jsonl", line), ASKED)[0]
    assert row.values["answers"] == [{"text": "b", "answer_start": 1}]
    path = write(tmp_path / "a.tsv", 'question\toptions\tlabel\n?\t["x", "y z"]\t1\n')
    values = {"question": "?", "choices": ["x", "y z"], "label": "1"}
    assert read_rows(path, CHOSEN)[0].values == values


OK = b'{"text": "a", "label": "0"}\n'
FAULTS = [
    (
        "a.jsonl",
        OK + b'{"text": "a\xff", "label": "0"}\n' + OK,
        2,
        "broken UTF-8",
        "byte 12 .*0xff",
    ),
    ("a.jsonl", OK + b'{"text": "a\0"}\n' + OK, 2, "broken UTF-8", "a NUL byte"),
    ("a.jsonl", OK + b'\n{"text": "a"\n' + OK, 3, "not JSON", "not JSON"),
    ("a.jsonl", OK + b'["a"]\n' + OK, 2, "not JSON", "a list, not an object"),
    ("a.jsonl", OK + b'{"text": "b"}\n' + OK, 2, "missing column", "--column label=NAME"),
    (
        "a.jsonl",
        OK + b'{"text": "b", "label": null}\n' + OK,
        2,
        "missing value",
        '"label" is empty',
    ),
    ("a.jsonl", OK + b'{"text": 5, "label": "0"}\n' + OK, 2, "wrong type", "a number, not text"),
    ("a.jsonl", OK + b'{"text": "", "label": {}}\n' + OK, 2, "wrong type", "an object, not a lab"),
    (
        "a.tsv",
        b"text\tlabel\na\t0\nb\t1\t2\nc\t1",
        3,
        "ragged row",
        "3 columns, but the header has 2",
    ),
    ("a.tsv", b"text\tlabel\na\t0\nb\xe4\t1\nc\t1", 3, "broken UTF-8", "byte 2 of the line"),
    ("a.tsv", b"text\tlabel\na\t0\nb\t \nc\t1", 3, "missing value", "the column .label. is empty"),
    ("a.csv", b'text,label\n"a\nb",0\nc\nd,1', 4, "ragged row", "1 columns, but the header has 2"),
    ("a.csv", b'text,label\n"a\nb",0\n"c"d,1\ne,1', 4, "ragged row", "quotes cannot be read"),
    ("a.csv", b'text,label\n"a\nb",0\nc\xff,1\ne,1', 4, "broken UTF-8", "0xff"),
]


@pytest.mark.parametrize(("name", "content", "line", "fault", "message"), FAULTS)
def test_a_bad_row_is_named_and_does_not_hide_the_others(
    tmp_path: Path, name: str, content: bytes, line: int, fault: str, message: str
) -> None:
    path = write(tmp_path / name, content)
    rows = read(path, CLASSIFY)
    assert [isinstance(row, Row) for row in rows] == [True, False, True]
    bad = rows[1]
    assert isinstance(bad, RowError)
    assert (bad.fault, bad.line, bad.file) == (fault, line, str(path))
    with pytest.raises(UserError, match=rf"{name}, line {line}: .*{message}"):
        read_rows(path, CLASSIFY)


CONLL_FAULTS = [
    ("a\tO\n\nb\tO\nc\nd\tO\n\ne\tO\n", 4, "ragged row", 'no tag beside "c"'),
    ("a\tO\n\nb\tO\nc\t\n\ne\tO\n", 4, "ragged row", 'no tag beside "c"'),
    ("a\tO\n\nb\tO\nc\xff\tO\n\ne\tO\n", 4, "broken UTF-8", "0xff"),
]


@pytest.mark.parametrize(("content", "line", "fault", "message"), CONLL_FAULTS)
def test_a_bad_sentence(tmp_path: Path, content: str, line: int, fault: str, message: str) -> None:
    rows = read(write(tmp_path / "a.conll", content.encode("latin-1")), WORDED)
    assert [isinstance(row, Row) for row in rows] == [True, False, True]
    bad = rows[1]
    assert isinstance(bad, RowError)
    assert (bad.fault, bad.line) == (fault, line)
    assert message in str(bad)


def test_numbers_must_be_finite(tmp_path: Path) -> None:
    path = write(tmp_path / "a.tsv", "text\tlabel\na\t1.5\nb\tnan\nc\thigh\nd\t2\n")
    rows = read(path, NUMBERS)
    assert [row.values["label"] for row in rows if isinstance(row, Row)] == [1.5, 2.0]
    assert str(rows[1]).endswith(
        'line 3: the column "label" holds "nan", which is not a finite number'
    )
    assert str(rows[2]).endswith('line 4: the column "label" holds "high", which is not a number')


def test_tags_and_words_must_agree(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", '{"tokens": ["a", "b"], "ner_tags": ["O"]}')
    with pytest.raises(UserError, match="line 1: 2 words but 1 tags"):
        read_rows(path, WORDED)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.jsonl", b"", "a.jsonl: no rows in it"),
        ("a.tsv", b"text\tlabel\n", "a.tsv: no rows in it"),
        ("a.conll.gz", b"\n\n", "a.conll.gz: no rows in it"),
        ("a.xlsx", b"x", 'end in .jsonl, .* not in ".xlsx"'),
        (
            "a.tsv",
            b"text\tlabel\ttext\na\t0\tb\n",
            'line 1: the header has the column "text" twice',
        ),
        ("a.json", b'{"data": [{"paragraphs": [{}]}]}', "after question 0: not in SQuAD's form"),
        ("a.jsonl", "x".encode("utf-16"), "line 1: this is UTF-16"),
        ("a.csv", b'text,label\na,"0\nb,1\n', "line 2: the quotes cannot be read as CSV"),
    ],
)
def test_a_bad_file(tmp_path: Path, name: str, content: bytes, message: str) -> None:
    with pytest.raises(UserError, match=message):
        read_rows(write(tmp_path / name, content), CLASSIFY)


def test_a_missing_and_a_damaged_file(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="b.jsonl: cannot be read: No such file"):
        read_rows(tmp_path / "b.jsonl", CLASSIFY)
    lines = b"".join(b'{"text": "%d", "label": "0"}\n' % (n * n) for n in range(2000))
    path = tmp_path / "a.jsonl.gz"
    path.write_bytes(gzip.compress(lines)[:-100])
    with pytest.raises(UserError, match=r"a.jsonl.gz: damaged after line \d+"):
        read_rows(path, CLASSIFY)


# one file of each labelled set: rows as the data README says, the last row's line
SETS = [
    ("afqmc/dev.jsonl.gz", PAIRS, 4316, 4316),
    ("ag_news/dev.jsonl.gz", CLASSIFY, 1000, 1000),
    ("bipar/zh_valid.json.gz", ASKED, 1500, 1500),
    ("book_review/dev.jsonl.gz", CLASSIFY, 8000, 8000),
    ("c3/dev.jsonl.gz", CHOSEN, 3816, 3816),
    ("chnsenticorp/dev.jsonl.gz", CLASSIFY, 1200, 1200),
    ("cluener/dev.conll.gz", WORDED, 1343, 51568),
    ("cmrc2018/dev.json.gz", ASKED, 3219, 3219),
    ("cola/dev.jsonl", CLASSIFY, 1043, 1043),
    ("conll2003/dev.conll.gz", WORDED, 3250, 54608),
    ("copa/dev.jsonl", CHOSEN, 100, 100),
    ("csl_title_zh/dev.jsonl", WRITTEN, 100, 100),
    ("dialogsum/test.jsonl.gz", WRITTEN, 500, 500),
    ("dream/dev.jsonl.gz", CHOSEN, 2040, 2040),
    ("eprstmt_fewshot/test_public.jsonl", CLASSIFY, 610, 610),
    ("hotel_reviews_zh/dev.jsonl.gz", CLASSIFY, 800, 800),
    ("imdb_subset/dev.jsonl.gz", CLASSIFY, 1000, 1000),
    ("lcqmc/dev.jsonl", PAIRS, 1000, 1000),
    ("mrpc/dev.jsonl", PAIRS, 408, 408),
    ("multi30k_en_de/dev.jsonl", WRITTEN, 1014, 1014),
    ("ocnli/dev.jsonl.gz", PAIRS, 2950, 2950),
    ("online_shopping/dev.jsonl.gz", CLASSIFY, 4000, 4000),
    ("pawsx_zh/dev.jsonl.gz", PAIRS, 2000, 2000),
    ("people_daily_ner/dev.conll.gz", WORDED, 2318, 112159),
    ("qnli/dev.jsonl.gz", PAIRS, 5463, 5463),
    ("race_expmrc/dev.jsonl.gz", CHOSEN, 561, 561),
    ("rte/dev.jsonl", PAIRS, 277, 277),
    ("snli_small/dev.jsonl", PAIRS, 301, 301),
    ("snli_zh_mt/dev.jsonl", PAIRS, 1001, 1001),
    ("squad2_half/dev.json.gz", ASKED, 1142, 1142),
    ("sst2/dev.jsonl", CLASSIFY, 872, 872),
    ("stsb_en/dev.jsonl.gz", PAIRS, 1500, 1500),
    ("stsb_zh/dev.jsonl.gz", PAIRS, 1458, 1458),
    ("subj/dev.jsonl", CLASSIFY, 1000, 1000),
    ("subjqa/dev.json.gz", ASKED, 1487, 1487),
    ("ted_en_zh/dev.jsonl.gz", WRITTEN, 1000, 1000),
    ("thucnews_title/dev.jsonl", CLASSIFY, 2000, 2000),
    ("trec/test.jsonl", CLASSIFY, 500, 500),
    ("ud_en_ewt_pos/dev.conll.gz", WORDED, 2001, 27136),
    ("ud_zh_gsd_pos/dev.conll", WORDED, 500, 13143),
    ("weibo_emotion/dev.jsonl.gz", CLASSIFY, 2000, 2000),
    ("weibo_ner/dev.conll", WORDED, 270, 14730),
    ("wnli/dev.jsonl", PAIRS, 71, 71),
    ("xquad/zh.json.gz", ASKED, 1190, 1190),
]


@pytest.mark.parametrize(("name", "fields", "count", "last"), SETS)
def test_real_sets(
    shared_data: Path, name: str, fields: tuple[Field, ...], count: int, last: int
) -> None:
    rows = read_rows(shared_data / name, fields)
    assert (len(rows), rows[-1].line) == (count, last)
    needed = {field.name for field in fields if field.required}
    assert all(needed <= set(row.values) for row in rows)
