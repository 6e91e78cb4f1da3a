"""Runs by hand, history, and what acts on the whole fleet."""

from __future__ import annotations

import asyncio
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest
from anarchon import (
    Explanation,
    InvalidOptionError,
    JobContext,
    MissedRange,
    OverlapError,
    RunRecord,
    Scheduler,
    SchedulerStoppedError,
    SqliteBackend,
    UnknownJobError,
)
from anarchon.testing import ManualClock


async def test_run_now_answers_with_the_record(scheduler: Scheduler, clock: ManualClock) -> None:
    scheduler.every("job", "1h", lambda ctx: ctx.trigger)
    async with scheduler:
        record = await scheduler.run_now("job")
    assert isinstance(record, RunRecord)
    assert (record.job, record.by, record.manual) == ("job", "a", True)
    assert (record.status, record.output) == ("succeeded", '"manual"')
    assert record.slot == clock.now_ms
    assert record.to_dict()["started_at"] == record.started_at


@pytest.mark.parametrize(
    "slot", [1_767_139_200_000, datetime(2025, 12, 31, tzinfo=timezone.utc)], ids=["ms", "datetime"]
)
async def test_a_missed_day_is_made_up_for(scheduler: Scheduler, slot: Any) -> None:
    scheduler.every("job", "1d", lambda ctx: ctx.scheduled_at)
    await scheduler.start()
    record = await scheduler.run_now("job", slot=slot)
    assert (record.slot, record.output) == (1_767_139_200_000, '"2025-12-31T00:00:00+00:00"')


async def test_run_now_is_refused_where_it_cannot_run(scheduler: Scheduler) -> None:
    entered = asyncio.Event()

    @scheduler.every("slow", "1h")
    async def slow() -> None:
        entered.set()
        await asyncio.Event().wait()

    with pytest.raises(SchedulerStoppedError):
        await scheduler.run_now("slow")
    await scheduler.start()
    with pytest.raises(UnknownJobError):
        await scheduler.run_now("fast")
    with pytest.raises(InvalidOptionError, match="yesterday"):
        await scheduler.run_now("slow", slot="yesterday")  # type: ignore[arg-type]
    granted = await scheduler.run_now("slow", wait=False)
    assert granted.status == "running"
    await entered.wait()
    with pytest.raises(OverlapError, match="force"):
        await scheduler.run_now("slow")
    forced = await scheduler.run_now("slow", force=True, wait=False)
    assert forced.status == "running"
    assert len(await scheduler.active("slow")) == 2


async def test_history_is_newest_first_from_all_instances(
    clock: ManualClock, tmp_path: Path
) -> None:
    backend = SqliteBackend(tmp_path / "jobs.db")
    replicas = [Scheduler(backend=backend, instance_id=name) for name in "ab"]
    for replica in replicas:
        replica.every("job", "1d", lambda ctx: ctx.instance_id)
        await replica.start()
        await replica.ready()
        assert (await replica.run_now("job")).status == "succeeded"
        await asyncio.sleep(0.002)  # A slot of its own.
    for replica in replicas:
        await replica.stop()
    reader = Scheduler(backend=f"sqlite:{tmp_path}/jobs.db")
    runs = await reader.history("job")
    assert [run.by for run in runs] == ["b", "a"]
    assert [run.by for run in await reader.history("job", limit=1)] == ["b"]
    assert await reader.history("another") == []
    with pytest.raises(InvalidOptionError):
        await reader.history("job", limit=-1)
    await reader.stop()


async def test_a_pause_holds_until_it_is_resumed(scheduler: Scheduler, clock: ManualClock) -> None:
    slots: list[int] = []

    @scheduler.every("job", "1m", jitter_ms=0, catch_up="none", max_late_ms="10s")
    async def job(ctx: JobContext) -> None:
        slots.append(ctx.slot)

    missed: list[Any] = []
    scheduler.on("missed", missed.append)
    await scheduler.start()
    await clock.advance("1m")
    assert len(slots) == 1
    await scheduler.pause("job", reason="the printer is on fire")
    await clock.advance("5m")
    assert len(slots) == 1
    await scheduler.resume("job")
    await clock.advance("2m")
    assert len(slots) == 3
    assert {event.reason for event in missed} == {"paused"}
    ranges = [e for e in await scheduler.history("job", missed=True) if isinstance(e, MissedRange)]
    assert {entry.reason for entry in ranges} == {"paused"}
    assert ranges[0].from_ <= ranges[0].to


async def test_a_slot_is_explained(scheduler: Scheduler, clock: ManualClock) -> None:
    scheduler.every("job", "1m", lambda: None, jitter_ms=0)
    await scheduler.start()
    finished = asyncio.Event()
    scheduler.on("finished", lambda _event: finished.set())
    await clock.advance("1m")
    await finished.wait()
    await clock.settle()
    [run] = await scheduler.history("job")
    told = await scheduler.explain("job", run.slot)
    assert isinstance(told, Explanation)
    assert told.outcome == "ran"
    assert told.records == (run,)
    assert told.text
    assert (await scheduler.explain("job", 1)).outcome == "not_a_slot"


async def test_a_job_is_forgotten(scheduler: Scheduler) -> None:
    scheduler.every("job", "1h", lambda: None)
    await scheduler.start()
    await scheduler.run_now("job")
    scheduler.remove("job")
    await scheduler.forget("job")
    assert await scheduler.history("job") == []


async def test_two_replicas_share_the_slots(clock: ManualClock) -> None:
    from anarchon import MemoryBackend

    backend = MemoryBackend(clock=clock)
    slots: list[int] = []

    async def tick(ctx: JobContext) -> None:
        slots.append(ctx.slot)

    replicas = [Scheduler(backend=backend, clock=clock, instance_id=name) for name in "abc"]
    for replica in replicas:
        replica.every("tick", "1m", tick)
        await replica.start()
    await clock.advance("1h")
    for replica in replicas:
        await replica.stop()
    first = 1_767_225_660_000
    assert sorted(slots) == [first + 60_000 * n for n in range(len(slots))]
    assert len(slots) >= 59


async def test_jobs_are_added_and_removed_while_it_runs(
    scheduler: Scheduler, clock: ManualClock
) -> None:
    seen: list[str] = []

    async def note(ctx: JobContext) -> None:
        seen.append(ctx.job)

    await scheduler.start()
    scheduler.every("late", "1m", note, jitter_ms=0)
    await scheduler.ready()
    await clock.advance("1m")
    assert seen == ["late"]
    scheduler.remove("late")
    await clock.advance("5m")
    assert seen == ["late"]
    assert scheduler._runs.handlers == {}, "the handler of a removed job is let go"
