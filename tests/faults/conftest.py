"""One process that forks all commands of these tests, and the small models they start from."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.faults.children import Children
from tests.faults.runs import Runs
from tests.matrix.families import Place


@pytest.fixture(scope="session")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Runs:
    made = Runs(Place(tmp_path_factory.mktemp("runs")))
    made.prepare()
    return made


@pytest.fixture(scope="session")
def children(runs: Runs, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Children]:
    made = Children(tmp_path_factory.mktemp("said"))
    runs.warm(made)
    yield made
    made.close()
