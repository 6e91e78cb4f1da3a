"""SQL through the drivers that programs in Python have: DuckDB, of which the library knows nothing,
asyncpg, psycopg and SQLAlchemy on a real PostgreSQL, and SQLAlchemy on a real MySQL."""

from __future__ import annotations

import asyncio
import os
import secrets
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import asyncpg
import duckdb
import psycopg
import psycopg_pool
import pytest
import sqlalchemy
from anarchon import (
    JobContext,
    MySqlBackend,
    PostgresBackend,
    Scheduler,
    SqliteBackend,
    from_asyncpg,
    from_psycopg,
    from_sqlalchemy,
)
from anarchon.testing import check_backend
from python.stores.duckdb import DuckDbBackend, DuckDbClient
from python.tally import tally
from sqlalchemy.ext.asyncio import create_async_engine

WHOLE: dict[str, Any] = {"rounds": 3, "histories": 2, "steps": 20, "clients": 2}
# Every kind of call, without the cases that wait for leases to end.
BRIEF: dict[str, Any] = {
    **WHOLE,
    "histories": 1,
    "only": ["race", "repeat", "rule 1", "rule 10", "heartbeat", "finish", "manual", "newest"],
}


async def slots_run_by_three(open_backend: Callable[[], Any], count: int = 8) -> list[int]:
    """The slots that three schedulers ran, each with a backend of its own, until there are so
    many."""
    slots: list[int] = []
    enough = asyncio.Event()

    async def tick(ctx: JobContext) -> None:
        slots.append(ctx.slot)
        if len(slots) >= count:
            enough.set()

    schedulers = [Scheduler(backend=open_backend(), instance_id=name) for name in "ABC"]
    for scheduler in schedulers:
        scheduler.every("tick", "200ms", tick, jitter_ms=0)
        await scheduler.start()
    await asyncio.wait_for(enough.wait(), 60)
    await asyncio.gather(*(scheduler.stop() for scheduler in schedulers))
    return slots


async def passed_by(store: str, open_backend: Callable[[], Any], **options: Any) -> int:
    """How many cases of the suite a backend passes; it must pass all that apply to it."""
    report = await check_backend(open_backend, **options)
    tally(store, report)
    report.check()
    return len([case for case in report.cases if case.status == "passed"])


# -- DuckDB --


async def test_three_schedulers_race_on_duckdb(tmp_path: Path) -> None:
    with duckdb.connect(str(tmp_path / "jobs.duckdb")) as database:
        slots = await slots_run_by_three(lambda: DuckDbBackend(database))
        assert len(slots) == len(set(slots)), f"a slot ran twice: {slots}"
        reader = Scheduler(backend=DuckDbBackend(database))
        records = await reader.history("tick", limit=100)
        await reader.stop()
        ran = [record.slot for record in records if record.status == "succeeded"]
        assert ran == sorted(slots, reverse=True)
        assert database.execute("SELECT 1").fetchall() == [(1,)], "it was not opened by the backend"


async def test_duckdb_keeps_the_contract() -> None:
    with duckdb.connect(":memory:") as database:
        assert (
            await passed_by("SqlBackend over DuckDB", lambda: DuckDbBackend(database), **WHOLE) > 50
        )


async def test_an_error_of_duckdb_reaches_the_caller_as_the_object_it_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    raised: list[BaseException] = []
    works = DuckDbClient.all

    def noted(self: DuckDbClient, sql: str, params: list[Any]) -> list[Any]:
        try:
            return works(self, sql, params)
        except duckdb.Error as error:
            raised.append(error)
            raise

    monkeypatch.setattr(DuckDbClient, "all", noted)
    with duckdb.connect(":memory:") as database:
        async with Scheduler(backend=DuckDbBackend(database)) as scheduler:
            scheduler.every("job", "1h", lambda: "fine")
            assert (await scheduler.run_now("job")).output == '"fine"'
            raised.clear()
            database.execute("DROP TABLE duck_runs")
            with pytest.raises(duckdb.CatalogException, match="duck_runs") as caught:
                await scheduler.history("job")
            assert caught.value is raised[-1]
            assert len(raised) == 3, "what says the same three times is believed"


# -- PostgreSQL --

URL = os.environ.get("ANARCHON_TEST_POSTGRES_URL", "postgres://postgres@127.0.0.1:5432/test")
# A namespace of its own for each run, so that no test meets the records of another.
NAMESPACE = f"py-{secrets.token_hex(6)}"


def for_alchemy(driver: str) -> str:
    """The URL as SQLAlchemy wants it."""
    return f"postgresql+{driver}://{URL.partition('://')[2]}"


@asynccontextmanager
async def by_asyncpg_pool() -> AsyncIterator[tuple[Any, Any]]:
    async with asyncpg.create_pool(URL, min_size=1, max_size=4) as pool:
        yield from_asyncpg(pool), lambda: pool.fetchval("SELECT 1")


@asynccontextmanager
async def by_asyncpg_connection() -> AsyncIterator[tuple[Any, Any]]:
    connection = await asyncpg.connect(URL)
    try:
        yield from_asyncpg(connection), lambda: connection.fetchval("SELECT 1")
    finally:
        await connection.close()


@asynccontextmanager
async def by_psycopg_pool() -> AsyncIterator[tuple[Any, Any]]:
    with psycopg_pool.ConnectionPool(URL, min_size=1, max_size=4, open=True) as pool:

        async def alive() -> Any:
            with pool.connection() as connection:
                return connection.execute("SELECT 1").fetchone()[0]  # type: ignore[index]

        yield from_psycopg(pool), alive


@asynccontextmanager
async def by_psycopg_connection() -> AsyncIterator[tuple[Any, Any]]:
    with psycopg.connect(URL) as connection:

        async def alive() -> Any:
            return connection.execute("SELECT 1").fetchone()[0]  # type: ignore[index]

        yield from_psycopg(connection), alive


@asynccontextmanager
async def by_psycopg_async_pool() -> AsyncIterator[tuple[Any, Any]]:
    async with psycopg_pool.AsyncConnectionPool(URL, min_size=1, max_size=4, open=False) as pool:

        async def alive() -> Any:
            async with pool.connection() as connection:
                return (await (await connection.execute("SELECT 1")).fetchone())[0]  # type: ignore[index]

        yield from_psycopg(pool), alive


@asynccontextmanager
async def by_psycopg_async_connection() -> AsyncIterator[tuple[Any, Any]]:
    connection = await psycopg.AsyncConnection.connect(URL)
    try:

        async def alive() -> Any:
            return (await (await connection.execute("SELECT 1")).fetchone())[0]  # type: ignore[index]

        yield from_psycopg(connection), alive
    finally:
        await connection.close()


@asynccontextmanager
async def by_alchemy() -> AsyncIterator[tuple[Any, Any]]:
    engine = sqlalchemy.create_engine(for_alchemy("psycopg"))
    try:

        async def alive() -> Any:
            with engine.begin() as connection:
                return connection.execute(sqlalchemy.text("SELECT 1")).scalar_one()

        yield from_sqlalchemy(engine), alive
    finally:
        engine.dispose()


@asynccontextmanager
async def by_async_alchemy(driver: str) -> AsyncIterator[tuple[Any, Any]]:
    engine = create_async_engine(for_alchemy(driver))
    try:

        async def alive() -> Any:
            async with engine.begin() as connection:
                return (await connection.execute(sqlalchemy.text("SELECT 1"))).scalar_one()

        yield from_sqlalchemy(engine), alive
    finally:
        await engine.dispose()


# Each gives a client, and a way to see that what is behind it is still open.
DRIVERS: dict[str, Callable[[], Any]] = {
    "asyncpg pool": by_asyncpg_pool,
    "asyncpg connection": by_asyncpg_connection,
    "psycopg pool": by_psycopg_pool,
    "psycopg connection": by_psycopg_connection,
    "psycopg async pool": by_psycopg_async_pool,
    "psycopg async connection": by_psycopg_async_connection,
    "SQLAlchemy": by_alchemy,
    "SQLAlchemy async, asyncpg": lambda: by_async_alchemy("asyncpg"),
    "SQLAlchemy async, psycopg": lambda: by_async_alchemy("psycopg"),
}


@pytest.fixture
async def server() -> None:
    """A PostgreSQL that is there; where it is not, the test is skipped, but in CI."""
    try:
        connection = await asyncpg.connect(URL)
    except (OSError, asyncpg.PostgresError) as error:
        if os.environ.get("CI") == "true":
            raise
        pytest.skip(f"no server: {error}")
    await connection.close()


@pytest.fixture(params=DRIVERS)
async def driver(
    server: None, request: pytest.FixtureRequest
) -> AsyncIterator[tuple[Any, Callable[[], Awaitable[int]]]]:
    async with DRIVERS[request.param]() as (client, alive):
        yield client, alive


def backend_of(client: Any) -> PostgresBackend:
    """A backend on a client of a program's."""
    return PostgresBackend(database=client, namespace=NAMESPACE)


async def test_a_driver_keeps_the_contract_and_stays_open(
    driver: tuple[Any, Callable[[], Awaitable[int]]], request: pytest.FixtureRequest
) -> None:
    client, alive = driver
    store = f"postgres over {request.node.callspec.params['driver']}"
    assert await passed_by(store, lambda: backend_of(client), **BRIEF) > 10
    assert await alive() == 1, "what was not opened is not closed"


@pytest.mark.parametrize("pool", ["asyncpg pool", "psycopg pool"])
async def test_a_pool_keeps_the_whole_contract(server: None, pool: str) -> None:
    async with DRIVERS[pool]() as (client, _alive):
        store = f"postgres over {pool}"
        assert await passed_by(store, lambda: backend_of(client), **WHOLE) > 50


async def test_three_schedulers_race_on_a_driver(
    driver: tuple[Any, Callable[[], Awaitable[int]]],
) -> None:
    client, alive = driver
    job = f"tick-{secrets.token_hex(4)}"
    slots: list[int] = []
    enough = asyncio.Event()

    async def tick(ctx: JobContext) -> None:
        slots.append(ctx.slot)
        if len(slots) >= 5:
            enough.set()

    schedulers = [Scheduler(backend=backend_of(client), instance_id=name) for name in "ABC"]
    for scheduler in schedulers:
        scheduler.every(job, "200ms", tick, jitter_ms=0)
        await scheduler.start()
    await asyncio.wait_for(enough.wait(), 60)
    await asyncio.gather(*(scheduler.stop() for scheduler in schedulers))
    assert len(slots) == len(set(slots)), f"a slot ran twice: {slots}"
    assert await alive() == 1


class Noting:
    """A client that notes what the driver raises, and can be told to send nonsense."""

    def __init__(self, client: Any) -> None:
        self.client = client
        self.nonsense = False
        self.raised: list[BaseException] = []
        self.threads: set[str] = set()

    def written(self, sql: str) -> str:
        return sql.replace("SELECT", "SELEKT") if self.nonsense else sql

    @property
    def transaction(self) -> Any:
        return self.client.transaction


class Plain(Noting):
    def all(self, sql: str, params: list[Any]) -> Any:
        self.threads.add(threading.current_thread().name)
        try:
            return self.client.all(self.written(sql), params)
        except Exception as error:
            self.raised.append(error)
            raise


class Async(Noting):
    async def all(self, sql: str, params: list[Any]) -> Any:
        try:
            return await self.client.all(self.written(sql), params)
        except Exception as error:
            self.raised.append(error)
            raise


async def test_an_error_of_a_driver_reaches_the_caller_as_the_object_it_is(
    driver: tuple[Any, Callable[[], Awaitable[int]]],
) -> None:
    client, alive = driver
    noting: Any = (Async if asyncio.iscoroutinefunction(client.all) else Plain)(client)
    async with Scheduler(backend=backend_of(noting)) as scheduler:
        scheduler.every("job", "1h", lambda: "fine")
        assert (await scheduler.run_now("job")).output == '"fine"'
        noting.nonsense = True
        with pytest.raises(Exception, match="SELEKT") as caught:
            await scheduler.history("job")
        noting.nonsense = False
        assert any(caught.value is error for error in noting.raised), "it was raised by the driver"
        assert len(noting.raised) < 10, "a syntax error is not tried until the deadline"
        assert (await scheduler.run_now("job")).output == '"fine"'
    if isinstance(noting, Plain):
        assert noting.threads == {"anarchon-sql"}, "one thread, the same for every call"
    assert await alive() == 1


async def test_an_engine_of_sqlalchemy_on_sqlite(tmp_path: Path) -> None:
    engine = sqlalchemy.create_engine(f"sqlite:///{tmp_path / 'jobs.db'}")

    # As "Serializable isolation / Savepoints" of the SQLAlchemy documentation has it.
    @sqlalchemy.event.listens_for(engine, "connect")
    def connected(connection: Any, _record: Any) -> None:
        connection.isolation_level = None
        connection.execute("PRAGMA synchronous = OFF")

    @sqlalchemy.event.listens_for(engine, "begin")
    def begun(connection: Any) -> None:
        connection.exec_driver_sql("BEGIN IMMEDIATE")

    def open_backend() -> SqliteBackend:
        return SqliteBackend(database=from_sqlalchemy(engine))

    assert await passed_by("sqlite over SQLAlchemy", open_backend, **BRIEF) > 10
    engine.dispose()


async def test_clients_made_of_one_connection_take_turns(server: None) -> None:
    async with DRIVERS["psycopg connection"]() as (client, _alive):
        clients = [client, from_psycopg(client._pool)]
        store = "postgres over psycopg connection"
        assert await passed_by(store, lambda: backend_of(clients[0]), **BRIEF) > 10
        opened = iter(clients)
        assert await passed_by(store, lambda: backend_of(next(opened)), **BRIEF) > 10


# -- MySQL and MariaDB --

MYSQL_URL = os.environ.get("ANARCHON_TEST_MYSQL_URL", "mysql://root@127.0.0.1:3306/test")


@pytest.fixture
def mysql_engine() -> Iterator[sqlalchemy.Engine]:
    """An engine on a server that is there; where it is not, the test is skipped, but in CI."""
    engine = sqlalchemy.create_engine(f"mysql+pymysql://{MYSQL_URL.partition('://')[2]}")
    try:
        engine.connect().close()
    except sqlalchemy.exc.OperationalError as error:
        if os.environ.get("CI") == "true":
            raise
        pytest.skip(f"no server: {error}")
    yield engine
    engine.dispose()


async def test_an_engine_on_mysql_keeps_the_whole_contract(
    mysql_engine: sqlalchemy.Engine,
) -> None:
    def open_backend() -> MySqlBackend:
        return MySqlBackend(database=from_sqlalchemy(mysql_engine), namespace=NAMESPACE)

    assert await passed_by("mysql over SQLAlchemy", open_backend, **WHOLE) > 50
    with mysql_engine.begin() as connection:
        assert connection.execute(sqlalchemy.text("SELECT 1")).scalar_one() == 1
