"""Greedy, beams and sampling over a tiny table of probabilities, where everything is known."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

import pytest
import torch
from torch import Tensor

from tianci.errors import UserError
from tianci.goals import decoding
from tianci.goals.decoding import Decoding, Live, Written, draw, write

A, B, END = 0, 1, 2
# the likeliest first token leads into bad company: greedy walks into it, beams do not
TABLE = {
    (): [0.6, 0.4, 0.0],
    (A,): [0.35, 0.3, 0.35 - 1e-3],
    (B,): [0.05, 0.05, 0.9],
}


def scores(live: Sequence[Live]) -> Tensor:
    rows = [TABLE.get(one.ids, [0.1, 0.1, 0.8]) for one in live]
    return torch.tensor(rows).log()


def test_greedy_and_beam_by_hand() -> None:
    (greedy,) = write(scores, [0], END, Decoding(longest=5))
    assert greedy.ids == (A, A) and greedy.ended
    assert greedy.score == pytest.approx(math.log(0.6 * 0.35 * 0.8), abs=1e-5)
    (beam,) = write(scores, [0], END, Decoding(longest=5, beams=2, length_penalty=0.0))
    assert beam.ids == (B,) and beam.score == pytest.approx(math.log(0.4 * 0.9), abs=1e-5)


def test_one_beam_is_greedy() -> None:
    def random(live: Sequence[Live]) -> Tensor:
        logits = []
        for one in live:
            seed = hash((one.row, *one.ids)) % 2**31
            logits.append(torch.randn(6, generator=torch.Generator().manual_seed(seed)))
        return torch.stack(logits).log_softmax(1)

    greedy = write(random, range(30), END, Decoding(longest=6))
    beam = decoding._beam(random, 30, END, Decoding(longest=6, beams=1))
    assert [one.ids for one in greedy] == [one.ids for one in beam]
    assert {one.ended for one in greedy} == {True, False}  # some had to stop
    wide = write(random, range(30), END, Decoding(longest=6, beams=4, length_penalty=0.0))
    better = [w.score - g.score for w, g in zip(wide, greedy, strict=True)]
    assert sum(better) > 0 and max(better) > 0.5


def test_parents_say_which_text_is_continued() -> None:
    before: list[Live] = []

    def checked(live: Sequence[Live]) -> Tensor:
        for one in live:
            if one.ids:
                assert before[one.parent].ids == one.ids[:-1]
                assert before[one.parent].row == one.row
        before[:] = live
        return scores(live)

    write(checked, [0, 1, 2], END, Decoding(longest=4, beams=3))
    before.clear()
    write(checked, [0, 1, 2], END, Decoding(longest=4, temperature=1.0))


def test_what_is_not_allowed_is_never_written() -> None:
    def barred(live: Sequence[Live]) -> Tensor:
        return torch.tensor([[0.0, -math.inf, -math.inf]] * len(live))

    for how in (Decoding(longest=3), Decoding(longest=3, beams=4), Decoding(3, temperature=2.0)):
        assert write(barred, [0], END, how) == [Written((A, A, A), 0.0, False)]


def test_draws_by_hand() -> None:
    table = torch.tensor([[0.1, 0.6, 0.3]]).log()

    def at(number: float, **settings: float) -> int:
        how = Decoding(temperature=1.0, **settings)  # type: ignore[arg-type]
        return int(draw(table, torch.tensor([number]).double(), how))

    # likeliest first: 1 up to 0.6, 2 up to 0.9, then 0
    assert [at(x) for x in (0.0, 0.59, 0.61, 0.89, 0.91, 0.9999)] == [1, 1, 2, 2, 0, 0]
    assert [at(x, top_k=2) for x in (0.66, 0.67, 0.9999)] == [1, 2, 2]  # 2/3 and 1/3
    assert [at(x, top_p=0.6) for x in (0.1, 0.9999)] == [1, 1]
    assert [at(x, top_p=0.61) for x in (0.66, 0.67, 0.9999)] == [1, 2, 2]


def test_samples_have_the_right_shares_and_do_not_depend_on_neighbours() -> None:
    how = Decoding(longest=1, temperature=1.0, seed=3)
    found = write(scores, range(4000), END, how)
    share = Counter(one.ids for one in found)[(A,)] / 4000
    assert abs(share - 0.6) < 4 * math.sqrt(0.6 * 0.4 / 4000)
    longer = Decoding(longest=5, temperature=1.3)
    whole = write(scores, range(20), END, longer)
    assert whole[7:8] == write(scores, [7], END, longer)
    assert whole[::-1] == write(scores, range(19, -1, -1), END, longer)
    other = write(scores, range(20), END, Decoding(longest=5, temperature=1.3, seed=1))
    assert [one.ids for one in whole] != [one.ids for one in other]


def test_temperature_sharpens() -> None:
    cold = write(scores, range(200), END, Decoding(longest=1, temperature=0.1))
    assert Counter(one.ids for one in cold)[(A,)] > 180


@pytest.mark.parametrize(
    "settings",
    [{"longest": 0}, {"beams": 0}, {"top_p": 0.0}, {"temperature": -1.0},
     {"beams": 2, "temperature": 1.0}],
)  # fmt: skip
def test_settings_that_mean_nothing(settings: dict) -> None:
    with pytest.raises(UserError):
        Decoding(**settings)
