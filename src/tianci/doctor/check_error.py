"""A part of the self-test that failed."""

from __future__ import annotations


class CheckError(Exception):
    """A check that did not come out as it should: what was seen, and the way out."""

    def __init__(self, said: str, advice: str):
        super().__init__(said)
        self.advice = advice
