"""Entities as spans of characters become words with tags."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tianci.data.entity_spans import words_and_tags
from tianci.data.rows import RowError, read_rows, stream_rows
from tianci.data.tagged import sentence_of
from tianci.goals.tasks.tag import Tag


def test_each_entity_is_tagged_and_cuts_words_where_it_must() -> None:
    text = "Anna Lee likes Paris-based jazz."
    entities = [
        {"label": "LOC", "start": 15, "end": 20},  # Paris, inside Paris-based
        {"type": "PER", "start": 0, "end": 8, "word": "Anna Lee"},
    ]
    words, tags = words_and_tags(text, entities)
    assert list(zip(words, tags, strict=True)) == [
        ("Anna", "B-PER"), ("Lee", "I-PER"), ("likes", "O"), ("Paris", "B-LOC"), ("-based", "O"),
        ("jazz", "O"), (".", "O"),
    ]  # fmt: skip
    assert words_and_tags("王小明在北京", [{"label": "PER", "start": 0, "end": 3}]) == (
        list("王小明在北京"), ["B-PER", "I-PER", "I-PER", "O", "O", "O"],
    )  # fmt: skip


@pytest.mark.parametrize(
    ("entity", "message"),
    [
        ({"label": "A", "start": 1, "end": 9}, "from 1 to 9, but the text has 4 characters"),
        ({"label": "A", "start": 2, "end": 2}, "from 2 to 2"),
        ({"label": "A", "start": 0, "end": 1, "word": "ab"}, 'the text says "a"'),
        ({"start": 0, "end": 1}, 'needs "label", "start" and "end"'),
        ({"label": "A", "start": 2, "end": 3}, "of blanks only"),
    ],
)
def test_what_is_wrong_with_an_entity(entity: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        words_and_tags("ab c", [entity])


def test_entities_must_not_overlap() -> None:
    two = [{"label": "A", "start": 0, "end": 2}, {"label": "B", "start": 1, "end": 4}]
    with pytest.raises(ValueError, match=r"A and B at 1"):
        words_and_tags("abcd", two)


def test_rows_of_a_tag_file_may_hold_entities(tmp_path: Path) -> None:
    rows = [
        {"text": "王小明在北京", "entities": [{"label": "LOC", "start": 4, "end": 6}], "id": 7},
        {"text": "今天很好", "entities": []},
        {"text": "短", "entities": [{"label": "LOC", "start": 0, "end": 2}]},
    ]
    path = tmp_path / "rows.jsonl"
    path.write_text("\n".join(json.dumps(r, ensure_ascii=False) for r in rows), encoding="utf-8")
    first, second, third = stream_rows(path, Tag.fields, labelled=True)
    assert not isinstance(first, Exception) and not isinstance(second, Exception)
    assert first.values["tags"] == ["O", "O", "O", "O", "B-LOC", "I-LOC"]
    assert first.extra == {"id": 7}
    assert sentence_of(first, "").text == "王小明在北京"
    assert second.values["tags"] == ["O"] * 4
    assert isinstance(third, RowError) and "line 3" in str(third) and "from 0 to 2" in str(third)
    path.write_text(path.read_text(encoding="utf-8").rpartition("\n")[0], encoding="utf-8")
    task = Tag().learn(read_rows(path, Tag.fields))
    assert task.labels == ("O", "B-LOC", "I-LOC") and task.unit == "character"
