"""Words and their tokens, by hand; windows against a search over all of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.goals.tiny import VOCABULARY, tokenizer
from tianci.text.aligned import NONE, Sentence, align, windows
from tianci.text.learn import Vocabulary, learn
from tianci.text.words import split_words


def names(ids: list[int]) -> list[str]:
    return [VOCABULARY[id] for id in ids]


def test_the_first_piece_of_each_word() -> None:
    sentence = Sentence("the dogs xyz played.", [(0, 3), (4, 8), (9, 12), (13, 19), (19, 20)])
    found = align([sentence], tokenizer())[0]
    assert names(found.ids) == ["the", "dog", "##s", "[UNK]", "play", "##ed", "."]
    assert found.first == [0, 1, 3, 4, 6]


def test_a_word_without_tokens_shifts_nobody() -> None:
    text = "a\x00\u200bb c"
    sentence = Sentence(text, [(0, 1), (1, 2), (2, 3), (3, 4), (4, 5), (5, 6), (6, 6)])
    found = align([sentence], tokenizer(["[UNK]", "a", "b", "c"]))[0]
    assert found.first == [0, NONE, NONE, 1, NONE, 2, NONE]
    assert found.ids == [1, 2, 3]


def test_words_that_share_a_token_get_tokens_of_their_own() -> None:
    sentence = Sentence("我run14", [(0, 1), (1, 2), (2, 3), (3, 4), (4, 5), (5, 6)])
    found = align([sentence], tokenizer([*VOCABULARY, "r", "run14"]))[0]
    assert found.first == [0, 1, 2, 3, 4, 5]
    assert [*VOCABULARY, "r"][found.ids[1]] == "r"
    assert names([found.ids[0], *found.ids[2:]]) == ["我", "[UNK]", "[UNK]", "1", "[UNK]"]


def test_only_those_words_are_encoded_again() -> None:
    sentence = Sentence("play 12 ing", [(0, 4), (5, 6), (6, 7), (8, 11)])
    found = align([sentence], tokenizer([*VOCABULARY, "2"]))[0]
    assert found.ids == [VOCABULARY.index("play"), VOCABULARY.index("1"), len(VOCABULARY), 1]
    assert found.first == [0, 1, 2, 3]


def test_marks_belong_to_the_letter_before_or_to_nobody() -> None:
    sentence = Sentence("a\u0301b", [(0, 1), (1, 2), (2, 3)])  # two words out of one character
    found = align([sentence], tokenizer(["[UNK]", "a", "##b", "b"]))[0]
    assert found == ([1, 2], [0, NONE, 1])


@pytest.mark.parametrize(
    ("kind", "size"),
    [("wordpiece", 55), ("char", 55), ("bpe", 52), ("byte-bpe", 290), ("unigram", 44)],
)
@pytest.mark.parametrize("each", [False, True], ids=["words", "characters"])
def test_all_kinds_of_tokenizers(kind: str, size: int, each: bool, tmp_path: Path) -> None:
    """The tokens from one word's first to the next word's first spell that word."""
    text = "naïve dogs saw 2011 dogs in 北京 and 东京 北京 dogs ran to 北京"
    (tmp_path / "a.txt").write_text((text + "\n") * 50, encoding="utf-8")
    made, _ = learn([tmp_path / "a.txt"], Vocabulary(kind=kind, size=size))
    spans = [(n, n + 1) for n, one in enumerate(text) if one != " "] if each else split_words(text)
    found = align([Sentence(text, spans)], made)[0]
    places = [*found.first, len(found.ids)]
    assert NONE not in places and len(set(places)) == len(spans) + 1
    for word, (start, end) in enumerate(spans):
        said = made.decode(found.ids[places[word] : places[word + 1]], skip_special=False)
        expected = text[start:end]
        if kind in ("wordpiece", "char"):  # as BERT cleans
            expected = expected.replace("ï", "i")
        assert said.replace(" ", "").removeprefix("##") == expected


@pytest.mark.parametrize(("length", "room"), [(5, 8), (9, 8), (30, 8), (31, 7), (12, 1), (6, 2)])
def test_each_place_is_decided_where_it_is_furthest_from_the_edge(length: int, room: int) -> None:
    found = windows(range(length), length, room)
    assert [place for one in found for place in range(one.low, one.high)] == list(range(length))
    assert found[0].start == 0 and found[-1].end == length
    for one in found:
        assert one.end - one.start <= room

    def margin(place: int, start: int, end: int) -> int:
        left = place - start if start else length
        right = end - 1 - place if end < length else length
        return min(left, right) if start <= place < end else -1

    for one in found:
        for place in range(one.low, one.high):
            best = max(margin(place, other.start, other.end) for other in found)
            assert margin(place, one.start, one.end) == best


def test_only_the_places_given_are_shared_out() -> None:
    # windows 0-4, 2-6, 4-8, 6-10; their shares end before 3, 5 and 7
    found = windows([0, 3, 4, 9], 10, 4)
    assert [tuple(one) for one in found] == [
        (0, 4, 0, 1),
        (2, 6, 1, 3),
        (4, 8, 3, 3),
        (6, 10, 3, 4),
    ]


def test_no_words_still_have_a_window() -> None:
    assert [tuple(one) for one in windows([], 0, 8)] == [(0, 0, 0, 0)]
