"""The CRF against all label sequences, written out one by one."""

from __future__ import annotations

import math
from itertools import product

import pytest
import torch
from torch import Tensor

from tianci.nn.crf import Chain, ChainField

LENGTHS = [3, 1, 4, 2]
LABELS = 3
FORBIDDEN = torch.tensor(
    [[False, False, True], [False, False, False], [False, True, False], [False, False, True]]
)


def field(seed: int = 0) -> ChainField:
    torch.manual_seed(seed)
    made = ChainField(LABELS).double()
    for parameter in made.parameters():
        parameter.data.normal_()
    return made


def scores(seed: int = 1) -> tuple[Tensor, Tensor]:
    torch.manual_seed(seed)
    emissions = torch.randn(sum(LENGTHS), LABELS, dtype=torch.float64, requires_grad=True)
    return emissions, torch.randint(0, LABELS, (sum(LENGTHS),))


def weight(crf: ChainField, emissions: Tensor, path: tuple[int, ...]) -> Tensor:
    """The score of one label sequence, by definition."""
    total = crf.begin[path[0]] + crf.end[path[-1]]
    for at, label in enumerate(path):
        total = total + emissions[at, label]
        if at:
            total = total + crf.step[path[at - 1], label]
    return total


def valid(path: tuple[int, ...]) -> bool:
    steps = zip((LABELS, *path), path, strict=False)
    return not any(FORBIDDEN[one, other] for one, other in steps)


def paths(length: int) -> list[tuple[int, ...]]:
    return list(product(range(LABELS), repeat=length))


def test_two_words_by_hand() -> None:
    crf = ChainField(2)
    crf.step.data[0, 1] = math.log(2)
    crf.begin.data[1] = math.log(3)
    # weights of 00, 01, 10, 11: 1, 2, 3, 3
    loss = crf.loss(torch.zeros(2, 2), torch.tensor([0, 1]), [2])
    assert loss.item() == pytest.approx(-math.log(2 / 9))
    assert crf.chain.marginals(torch.zeros(2, 2), [2]).flatten().tolist() == pytest.approx(
        [3 / 9, 6 / 9, 4 / 9, 5 / 9]
    )


def test_loss_and_gradients_equal_the_sum_over_all_sequences() -> None:
    crf, (emissions, gold) = field(), scores()
    expected = torch.zeros((), dtype=torch.float64)
    for part, right in zip(emissions.split(LENGTHS), gold.split(LENGTHS), strict=True):
        every = torch.stack([weight(crf, part, path) for path in paths(len(part))])
        expected = expected + every.logsumexp(0) - weight(crf, part, tuple(right.tolist()))
    ours = crf.loss(emissions, gold, LENGTHS)
    torch.testing.assert_close(ours, expected)
    inputs = (emissions, *crf.parameters())
    for mine, theirs in zip(
        torch.autograd.grad(ours, inputs), torch.autograd.grad(expected, inputs), strict=True
    ):
        torch.testing.assert_close(mine, theirs)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("barred", [False, True])
def test_viterbi_finds_the_best_sequence(seed: int, barred: bool) -> None:
    crf, (emissions, _) = field(seed), scores(seed + 10)
    found = crf.decode(emissions, LENGTHS, FORBIDDEN if barred else None)
    for part, path in zip(emissions.split(LENGTHS), found, strict=True):
        allowed = [one for one in paths(len(part)) if not barred or valid(one)]
        assert tuple(path) == max(allowed, key=lambda one: weight(crf, part, one).item())


@pytest.mark.parametrize("barred", [False, True])
def test_marginals_equal_the_sum_over_all_sequences(barred: bool) -> None:
    crf, (emissions, _) = field(), scores()
    chain = crf.chain.barring(FORBIDDEN) if barred else crf.chain
    found = chain.marginals(emissions, LENGTHS)
    for part, ours in zip(emissions.split(LENGTHS), found.split(LENGTHS), strict=True):
        allowed = [one for one in paths(len(part)) if not barred or valid(one)]
        share = torch.stack([weight(crf, part, one) for one in allowed]).softmax(0)
        for at, label in product(range(len(part)), range(LABELS)):
            here = torch.tensor([one[at] == label for one in allowed])
            assert ours[at, label].item() == pytest.approx(share[here].sum().item(), abs=1e-12)


def test_neighbours_in_the_batch_change_nothing() -> None:
    crf, (emissions, gold) = field(), scores()
    parts = list(zip(emissions.split(LENGTHS), gold.split(LENGTHS), strict=True))
    alone = sum(crf.loss(part, right, [len(part)]) for part, right in parts)
    torch.testing.assert_close(crf.loss(emissions, gold, LENGTHS), alone)
    single = [crf.decode(part, [len(part)])[0] for part, _ in parts]
    assert crf.decode(emissions, LENGTHS) == single


def test_a_free_chain_takes_the_best_label_of_each_word() -> None:
    emissions = torch.tensor([[0.0, 2.0, 1.0], [3.0, 0.0, 0.0], [0.0, 0.0, 9.0]])
    assert Chain.free(3).best(emissions, [2, 0, 1]) == [[1, 0], [], [2]]
    assert Chain.free(3).best(emissions[:0], [0, 0]) == [[], []]
    assert Chain.free(3).marginals(emissions[:0], [0]).shape == (0, 3)


def test_what_is_barred_never_wins_however_loud() -> None:
    emissions = torch.tensor([[0.0, 0.0, 1e6], [0.0, 0.0, 1e6], [0.0, 0.0, 1e6]])
    # label 2 may follow 1 and 2 only: the first word pays for it
    assert Chain.free(3).barring(FORBIDDEN).best(emissions, [3]) == [[1, 2, 2]]
    marginals = Chain.free(3).barring(FORBIDDEN).marginals(emissions, [3])
    assert marginals.isfinite().all() and marginals[0].tolist() == [0.0, 1.0, 0.0]
