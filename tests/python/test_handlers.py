"""Handlers: async and plain, with and without an argument, returning, raising, cancelled."""

from __future__ import annotations

import asyncio
import contextvars
import dataclasses
import json
import threading
from datetime import date, datetime, timedelta, timezone
from enum import Enum
from functools import partial
from typing import Any

import pytest
from anarchon import JobContext, Scheduler
from anarchon.testing import ManualClock

REQUEST: contextvars.ContextVar[str] = contextvars.ContextVar("REQUEST", default="none")


class Boom(Exception):
    """An error of the user's."""


class Weekday(Enum):
    MONDAY = "mon"


@dataclasses.dataclass
class Report:
    rows: int


class Callee:
    """An object that is called."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    async def __call__(self, ctx: JobContext) -> None:
        self.seen.append(ctx.job)

    def plain(self, ctx: JobContext) -> None:
        self.seen.append(ctx.job)


@pytest.mark.parametrize(
    ("value", "output"),
    [
        (None, None),
        (5, "5"),
        ({"a": [1, "ü"]}, '{"a": [1, "ü"]}'),
        (date(2027, 1, 31), '"2027-01-31"'),
        (timedelta(seconds=5), '"0:00:05"'),
        (Report(rows=3), '{"rows": 3}'),
        (Weekday.MONDAY, '"mon"'),
        (b"raw", '"raw"'),
        ({1}, "[1]"),
        (float("nan"), '"nan"'),
        ("\ud800", '"\\ud800"'),
    ],
)
async def test_what_a_handler_returns_is_kept_as_json(
    scheduler: Scheduler, value: Any, output: str | None
) -> None:
    scheduler.every("job", "1h", lambda: value)
    await scheduler.start()
    record = await scheduler.run_now("job")
    assert (record.status, record.output) == ("succeeded", output)


async def test_what_cannot_be_written_as_json_does_not_fail_the_run(scheduler: Scheduler) -> None:
    class Mute:
        def __str__(self) -> str:
            raise Boom

    cycle: list[Any] = []
    cycle.append(cycle)
    scheduler.every("cycle", "1h", lambda: cycle)
    scheduler.every("mute", "1h", lambda: Mute())
    await scheduler.start()
    assert (await scheduler.run_now("cycle")).output == '"[[...]]"'
    record = await scheduler.run_now("mute")
    assert record.status == "succeeded"
    assert "Mute" in (record.output or "")


async def test_a_long_output_is_cut(scheduler: Scheduler) -> None:
    scheduler.every("job", "1h", lambda: "x" * 100_000)
    scheduler.every("quiet", "1h", lambda: "x", keep_output=False)
    await scheduler.start()
    record = await scheduler.run_now("job")
    assert record.output_truncated
    assert len(record.output or "") <= 8192
    assert (await scheduler.run_now("quiet")).output is None


async def test_a_handler_may_take_the_context_or_nothing(scheduler: Scheduler) -> None:
    seen: list[str] = []
    callee = Callee()

    def plain(ctx: JobContext) -> None:
        seen.append(ctx.job)

    async def waiting() -> None:
        seen.append("waiting")

    def more(ctx: JobContext, extra: int = 5) -> None:
        seen.append(f"{ctx.job}{extra}")

    def bound(word: str, ctx: JobContext) -> None:
        seen.append(f"{word} {ctx.job}")

    def anything(*given: Any) -> None:
        seen.append(f"{len(given)} given")

    handlers: dict[str, Any] = {
        "plain": plain,
        "waiting": waiting,
        "more": more,
        "bound": partial(bound, "hello"),
        "object": callee,
        "method": callee.plain,
        "anything": anything,
        "coroutine": lambda ctx: waiting(),
    }
    for name, handler in handlers.items():
        scheduler.every(name, "1h", handler)
    await scheduler.start()
    for name in handlers:
        record = await scheduler.run_now(name)
        assert record.status == "succeeded", record
    assert seen == ["plain", "waiting", "more5", "hello bound", "1 given", "waiting"]
    assert callee.seen == ["object", "method"]


async def test_plain_handlers_run_in_threads_of_ours_and_async_ones_on_the_loop(
    scheduler: Scheduler,
) -> None:
    scheduler.every("plain", "1h", lambda: threading.current_thread().name)

    @scheduler.every("async", "1h")
    async def on_loop() -> str:
        return threading.current_thread().name

    await scheduler.start()
    assert "anarchon-handler" in ((await scheduler.run_now("plain")).output or "")
    assert json.loads((await scheduler.run_now("async")).output or "") == "MainThread"


async def test_plain_handlers_run_side_by_side(scheduler: Scheduler) -> None:
    together = threading.Barrier(20, timeout=20)
    for number in range(20):
        scheduler.every(f"job-{number}", "1h", lambda: together.wait() and None)
    await scheduler.start()
    runs = [scheduler.run_now(f"job-{number}") for number in range(20)]
    assert {record.status for record in await asyncio.gather(*runs)} == {"succeeded"}
    # Threads that are free are used again.
    before = set(threading.enumerate())
    for number in range(20):
        scheduler.remove(f"job-{number}")
    scheduler.every("job", "1h", lambda: None)
    for _ in range(20):
        await scheduler.run_now("job")
    assert set(threading.enumerate()) <= before


async def test_handlers_see_the_context_variables_of_the_start(scheduler: Scheduler) -> None:
    @scheduler.every("async", "1h")
    async def async_handler() -> str:
        before = REQUEST.get()
        REQUEST.set("mine alone")
        return before

    @scheduler.every("plain", "1h")
    def plain_handler() -> str:
        before = REQUEST.get()
        REQUEST.set("mine alone")
        return before

    REQUEST.set("of the start")
    await scheduler.start()
    REQUEST.set("of the call")
    for name in ("async", "plain", "async", "plain"):
        assert (await scheduler.run_now(name)).output == '"of the start"'
    assert REQUEST.get() == "of the call"


@pytest.mark.parametrize("plain", [True, False], ids=["plain", "async"])
@pytest.mark.parametrize(
    "kind", [Boom, SystemExit, KeyboardInterrupt, GeneratorExit, StopIteration]
)
async def test_what_a_handler_raises_fails_the_run_alone(
    scheduler: Scheduler, plain: bool, kind: type[BaseException]
) -> None:
    # Case B03: SystemExit and KeyboardInterrupt end the run, not the scheduler.
    thrown = kind("no more")
    events: list[Any] = []
    scheduler.on("finished", events.append)

    def plain_handler() -> None:
        raise thrown

    async def async_handler() -> None:
        raise thrown

    scheduler.every("bad", "1h", plain_handler if plain else async_handler)
    scheduler.every("good", "1h", lambda: "fine")
    await scheduler.start()
    record = await scheduler.run_now("bad")
    assert record.status == "failed"
    assert record.error is not None
    assert record.error.message
    if kind is not StopIteration:  # An async function may not let it out: it becomes another.
        assert record.error.name == kind.__name__
        assert events[0].error is thrown
        assert "no more" in record.error.message
        assert "handler" in (record.error.stack or "")
    assert (await scheduler.run_now("good")).status == "succeeded"
    assert scheduler.running


async def test_an_error_whose_text_cannot_be_had_is_still_a_failed_run(
    scheduler: Scheduler,
) -> None:
    class Mute(Exception):
        def __str__(self) -> str:
            raise RuntimeError("not even this")

    def handler() -> None:
        raise Mute

    scheduler.every("bad", "1h", handler)
    await scheduler.start()
    record = await scheduler.run_now("bad")
    assert record.status == "failed"
    assert record.error is not None
    assert record.error.name == "Mute"


async def test_a_job_that_always_fails_keeps_nobody_from_running(
    scheduler: Scheduler, clock: ManualClock
) -> None:
    # Case X01: two jobs share every slot.
    def bad() -> None:
        raise Boom

    scheduler.every("bad", "1m", bad, jitter_ms=0)
    scheduler.every("good", "1m", lambda: None, jitter_ms=0)
    await scheduler.start()
    ended: asyncio.Queue[str] = asyncio.Queue()
    scheduler.on("finished", lambda event: ended.put_nowait(event.record.job))
    for _ in range(10):
        # Plain functions run in threads, which the clock does not wait for.
        await clock.advance("1m")
        names = [await asyncio.wait_for(ended.get(), 20) for _ in range(2)]
        assert sorted(names) == ["bad", "good"]
    bad_runs = await scheduler.history("bad")
    good_runs = await scheduler.history("good")
    assert [run.status for run in bad_runs] == ["failed"] * 10
    assert [run.status for run in good_runs] == ["succeeded"] * 10
    assert [run.slot for run in bad_runs] == [run.slot for run in good_runs]


async def test_a_thousand_failures_do_not_wear_out_the_job(scheduler: Scheduler) -> None:
    # Case L07: overlap protection comes from the lease and not from a counter.
    def bad() -> None:
        raise Boom

    async def cancels_itself() -> None:
        raise asyncio.CancelledError

    scheduler.every("bad", "1h", bad)
    scheduler.every("cancels", "1h", cancels_itself)
    scheduler.on("finished", lambda event: 1 / 0 if event.record.job == "bad" else None)
    await scheduler.start()
    for _ in range(500):
        assert (await scheduler.run_now("bad")).status == "failed"
        assert (await scheduler.run_now("cancels")).status == "failed"
    assert (await scheduler.run_now("bad")).status == "failed"
    assert await scheduler.active("bad") == []


async def test_the_context_says_what_runs(scheduler: Scheduler, clock: ManualClock) -> None:
    seen: list[JobContext] = []
    done = asyncio.Event()

    @scheduler.cron("nightly", "0 3 * * *", timezone="Europe/Berlin", jitter_ms=0)
    async def nightly(ctx: JobContext) -> None:
        seen.append(ctx)
        done.set()

    await scheduler.start()
    await clock.advance("1d")
    await done.wait()
    ctx = seen[0]
    assert ctx.scheduled_at == datetime(2026, 1, 1, 2, tzinfo=timezone.utc)
    assert ctx.scheduled_at.hour == 3
    assert ctx.scheduled_at.utcoffset() == timedelta(hours=1)
    assert (ctx.job, ctx.instance_id, ctx.timezone) == ("nightly", "a", "Europe/Berlin")
    assert (ctx.attempt, ctx.retry, ctx.trigger, ctx.manual) == (1, 0, "slot", False)
    assert ctx.fence > 0
    assert len(ctx.token) == 32
    assert not ctx.cancelled
    assert ctx.cancel_reason is None
    assert "nightly" in repr(ctx)


async def test_the_slot_has_the_right_offset_without_tables(
    scheduler: Scheduler, monkeypatch: pytest.MonkeyPatch
) -> None:
    import zoneinfo

    @scheduler.cron("nightly", "0 3 * * *", timezone="Asia/Kathmandu")
    async def nightly(ctx: JobContext) -> str:
        def missing(name: str) -> None:
            raise zoneinfo.ZoneInfoNotFoundError(name)

        monkeypatch.setattr(zoneinfo, "ZoneInfo", missing)
        return f"{ctx.scheduled_at.isoformat()} {ctx.scheduled_at.tzname()}"

    await scheduler.start()
    record = await scheduler.run_now("nightly", slot=1_767_225_600_000)
    assert record.output == '"2026-01-01T05:45:00+05:45 Asia/Kathmandu"'


async def test_a_run_is_retried_with_the_count_in_the_context(
    scheduler: Scheduler, clock: ManualClock
) -> None:
    seen: list[int] = []

    @scheduler.every("job", "1h", retries={"attempts": 2, "backoff_ms": "10s"})
    async def job(ctx: JobContext) -> str:
        seen.append(ctx.retry)
        if ctx.retry < 2:
            raise Boom
        return "at last"

    await scheduler.start()
    run = asyncio.ensure_future(scheduler.run_now("job"))
    while not run.done():
        await clock.advance("5s")
    assert (await run).output == '"at last"'
    assert seen == [0, 1, 2]
