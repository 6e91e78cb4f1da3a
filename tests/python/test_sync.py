"""The blocking calls, for programs without asyncio."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest
from anarchon import JobContext, MemoryBackend, RunRecord, Scheduler, UnknownJobError


@pytest.fixture
def blocking() -> Scheduler:
    return Scheduler(backend=MemoryBackend(), instance_id="a")


def test_a_program_without_a_loop_runs_plain_and_async_handlers(blocking: Scheduler) -> None:
    @blocking.every("async", "1h")
    async def on_our_loop() -> str:
        await asyncio.sleep(0)
        return threading.current_thread().name

    blocking.every("plain", "1h", lambda: threading.current_thread().name)
    heard: list[Any] = []
    blocking.on("finished", heard.append)
    with blocking.sync as sync:
        assert blocking.running
        sync.ready()
        assert sync.run_now("async").output == '"anarchon-loop"'
        assert "anarchon-handler" in (sync.run_now("plain").output or "")
        assert [type(run) for run in sync.history("async")] == [RunRecord]
        assert sync.active("plain") == []
        assert sync.explain("plain", 1).outcome == "not_a_slot"
        sync.pause("plain", reason="lunch")
        sync.resume("plain")
        assert sync.cancel("plain") == 0
        with pytest.raises(UnknownJobError):
            sync.run_now("nobody")
    assert not blocking.running
    assert len(heard) == 2
    sync.forget("plain")
    assert sync.stop().finished == ()


def test_an_error_of_a_handler_reaches_listeners_as_itself(blocking: Scheduler) -> None:
    thrown = ValueError("no")

    def bad() -> None:
        raise thrown

    blocking.every("bad", "1h", bad)
    heard: list[Any] = []
    blocking.on("finished", heard.append)
    with blocking.sync as sync:
        assert sync.run_now("bad").status == "failed"
    assert heard[0].error is thrown


def test_several_threads_ask_at_once(blocking: Scheduler) -> None:
    blocking.every("job", "1h", lambda: "fine", overlap="allow")
    statuses: list[str] = []
    with blocking.sync as sync:
        threads = [
            threading.Thread(target=lambda: statuses.append(sync.run_now("job", force=True).status))
            for _ in range(16)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert statuses == ["succeeded"] * 16


def test_a_plain_handler_may_ask_the_scheduler_that_runs_it(blocking: Scheduler) -> None:
    blocking.every("inner", "1h", lambda: "inner")
    blocking.every("outer", "1h", lambda: blocking.sync.run_now("inner").output)
    with blocking.sync as sync:
        assert sync.run_now("outer").output == '"\\"inner\\""'


def test_an_async_handler_that_would_wait_for_itself_is_refused(blocking: Scheduler) -> None:
    @blocking.every("job", "1h")
    async def job() -> str:
        with pytest.raises(RuntimeError, match="would block the event loop"):
            blocking.sync.history("job")
        return str(len(await blocking.history("job")))

    with blocking.sync as sync:
        assert sync.run_now("job").output == '"1"'


async def test_a_thread_asks_a_scheduler_of_a_loop(blocking: Scheduler) -> None:
    @blocking.every("job", "1h")
    async def job(ctx: JobContext) -> str:
        return threading.current_thread().name

    async with blocking:
        with pytest.raises(RuntimeError, match="would block the event loop"):
            blocking.sync.run_now("job")
        record = await asyncio.to_thread(blocking.sync.run_now, "job")
        assert record.output == '"MainThread"'
        await asyncio.to_thread(blocking.sync.stop)
        assert not blocking.running


def test_contextvars_of_the_start_are_seen(blocking: Scheduler) -> None:
    import contextvars

    word: contextvars.ContextVar[str] = contextvars.ContextVar("word", default="none")
    blocking.every("job", "1h", lambda: word.get())
    word.set("of the start")
    with blocking.sync as sync:
        word.set("later")
        assert sync.run_now("job").output == '"of the start"'
