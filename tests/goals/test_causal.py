"""The causal objective: contexts by hand, a loss by hand, every token guessed once."""

from __future__ import annotations

from itertools import islice
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from tests.goals.tiny import ids, store, tokenizer
from tianci import checkpoint
from tianci.batch import Batch
from tianci.data.memory import MemoryStore
from tianci.errors import UserError
from tianci.goals.objectives import parse
from tianci.goals.objectives.causal import Causal, guessing
from tianci.models import gpt2
from tianci.train.audit import audit
from tianci.train.examples import Examples, Position, Recipe

CLS, SEP = ids("[CLS] [SEP]")
RNG = np.random.default_rng(0)


def contexts(sizes: list[int], length: int, packing: Any = "document") -> list[list[int]]:
    """The contexts of documents whose tokens are 10, 11, 12, ..."""
    tokens = iter(range(10, 100))
    documents = MemoryStore([[list(islice(tokens, size))] for size in sizes])
    recipe = Recipe(parse("causal"), length, 0.1, 512, 0, packing)
    batches = Examples(documents, tokenizer(), recipe).fixed(10**6)
    rows = [r.tolist() for b in batches for r in b.tokens.split(list(b.layout.lengths))]
    return sorted(rows, key=lambda row: [token for token in row if token >= 10])


def test_contexts_overlap_by_one_token() -> None:
    found = contexts([11], 6)
    assert found == [[CLS, 10, 11, 12, 13, 14], [14, 15, 16, 17, 18, 19], [19, 20, SEP]]
    assert contexts([4], 6) == [[CLS, 10, 11, 12, 13, SEP]]
    assert contexts([5], 6) == [[CLS, 10, 11, 12, 13, 14], [14, SEP]]


def test_packing_full_goes_on_in_the_next_document() -> None:
    assert contexts([2, 3, 3], 6, "full") == [
        [CLS, 10, 11, SEP, 12, 13],
        [13, 14, SEP, 15, 16, 17],
        [17, SEP],
    ]


def test_all_but_the_last_place_guess() -> None:
    batch = Batch.of([[5, 6, 7], [8], [9, 9]])
    assert guessing(batch.layout).tolist() == [0, 1, 4]
    assert Causal().count(batch) == 3


def test_loss_is_the_cross_entropy_of_the_next_token() -> None:
    torch.manual_seed(0)
    made = checkpoint.create("gpt2", gpt2.Config(23, 16, 2, 2, 32, 20), ("causal",))
    made.model.eval()
    batch = Batch.of([[5, 6, 7, 8], [9, 10]])
    states = made.model(batch)
    loss = Causal().loss(made.model, made.heads, states, batch)
    logits = states.last @ made.model.token_table().T
    expected = F.cross_entropy(logits[[0, 1, 2, 4]], torch.tensor([6, 7, 8, 10]), reduction="sum")
    assert loss.total.item() == pytest.approx(expected.item(), rel=1e-5)
    loss.total.backward()
    assert all(p.grad is not None and p.grad.abs().sum() > 0 for p in made.model.parameters())


@pytest.mark.parametrize("packing", ["document", "full"])
def test_goes_on_from_any_position(packing: Any) -> None:
    def drawn(position: Position, count: int) -> list[tuple[Batch, Position]]:
        recipe = Recipe(parse("causal"), 24, 0.1, 300, 1, packing)
        made = Examples(store(documents=12, sentences=8), tokenizer(), recipe)
        made.pool_tokens = 700
        return [(p.batch(n), after) for p, n, after in islice(made.draws(position), count)]

    every = drawn(Position(), 30)
    assert every[-1][1].epoch >= 1
    for number, (_, position) in list(enumerate(every[:-1]))[::5]:
        (batch, after), (expected, where) = drawn(position, 1)[0], every[number + 1]
        assert after == where and batch.layout.lengths == expected.layout.lengths
        assert torch.equal(batch.tokens, expected.tokens)


class Overlaps(Causal):
    """A planted fault: contexts that overlap by two tokens."""

    def cut(self, sentences: Any, length: int, rng: Any) -> Any:
        for number, example in enumerate(super().cut(sentences, length, rng)):
            start, stop = example.a
            yield example._replace(a=(start - (number > 0), stop))


class NoEnd(Causal):
    """A planted fault: the end token is forgotten."""

    def lay(self, text: Any, example: Any, marks: Any, rng: Any) -> Any:
        return super().lay(text, example._replace(closes=False), marks, rng)


@pytest.mark.parametrize("packing", ["document", "full"])
def test_audit_of_sound_contexts(packing: Any) -> None:
    recipe = Recipe(parse("causal"), 32, 0.1, 2048, 3, packing)
    report = audit(Examples(store(documents=60), tokenizer(), recipe))
    assert report.off == [] and report.tokens > 5_000 and len(report.samples) == 10
    assert {"text", "once", "inside_document", "mean_length", "shorter"} <= set(report.rates)
    if packing == "full":
        assert report.rates["shorter"].value < 0.05


@pytest.mark.parametrize(("fault", "off"), [(Overlaps, ["once"]), (NoEnd, ["text"])])
def test_audit_names_a_fault(fault: type[Causal], off: list[str]) -> None:
    from tianci.goals.base import Joint

    recipe = Recipe(Joint((fault(),)), 32, 0.1, 2048, 3)
    assert audit(Examples(store(documents=60), tokenizer(), recipe)).off == off


def test_alone() -> None:
    with pytest.raises(UserError, match="causal makes sequences of its own; train it alone"):
        parse("causal+masked")


def test_a_vocabulary_without_borders() -> None:
    bare = tokenizer(["[UNK]", "a", "b"])
    with pytest.raises(UserError, match="causal needs a token before and one behind a text"):
        Causal().marks(bare)
    both = tokenizer(["[UNK]", "a", "<|endoftext|>"])  # GPT-2's: one token for both
    assert Causal().marks(both)[:2] == (2, 2)
