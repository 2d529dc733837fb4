from __future__ import annotations

import time

import pytest

from tianci.text.sentences import split_sentences

CHINESE = [
    "今天天气很好。|我们去公园吧！|真的吗？|是的……|走吧；|好。",
    "他说：“你好。”|然后走了。",
    "“今天好！”，他说。",
    "她问：「真的吗？」|没有人回答。",
    "《你好！李焕英》是一部电影。|很好看。",
    "这个（真的吗？是的）很好。|下一句。",
    "（完。）|后记。",
    "真的吗?|是的!|好。",
    "约翰.史密斯来了。|他走了。",
    '他说:"好。"|然后走了。',
    '好。|"下一句。"|再一句。',
    "什么？！|不可能！！|好吧。",
    "圆周率是3.14。|重量为2.5公斤。",
    "没有标点的一行",
]
ENGLISH = [
    "Mr. Smith went to Washington. |He met Dr. Jones.",
    "J. R. R. Tolkien wrote it. |He was born on Jan. 3 in Africa.",
    "Pi is 3.14 or so. |Version 2.0.1 is out.",
    '"Really?" he asked. |Yes!',
    'He said "Go." |She went.',
    "He left. |(It was late.) |Then we slept.",
    "The U.S. economy grew. |It is in the U.S. |The end.",
    "Wait... what? |Yes... |No.",
    "See Fig. 3 and No. 5, etc. and e.g. this. |He said no. |Then he left.",
    "1. Introduction to it. |2. Results.",
    "So do I. |Then we left. |Henry I. Smith came.",
    "Yahoo! is old. |OK?! |Done.",
    "He works at Acme Inc. in Boston. |It is at example.com now.",
    "It opened at 9 a.m. on Monday. |It closed at 5 p.m. |The next day it rained.",
    "What (e.g. this) is it? |Good.",
]
MIXED = [
    "我用Python 3.9。|It works. |很好！|真的吗?|是的!",
    "苹果(Apple Inc.)发布了iPhone。|价格是$999.99。",
    "他说Hello. |然后走了。",
]


@pytest.mark.parametrize("text", [*CHINESE, *ENGLISH, *MIXED])
def test_split_by_hand(text: str) -> None:
    expected = [part.strip() for part in text.split("|")]
    assert split_sentences(text.replace("|", "")) == expected


def test_nothing_is_lost_but_white_space() -> None:
    text = "  One. Two!  三。四？\t“五。”  six "
    assert "".join("".join(split_sentences(text)).split()) == "".join(text.split())
    assert split_sentences("") == split_sentences("  \t ") == []


@pytest.mark.parametrize(
    "text", ["a. " * 50_000, "。" * 200_000, "(" * 100_000 + "a. B", "..." * 9999]
)
def test_time_grows_with_the_length_and_not_faster(text: str) -> None:
    started = time.perf_counter()
    split_sentences(text)
    assert time.perf_counter() - started < 5
