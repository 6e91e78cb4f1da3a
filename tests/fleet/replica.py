"""A Python replica for the fleet tests: the jobs of a JSON text, each with something to do.

usage: replica.py CONFIG_JSON    (the same configuration and the same log lines as replica.mjs)

SIGTERM stops the scheduler, waits for handlers that ignore their cancellation, and exits with 0.
"""

from __future__ import annotations

import asyncio
import ctypes
import dataclasses
import json
import logging
import os
import re
import signal
import sys
import time
from collections.abc import Callable
from typing import Any

from anarchon import JobContext, Scheduler
from anarchon.events import EventName

EVENTS: tuple[EventName, ...] = (
    "missed",
    "takeover",
    "lease_lost",
    "overlap",
    "skew",
    "overdue",
    "store_down",
    "error",
)

# What happens is in the log of the test: a replica that prints something has crashed.
logging.getLogger("anarchon").addHandler(logging.NullHandler())
config: dict[str, Any] = json.loads(sys.argv[1])
log = os.open(config["log"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
running = 0


def note(what: str, **more: object) -> None:
    """One line in this replica's own log, written before anything else happens."""
    line = {"what": what, "by": config["id"], "at": int(time.time() * 1000), **more}
    os.write(log, (json.dumps(line) + "\n").encode())


def run_of(ctx: JobContext) -> dict[str, Any]:
    """The run, as the log names it."""
    return {
        "job": ctx.job,
        "slot": ctx.slot,
        "attempt": ctx.attempt,
        "fence": ctx.fence,
        "trigger": str(ctx.trigger),
    }


def snake(name: str) -> str:
    """The Python name of an option."""
    return re.sub("([A-Z])", r"_\1", name).lower()


def plain(payload: object) -> object:
    """An event's payload as JSON can hold it."""
    if dataclasses.is_dataclass(payload) and not isinstance(payload, type):
        return {k: plain(v) for k, v in dataclasses.asdict(payload).items()}
    if payload is None or isinstance(payload, (str, int, float, bool)):
        return payload
    if isinstance(payload, dict):
        return {key: plain(value) for key, value in payload.items()}
    return repr(payload)


async def sleep_on(ctx: JobContext, ms: int) -> None:
    """Work that can be cancelled."""
    await asyncio.sleep(ms / 1000)


async def ignore(ctx: JobContext, ms: int) -> None:
    """Work that goes on whoever cancels it."""
    end = time.monotonic() + ms / 1000
    while (left := end - time.monotonic()) > 0:
        try:
            await asyncio.sleep(left)
        except asyncio.CancelledError:
            note("cancelled", **run_of(ctx))


async def block(ctx: JobContext, ms: int) -> None:
    """Work that does not let the event loop go on."""
    time.sleep(ms / 1000)


async def hold_gil(ctx: JobContext, ms: int) -> None:
    """Work in C that keeps the interpreter to itself: no other Python thread runs."""
    ctypes.PyDLL(None).usleep(ms * 1000)


WORK: dict[str, Callable[[JobContext, int], Any]] = {
    "quick": lambda _ctx, _ms: asyncio.sleep(0),
    "sleep": sleep_on,
    "ignore": ignore,
    "block": block,
    "hold": hold_gil,
}


def handler(job: dict[str, Any]) -> Callable[[JobContext], Any]:
    """A handler that notes its start and its end around the work."""
    work, ms = WORK[job["work"]], job.get("ms", 0)

    async def run(ctx: JobContext) -> None:
        global running
        running += 1
        note("start", **run_of(ctx))
        try:
            await work(ctx, ms)
        except asyncio.CancelledError:
            note("cancelled", **run_of(ctx))
            raise
        finally:
            running -= 1
        note("end", **run_of(ctx))

    return run


async def main() -> None:
    """Starts, waits for SIGTERM, stops."""
    stopping = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopping.set)
    scheduler = Scheduler(backend=config["url"], instance_id=config["id"])
    for name in EVENTS:
        scheduler.on(name, lambda payload, *_, name=name: note(name, event=plain(payload)))
    for job in config["jobs"]:
        options = {snake(key): value for key, value in job.get("options", {}).items()}
        add = scheduler.every if job["kind"] == "every" else scheduler.at
        add(job["name"], job["when"], handler(job), **options)
    await scheduler.start()
    await scheduler.ready()
    note("ready")
    await stopping.wait()
    report = await scheduler.stop(grace_ms=config.get("graceMs", 20_000))
    note("stopped", still_running=len(report.still_running), released=len(report.released))
    while running:
        await asyncio.sleep(0.02)
    # A handler that outlived stop() has its run finished by the scheduler, which lives till then.
    await scheduler.stop()


asyncio.run(main())
