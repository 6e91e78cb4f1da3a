"""Event loops: several of them, other kinds of them, and such as are closed under a scheduler."""

from __future__ import annotations

import asyncio
import functools
import logging
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from anarchon import MemoryBackend, Scheduler


async def once(scheduler: Scheduler) -> str | None:
    """Starts, runs a job, stops."""
    async with scheduler:
        return (await scheduler.run_now("job")).output


def test_a_scheduler_is_started_on_one_loop_after_another() -> None:
    scheduler = Scheduler(backend=MemoryBackend())
    scheduler.every("job", "1h", lambda: "fine")
    for _ in range(3):
        assert asyncio.run(once(scheduler)) == '"fine"'


def test_threads_with_loops_of_their_own_share_a_store() -> None:
    backend = MemoryBackend()
    outputs: list[str | None] = []

    def work(name: str) -> None:
        scheduler = Scheduler(backend=backend, instance_id=name)

        async def job() -> str:
            return threading.current_thread().name

        scheduler.every("job", "1h", job, overlap="allow")

        async def main() -> None:
            async with scheduler:
                outputs.append((await scheduler.run_now("job", force=True)).output)

        asyncio.run(main())

    threads = [threading.Thread(target=work, args=(n,), name=f"loop-{n}") for n in "abcd"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(map(str, outputs)) == [f'"loop-{n}"' for n in "abcd"]


async def test_a_second_loop_may_ask_and_its_handlers_run_on_the_first() -> None:
    scheduler = Scheduler(backend=MemoryBackend())

    async def job() -> str:
        return threading.current_thread().name

    scheduler.every("job", "1h", job)

    async def ask() -> str | None:
        return (await scheduler.run_now("job")).output

    async with scheduler:
        output = await asyncio.to_thread(asyncio.run, ask())
    assert output == '"MainThread"'


@pytest.mark.parametrize("way", ["run", "loop"])
def test_uvloop(way: str) -> None:
    uvloop = pytest.importorskip("uvloop")
    scheduler = Scheduler(backend=MemoryBackend())

    @scheduler.every("job", "1h")
    async def job() -> str:
        return type(asyncio.get_running_loop()).__module__

    if way == "run":
        output = uvloop.run(once(scheduler))
    else:
        loop = uvloop.new_event_loop()
        output = loop.run_until_complete(once(scheduler))
        loop.close()
    assert output == '"uvloop"'


def leave_running(scheduler: Scheduler) -> Callable[[], Any]:
    """A program that ends in the middle of a run, without a stop."""
    asking: list[asyncio.Future[Any]] = []

    async def main() -> None:
        entered = asyncio.Event()

        async def job() -> None:
            entered.set()
            await asyncio.Event().wait()

        scheduler.every("job", "1h", job)
        await scheduler.start()
        asking.append(asyncio.ensure_future(scheduler.run_now("job")))
        await entered.wait()

    return main


@pytest.mark.parametrize("kind", ["asyncio", "uvloop"])
@pytest.mark.parametrize("way", ["run", "close"])
def test_a_loop_that_is_closed_without_a_stop_leaves_its_runs_to_be_taken_over(
    kind: str, way: str, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    module = pytest.importorskip(kind)
    url = f"sqlite:{tmp_path}/jobs.db"
    scheduler = Scheduler(backend=url)
    main = leave_running(scheduler)
    if way == "run":
        module.run(main())
    else:
        loop = module.new_event_loop()
        loop.run_until_complete(main())
        # Whoever closes a loop under its tasks is told so by asyncio; that is not the point here.
        for task in asyncio.all_tasks(loop):
            task._log_destroy_pending = False  # type: ignore[attr-defined]
        loop.close()
    assert not scheduler.running
    [warning] = [r for r in caplog.records if r.levelno == logging.WARNING]
    assert "was not stopped" in warning.getMessage()
    reader = Scheduler(backend=url)
    [run] = reader.sync.history("job")
    reader.sync.stop()
    assert run.status == "running", "nothing was told to the store: its lease runs out"
    # It may be started again, elsewhere.
    scheduler.remove("job")
    scheduler.every("job", "1h", lambda: "again", overlap="allow")
    assert scheduler.sync.start() is None
    assert scheduler.sync.run_now("job", force=True).output == '"again"'
    scheduler.sync.stop()


async def test_a_start_that_is_given_up_is_taken_back() -> None:
    scheduler = Scheduler(backend=MemoryBackend())
    scheduler.every("job", "1h", lambda: "fine")
    starting = asyncio.ensure_future(scheduler.start())
    await asyncio.sleep(0)
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    await scheduler.stop()
    assert not scheduler.running
    assert await once(scheduler) == '"fine"'


async def test_a_repeated_start_and_stop_do_no_harm() -> None:
    scheduler = Scheduler(backend=MemoryBackend())
    scheduler.every("job", "1h", lambda: "fine")
    await scheduler.stop()
    await asyncio.gather(scheduler.start(), scheduler.start())
    await scheduler.start()
    assert (await scheduler.run_now("job")).status == "succeeded"
    await asyncio.gather(scheduler.stop(), scheduler.stop())
    await scheduler.stop()
    assert not scheduler.running


async def test_nothing_is_left_on_the_loop_after_a_stop() -> None:
    before = asyncio.all_tasks()
    scheduler = Scheduler(backend=MemoryBackend())
    scheduler.every("job", "1h", lambda: "fine")
    await once(scheduler)
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert asyncio.all_tasks() == before


def test_a_scheduler_that_nobody_holds_is_freed() -> None:
    import gc
    import weakref

    scheduler = Scheduler(backend=MemoryBackend())
    scheduler.every("job", "1h", functools.partial(repr, scheduler))
    asyncio.run(once(scheduler))
    gone = weakref.ref(scheduler)
    del scheduler
    gc.collect()
    assert gone() is None
