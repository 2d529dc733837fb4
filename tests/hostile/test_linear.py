"""The cost of a tokenizer grows with the text: four times the text, about four times the time.

The ratio is generous here (the square would be 16); `benchmarks/soak_tokenizer.py` fits a line to
texts of up to 4 MB.
"""

from __future__ import annotations

import time

import pytest

from tests.hostile import adversarial, examples
from tests.hostile.guard import in_time
from tianci.errors import UserError
from tianci.text import long_words
from tianci.text import tokenizer as engine
from tianci.text.tokenizer import Tokenizer

SMALL, MOST = 16_000, 10.0
ENOUGH = 0.04  # seconds of measuring: some clocks of processor time go in steps of 10 ms


@pytest.fixture(scope="module", params=examples.KINDS)
def tokenizer(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Tokenizer:
    folder = tmp_path_factory.mktemp("kind")
    examples.tokenizer(request.param)(folder)
    return Tokenizer.load(folder)


def seconds(tokenizer: Tokenizer, text: str) -> float:
    """Processor time of one call, the mean of as many as it takes to see something."""
    begun, calls = time.process_time(), 0
    while (taken := time.process_time() - begun) < ENOUGH:
        tokenizer.encode([text])
        calls += 1
    return taken / calls


def ratio(tokenizer: Tokenizer, name: str) -> float:
    """How many times as long four times the text takes."""
    short, long = (seconds(tokenizer, adversarial.text(name, size)) for size in (SMALL, 4 * SMALL))
    return long / short


@pytest.mark.parametrize("name", adversarial.PIECES)
def test_four_times_the_text_takes_about_four_times_the_time(
    tokenizer: Tokenizer, name: str
) -> None:
    with in_time(30):
        found = [ratio(tokenizer, name)]
        while found[-1] >= MOST and len(found) < 3:  # other work on the machine is no finding
            found.append(ratio(tokenizer, name))
    assert min(found) < MOST, found


def test_a_text_over_the_limit_is_refused_first(
    tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "LONGEST_TEXT", 100)
    assert tokenizer.ids(["a" * 100])
    for call in (tokenizer.ids, tokenizer.encode):
        with pytest.raises(UserError, match="at most 100"):
            call(["a", "a" * 101])


@pytest.mark.parametrize("piece", ["a", "今", "1", "[", "_"])
def test_a_word_over_the_limit_is_refused_first_by_bpe(
    tokenizer: Tokenizer, piece: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(long_words, "LONGEST", 50)
    fine = ["x. " + piece * 49, (piece * 49 + " ") * 9]
    assert tokenizer.ids(fine) == [encoded.ids for encoded in tokenizer.encode(fine)]
    for text in (piece * 50, "x. " * 7 + piece * 99):
        for call in (tokenizer.ids, tokenizer.encode):
            if "bpe" in tokenizer.kind:
                with pytest.raises(UserError, match="a word of 50 characters and more"):
                    call(["a", text])
            else:
                call(["a", text])
