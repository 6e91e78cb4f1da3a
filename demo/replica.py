"""One Python replica of the demo: the same three jobs as replica.mjs, on the same store.

usage: replica.py INSTANCE_ID STORE_URL REPORT_AT_MS LOG_FILE
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time

from anarchon import JobContext, Scheduler

instance_id, store, report_at, log_file = sys.argv[1:5]
log = os.open(log_file, os.O_WRONLY | os.O_APPEND | os.O_CREAT)


def note(what: str, ctx: JobContext | None = None) -> None:
    """Writes one line to this replica's own log: what its handlers really did."""
    line = {"what": what, "by": instance_id, "at": int(time.time() * 1000)}
    if ctx is not None:
        line |= {"job": ctx.job, "slot": ctx.slot, "attempt": ctx.attempt}
    os.write(log, (json.dumps(line) + "\n").encode())


scheduler = Scheduler(backend=store, instance_id=instance_id)


@scheduler.every("beat", "1s", lease_ms=2_000)
def beat(ctx: JobContext) -> None:
    """A short job, due every second."""
    note("start", ctx)
    note("end", ctx)


@scheduler.at("report", int(report_at), lease_ms=2_000)
async def report(ctx: JobContext) -> str:
    """A long job, due once: its first holder is going to be killed."""
    note("start", ctx)
    await asyncio.sleep(4)
    note("end", ctx)
    return f"written by {instance_id}"


@scheduler.on("missed")
@scheduler.on("error")
def complain(_event: object) -> None:
    """Neither should happen here: the summary looks for it."""
    note("complaint")


note("ready")
scheduler.run()
