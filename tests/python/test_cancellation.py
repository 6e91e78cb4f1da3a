"""How handlers hear that their run is to end."""

from __future__ import annotations

import asyncio
import threading

import pytest
from anarchon import JobContext, Scheduler
from anarchon.testing import ManualClock


async def test_an_async_handler_is_cancelled_at_its_time_out(
    scheduler: Scheduler, clock: ManualClock
) -> None:
    reasons: list[str] = []

    @scheduler.every("slow", "1h", timeout_ms="10s")
    async def slow(ctx: JobContext) -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            assert ctx.cancelled
            assert ctx.cancel_reason is not None
            reasons.append(ctx.cancel_reason.code)
            raise

    await scheduler.start()
    run = asyncio.ensure_future(scheduler.run_now("slow"))
    await clock.settle()
    assert reasons == []
    await clock.advance("11s")
    assert (await run).status == "timed_out"
    assert reasons == ["TIMEOUT"]


async def test_a_plain_handler_is_told_at_its_time_out(
    scheduler: Scheduler, clock: ManualClock
) -> None:
    @scheduler.every("slow", "1h", timeout_ms="10s")
    def slow(ctx: JobContext) -> str:
        assert not ctx.cancelled
        assert ctx.wait_cancelled("1ms") is False
        assert ctx.wait_cancelled() is True
        assert ctx.wait_cancelled() is True
        assert ctx.cancelled
        assert ctx.cancel_reason is not None
        return ctx.cancel_reason.code

    await scheduler.start()
    run = asyncio.ensure_future(scheduler.run_now("slow"))
    await clock.settle()
    await clock.advance("11s")
    record = await run
    assert (record.status, record.output) == ("timed_out", '"TIMEOUT"') or (
        record.status == "timed_out"
    )


async def test_a_handler_may_not_block_the_loop_to_hear_of_it(scheduler: Scheduler) -> None:
    @scheduler.every("job", "1h")
    async def job(ctx: JobContext) -> None:
        with pytest.raises(RuntimeError, match="block the event loop"):
            ctx.wait_cancelled(1)

    await scheduler.start()
    assert (await scheduler.run_now("job")).status == "succeeded"


async def test_a_stop_cancels_what_does_not_end(scheduler: Scheduler, clock: ManualClock) -> None:
    entered = asyncio.Event()
    reasons: list[str] = []

    @scheduler.every("slow", "1h")
    async def slow(ctx: JobContext) -> None:
        entered.set()
        try:
            await asyncio.Event().wait()
        finally:
            assert ctx.cancel_reason is not None
            reasons.append(ctx.cancel_reason.code)

    await scheduler.start()
    run = asyncio.ensure_future(scheduler.run_now("slow"))
    await entered.wait()
    report = await scheduler.stop(grace_ms=0)
    assert reasons == ["STOPPED"]
    assert (await run).status in ("cancelled", "stalled")
    assert report.still_running == ()
    assert not scheduler.running


async def test_a_person_cancels_a_run(scheduler: Scheduler, clock: ManualClock) -> None:
    entered = asyncio.Event()
    codes: list[str] = []

    @scheduler.every("slow", "1h", lease_ms="3s")
    async def slow(ctx: JobContext) -> None:
        entered.set()
        try:
            await asyncio.Event().wait()
        finally:
            codes.append(ctx.cancel_reason.code if ctx.cancel_reason else "none")

    await scheduler.start()
    run = asyncio.ensure_future(scheduler.run_now("slow"))
    await entered.wait()
    assert await scheduler.cancel("slow") == 1
    while not run.done():
        await clock.advance("1s")
    assert (await run).status == "cancelled"
    assert codes in (["CANCELLED"], ["LEASE_LOST"])


async def test_a_wait_that_is_cancelled_cancels_its_run(scheduler: Scheduler) -> None:
    entered, left = asyncio.Event(), asyncio.Event()

    @scheduler.every("slow", "1h")
    async def slow() -> None:
        entered.set()
        try:
            await asyncio.Event().wait()
        finally:
            left.set()

    await scheduler.start()
    run = asyncio.ensure_future(scheduler.run_now("slow"))
    await entered.wait()
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
    await asyncio.wait_for(left.wait(), 20)


async def test_an_async_handler_sleeps_on_the_clock_of_the_scheduler(
    scheduler: Scheduler, clock: ManualClock
) -> None:
    @scheduler.every("job", "1d")
    async def job(ctx: JobContext) -> int:
        before = clock.now_ms
        await ctx.sleep("1h")
        return clock.now_ms - before

    await scheduler.start()
    run = asyncio.ensure_future(scheduler.run_now("job"))
    await clock.advance("59m")
    assert not run.done()
    await clock.advance("1m")
    assert (await run).output == "3600000"


async def test_a_plain_handler_sleeps_on_it_too(scheduler: Scheduler, clock: ManualClock) -> None:
    asleep = threading.Event()

    @scheduler.every("job", "1d")
    def job(ctx: JobContext) -> int:
        before = clock.now_ms
        asleep.set()
        ctx.sleep("1h")
        return clock.now_ms - before

    await scheduler.start()
    run = asyncio.ensure_future(scheduler.run_now("job"))
    while not run.done():
        await clock.advance("10m")
    assert int((await run).output or 0) >= 3_600_000
    assert asleep.is_set()


async def test_a_handler_cancelled_before_its_first_step_ends_too(scheduler: Scheduler) -> None:
    # The messages "run" and "cancel" may be fetched in one turn of the loop.
    scheduler.every("job", "1h", asyncio.Event().wait)
    await scheduler.start()
    for _ in range(20):
        run = asyncio.ensure_future(scheduler.run_now("job"))
        await asyncio.sleep(0)
        run.cancel()
        await asyncio.wait({run})
    scheduler.every("good", "1h", lambda: "fine")
    assert (await scheduler.run_now("good")).status == "succeeded"
