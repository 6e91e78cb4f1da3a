"""Leases of a store that a user wrote in Python: the scheduler does with them what it does with the
built-in ones. Each test is run on both, by a clock that moves only when it is told to."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from anarchon import (
    ClaimInput,
    ClaimOutcome,
    JobContext,
    LeaseLostError,
    MemoryBackend,
    RunRecord,
    Scheduler,
)
from anarchon.testing import ManualClock, check_backend
from python.stores.leases import Leases, LeaseStore
from python.tally import tally

Open = Callable[..., Scheduler]

MINUTE = 60_000


class Connection:
    """A replica's way to a store: what it asks fails once the way is cut."""

    def __init__(self, target: Any, end: Connection | None = None) -> None:
        self._target = target
        self._end = self if end is None else end
        self.is_cut = False
        if hasattr(target, "runs"):
            self.runs = Connection(target.runs, self)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        member = getattr(self._target, name)
        if not callable(member):
            return member

        @functools.wraps(member)
        def call(*arguments: Any, **named: Any) -> Any:
            if self._end.is_cut:
                raise ConnectionError("the way to the store is cut")
            return member(*arguments, **named)

        return call


@pytest.fixture(params=["in Python", "built in"])
def store(request: pytest.FixtureRequest, clock: ManualClock) -> Any:
    if request.param == "built in":
        return MemoryBackend(clock=clock)
    return LeaseStore(now=lambda: clock.now_ms)


@pytest.fixture
async def replica(store: Any, clock: ManualClock) -> AsyncIterator[Open]:
    """Makes schedulers on the store; what is still running at the end is stopped."""
    made: list[Scheduler] = []

    def make(name: str, backend: Any = None) -> Scheduler:
        scheduler = Scheduler(backend=backend or store, clock=clock, instance_id=name)
        made.append(scheduler)
        return scheduler

    yield make
    for scheduler in made:
        if isinstance(scheduler.backend, Connection):
            scheduler.backend.is_cut = False
        await stopped(scheduler, clock)


async def stopped(scheduler: Scheduler, clock: ManualClock) -> Any:
    """Stops without grace; the clock is moved on until that is done."""
    stopping = asyncio.ensure_future(scheduler.stop(grace_ms=0))
    while not stopping.done():
        await clock.advance("1s")
    return await stopping


def outline(record: RunRecord) -> tuple[int, str, str, int | None]:
    """What the tests look at."""
    return record.slot, record.by, record.status, record.attempt


async def test_after_a_crash_another_replica_takes_over(
    replica: Open, store: Any, clock: ManualClock
) -> None:
    way = Connection(store)
    first, second = replica("first", way), replica("second")
    entered: list[tuple[str, int, int | None]] = []
    lost: list[str] = []

    async def work(ctx: JobContext) -> str:
        entered.append((ctx.instance_id, ctx.attempt, ctx.fence))
        if ctx.instance_id == "first":
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                assert isinstance(ctx.cancel_reason, LeaseLostError)
                lost.append(ctx.instance_id)
                raise
        return "done"

    begin = clock.now_ms - 1_000
    for scheduler in (first, second):
        scheduler.every("job", "1h", work, jitter_ms=0, lease_ms="30s")
    await first.start()
    await clock.advance("1h")
    await second.start()
    await clock.advance("20s")
    assert [name for name, _, _ in entered] == ["first"]
    way.is_cut = True
    await clock.advance("2m")
    assert [(name, attempt) for name, attempt, _ in entered] == [("first", 1), ("second", 2)]
    assert entered[1][2] is not None
    assert entered[0][2] is not None
    assert entered[1][2] > entered[0][2], "the heir has a greater fence"
    assert lost == ["first"]
    [record] = await second.history("job")
    assert outline(record) == (begin + 60 * MINUTE, "second", "succeeded", 2)


async def test_a_run_that_kills_its_replicas_is_lost_in_the_end(
    replica: Open, store: Any, clock: ManualClock
) -> None:
    ways = [Connection(store) for _ in range(3)]
    entered: list[str] = []

    async def work(ctx: JobContext) -> None:
        entered.append(ctx.instance_id)
        ways[int(ctx.instance_id)].is_cut = True
        await asyncio.Event().wait()

    for number, way in enumerate(ways):
        one = replica(str(number), way)
        one.every("job", "1d", work, jitter_ms=0, lease_ms="30s", max_takeovers=1)
        await one.start()
    await clock.advance("1d")
    await clock.advance("3m")
    assert len(entered) == 2, "the first grant and one takeover"
    reader = replica("reader")
    [record] = await reader.history("job")
    assert (record.status, record.attempt) == ("lost", 2)


async def test_a_slot_that_meets_an_unfinished_run_is_skipped(
    replica: Open, clock: ManualClock
) -> None:
    one, other = replica("one"), replica("other")
    gate = asyncio.Event()
    ran: list[int] = []

    async def work(ctx: JobContext) -> None:
        ran.append(ctx.slot)
        await gate.wait()

    for scheduler in (one, other):
        scheduler.every("job", "1m", work, jitter_ms=0, lease_ms="30s", overlap="skip")
        await scheduler.start()
    begin = clock.now_ms - 1_000
    await clock.advance("2m")
    assert ran == [begin + MINUTE], "the second slot met the first run"
    gate.set()
    await clock.settle()
    await clock.advance("1m")
    assert ran == [begin + MINUTE, begin + 3 * MINUTE]
    records = await one.history("job")
    assert [(record.slot, record.status) for record in records] == [
        (begin + 3 * MINUTE, "succeeded"),
        (begin + 2 * MINUTE, "skipped"),
        (begin + MINUTE, "succeeded"),
    ]


@pytest.mark.parametrize("how", ["latest", "all", "none"])
async def test_what_was_missed_while_nobody_was_there_is_made_up_for(
    how: Any, replica: Open, clock: ManualClock
) -> None:
    ran: list[tuple[int, str]] = []
    missed: list[Any] = []

    async def work(ctx: JobContext) -> None:
        ran.append((ctx.slot, ctx.trigger))

    begin = clock.now_ms - 1_000
    before, after = replica("before"), replica("after")
    before.every("job", "1h", work, jitter_ms=0, catch_up=how)
    await before.start()
    await clock.advance("1h")
    await stopped(before, clock)
    assert ran == [(begin + 60 * MINUTE, "slot")]
    await clock.advance("4h30m")
    after.every("job", "1h", work, jitter_ms=0, catch_up=how)
    after.on("missed", missed.append)
    await after.start()
    await clock.settle()
    await clock.advance("1m")
    slots = [begin + hour * 60 * MINUTE for hour in (2, 3, 4, 5)]
    made_up = {"latest": slots[-1:], "all": slots, "none": []}[how]
    assert ran[1:] == [(slot, "catch_up") for slot in made_up]
    not_run = [slot for slot in slots if slot not in made_up]
    told = [slot for event in missed for slot in slots if event.from_ <= slot <= event.to]
    assert sorted(told) == not_run, "what is not run is reported, once"


async def test_a_stop_hands_what_it_runs_over_to_another_replica(
    replica: Open, clock: ManualClock
) -> None:
    leaving = replica("leaving")
    entered: list[tuple[str, int]] = []

    async def work(ctx: JobContext) -> str:
        entered.append((ctx.instance_id, ctx.attempt))
        if ctx.instance_id == "leaving":
            await asyncio.Event().wait()
        return "done"

    options: dict[str, Any] = {"jitter_ms": 0, "lease_ms": "30s", "max_takeovers": 1}
    leaving.every("job", "1h", work, **options)
    await leaving.start()
    await clock.advance("1h")
    assert entered == [("leaving", 1)]
    staying = replica("staying")
    staying.every("job", "1h", work, **options)
    await staying.start()
    await clock.settle()
    report = await stopped(leaving, clock)
    assert [run.job for run in report.released] == ["job"]
    await clock.advance("1m")
    assert entered == [("leaving", 1), ("staying", 2)]
    [record] = await staying.history("job")
    assert (record.by, record.status, record.attempt) == ("staying", "succeeded", 2)


async def test_heartbeats_keep_a_long_run(replica: Open, clock: ManualClock) -> None:
    one, other = replica("one"), replica("other")
    gate = asyncio.Event()
    entered: list[str] = []

    async def work(ctx: JobContext) -> None:
        entered.append(ctx.instance_id)
        await gate.wait()

    for scheduler in (one, other):
        scheduler.every("job", "1d", work, jitter_ms=0, lease_ms="30s")
        await scheduler.start()
    await clock.advance("1d")
    await clock.advance("10m")
    assert len(entered) == 1, "twenty times the lease, and nobody took over"
    [active] = await other.active("job")
    assert (active.by, active.attempt, active.alive) == (entered[0], 1, True)
    gate.set()
    await clock.settle()
    assert await other.active("job") == []


# -- members that are not there --


class Whole(Leases):
    """Leases with every optional member; which of them were called is noted."""

    keeps_result = True

    def __init__(self, store: LeaseStore) -> None:
        super().__init__(store)
        self.called: list[str] = []

    def claim_manual(self, input: ClaimInput) -> ClaimOutcome:
        self.called.append("claim_manual")
        return ClaimOutcome(kind="won", slot=self.store.record_manual_run(input))

    def set_paused(self, job: str, paused: Any) -> None:
        self.called.append("set_paused")

    def cancel(self, job: str, slot: int, manual: bool) -> bool:
        self.called.append("cancel")
        return True

    def forget(self, job: str) -> bool:
        self.called.append("forget")
        return True


async def test_optional_members_are_called_where_they_are_there(clock: ManualClock) -> None:
    store = LeaseStore(now=lambda: clock.now_ms)
    store.runs = whole = Whole(store)
    scheduler = Scheduler(backend=store, clock=clock)
    entered = asyncio.Event()

    async def work() -> None:
        entered.set()
        await asyncio.Event().wait()

    scheduler.every("job", "1h", work)
    async with scheduler:
        running = asyncio.ensure_future(scheduler.run_now("job", wait=False))
        await entered.wait()
        await running
        await scheduler.pause("job")
        await scheduler.cancel("job")
        await scheduler.forget("job")
        await stopped(scheduler, clock)
    assert whole.called == ["claim_manual", "set_paused", "cancel", "forget"]


async def test_a_store_in_python_keeps_every_rule_of_leases() -> None:
    store = LeaseStore()
    report = await check_backend(lambda: store, rounds=3, histories=5)
    tally(f"class: {store.name}", report)
    report.check()
    passed = [case for case in report.cases if case.status == "passed"]
    assert len(passed) >= 45, str(report)
    assert all(
        "is not there" in (case.message or "") for case in report.cases if case.status == "skipped"
    )
