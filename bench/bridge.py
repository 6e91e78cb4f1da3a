"""The Python part of `make bench`: one JSON line per figure on standard output.

usage: bridge.py FOLDER
"""

from __future__ import annotations

import asyncio
import json
import logging
import math
import sqlite3
import sys
import time
from pathlib import Path

from anarchon import (
    ClaimInput,
    JobContext,
    JobOptions,
    RunRecord,
    Scheduler,
    StoredResult,
)


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


class Nothing:
    """A backend that does nothing: what is left is the way there and back."""

    name = "nothing"
    dedupe_window_ms = math.inf

    def __init__(self) -> None:
        # When the first claim of a slot came, when the last one, and how many.
        self.bursts: dict[int, tuple[float, float, int]] = {}

    async def init(self) -> None: ...
    async def prepare_job(self, job: str, history_size: int) -> None: ...
    async def close(self) -> None: ...
    async def record_manual_run(self, input: ClaimInput) -> None: ...

    async def claim(self, input: ClaimInput) -> bool:
        now = time.perf_counter()
        first, _, count = self.bursts.get(input.slot, (now, now, 0))
        self.bursts[input.slot] = (first, now, count + 1)
        return False

    async def save_result(
        self, job: str, result: StoredResult, history_size: int, history_ttl_ms: int | None = None
    ) -> None: ...

    async def history(self, job: str, limit: int) -> list[RunRecord]:
        return []


class PlainNothing(Nothing):
    """The same with the method that is measured as a plain one, which is called in a thread."""

    def history(self, job: str, limit: int) -> list[RunRecord]:  # type: ignore[override]
        return []


async def one_call(backend: Nothing, jobs: int) -> float:
    """What a call costs that goes through a backend in Python, beside one that does not (µs)."""
    count, rounds = 50, 40
    async with (
        Scheduler(backend=backend) as through,
        Scheduler(backend="memory:") as beside,
    ):
        for number in range(jobs):
            through.every(f"job-{number}", "1d", lambda: None)
        await through.ready()
        best = {through: math.inf, beside: math.inf}
        # In turn, and the best of each: the round in which nothing else was going on.
        for _ in range(rounds):
            for scheduler in best:
                begin = time.perf_counter()
                for _ in range(count):
                    await scheduler.history("none", limit=1)
                best[scheduler] = min(best[scheduler], time.perf_counter() - begin)
    return (best[through] - best[beside]) * 1e6 / count


async def host() -> None:
    """A backend in Python: what one call costs, whether that grows with the number of jobs, and how
    many claims of one instant it answers in a second."""
    tell("host backend: one call", await one_call(Nothing(), 1), "µs")
    tell("host backend: one call, 10,000 jobs", await one_call(Nothing(), 10_000), "µs")
    tell("host backend: one call, plain method", await one_call(PlainNothing(), 1), "µs")
    tell("host backend: claims/s", await claims_per_second(Nothing(), 1_000), "/s")


async def claims_per_second(backend: Nothing, jobs: int) -> float:
    """The best of five slots that all jobs have in common."""
    async with Scheduler(backend=backend) as scheduler:
        for number in range(jobs):
            scheduler.every(f"job-{number}", "2s", lambda: None, jitter_ms=0)
        await scheduler.ready()
        while True:
            await asyncio.sleep(0.1)
            whole = [burst for burst in backend.bursts.values() if burst[2] == jobs]
            if len(whole) >= 5:
                return max((count - 1) / (last - first) for first, last, count in whole)


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
    await host()
    await lateness(Path(sys.argv[1]))


logging.disable()
asyncio.run(main())
