"""The Python blocks of docs/writing-your-own-backend.md do what the page says of them.

That each of them runs is tested with all other examples in tests/docs; here is judged what they do.
"""

from __future__ import annotations

import asyncio
import sqlite3
import types
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from anarchon import JobContext, Scheduler, SqliteBackend
from anarchon.testing import check_backend
from docs.blocks import Example, examples

PAGE = "docs/writing-your-own-backend.md"
BRIEF: dict[str, Any] = {"rounds": 3, "histories": 2, "steps": 15, "clients": 2}


def the_block(*words: str) -> Example:
    """The one Python block of the page in which all these words stand."""
    blocks = [one for one in examples() if one.page == PAGE and one.language == "py"]
    found = [one for one in blocks if all(word in one.code for word in words)]
    assert len(found) == 1, f"{len(found)} blocks of the page have {words}"
    return found[0]


def module_of(example: Example) -> Any:
    """What a block defines. Where it is a program, the call that begins it is left out."""
    module = types.ModuleType(example.slug)
    code = example.code.replace("asyncio.run(main())", "")
    exec(compile(code, str(example), "exec"), module.__dict__)
    return module


async def slots_run_by_three(open_backend: Any, count: int = 8) -> list[int]:
    """The slots that three schedulers ran, until there are so many."""
    slots: list[int] = []
    enough = asyncio.Event()

    async def tick(ctx: JobContext) -> None:
        slots.append(ctx.slot)
        if len(slots) >= count:
            enough.set()

    schedulers = [Scheduler(backend=open_backend(), instance_id=name) for name in "ABC"]
    for scheduler in schedulers:
        scheduler.every("tick", "100ms", tick, jitter_ms=0)
    await asyncio.gather(*(scheduler.start() for scheduler in schedulers))
    await asyncio.wait_for(enough.wait(), 30)
    await asyncio.gather(*(scheduler.stop() for scheduler in schedulers))
    return slots


async def test_three_schedulers_on_the_memory_backend_of_the_page_run_each_slot_once() -> None:
    backend = module_of(the_block("class MemoryBackend")).MemoryBackend()
    slots = await slots_run_by_three(lambda: backend)
    assert len(slots) == len(set(slots)), f"a slot ran twice: {slots}"
    records = [record for record in backend.history("tick", 100) if record.status == "succeeded"]
    assert [record.slot for record in records] == sorted(slots, reverse=True)
    report = await check_backend(lambda: backend, rounds=5)
    report.check()
    passed = [case for case in report.cases if case.status == "passed"]
    assert len(passed) >= 15, str(report)


async def test_three_schedulers_on_the_directory_backend_of_the_page_run_each_slot_once(
    tmp_path: Path,
) -> None:
    kind = module_of(the_block("class DirectoryBackend")).DirectoryBackend
    slots = await slots_run_by_three(lambda: kind(str(tmp_path / "claims")))
    assert len(slots) == len(set(slots)), f"a slot ran twice: {slots}"
    report = await check_backend(lambda: kind(str(tmp_path / "checked")), rounds=3)
    report.check()


class Driver:
    """A driver as programs have them: asynchronous, and its transactions take turns."""

    def __init__(self, path: Path) -> None:
        self.connection = sqlite3.connect(path, isolation_level=None)
        self.connection.row_factory = sqlite3.Row
        self.connection.execute("PRAGMA synchronous = OFF")
        self.turn = asyncio.Lock()
        self.closed = False

    async def query(self, sql: str, params: list[Any]) -> list[Any]:
        async with self.turn:
            return self.connection.execute(sql, params).fetchall()

    @asynccontextmanager
    async def begin(self) -> AsyncIterator[Any]:
        async def query(sql: str, params: list[Any]) -> list[Any]:
            return self.connection.execute(sql, params).fetchall()

        async with self.turn:
            self.connection.execute("BEGIN IMMEDIATE")
            try:
                yield types.SimpleNamespace(query=query)
            except BaseException:
                self.connection.execute("ROLLBACK")
                raise
            self.connection.execute("COMMIT")


async def used(backend: Any) -> None:
    """Runs a job on two schedulers that share a backend, and holds it against the contract."""
    schedulers = [Scheduler(backend=backend, instance_id=name) for name in "AB"]
    for scheduler in schedulers:
        scheduler.every("job", "1h", lambda ctx: ctx.instance_id)
    await asyncio.gather(*(scheduler.start() for scheduler in schedulers))
    run = await schedulers[1].run_now("job")
    [seen] = await schedulers[0].history("job")
    await asyncio.gather(*(scheduler.stop() for scheduler in schedulers))
    assert (run.output, seen.slot, seen.by) == ('"B"', run.slot, "B")
    report = await check_backend(lambda: backend, **BRIEF)
    report.check()
    passed = [case for case in report.cases if case.status == "passed"]
    assert len(passed) > 40, str(report)


async def test_a_client_with_all_and_transaction_is_a_whole_sql_backend(tmp_path: Path) -> None:
    client = module_of(the_block("class Client", "on_driver")).Client
    driver = Driver(tmp_path / "jobs.db")
    await used(SqliteBackend(database=client(driver)))
    assert driver.connection.execute("SELECT 1").fetchall(), "what was not opened is not closed"


async def test_the_sql_backend_of_the_page_is_a_whole_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    await used(module_of(the_block("class LocalDialect")).LocalBackend("local.db"))
