"""Threads that ask while handlers run, and handlers that let nobody else run."""

from __future__ import annotations

import asyncio
import ctypes
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from anarchon import JobContext, Scheduler

EIGHT_THREADS = """
    import sys, threading
    from anarchon import AnarchonError, Scheduler

    scheduler = Scheduler(backend="memory:")

    async def waiting(ctx): return ctx.slot
    def plain(ctx): return ctx.slot

    scheduler.every("waiting", "100ms", waiting, overlap="allow")
    scheduler.every("plain", "100ms", plain, overlap="allow")
    scheduler.sync.start()
    failures = []

    def ask(number):
        for round in range(125):
            try:
                if round % 25 == 24 and number == 0:
                    scheduler.sync.stop(grace_ms=0)
                    scheduler.sync.start()
                elif round % 3 == 0:
                    scheduler.sync.run_now("waiting", force=True)
                elif round % 3 == 1:
                    scheduler.sync.run_now("plain", force=True)
                else:
                    scheduler.sync.history("plain", limit=5)
                    scheduler.jobs, scheduler.running, scheduler.next_slots("plain", 2)
            except AnarchonError as error:
                if error.code not in ("STOPPED", "CANCELLED", "BACKEND_UNAVAILABLE", "OVERLAP"):
                    failures.append(error)

    threads = [threading.Thread(target=ask, args=(n,), daemon=True) for n in range(8)]
    for thread in threads: thread.start()
    for thread in threads: thread.join(50)
    assert not any(thread.is_alive() for thread in threads), "frozen"
    assert failures == [], failures
    scheduler.sync.stop()
    print("done")
"""


def test_eight_threads_ask_and_stop_while_handlers_run(program: Callable[..., Any]) -> None:
    # Case B05: 1000 rounds, no freeze.
    ended = program(EIGHT_THREADS)
    assert (ended.status, ended.output) == (0, "done\n"), ended


def hold_gil(ms: int) -> None:
    """Keeps the interpreter to itself: no other Python thread runs."""
    ctypes.PyDLL(None).usleep(ms * 1000)


@pytest.mark.parametrize("hold", [time.sleep, hold_gil], ids=["loop", "gil"])
async def test_a_handler_that_blocks_keeps_its_lease(
    hold: Callable[[float], None], tmp_path: Path
) -> None:
    # Case L01: the loop, or the GIL, is held for three times the lease.
    url = f"sqlite:{tmp_path}/jobs.db"
    scheduler = Scheduler(backend=url, instance_id="a")
    lost: list[Any] = []
    scheduler.on("lease_lost", lost.append)

    @scheduler.every("job", "1h", lease_ms="1s")
    async def job(ctx: JobContext) -> int:
        hold(3 if hold is time.sleep else 3_000)
        return ctx.attempt

    async with scheduler:
        record = await scheduler.run_now("job")
        await asyncio.sleep(0)
    assert (record.status, record.output, record.attempt) == ("succeeded", "1", 1)
    assert (record.duration_ms or 0) >= 3_000
    assert lost == []
