"""The clock for tests."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta, timezone

import pytest
from anarchon import InvalidOptionError, JobContext, MemoryBackend, Scheduler
from anarchon.testing import ManualClock


async def test_it_moves_when_told_to_in_every_unit() -> None:
    clock = ManualClock()
    assert clock.now == datetime(2026, 1, 1, tzinfo=timezone.utc)
    await clock.advance("1h")
    await clock.advance(timedelta(minutes=1))
    await clock.advance(5)
    assert clock.now_ms == 1_767_225_600_000 + 3_660_005
    clock.step_wall(-5)
    assert clock.now_ms == 1_767_225_600_000 + 3_660_000
    assert ManualClock(datetime(1970, 1, 1, tzinfo=timezone.utc)).now_ms == 0
    for wrong in (-1, "soon", 1.5):
        with pytest.raises(InvalidOptionError):
            await clock.advance(wrong)  # type: ignore[arg-type]


async def test_a_day_passes_from_due_time_to_due_time(
    scheduler: Scheduler, clock: ManualClock
) -> None:
    seen: list[tuple[int, int]] = []

    @scheduler.every("job", "1m", jitter_ms=0)
    async def job(ctx: JobContext) -> None:
        seen.append((ctx.slot, clock.now_ms))

    await scheduler.start()
    await clock.advance("1d")
    assert len(seen) == 1440
    assert all(slot == now for slot, now in seen)


async def test_plain_handlers_are_entered_before_it_moves_on(
    scheduler: Scheduler, clock: ManualClock
) -> None:
    seen: list[tuple[int, int]] = []

    @scheduler.every("job", "1m", jitter_ms=0, overlap="allow")
    def job(ctx: JobContext) -> None:
        seen.append((ctx.slot, clock.now_ms))

    await scheduler.start()
    await clock.advance("1h")
    assert len(seen) == 60
    assert all(slot <= now < slot + 60_000 for slot, now in seen)


async def test_a_clock_alone_means_a_store_in_memory() -> None:
    clock = ManualClock()
    async with Scheduler(clock=clock) as scheduler:
        assert scheduler.backend.name == "memory"
    with pytest.raises(InvalidOptionError, match="memory:"):
        Scheduler(backend="sqlite:jobs.db", clock=clock)


async def test_handlers_that_wait_for_each_other_go_on_as_it_moves(
    scheduler: Scheduler, clock: ManualClock
) -> None:
    order: list[str] = []

    @scheduler.every("slow", "1h", jitter_ms=0)
    async def slow(ctx: JobContext) -> None:
        for step in range(3):
            order.append(f"slow {step} at {clock.now:%H:%M}")
            await ctx.sleep("10m")

    @scheduler.every("quick", "1h", offset_ms="15m", jitter_ms=0)
    async def quick(ctx: JobContext) -> None:
        await asyncio.sleep(0)
        order.append(f"quick at {clock.now:%H:%M}")

    await scheduler.start()
    await clock.advance("1h40m")
    assert order == [
        "quick at 00:15",
        "slow 0 at 01:00",
        "slow 1 at 01:10",
        "quick at 01:15",
        "slow 2 at 01:20",
    ]


async def test_schedulers_of_one_clock_move_together() -> None:
    clock = ManualClock(1_767_225_601_000)
    backends = [MemoryBackend(clock=clock) for _ in range(2)]
    seen: list[str] = []
    schedulers = [
        Scheduler(backend=b, clock=clock, instance_id=n)
        for b, n in zip(backends, "ab", strict=True)
    ]

    async def job(ctx: JobContext) -> None:
        seen.append(ctx.instance_id)

    for scheduler in schedulers:
        scheduler.every("job", "1m", job)
        await scheduler.start()
    await clock.advance("1m")
    for scheduler in schedulers:
        await scheduler.stop()
    assert sorted(seen) == ["a", "b"]
