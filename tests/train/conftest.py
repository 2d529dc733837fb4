"""A small corpus with something to learn in it, made once."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tianci.data.prepare import PrepareSettings, prepare
from tianci.text.learn import Vocabulary, learn

SUBJECTS = ["我", "你", "他", "我们", "老师", "学生", "朋友", "妈妈"]
PLACES = ["公园", "学校", "酒店", "书店", "医院", "商场"]
THINGS = ["书", "饭", "菜", "茶", "水果", "电影"]
VERBS = {"书": "读", "饭": "吃", "菜": "吃", "茶": "喝", "水果": "吃", "电影": "看"}


def write_text(path: Path, documents: int, seed: int = 0) -> Path:
    """Documents of a few sentences with a grammar: the verb fits its thing, a document keeps its
    place."""
    r = np.random.default_rng(seed)
    lines = []
    for _ in range(documents):
        place = r.choice(PLACES)
        for _ in range(int(r.integers(3, 7))):
            who, thing = r.choice(SUBJECTS), r.choice(THINGS)
            lines.append(f"{who}今天去{place}{VERBS[thing]}{thing}，{place}的{thing}很好。")
        lines.append("")
    path.write_text("\n".join(lines), encoding="utf-8")
    return path


def make_store(folder: Path) -> Path:
    """A token store of 600 such documents."""
    text = write_text(folder / "text.txt", 600)
    tokenizer, _ = learn([text], Vocabulary(kind="char", size=45, hold_back=0.0))
    (folder / "vocab").mkdir()
    tokenizer.save(folder / "vocab")
    settings = PrepareSettings(layout="lines", borders="blank", held=0.05)
    prepare([text], folder / "vocab", folder / "store", settings)
    return folder / "store"


@pytest.fixture(scope="session")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_store(tmp_path_factory.mktemp("corpus"))
