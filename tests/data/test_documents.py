from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from tianci.data import documents
from tianci.data.documents import Form, Source, examine, guess_borders, guess_layout, read_documents
from tianci.errors import UserError


def read(
    path: Path, layout: str = "auto", borders: str = "auto", field: str = "text"
) -> list[tuple[int, list[str]]]:
    form = examine(path, layout, borders, field)  # type: ignore[arg-type]
    source = Source(path, path.name, form)
    return [(d.line, d.sentences()) for d in read_documents(source, field)]


def test_a_sentence_per_line_and_blank_lines_between_documents(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("\n\nOne.\nTwo. \n\n \n三。\r\n四。\n\n", encoding="utf-8")
    assert examine(path, "auto", "auto", "text") == Form("lines", "blank")
    assert read(path) == [(3, ["One.", "Two."]), (7, ["三。", "四。"])]


def test_a_file_without_blank_lines_is_one_document(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("One.\nTwo.\nThree.", encoding="utf-8")
    assert read(path) == [(1, ["One.", "Two.", "Three."])]


def test_free_paragraphs_one_per_line_are_documents(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("今天很好。我们走吧。\nIt rained. We slept. He left.\n", encoding="utf-8")
    assert examine(path, "auto", "auto", "text") == Form("paragraphs", "line")
    assert read(path) == [
        (1, ["今天很好。", "我们走吧。"]),
        (2, ["It rained.", "We slept.", "He left."]),
    ]


def test_free_paragraphs_with_blank_lines_between_documents(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("A b. C d.\nE f. G h.\nI j. K l.\n\nM n. O p.\nQ r. S t.\n", encoding="utf-8")
    assert examine(path, "auto", "auto", "text") == Form("paragraphs", "blank")
    assert [len(sentences) for _, sentences in read(path)] == [6, 4]


def test_an_article_whose_paragraphs_stand_apart_is_one_document(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("A b. C d.\n\nE f. G h.\n\nI j. K l.\n", encoding="utf-8")
    assert examine(path, "auto", "auto", "text") == Form("paragraphs", "gap")
    assert read(path) == [(1, ["A b.", "C d.", "E f.", "G h.", "I j.", "K l."])]
    assert len(read(path, borders="blank")) == 3


def test_lines_broken_at_a_width_are_joined(tmp_path: Path) -> None:
    words = "It was the best of times, it was the worst of times, it was the age of wisdom, "
    text = (words + "it was the age of foolishness. It was the epoch of belief. ") * 4
    lines, line = [], ""
    for word in text.split():
        if len(line) + len(word) > 60:
            lines.append(line.strip())
            line = ""
        line += word + " "
    lines.append(line.strip())
    path = tmp_path / "a.txt"
    path.write_text("\n".join([*lines, "", *lines]), encoding="utf-8")
    assert examine(path, "auto", "auto", "text") == Form("wrapped", "gap")
    [(_, sentences)] = read(path)
    assert sentences[1] == "It was the epoch of belief."
    assert len(sentences) == 16


def test_chinese_lines_are_joined_without_a_space(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("今天天气\n很好。we\nleft.\n", encoding="utf-8")
    assert read(path, "wrapped", "file") == [(1, ["今天天气很好。", "we left."])]


def test_records(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl.gz"
    with gzip.open(path, "wt", encoding="utf-8") as file:
        file.write('{"text": "One. Two."}\n\n{"text": ""}\n{"text": "三。\\n四。五。"}\n')
    assert examine(path, "auto", "auto", "text") == Form("paragraphs", "record")
    assert read(path) == [(1, ["One.", "Two."]), (3, []), (4, ["三。", "四。", "五。"])]


def test_zst(tmp_path: Path) -> None:
    zstandard = pytest.importorskip("zstandard")
    path = tmp_path / "a.txt.zst"
    path.write_bytes(zstandard.compress(b"One.\n\nTwo."))
    assert read(path) == [(1, ["One."]), (3, ["Two."])]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"text": "a"}\n{"body": "b", "id": 1}', 'line 2: no field "text" (there is: body, id)'),
        ('{"text": 5}', 'line 1: the field "text" holds a int, not text'),
        ('{"text": "a"', "line 1: not JSON"),
        ('["a"]', "line 1: no field"),
    ],
)
def test_bad_records_name_the_line(tmp_path: Path, line: str, message: str) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text(line, encoding="utf-8")
    with pytest.raises(UserError) as error:
        read(path)
    assert message in str(error.value)


def test_a_long_document_is_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(documents, "LONGEST", 10)
    path = tmp_path / "a.txt"
    path.write_text("12345.\n6789.\n1.\n" + "x" * 25 + "\n", encoding="utf-8")
    parts = read(path, "lines", "file")
    assert all(sum(map(len, lines)) <= 10 for _, lines in parts)
    assert "".join(line for _, lines in parts for line in lines) == "12345.6789.1." + "x" * 25


def test_guesses_need_evidence() -> None:
    assert guess_layout([]) == guess_layout(["", ""]) == "lines"
    assert guess_layout(["标题", "今天。", "一、二；三。"]) == "paragraphs"  # a third holds two
    assert guess_layout(["标题", "今天。", "好。", "一、二；三。"]) == "lines"
    assert guess_borders(["a", ""], "lines", True) == "file"  # a blank line at the end ends nothing
    assert guess_borders(["a", "", "b"], "paragraphs", False) == "blank"
    assert guess_borders(["a", "", "", "b"], "paragraphs", False) == "gap"


def test_the_real_text_is_recognised(shared_data: Path) -> None:
    for name in ("wiki_zh", "wiki_en", "novels_zh", "books_en"):
        path = shared_data / name / "train.txt.gz"
        assert examine(path, "auto", "auto", "text") == Form("lines", "blank"), name
