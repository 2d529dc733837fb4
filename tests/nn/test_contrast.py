"""Contrastive losses: by hand, against sentence-transformers' definitions, gradients that flow."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F

from tianci.nn.contrast import cosent, info_nce

NOBODY = torch.eye(2, dtype=torch.bool)


def test_info_nce_by_hand() -> None:
    first = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
    second = torch.tensor([[1.0, 0.0], [0.6, 0.8]])
    total, hits = info_nce(first, second, NOBODY, temperature=0.5)
    # cosines times 2: rows [2, 1.2], [0, 1.6]; columns [2, 0], [1.2, 1.6]
    rows = math.log(1 + math.exp(-0.8)) + math.log(1 + math.exp(-1.6))
    columns = math.log(1 + math.exp(-2)) + math.log(1 + math.exp(-0.4))
    assert total.item() == pytest.approx((rows + columns) / 2)
    assert hits.item() == 2


def test_who_shares_a_text_is_no_stranger() -> None:
    vectors = F.normalize(torch.randn(3, 4, generator=torch.Generator().manual_seed(0)), dim=1)
    shared = torch.tensor([[1, 1, 0], [1, 1, 0], [0, 0, 1]]).bool()
    total, _ = info_nce(vectors, vectors, shared, 0.5)
    near = vectors @ vectors.T / 0.5
    both = sum(
        math.log(sum(math.exp(near[i, j] - near[i, i]) for j in range(3) if i == j or j == 2))
        for i in (0, 1)
    )
    last = math.log(sum(math.exp(near[2, j] - near[2, 2]) for j in range(3)))
    # the products are symmetric here, so that both ways cost the same
    assert total.item() == pytest.approx(both + last, rel=1e-5)


def test_cosent_by_hand() -> None:
    cosine = torch.tensor([0.9, 0.5, 0.7])
    total, ordered = cosent(cosine, torch.tensor([5.0, 3.0, 1.0]), temperature=0.1)
    # above each other: 1 over 2, 1 over 3, 2 over 3 (the last one is the wrong way round)
    terms = [math.exp((0.5 - 0.9) / 0.1), math.exp((0.7 - 0.9) / 0.1), math.exp((0.7 - 0.5) / 0.1)]
    assert total.item() == pytest.approx(3 * math.log(1 + sum(terms)), rel=1e-5)
    assert ordered.item() == pytest.approx(3 * 2 / 3)
    nothing, _ = cosent(cosine, torch.ones(3), 0.1)
    assert nothing.item() == 0.0


def test_as_sentence_transformers() -> None:
    losses = pytest.importorskip("sentence_transformers.sentence_transformer.losses")
    torch.manual_seed(1)
    first, second = torch.randn(6, 8), torch.randn(6, 8)
    one, two = F.normalize(first, dim=1), F.normalize(second, dim=1)
    gold = torch.tensor([1.0, 0.2, 0.2, 0.7, 0.5, 0.0])
    theirs = losses.CoSENTLoss(torch.nn.Identity(), scale=20.0)
    expected = theirs.compute_loss_from_embeddings([first, second], gold)
    ours, _ = cosent((one * two).sum(1), gold, 0.05)
    torch.testing.assert_close(ours / 6, expected)
    theirs = losses.MultipleNegativesRankingLoss(
        torch.nn.Identity(), scale=20.0, directions=("query_to_doc", "doc_to_query"),
        partition_mode="per_direction",
    )  # fmt: skip
    expected = theirs.compute_loss_from_embeddings([first, second], None)
    ours, _ = info_nce(one, two, torch.eye(6, dtype=torch.bool), 0.05)
    torch.testing.assert_close(ours / 6, expected)


def test_half_precision_does_not_reach_the_cosines() -> None:
    torch.manual_seed(2)
    one, two = (F.normalize(torch.randn(4, 8), dim=1).requires_grad_() for _ in range(2))
    exact, _ = info_nce(one, two, torch.eye(4, dtype=torch.bool), 0.05)
    with torch.autocast("cpu", torch.bfloat16):
        total, _ = info_nce(one, two, torch.eye(4, dtype=torch.bool), 0.05)
    assert torch.equal(total, exact)
    total.backward()
    assert one.grad is not None and one.grad.abs().sum() > 0
