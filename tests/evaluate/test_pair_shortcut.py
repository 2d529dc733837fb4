"""A bag of words solves next-sentence pairs of topical documents, and is at chance on order."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from tianci.cli import main
from tianci.data.corpus import Corpus
from tianci.data.prepare import PrepareSettings, prepare
from tianci.errors import UserError
from tianci.evaluate.pair_shortcut import bag_of_words_on_pairs
from tianci.text.learn import Vocabulary, learn

TOPICS = ["水火木金土", "春夏秋冬季", "猪狗牛羊马", "红黄蓝绿白", "东西南北中", "笔墨纸砚书"]
COMMON = "的是了在"


@pytest.fixture(scope="module")
def topical(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Documents that each keep to the characters of one topic; sentences in no order at all."""
    folder = tmp_path_factory.mktemp("topical")
    rng = np.random.default_rng(0)
    lines = []
    for _ in range(500):
        letters = list(str(rng.choice(TOPICS)) + COMMON)
        for _ in range(int(rng.integers(4, 9))):
            lines.append("".join(rng.choice(letters, int(rng.integers(8, 16)))) + "。")
        lines.append("")
    (folder / "text.txt").write_text("\n".join(lines), encoding="utf-8")
    tokenizer, _ = learn([folder / "text.txt"], Vocabulary(kind="char", size=40, hold_back=0.0))
    (folder / "vocab").mkdir()
    tokenizer.save(folder / "vocab")
    settings = PrepareSettings(layout="lines", borders="blank")
    prepare([folder / "text.txt"], folder / "vocab", folder / "store", settings)
    return folder / "store"


def test_topics_give_next_sentence_away_but_not_the_order(topical: Path) -> None:
    corpus = Corpus(topical)
    following = bag_of_words_on_pairs(corpus, "masked+next_sentence", 2000, length=64)
    order = bag_of_words_on_pairs(corpus, "sentence_order", 2000, length=64)
    # of random pairs five in six have another topic, so about 11 of 12 can be told
    assert following["low"] > 0.8 and following["objective"] == "next_sentence"
    assert following["shared"]["low"] > 0.8
    assert order["low"] < 0.5 < order["high"]
    assert order["shared"]["low"] < 0.5 < order["shared"]["high"]
    assert following["low"] <= following["accuracy"] <= following["high"]


def test_an_objective_without_pairs_is_refused(topical: Path) -> None:
    with pytest.raises(UserError, match="masked pairs no segments.*next_sentence or"):
        bag_of_words_on_pairs(Corpus(topical), "masked")


def test_the_command_asks_both_pairings(topical: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        main(
            ["audit", str(topical), "--bag-of-words", "--pairs", "1000", "--length", "64", "--json"]
        )
    assert not stop.value.code
    found = json.loads(capsys.readouterr().out)["bag_of_words"]
    assert set(found) == {"next_sentence", "sentence_order"}
    assert found["next_sentence"]["accuracy"] > found["sentence_order"]["high"]
