"""The Python part of `make bench`: one JSON line per figure on standard output.

usage: bridge.py FOLDER
"""

from __future__ import annotations

import asyncio
import json
import sqlite3
import sys
import time
from pathlib import Path

from anarchon import JobContext, JobOptions, Scheduler


def tell(name: str, value: float, unit: str) -> None:
    """One figure."""
    print(json.dumps({"language": "python", "name": name, "value": value, "unit": unit}))


def percentile(values: list[float], share: float) -> float:
    """The value below which this share of the others lies."""
    return sorted(values)[min(round(share * (len(values) - 1)), len(values) - 1)]


def resident_kib() -> float:
    """Resident memory of this process."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return float(line.split()[1])
    return 0.0


async def calls() -> None:
    """The cost of one handler call and of one `history()` call."""
    async with Scheduler(backend="memory:") as scheduler:

        async def nothing(_ctx: JobContext) -> None:
            pass

        # The store forgets a run after a second: thousands at once shall not slow each other down.
        brief: JobOptions = {
            "history_size": 5,
            "lease_ms": 1_000,
            "jitter_ms": 0,
            "max_late_ms": 0,
        }
        scheduler.every("call", "1h", nothing, **brief)
        scheduler.every("plain", "1h", lambda: None, **brief)
        count = 2_000
        for name, what in (
            ("call", "one handler call"),
            ("plain", "one handler call, plain function"),
        ):
            begin = time.perf_counter()
            for _ in range(count):
                await scheduler.run_now(name)
            tell(what, (time.perf_counter() - begin) * 1e6 / count, "µs")
        begin = time.perf_counter()
        for _ in range(count):
            await scheduler.history("call", limit=1)
        tell("one history() call", (time.perf_counter() - begin) * 1e6 / count, "µs")


async def many() -> None:
    """Ten thousand jobs."""
    scheduler = Scheduler(backend="memory:")
    before = resident_kib()
    begin = time.perf_counter()
    for number in range(10_000):
        scheduler.every(f"job-{number}", "1h", lambda: None)
    tell("10,000 jobs: add", (time.perf_counter() - begin) * 1e3, "ms")
    begin = time.perf_counter()
    await scheduler.start()
    await scheduler.ready()
    tell("10,000 jobs: start until ready", (time.perf_counter() - begin) * 1e3, "ms")
    tell("10,000 jobs: memory", (resident_kib() - before) / 1_024, "MiB")
    await scheduler.stop()


async def bare_timer(folder: Path) -> None:
    """What it would be without a scheduler: a timer, and one commit that decides."""
    connection = sqlite3.connect(folder / "timer.py.db", isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("CREATE TABLE claims (slot INTEGER PRIMARY KEY)")
    late = []
    for _ in range(100):
        now = time.time() * 1e3
        slot = now // 100 * 100 + 100
        await asyncio.sleep((slot - now) / 1e3)
        connection.execute("INSERT INTO claims VALUES (?) ON CONFLICT DO NOTHING", (slot,))
        late.append(time.time() * 1e3 - slot)
    connection.close()
    tell("lateness p50: bare timer and INSERT", percentile(late, 0.5), "ms")
    tell("lateness p99: bare timer and INSERT", percentile(late, 0.99), "ms")


async def lateness(folder: Path) -> None:
    """How long after its slot a handler is entered: one job every 100 ms, no jitter."""
    await bare_timer(folder)
    late: list[float] = []
    enough = asyncio.Event()

    async def tick(ctx: JobContext) -> None:
        late.append(time.time() * 1e3 - ctx.slot)
        if len(late) >= 105:
            enough.set()

    scheduler = Scheduler(backend=f"sqlite://{folder / 'python.db'}")
    scheduler.every("tick", "100ms", tick, jitter_ms=0)
    async with scheduler:
        await enough.wait()
    tell("lateness p50", percentile(late[5:], 0.5), "ms")
    tell("lateness p99", percentile(late[5:], 0.99), "ms")


async def main() -> None:
    """All of it."""
    await calls()
    await many()
    await lateness(Path(sys.argv[1]))


asyncio.run(main())
