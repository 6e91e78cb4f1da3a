"""A replica of the lateness part of `make bench`, in Python.

usage: late.py CONFIG_JSON    (the same configuration and the same lines as late.mjs)
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from typing import Any

from anarchon import JobContext, Scheduler

lines: list[str] = []


def replica(store: dict[str, Any], id: str) -> Scheduler:
    """A scheduler with one job of every second, which notes when its handler is entered."""
    scheduler = Scheduler(backend=store["url"], instance_id=id)

    async def note(ctx: JobContext) -> None:
        at = time.time() * 1e3
        line = {"language": "python", "store": store["name"], "slot": ctx.slot, "at": at}
        lines.append(json.dumps(line))

    scheduler.every(store["job"], "1s", note, jitter_ms=0, offset_ms=store["offsetMs"])
    return scheduler


async def main(config: dict[str, Any]) -> None:
    """Runs until the given instant."""
    replicas = [replica(store, config["id"]) for store in config["stores"]]
    for one in replicas:
        await one.start()
    await asyncio.sleep(max(0.0, config["until"] / 1e3 - time.time()))
    for one in replicas:
        await one.stop()


asyncio.run(main(json.loads(sys.argv[1])))
print("\n".join(lines))
