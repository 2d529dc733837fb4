"""Real sentences to compare models on: short and long ones, English and Chinese."""

from __future__ import annotations

from collections.abc import Sequence

from tianci.text.tokenizer import Tokenizer

Rows = Sequence[tuple[list[int], list[int]]]  # ids and segments

SENTENCES = (
    "Yes.",
    "好的。",
    "It rains.",
    "房间很干净，服务也不错。",
    "The train to Oslo leaves at 9:45 from platform 3.",
    "这本书的内容很好，可惜印刷质量太差了，字也太小。",
    "She said that she would come, but nobody believed her, and in the end nobody was surprised.",
    "今天天气不错，我们去公园走走吧。",
    "Kim Jensen works for the city library in Bergen and writes about old maps (1580-1790).",
    "The hotel was fine. The breakfast was not: cold eggs, stale bread, and coffee from a machine.",
    "手机用了两个月就坏了，客服态度恶劣，要求退货也不给退，再也不会在这家店买东西了！",
    "Prices rose by 3.5% in May, the smallest increase since 2019, the statistics office reported.",
    "他1998年毕业于北京大学，后来在上海的一家公司工作，现在是三个孩子的父亲。",
    "Although the film takes its time, and although hardly anything happens in the first hour, it "
    "stays with you for days, because its people are so carefully drawn that you miss them.",
    "Who wrote it?",
    "酒店离地铁站步行五分钟，周围有很多餐馆，晚上有点吵，建议带耳塞。",
)


def probes(tokenizer: Tokenizer, limit: int, texts: Sequence[str] = ()) -> Rows:
    """Single texts, pairs, and one as long as the model reads; ours, and those that are given."""
    some = [*SENTENCES, *texts]
    rows = tokenizer.inputs(some, limit=limit)
    rows += tokenizer.inputs(some, some[3:] + some[:3], limit=limit)
    room, long = tokenizer.room(limit), tokenizer.ids(SENTENCES, special=False)
    endless = [i for ids in long * (1 + limit // max(1, sum(map(len, long)))) for i in ids]
    return [*(row for row in rows if row[0]), tokenizer.wrap(endless[: max(1, room)])]
