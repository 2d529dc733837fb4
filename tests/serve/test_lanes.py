"""Batches side by side: who gets how many threads, who runs beside whom, what stays whole."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from tianci.serve.batcher import SIDE, Batcher
from tianci.serve.lanes import usual_lanes
from tianci.serve.work import Embed, Write
from tianci.serve.writing import Writing


@dataclass(frozen=True, eq=False)
class Meeting:
    """Waits, in each batch, until `parties` batches run at once; tells who ran with what."""

    parties: int = 1
    shares: bool = True
    patient: bool = False
    told: list[tuple[list[int], str]] = field(default_factory=list)
    hold: threading.Event = field(default_factory=threading.Event)
    begun: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        object.__setattr__(self, "barrier", threading.Barrier(self.parties))

    def run(self, items: Sequence[int], step: Callable[[], None]) -> list[int]:
        self.told.append((list(items), threading.current_thread().name))
        self.begun.set()
        assert self.hold.wait(20)
        self.barrier.wait(20)  # type: ignore[attr-defined]
        if 13 in items:
            raise ValueError("poison")
        return [2 * item for item in items]


def started(**more: Any) -> tuple[Batcher, list[tuple[str, int]]]:
    """Two lanes over four threads, and what each of them was told to use."""
    used: list[tuple[str, int]] = []

    def use(threads: int) -> None:
        used.append((threading.current_thread().name, threads))

    return Batcher(100, 1000, lanes=2, threads=4, use=use, **more), used


async def begun(kind: Meeting) -> None:
    assert await asyncio.to_thread(kind.begun.wait, 20)


def test_one_input_has_all_threads_and_several_share_them() -> None:
    async def scene() -> None:
        batcher, used = started()
        alone, both = Meeting(), Meeting(parties=2)
        both.hold.set()
        first = batcher.submit(alone, [1], [10])
        await begun(alone)
        rest = [batcher.submit(both, [n], [10]) for n in (2, 3, 4, 5)]
        assert batcher.inputs == 4 and not both.told  # nothing runs beside one that has it all
        alone.hold.set()
        assert await first.future == [2]
        assert [await job.future for job in rest] == [[4], [6], [8], [10]]
        # the barrier was passed, so these two ran at the same time
        assert sorted(items for items, _ in both.told) == [[2, 3], [4, 5]]
        assert {name for _, name in both.told} == {"inference-0", "inference-1"}
        assert used == [("inference-0", 4), *used[1:]] and set(used[1:]) == {
            ("inference-0", 2),
            ("inference-1", 2),
        }
        batcher.stop()

    asyncio.run(scene())


def test_one_that_had_to_wait_leaves_room_for_others() -> None:
    async def scene() -> None:
        batcher, used = started()
        first, second, third = Meeting(), Meeting(), Meeting()
        third.hold.set()
        jobs = [batcher.submit(first, [1], [10])]
        await begun(first)
        jobs.append(batcher.submit(second, [2], [10]))
        first.hold.set()
        await begun(second)
        jobs.append(batcher.submit(third, [3], [10]))
        assert await jobs[2].future == [6]  # while the second one still runs
        second.hold.set()
        assert [await job.future for job in jobs[:2]] == [[2], [4]]
        assert used == [("inference-0", 4), ("inference-0", 2), ("inference-1", 2)]
        batcher.stop()

    asyncio.run(scene())


def test_batches_beside_others_stay_small() -> None:
    async def scene() -> None:
        batcher = Batcher(10_000, 100_000, lanes=2, threads=2)
        kind = Meeting()
        kind.hold.set()
        job = batcher.submit(kind, list(range(20, 40)), [SIDE // 4] * 20)
        assert await job.future == [2 * n for n in range(20, 40)]
        assert [len(items) for items, _ in kind.told] == [4] * 5
        batcher.stop()

    asyncio.run(scene())


def test_one_request_is_shared_out_and_comes_back_whole() -> None:
    async def scene() -> None:
        batcher, _ = started()
        kind = Meeting(parties=2)
        kind.hold.set()
        job = batcher.submit(kind, list(range(20, 30)), [3, 1, 4, 1, 5, 9, 2, 6, 5, 3])
        assert await job.future == [2 * n for n in range(20, 30)]
        assert sorted(len(items) for items, _ in kind.told) == [5, 5]  # 14 and 25 of 39 tokens
        batcher.stop()

    asyncio.run(scene())


def test_a_lane_that_is_free_takes_what_comes() -> None:
    async def scene() -> None:
        batcher, _ = started()
        kind = Meeting()
        two = batcher.submit(kind, [1, 2], [1, 1])  # one each
        await begun(kind)
        later = batcher.submit(kind, [3, 4], [1, 1])
        assert batcher.inputs == 2
        kind.hold.set()
        assert await two.future == [2, 4] and await later.future == [6, 8]
        batcher.stop()

    asyncio.run(scene())


def test_work_that_does_not_share_runs_alone_and_is_not_overtaken() -> None:
    async def scene() -> None:
        batcher, _ = started()
        shared, single, younger = Meeting(parties=2), Meeting(shares=False), Meeting()
        single.hold.set()
        younger.hold.set()
        jobs = [batcher.submit(shared, [1, 2], [1, 1])]
        await begun(shared)
        jobs.append(batcher.submit(single, [3, 4], [1, 1]))
        jobs.append(batcher.submit(younger, [5], [1]))
        assert batcher.inputs == 3
        dropped = batcher.submit(single, [6], [1])
        batcher.drop(dropped)
        shared.hold.set()
        assert [await job.future for job in jobs] == [[2, 4], [6, 8], [10]]
        assert single.told == [([3, 4], "inference-0")]  # both at once, by the first lane
        batcher.stop()

    asyncio.run(scene())


def test_what_waits_behind_dropped_work_goes_on() -> None:
    async def scene() -> None:
        batcher, _ = started()
        shared, single = Meeting(), Meeting(shares=False)
        one = batcher.submit(shared, [1, 2], [50, 50])
        await begun(shared)
        blocked, after = batcher.submit(single, [3], [1]), Meeting()
        after.hold.set()
        behind = batcher.submit(after, [4], [1])
        batcher.drop(blocked)
        shared.hold.set()
        assert await one.future == [2, 4] and await behind.future == [8]
        assert not single.told and batcher.inputs == batcher.waiting == 0
        batcher.stop()

    asyncio.run(scene())


def test_poison_in_one_lane_fails_alone() -> None:
    async def scene() -> None:
        batcher, _ = started()
        kind = Meeting()
        kind.hold.set()
        jobs = [batcher.submit(kind, [n], [1]) for n in (1, 2, 13, 4, 5)]
        found = await asyncio.gather(*(job.future for job in jobs), return_exceptions=True)
        assert found[:2] == [[2], [4]] and found[3:] == [[8], [10]]
        assert isinstance(found[2], ValueError)
        batcher.stop()

    asyncio.run(scene())


def test_the_first_lane_loads_before_it_answers() -> None:
    async def scene() -> None:
        batcher, used = started()
        go, where = threading.Event(), []

        def load() -> None:
            where.append(threading.current_thread().name)
            assert go.wait(20)

        loading = batcher.first(load)
        kind = Meeting()
        kind.hold.set()
        job = batcher.submit(kind, [1], [1])
        assert not kind.told
        go.set()
        assert await job.future == [2] and loading.done() and where == ["inference-0"]
        assert used == [("inference-0", 4), ("inference-0", 2)]  # it had to wait, so it shares

        def fail() -> None:
            raise OSError("no such model")

        with pytest.raises(OSError, match="no such model"):
            await asyncio.wrap_future(batcher.first(fail))
        assert await batcher.submit(kind, [2], [1]).future == [4]  # the lane lives
        batcher.stop()

    asyncio.run(scene())


def test_who_may_run_side_by_side() -> None:
    model: Any = SimpleNamespace(engine="torch")
    other: Any = SimpleNamespace(engine="openvino")
    assert Embed(model).shares and Embed(other).shares
    assert not Write(model, Writing()).shares  # lets others in between its steps


def test_how_many_lanes() -> None:
    assert [usual_lanes(n) for n in (1, 2, 4, 64)] == [1, 2, 4, 4]
