"""The bar of a training run: how much of it is done, and how long the rest will take."""

from __future__ import annotations

from tqdm import tqdm

FORM = "{percentage:3.0f}%|{bar}| {elapsed}<{remaining} {postfix}"


class Bar:
    """Shows shares of a run from 0 to 1."""

    def __init__(self, quiet: bool, resumed: bool, leave: bool = True):
        self._bar = tqdm(total=1.0, disable=quiet, leave=leave, bar_format=FORM)
        # what an earlier process did took none of the time that is counted here
        self._earlier = resumed

    def show(self, share: float, text: str) -> None:
        """So much of the run is done."""
        share = min(1.0, share)
        if self._earlier:
            self._bar.initial, self._earlier = share, False
        self._bar.n = share
        self._bar.set_postfix_str(text)

    def close(self) -> None:
        """Leaves the bar as it is, or takes it away."""
        self._bar.close()
