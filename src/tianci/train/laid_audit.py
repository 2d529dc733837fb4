"""The audit of objectives that lay out their own sequences (causal, span, prefix)."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field

import numpy as np
import torch

from tianci.batch import Batch
from tianci.goals.laying import Ids, Laid, Laying
from tianci.goals.objectives.segments import Example
from tianci.train.audit import SHOWN, Count, Rate, Report, Sample, mean_rate
from tianci.train.examples import Examples
from tianci.train.laid import LaidPool

ALWAYS = {"text": 1.0, "inside_document": 1.0, "once": 1.0}  # what every such objective promises


@dataclass
class LaidAudit:
    """Counts over finished batches, taken back to the text they were made of."""

    examples: Examples
    laying: Laying
    counts: dict[str, Count] = field(default_factory=dict)
    lengths: list[int] = field(default_factory=list)

    def run(self, tokens: int) -> Report:
        samples: list[Sample] = []
        before = None
        for pool, numbers in self.examples.once(tokens):
            assert isinstance(pool, LaidPool)
            if pool is not before:
                self._cover(pool)
                before = pool
            found = taken_back(pool.batch(numbers))
            for laid, number in zip(found, pool.sort(numbers).tolist(), strict=True):
                self._text(laid, pool.examples[number])
            samples = samples or self._samples(found)
        return Report(self._rates(), sum(self.lengths), len(self.lengths), samples)

    def _count(self, name: str) -> Count:
        return self.counts.setdefault(name, Count())

    def _cover(self, pool: LaidPool) -> None:
        """Whether every token of the pool's documents is in exactly one example."""
        documents = {self._document(example.a[0]) for example in pool.examples}
        borders = [self.examples.store.sentences(d)[[0, -1]].tolist() for d in sorted(documents)]
        whole = np.concatenate([np.arange(*pair) for pair in borders])
        found = [np.arange(*self.laying.own(example)) for example in pool.examples]
        tokens, times = np.unique(np.concatenate(found), return_counts=True)
        self._count("once").add(np.isin(tokens[times == 1], whole).sum(), len(whole))

    def _text(self, laid: Laid, example: Example) -> None:
        """Whether the tokens are those of the corpus, with the special tokens in their places."""
        marks, (start, stop) = self.examples.marks, example.a
        text = self.examples.store.read(start, stop)
        back = self.laying.restored(laid, example, marks)
        same = 0 if back is None or len(back) != len(text) else int(np.sum(back == text))
        self._count("text").add(same, len(text))
        borders = self.examples.store.sentences(self._document(start))
        inside = stop <= borders[-1] and example.opens == (start == borders[0])
        ends = stop == borders[-1] or not example.closes
        self._count("inside_document").add(inside and ends, 1)
        length = len(laid.ids)
        self._count("shorter").add(length < self.examples.recipe.length, 1)
        self.lengths.append(length + (0 if laid.decoder is None else len(laid.decoder)))
        for name, (hits, cases) in self.laying.shares(laid, marks).items():
            self._count(name).add(hits, cases)
        unknown = self.examples.tokenizer.unknown
        if unknown is not None:
            self._count("unknown").add((text == unknown).sum(), len(text))

    def _document(self, token: int) -> int:
        store = self.examples.store
        first = lambda d: int(store.sentences(d)[0])  # noqa: E731  (bisect wants a key)
        return bisect_right(range(store.count()), token, key=first) - 1

    def _rates(self) -> dict[str, Rate]:
        promised: dict[str, float | None] = {
            **ALWAYS,
            **self.laying.promised(),
            "unknown": None,
            "shorter": None,
        }
        rates = {
            name: self.counts[name].rate(value)
            for name, value in promised.items()
            if name in self.counts and self.counts[name].cases
        }
        if self.lengths:
            rates["mean_length"] = mean_rate(self.lengths)
        return rates

    def _samples(self, found: list[Laid]) -> list[Sample]:
        """Some examples of the batch, from the longest to the shortest; targets behind."""
        shown = np.linspace(0, len(found) - 1, min(SHOWN, len(found))).astype(int)
        samples = []
        for number in shown.tolist():
            laid = found[number]
            target = laid.decoder if laid.decoder is not None else laid.ids[:0]
            ids = np.r_[laid.ids, target].tolist()
            names = [self.examples.tokenizer.token(i) for i in ids]
            second = np.arange(len(ids)) >= (laid.prefix or len(laid.ids))
            marks = [""] * len(ids)
            samples.append(Sample(names, names, marks, second.astype(int).tolist(), ""))
        return samples


def taken_back(batch: Batch) -> list[Laid]:
    """The examples of a batch, as the model gets them."""

    def rows(part: Batch) -> list[Ids]:
        return [row.numpy() for row in torch.split(part.tokens, list(part.layout.lengths))]

    sources = rows(batch)
    prefixes = batch.layout.prefix or (0,) * len(sources)
    targets: list[Ids] | list[None] = (
        rows(batch.decoder) if batch.decoder else [None] * len(sources)
    )
    return [Laid(*one) for one in zip(sources, prefixes, targets, strict=True)]
