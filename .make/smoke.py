"""Runs one job with the installed wheel."""

from __future__ import annotations

import asyncio

from anarchon import MemoryBackend, Scheduler


async def main() -> None:
    """One manual run, seen in the history."""
    async with Scheduler(backend=MemoryBackend()) as scheduler:
        scheduler.every("tick", "1h", lambda: "done")
        record = await scheduler.run_now("tick")
        assert record.status == "succeeded", record
        assert [run.slot for run in await scheduler.history("tick")] == [record.slot]


asyncio.run(main())
print("python: ok")
