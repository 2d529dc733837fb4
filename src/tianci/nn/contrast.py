"""Losses that pull vectors of similar texts together and push the others apart.

Shapes: N pairs of texts, W width. All are sums over pairs, as the loop wants them.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor


def info_nce(
    first: Tensor, second: Tensor, equal: Tensor, temperature: float
) -> tuple[Tensor, Tensor]:
    """(summed loss, how many find their partner): who of the batch belongs to whom, both ways.

    first, second (N, W) of length 1; `equal` (N, N) is True where i and j are no strangers (they
    share a text), so that they do not count against each other. SimCSE is the same with one text
    as both partners.
    """
    with _whole(first):
        near = first.float() @ second.float().T / temperature
        stranger = ~equal | torch.eye(len(near), dtype=torch.bool, device=near.device)
        near = near.masked_fill(~stranger, float("-inf"))
        own = torch.arange(len(near), device=near.device)
        there = F.cross_entropy(near, own, reduction="sum")
        back = F.cross_entropy(near.T, own, reduction="sum")
        return (there + back) / 2, torch.eq(near.argmax(1), own).sum()


def cosent(cosine: Tensor, gold: Tensor, temperature: float) -> tuple[Tensor, Tensor]:
    """(N times the loss, N times the share of well-ordered couples) of CoSENT (Su, 2022).

    log(1 + sum of exp((cosine_j - cosine_i) / temperature) over all i, j where gold_i > gold_j):
    only the order of the scores matters, so nobody has to say which cosine a score of 3 means.
    """
    with _whole(cosine):
        above = gold[:, None] > gold[None, :]
        wrong = (cosine[None, :].float() - cosine[:, None].float()) / temperature
        terms = torch.cat([wrong.new_zeros(1), wrong[above]])
        ordered = (wrong[above] < 0).float().sum() / above.sum().clamp(min=1)
        return len(gold) * torch.logsumexp(terms, 0), len(gold) * ordered


def _whole(x: Tensor) -> torch.autocast:
    """No half precision here: divided by 0.05, the third digit of a cosine decides."""
    return torch.autocast(x.device.type, enabled=False)
