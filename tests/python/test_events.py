"""Events and the log."""

from __future__ import annotations

import asyncio
import dataclasses
import logging
from typing import Any

import anarchon
import pytest
from anarchon import FinishedEvent, InvalidOptionError, RunEvent, Scheduler, StoreUpEvent
from anarchon.events import KINDS, NAMES
from anarchon.testing import ManualClock


def test_the_names_are_those_of_the_core() -> None:
    assert list(KINDS) == anarchon._anarchon.event_names()
    assert [anarchon.records.camel(name) for name in NAMES] == list(KINDS)


async def test_listeners_hear_what_happens_in_order(scheduler: Scheduler) -> None:
    heard: list[tuple[str, Any]] = []
    for name in ("won", "started", "finished"):
        scheduler.on(name, lambda event, name=name: heard.append((name, event)))
    scheduler.every("job", "1h", lambda: "fine")
    await scheduler.start()
    record = await scheduler.run_now("job")
    assert [name for name, _ in heard] == ["won", "started", "finished"]
    won, finished = heard[0][1], heard[2][1]
    assert isinstance(won, RunEvent)
    assert (won.job, won.manual, won.trigger, won.attempt) == ("job", True, "manual", 1)
    assert finished == FinishedEvent(record=record)


async def test_a_listener_may_be_decorated_async_and_taken_off(scheduler: Scheduler) -> None:
    heard: list[str] = []
    told = asyncio.Event()

    @scheduler.on("started")
    def plain(event: RunEvent) -> None:
        heard.append("plain")

    @scheduler.on("finished")
    async def waiting(event: FinishedEvent) -> None:
        await asyncio.sleep(0)
        heard.append("async")
        told.set()

    scheduler.every("job", "1h", lambda: None)
    await scheduler.start()
    await scheduler.run_now("job")
    await told.wait()
    assert heard == ["plain", "async"]
    scheduler.off("started", plain)
    scheduler.off("finished", waiting)
    scheduler.off("finished", waiting)
    await scheduler.run_now("job")
    assert heard == ["plain", "async"]


@pytest.mark.parametrize("name", ["finnished", "leaseLost", "", None])
def test_an_event_that_is_none_is_refused(name: Any) -> None:
    with pytest.raises(InvalidOptionError) as refused:
        Scheduler(backend="memory:").on(name, print)
    assert "lease_lost" in str(refused.value)
    with pytest.raises(InvalidOptionError, match="function"):
        Scheduler(backend="memory:").on("error", 5)  # type: ignore[call-overload]


async def test_a_listener_that_raises_is_logged_and_harms_nobody(
    scheduler: Scheduler, caplog: pytest.LogCaptureFixture
) -> None:
    heard: list[Any] = []

    @scheduler.on("started")
    def bad(event: RunEvent) -> None:
        raise SystemExit("a listener")

    @scheduler.on("started")
    async def worse(event: RunEvent) -> None:
        raise ValueError("an async listener")

    scheduler.on("started", heard.append)
    scheduler.every("job", "1h", lambda: None)
    await scheduler.start()
    assert (await scheduler.run_now("job")).status == "succeeded"
    await asyncio.sleep(0)
    assert len(heard) == 1
    told = [record for record in caplog.records if "listener" in record.getMessage()]
    kinds = [type(record.exc_info[1]) for record in told if record.exc_info]
    assert kinds == [SystemExit, ValueError]


async def test_a_failed_run_is_logged_with_its_traceback(
    scheduler: Scheduler, caplog: pytest.LogCaptureFixture
) -> None:
    def bad() -> None:
        raise ValueError("no milk")

    scheduler.every("job", "1h", bad)
    await scheduler.start()
    await scheduler.run_now("job")
    [failed] = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert failed.name == "anarchon"
    assert "job='job'" in failed.getMessage()
    assert "no milk" in caplog.text
    assert "in bad" in caplog.text


async def test_the_start_is_told_in_one_line(
    scheduler: Scheduler, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "anarchon")
    await scheduler.start()
    [line] = [r.getMessage() for r in caplog.records if r.levelno == logging.INFO]
    assert all(word in line for word in ("memory", "default", "instance a", "leases"))


async def test_the_embedded_default_is_announced(
    program: Any,
) -> None:
    ended = program(
        """
        import asyncio, logging
        from anarchon import Scheduler

        async def main():
            async with Scheduler(): pass

        logging.basicConfig(format="%(levelname)s %(message)s")
        asyncio.run(main())
        """
    )
    assert ended.status == 0, ended
    assert "WARNING" in ended.errors
    assert "anarchon.db" in ended.errors
    assert "this machine only" in ended.errors


async def test_missed_slots_are_told(scheduler: Scheduler, clock: ManualClock) -> None:
    heard: list[Any] = []
    scheduler.on("missed", heard.append)
    scheduler.every("job", "1m", lambda: None, max_late_ms="5s", jitter_ms=0)
    await scheduler.start()
    await scheduler.run_now("job")
    await scheduler.stop()
    clock.step_wall("10m")
    await scheduler.start()
    await clock.settle()
    assert [event.job for event in heard] == ["job"]
    assert heard[0].count == 9, "the tenth may still be started"
    assert heard[0].reason == "no_instance"
    assert heard[0].to_dict()["from"] == heard[0].from_


def test_events_are_frozen_and_take_keywords_only() -> None:
    event = StoreUpEvent(down_ms=5)
    with pytest.raises(dataclasses.FrozenInstanceError):
        event.down_ms = 6  # type: ignore[misc]
    with pytest.raises(TypeError):
        StoreUpEvent(5)  # type: ignore[misc]
