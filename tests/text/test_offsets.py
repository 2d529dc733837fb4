"""Every token points at the characters it was made of, whatever the text and the cleaning."""

from __future__ import annotations

import gzip
import json
import random
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from itertools import islice
from pathlib import Path

import pytest
from tokenizers import pre_tokenizers

from tests.text.strings import random_text
from tianci.text.learn import Vocabulary, learn
from tianci.text.offsets import joins
from tianci.text.tokenizer import Tokenizer

DATA = Path(__file__).parents[3] / "shared" / "data"
STRINGS = 102_000  # in all, over all kinds and options
LINES = 400  # of each data set

NUMBER = re.compile(r"[0-9０-９]+([.,．，][0-9０-９]+)*[%％‰]?")
CHECKED: Counter[str] = Counter()

CHOICES = [
    {},
    {"nfkc": True, "lower": True, "strip_accents": True, "numbers": True},
    {"nfkc": True, "lower": False, "strip_accents": False, "numbers": True, "simplify": True},
    {"lower": False, "strip_accents": True},
]
KINDS = ["char", "wordpiece", "bpe", "byte-bpe", "unigram"]
WANTED = [
    Vocabulary(kind=kind, size=2000, coverage=0.99, **options)
    for kind in KINDS
    for options in (CHOICES if kind != "wordpiece" else CHOICES[:1])
]


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rng = random.Random(0)
    path = tmp_path_factory.mktemp("corpus") / "text.txt"
    lines = [random_text(rng).replace("\n", " ").replace("\0", "") for _ in range(4000)]
    path.write_text("\n".join(lines), encoding="utf-8")
    return path


class Checker:
    """Knows one tokenizer and what is true of all its offsets."""

    def __init__(self, tokenizer: Tokenizer, wanted: Vocabulary):
        self.tokenizer = tokenizer
        self.kind = wanted.kind
        self.apart = wanted.kind in ("char", "wordpiece")
        self.special = {tokenizer.id(token) for token in wanted.special_tokens()}
        # What belongs to a number depends on what stands around it, so it is checked by itself.
        normalizer = replace(wanted.cleaning(), numbers=False).normalizer(
            chinese_apart=self.apart, exact=wanted.kind == "byte-bpe"
        )
        spell = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)

        @cache
        def clean(text: str) -> str:
            text = normalizer.normalize_str(text) if normalizer else text
            if self.kind == "byte-bpe":
                return "".join(part for part, _ in spell.pre_tokenize_str(text))
            return text.replace(" ", "") if self.apart else text.replace(" ", "▁")

        self.clean = clean

    def check(
        self, text: str, ids: list[int], tokens: list[str], offsets: list[tuple[int, int]]
    ) -> None:
        covered = [False] * len(text)
        last = 0
        for id, token, (start, end) in zip(ids, tokens, offsets, strict=True):
            assert 0 <= start < end <= len(text), (text, token, start, end)
            assert start >= last, (text, token, start, last)
            last = start
            covered[start:end] = [True] * (end - start)
            surface = text[start:end]
            if id == self.tokenizer.number:
                # written out in the text, where stripped marks may follow, or a number
                assert surface.startswith("#NUM#") or NUMBER.fullmatch(surface), (text, surface)
            elif id not in self.special:
                self.check_surface(text, token, surface)
        for character, yes in zip(text, covered, strict=True):
            if not yes and not character.isspace():
                assert not self.clean(character).strip("▁Ġ"), (text, character)

    def check_surface(self, text: str, token: str, surface: str) -> None:
        clean = self.clean(surface)
        bare = token.removeprefix("##") if self.apart else token.lstrip("▁Ġ") or token
        if surface.strip() != surface:  # only a piece of white space keeps white space
            assert not token.strip("▁Ġ") or self.kind == "byte-bpe", (text, token, surface)
        assert bare in clean, (text, token, surface, clean)
        # Equal, unless one character became several, a character is split into bytes, or marks were
        # moved.
        if all(len(self.clean(character)) == 1 and not joins(character) for character in surface):
            assert bare == (clean.lstrip("▁Ġ") or clean), (text, token, surface, clean)


@pytest.mark.parametrize(
    "wanted", WANTED, ids=lambda w: f"{w.kind}{'+nfkc' * w.nfkc}{'+numbers' * w.numbers}"
)
def test_random_strings(wanted: Vocabulary, corpus: Path) -> None:
    tokenizer, _ = learn([corpus], wanted)
    checker = Checker(tokenizer, wanted)
    rng = random.Random(WANTED.index(wanted))
    texts = [random_text(rng) for _ in range(STRINGS // len(WANTED))]
    for text, encoded in zip(texts, tokenizer.encode(texts, special=False), strict=True):
        checker.check(text, encoded.ids, encoded.tokens, encoded.offsets)
    CHECKED["random strings"] += len(texts)
    CHECKED["kinds and options"] += 1


def test_data_sets() -> None:
    """Real sentences, the kinds in turn, with vocabularies that know most of them."""
    if not DATA.is_dir():
        pytest.skip("no ../shared/data beside the repository: nothing real to check on")
    wiki = [DATA / name / "dev.txt.gz" for name in ("wiki_zh", "wiki_en")]
    choices = [CHOICES[1], CHOICES[0], CHOICES[2], CHOICES[2], CHOICES[1]]
    checkers = []
    for kind, options in zip(KINDS, choices, strict=True):
        wanted = Vocabulary(kind=kind, size=8000, **options)
        checkers.append(Checker(learn(wiki, wanted)[0], wanted))
    tokens = unknown = 0
    for number, path in enumerate(sorted(path for path in DATA.iterdir() if path.is_dir())):
        sentences = list(islice(_sentences(path), LINES))
        assert sentences, path
        checker = checkers[number % len(checkers)]
        for text, encoded in zip(
            sentences, checker.tokenizer.encode(sentences, special=False), strict=True
        ):
            checker.check(text, encoded.ids, encoded.tokens, encoded.offsets)
            tokens += len(encoded)
            unknown += encoded.ids.count(1)
        CHECKED["sentences of data sets"] += len(sentences)
        CHECKED["data sets"] += 1
    assert unknown < 0.02 * tokens  # what is unknown is checked for its place only


def _sentences(directory: Path) -> Iterator[str]:
    """Strings of a data set, whatever its format, cut to 300 characters."""
    for path in sorted(directory.iterdir()):
        read = gzip.open if path.suffix == ".gz" else open
        with read(path, "rt", encoding="utf-8") as file:
            if ".json" in path.suffixes:
                yield from (s[:300] for s in _strings(json.load(file)) if s)
            elif ".jsonl" in path.suffixes:
                for line in file:
                    yield from (s[:300] for s in _strings(json.loads(line)) if s)
            elif ".conll" in path.suffixes:
                tokens: list[str] = []
                for line in file:
                    if line.strip():
                        tokens.append(line.split("\t")[0])
                    elif tokens:
                        yield (
                            "".join(tokens) if len(max(tokens, key=len)) == 1 else " ".join(tokens)
                        )
                        tokens = []
            else:
                yield from (line.rstrip("\n")[:300] for line in file if line.strip())


def _strings(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for inner in value.values():
            yield from _strings(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _strings(inner)


def test_by_hand(corpus: Path) -> None:
    """The cases the engine alone gets wrong, and a few it gets right."""
    options = {"kind": "char", "size": 2000, "coverage": 0.99}
    stripped, _ = learn([corpus], Vocabulary(**options))
    composed, _ = learn(
        [corpus], Vocabulary(**options, lower=False, strip_accents=False, nfkc=True, numbers=True)
    )
    spaced, _ = learn([corpus], Vocabulary(kind="bpe", size=2000, coverage=0.99))

    def surfaces(tokenizer: Tokenizer, text: str) -> list[str]:
        return tokenizer.encode([text], special=False)[0].surfaces(text)

    assert surfaces(stripped, "e\u0301 中") == ["e\u0301", "中"]  # the accent goes with its letter
    assert surfaces(composed, "e\u0301 中") == ["e\u0301", "中"]  # composed to one character
    assert surfaces(composed, "中12.5%中") == ["中", "12.5%", "中"]  # the engine says "%"
    assert surfaces(composed, "１，２３４．５元") == ["１，２３４．５", "元"]
    assert surfaces(composed, "\u1100\u1161\u11a8 a") == ["\u1100\u1161\u11a8", "a"]  # jamo
    assert surfaces(composed, "㎏") in (["㎏"], ["㎏", "㎏"])  # both k and g come from it
    assert surfaces(spaced, " the 的")[-1] == "的"  # no space in front
    assert surfaces(stripped, "a\ud800b") in (["a\ud800b"], ["a", "b"])  # half a surrogate pair


def test_the_check_can_fail(corpus: Path) -> None:
    """With the engine's own offsets the same check finds faults."""
    wanted = WANTED[1]
    tokenizer, _ = learn([corpus], wanted)
    checker = Checker(tokenizer, wanted)
    rng = random.Random(0)
    faults = 0
    for text in [random_text(rng) for _ in range(300)]:
        encoded = tokenizer.engine.encode(text, add_special_tokens=False)
        try:
            checker.check(text, encoded.ids, encoded.tokens, encoded.offsets)
        except AssertionError:
            faults += 1
    assert faults > 10


def test_count(capsys: pytest.CaptureFixture[str]) -> None:
    """Runs last: says how much was checked."""
    if CHECKED["kinds and options"] < len(WANTED):
        pytest.skip("the property tests did not all run")
    with capsys.disabled():
        print(
            "\noffsets checked:", ", ".join(f"{count:,} {what}" for what, count in CHECKED.items())
        )
    assert CHECKED["random strings"] >= 100_000
