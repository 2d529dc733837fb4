"""Where a row begins to count as positive: what each threshold would give, counted once here, so
that the page only looks it up."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tianci.metrics.threshold import GRID
from tianci.train.history import number, table
from tianci.tune.report_facts import details, label_names, numbers

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Reading:
    """What one threshold gives; NaN where it divides by nothing."""

    threshold: float
    precision: float
    recall: float
    f1: float
    accuracy: float
    fall_out: float
    confusion: tuple[tuple[int, int], tuple[int, int]]  # right: no, yes; said: no, yes


@dataclass(frozen=True)
class Sweep:
    """True and false positives at each stop, and at which stop the model stands."""

    stops: list[float]
    true: Ints
    false: Ints
    positives: int
    negatives: int
    at: int
    names: tuple[str, str]

    def reading(self, stop: int) -> Reading:
        yes, wrong = int(self.true[stop]), int(self.false[stop])
        rows = self.positives + self.negatives
        return Reading(
            threshold=self.stops[stop],
            precision=_share(yes, yes + wrong),
            recall=_share(yes, self.positives),
            f1=_share(2 * yes, yes + wrong + self.positives),
            accuracy=_share(yes + self.negatives - wrong, rows),
            fall_out=_share(wrong, self.negatives),
            confusion=((self.negatives - wrong, wrong), (self.positives - yes, yes)),
        )

    def readings(self) -> list[Reading]:
        return [self.reading(stop) for stop in range(len(self.stops))]

    def as_json(self) -> str:
        """For the script of the page."""
        data = {
            "stops": self.stops,
            "true": self.true.tolist(),
            "false": self.false.tolist(),
            "positives": self.positives,
            "negatives": self.negatives,
            "at": self.at,
        }
        return json.dumps(data, separators=(",", ":"))


def sweep_of(record: dict[str, Any]) -> Sweep | None:
    """The counts of a task with two labels; None where the record has no probabilities."""
    found = details(record)
    probability, gold = numbers(found.get("dev_probabilities")), numbers(found.get("dev_gold"))
    if not len(gold) or len(probability) != len(gold):
        return None
    limit = number(table(record.get("decision")).get("threshold"))
    limit = limit if math.isfinite(limit) else 0.5
    # the model's own threshold may lie between the stops
    stops = sorted({0.0, *GRID.tolist(), 1.0, limit})
    no, yes = label_names(record, 2)
    positive = gold == 1
    return Sweep(
        stops=stops,
        true=_from(probability[positive], stops),
        false=_from(probability[~positive], stops),
        positives=int(positive.sum()),
        negatives=int((~positive).sum()),
        at=stops.index(limit),
        names=(no, yes),
    )


def _from(probability: NDArray[np.float64], stops: list[float]) -> Ints:
    """How many lie at or above each stop."""
    known = np.sort(probability[np.isfinite(probability)])  # NaN is never said to be positive
    return len(known) - np.searchsorted(known, stops, side="left")


def _share(part: int, of: int) -> float:
    return part / of if of else math.nan
