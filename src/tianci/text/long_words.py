"""Refuses a "word" of a hundred thousand characters, before a bpe engine sees it.

The engine keeps all pairs of a word in the order of their rank: n log n, and dearer still once a
word outgrows the caches. Up to the limit its cost is a line; texts of any length stay one, too, as
long as no word in them is longer.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from tianci.errors import UserError

LONGEST = 1 << 16  # characters; whatever is twice as long is refused wherever it stands
# letters, digits, signs: what pre-tokenizers keep together
RUN = re.compile(r"[^\W\d_]+|\d+|[^\w\s]+|_+")


def check(texts: Sequence[str]) -> None:
    """A UserError where a text has a block of LONGEST characters of one kind."""
    for text in texts:
        # a run of twice the length covers a whole block, so nothing between has to be looked at
        for begin in range(0, len(text) - LONGEST + 1, LONGEST):
            run = RUN.match(text, begin, begin + LONGEST)
            if run is not None and run.end() == begin + LONGEST:
                raise UserError(
                    f"a word of {LONGEST:,} characters and more (at character {begin + 1:,} of the "
                    "text), which is too long for a byte-pair vocabulary; break it up by spaces"
                )
