"""SQL stores by the user's own client, and databases that the user describes."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import pytest
from anarchon import (
    BackendUnavailableError,
    Connected,
    InvalidOptionError,
    RunRecord,
    Scheduler,
    SqlBackend,
    SqliteBackend,
    from_sqlite3,
)
from anarchon.testing import check_backend

QUICK: dict[str, Any] = {"rounds": 2, "histories": 1, "steps": 15, "clients": 2}
SOME = {**QUICK, "only": ["race", "rule 4", "random", "history"]}


def opened(path: Path) -> sqlite3.Connection:
    """A connection to a file that need not survive a loss of power."""
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA synchronous = OFF")
    connection.row_factory = sqlite3.Row
    return connection


async def one_run(backend: Any) -> list[RunRecord]:
    """Starts, runs a job, stops; what the store remembers."""
    scheduler = Scheduler(backend=backend, instance_id="a")
    scheduler.every("job", "1h", lambda: "fine")
    async with scheduler:
        record = await scheduler.run_now("job")
        assert record.output == '"fine"'
        return await scheduler.history("job")


# -- sqlite3, in every form that a client may have --


class Plain:
    """Plain methods; transaction(fn)."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.connection: sqlite3.Connection | None = None
        self.threads: set[str] = set()
        self.closed = False

    def open(self) -> sqlite3.Connection:
        if self.connection is None:
            self.connection = opened(self.path)
        return self.connection

    def all(self, sql: str, params: list[Any]) -> list[Any]:
        self.threads.add(threading.current_thread().name)
        return self.open().execute(sql, params).fetchall()

    def transaction(self, fn: Callable[[Any], None]) -> str:
        self.open().execute("BEGIN IMMEDIATE")
        try:
            fn(self)
        except BaseException:
            self.open().execute("ROLLBACK")
            raise
        self.open().execute("COMMIT")
        return "not looked at"

    def close(self) -> None:
        self.closed = True


class PlainManager(Plain):
    """Plain methods; a context manager."""

    @contextmanager
    def transaction(self) -> Iterator[Plain]:  # type: ignore[override]
        self.open().execute("BEGIN IMMEDIATE")
        try:
            yield self
        except BaseException:
            self.open().execute("ROLLBACK")
            raise
        self.open().execute("COMMIT")


class Async:
    """Async methods; transaction(fn). A connection on the loop's thread, with a lock."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.connection: sqlite3.Connection | None = None
        self.turn = asyncio.Lock()

    def open(self) -> sqlite3.Connection:
        if self.connection is None:
            self.connection = opened(self.path)
        return self.connection

    async def all(self, sql: str, params: list[Any]) -> list[Any]:
        async with self.turn:
            return await self.send(sql, params)

    async def send(self, sql: str, params: list[Any]) -> list[Any]:
        await asyncio.sleep(0)
        return self.open().execute(sql, params).fetchall()

    async def transaction(self, fn: Callable[[Any], Any]) -> None:
        async with self.turn:
            self.open().execute("BEGIN IMMEDIATE")
            try:
                await fn(Inside(self))
            except BaseException:
                self.open().execute("ROLLBACK")
                raise
            self.open().execute("COMMIT")


class Inside:
    """A transaction of `Async`."""

    def __init__(self, client: Async) -> None:
        self.client = client

    async def all(self, sql: str, params: list[Any]) -> list[Any]:
        return await self.client.send(sql, params)


class AsyncManager(Async):
    """Async methods; an async context manager."""

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Inside]:  # type: ignore[override]
        async with self.turn:
            self.open().execute("BEGIN IMMEDIATE")
            try:
                yield Inside(self)
            except BaseException:
                self.open().execute("ROLLBACK")
                raise
            self.open().execute("COMMIT")


class HandsOut(Async):
    """Plain methods that hand out coroutines, as a lambda around a driver does."""

    def all(self, sql: str, params: list[Any]) -> Any:  # type: ignore[override]
        return super().all(sql, params)

    def transaction(self, fn: Callable[[Any], Any]) -> Any:  # type: ignore[override]
        return super().transaction(fn)


@pytest.mark.parametrize("kind", [Plain, PlainManager, Async, AsyncManager, HandsOut])
async def test_a_client_of_any_form_keeps_the_contract(kind: type[Any], tmp_path: Path) -> None:
    client = kind(tmp_path / "jobs.db")
    [run] = await one_run(SqliteBackend(database=client))
    assert (run.status, run.by) == ("succeeded", "a")
    if isinstance(client, Plain):
        assert client.threads == {"anarchon-sql"}, "one thread, the same for every call"
        assert not client.closed, "what was not opened is not closed"
    # Connections that block the loop they share would wait for each other.
    another = kind if isinstance(client, Plain) else lambda _path: client
    report = await check_backend(
        lambda: SqliteBackend(database=another(tmp_path / "jobs.db")), **SOME
    )
    report.check()


@pytest.mark.parametrize("form", ["function", "path", "connection"])
async def test_the_adapter_of_sqlite3(form: str, tmp_path: Path) -> None:
    path = tmp_path / "jobs.db"
    connection = sqlite3.connect(path, check_same_thread=False)
    source: Any = {
        "function": lambda: sqlite3.connect(path),
        "path": path,
        "connection": connection,
    }[form]
    backend = SqliteBackend(database=from_sqlite3(source), namespace="blue", table="blue_runs")
    assert len(await one_run(backend)) == 1
    tables = [row[0] for row in connection.execute("SELECT name FROM sqlite_master")]
    assert "blue_runs" in tables, "the connection is still open"
    connection.close()
    report = await check_backend(
        lambda: SqliteBackend(database=from_sqlite3(lambda: opened(path))), **SOME
    )
    report.check()


async def test_a_file_is_shared_with_the_built_in_store(tmp_path: Path) -> None:
    url = f"sqlite:{tmp_path}/jobs.db"
    ours = Scheduler(backend=url, instance_id="ours")
    ours.every("job", "1h", lambda: "fine")
    async with ours:
        await ours.run_now("job")
    theirs = Scheduler(backend=SqliteBackend(database=from_sqlite3(tmp_path / "jobs.db")))
    assert [run.by for run in await theirs.history("job")] == ["ours"]
    await theirs.stop()


class Failing(Plain):
    """A client that fails as it is told to, and counts what it was asked for then."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.fail: Callable[[], BaseException | None] = lambda: None
        self.asked = 0

    def all(self, sql: str, params: list[Any]) -> list[Any]:
        error = self.fail()
        if error is not None:
            self.asked += 1
            raise error
        return super().all(sql, params)


@pytest.fixture
async def failing(tmp_path: Path) -> AsyncIterator[tuple[Failing, Scheduler]]:
    """A scheduler that has started on such a client."""
    client = Failing(tmp_path / "jobs.db")
    scheduler = Scheduler(backend=SqliteBackend(database=client))
    scheduler.on("error", lambda _event: None)
    scheduler.every("job", "1h", lambda: "fine")
    async with scheduler:
        await scheduler.run_now("job")
        yield client, scheduler
        client.fail = lambda: None


async def test_an_error_of_the_driver_reaches_the_caller_as_it_is(
    failing: tuple[Failing, Scheduler],
) -> None:
    class Down(Exception): ...

    client, scheduler = failing
    thrown = Down("the disk is on fire")
    client.fail = lambda: thrown
    for call in (scheduler.history, scheduler.active, scheduler.run_now):
        client.asked = 0
        with pytest.raises(Down) as caught:
            await call("job")
        assert caught.value is thrown
        # Three times for this call; the scheduler may have asked for something meanwhile.
        assert 3 <= client.asked < 10, "what says the same three times is believed"
    client.fail = lambda: None
    assert len(await scheduler.history("job")) == 1


async def test_a_table_that_is_gone_is_told_at_once(failing: tuple[Failing, Scheduler]) -> None:
    client, scheduler = failing
    opened = sqlite3.connect(client.path)
    opened.execute("ALTER TABLE anarchon_runs RENAME TO gone")
    with pytest.raises(sqlite3.OperationalError, match="no such table: anarchon_runs"):
        await scheduler.history("job")
    opened.execute("ALTER TABLE gone RENAME TO anarchon_runs")
    opened.close()
    assert len(await scheduler.history("job")) == 1


async def test_what_another_try_can_mend_is_tried_again(failing: tuple[Failing, Scheduler]) -> None:
    client, scheduler = failing
    left = 8

    def busy() -> BaseException | None:
        nonlocal left
        left -= 1
        return sqlite3.OperationalError("database is locked") if left >= 0 else None

    client.fail = busy
    assert len(await scheduler.history("job")) == 1
    assert client.asked == 8


async def test_an_answer_that_is_no_rows_names_the_member(tmp_path: Path) -> None:
    class Odd(Plain):
        def all(self, sql: str, params: list[Any]) -> Any:
            return 5

    class Lists(Plain):
        def all(self, sql: str, params: list[Any]) -> Any:
            return [(1, 2)]

    for kind in (Odd, Lists):
        scheduler = Scheduler(
            backend=SqliteBackend(database=kind(tmp_path / f"{kind.__name__}.db")),
            start_timeout_ms="3s",
        )
        scheduler.every("job", "1h", lambda: "fine")
        with pytest.raises(Exception, match=rf"{kind.__name__}\.all\(\)") as refused:
            await scheduler.start()
        assert hasattr(refused.value, "code")
        await scheduler.stop()


def test_a_client_that_is_none_is_refused(tmp_path: Path) -> None:
    for options, says in (
        ({"database": object()}, "all"),
        ({}, "neither"),
        ({"path": "a.db", "database": Plain(tmp_path / "a.db")}, "both"),
        ({"database": Plain(tmp_path / "a.db"), "pool": 5}, "pool"),
        ({"database": Plain(tmp_path / "a.db"), "namespace": "A b"}, "namespace"),
        ({"database": Plain(tmp_path / "a.db"), "table": "x;"}, "table"),
    ):
        with pytest.raises(InvalidOptionError, match=says):
            SqliteBackend(**options)  # type: ignore[arg-type]
    with pytest.raises(InvalidOptionError, match="from_sqlite3"):
        from_sqlite3(5)  # type: ignore[arg-type]


# -- a database that the library does not know --


class Dialect:
    """SQLite, described as a stranger."""

    bigint = "INTEGER"
    now_ms = "CAST(ROUND((julianday('now') - 2440587.5) * 86400000.0) AS INTEGER)"
    for_update = ""

    def __init__(self) -> None:
        self.serialized: list[str] = []

    def placeholders(self, sql: str) -> str:
        return sql

    def extra_tables(self, table: str) -> list[str]:
        return [f"CREATE TABLE {table}_extra (x INTEGER)"]

    def serialize(self, tx: Any, job: str) -> None:
        self.serialized.append(job)

    def is_already_created(self, error: BaseException) -> bool:
        return "already exists" in str(error)


class AsyncDialect(Dialect):
    async def serialize(self, tx: Any, job: str) -> None:  # type: ignore[override]
        await tx.all("SELECT 1 AS one", [])
        self.serialized.append(job)


class EmbeddedSql(SqlBackend):
    """The example of the page."""

    name = "embedded-sql"

    def __init__(self, path: Path) -> None:
        super().__init__("embedded_runs")
        self.path = path
        self.dialect = Dialect()
        self.client: Any = None
        self.checked = 0

    def connect(self) -> Connected:
        self.client = Plain(self.path)
        return Connected(self.client, owned=True)

    def check_server(self) -> None:
        self.checked += 1


class AsyncEmbeddedSql(EmbeddedSql):
    """The same, async."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.dialect = AsyncDialect()

    async def connect(self) -> Connected:  # type: ignore[override]
        return Connected(AsyncManager(self.path), owned=True)

    async def check_server(self) -> None:  # type: ignore[override]
        self.checked += 1


@pytest.mark.parametrize("kind", [EmbeddedSql, AsyncEmbeddedSql])
async def test_a_database_that_is_described(kind: type[EmbeddedSql], tmp_path: Path) -> None:
    backend = kind(tmp_path / "jobs.db")
    assert len(await one_run(backend)) == 1
    assert backend.checked == 1
    assert "job" in backend.dialect.serialized
    assert any("embedded_runs" in statement for statement in backend.ddl())
    if backend.client is not None:
        assert backend.client.closed, "it was opened here"
    # The extra table is there already: that is no error.
    again = kind(tmp_path / "jobs.db")
    report = await check_backend(lambda: again, **QUICK)
    report.check()


async def test_a_subclass_may_override_members_and_ask_for_those_above(tmp_path: Path) -> None:
    class Counting(EmbeddedSql):
        histories = 0

        async def history(self, job: str, limit: int) -> list[RunRecord]:
            Counting.histories += 1
            return await super().history(job, limit)

    assert len(await one_run(Counting(tmp_path / "jobs.db"))) == 1
    assert Counting.histories == 1


async def test_a_connection_of_the_wrong_shape_is_named(tmp_path: Path) -> None:
    class Wrong(EmbeddedSql):
        def connect(self) -> Any:
            return "connected"

    scheduler = Scheduler(backend=Wrong(tmp_path / "jobs.db"), start_timeout_ms="3s")
    with pytest.raises(InvalidOptionError, match=r"Wrong\.connect\(\)"):
        await scheduler.start()


async def test_a_call_before_the_connection_says_so(tmp_path: Path) -> None:
    backend = EmbeddedSql(tmp_path / "jobs.db")
    with pytest.raises((BackendUnavailableError, InvalidOptionError)):
        await backend.runs.active("job")
