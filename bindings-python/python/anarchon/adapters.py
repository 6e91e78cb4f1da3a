"""Clients for the SQL backends, made of the drivers that programs have."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from threading import Lock
from typing import TYPE_CHECKING, Any, TypeVar
from weakref import WeakKeyDictionary

from .errors import InvalidOptionError

if TYPE_CHECKING:
    import sqlite3

    from .sql import SqlClient

__all__ = ["from_asyncpg", "from_psycopg", "from_sqlalchemy", "from_sqlite3"]

L = TypeVar("L")


def from_sqlite3(
    database: sqlite3.Connection | Callable[[], Any] | str | os.PathLike[str],
) -> SqlClient:
    """A client of the standard library's `sqlite3`: a function that opens a connection, a path, or
    a connection.

    What is opened here is used in one thread of ours, and closed with the backend. A connection
    that you opened must allow that, with `check_same_thread=False`, and stays open.

    >>> from anarchon import SqliteBackend, from_sqlite3
    >>> backend = SqliteBackend(database=from_sqlite3("jobs.db"))
    """
    import sqlite3

    if isinstance(database, sqlite3.Connection):
        return _Sqlite3(lambda: database, opened_here=False)
    if callable(database):
        return _Sqlite3(database, opened_here=True)
    if isinstance(database, (str, os.PathLike)):
        return _Sqlite3(lambda: sqlite3.connect(database), opened_here=True)
    raise InvalidOptionError(
        f"from_sqlite3 was given {database!r}; allowed are a connection, a function that opens "
        "one, and a path"
    )


class _Sqlite3:
    def __init__(self, connect: Callable[[], Any], *, opened_here: bool) -> None:
        self._connect = connect
        self._connection: Any = None
        self.opened_here = opened_here

    def _open(self) -> Any:
        if self._connection is None:
            self._connection = self._connect()
        return self._connection

    def all(self, sql: str, params: list[Any]) -> list[dict[str, Any]]:
        connection = self._open()
        rows = _rows(connection.execute(sql, params))
        if connection.in_transaction:  # Python begins one by itself before a change.
            connection.commit()
        return rows

    @contextmanager
    def transaction(self) -> Iterator[_Sqlite3Transaction]:
        connection = self._open()
        connection.execute("BEGIN IMMEDIATE")
        try:
            yield _Sqlite3Transaction(connection)
        except BaseException:
            connection.rollback()
            raise
        connection.commit()

    def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()


class _Sqlite3Transaction:
    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def all(self, sql: str, params: list[Any]) -> list[dict[str, Any]]:
        return _rows(self._connection.execute(sql, params))


def _rows(cursor: Any) -> list[dict[str, Any]]:
    """The rows of a cursor of the DB-API, by the names of their columns."""
    if cursor.description is None:
        return []
    names = [column[0] for column in cursor.description]
    return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]


# By which those who use one connection take turns, however many clients are made of it.
_turns: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()


def _turn_of(connection: Any, fresh: L) -> L:
    try:
        turn: L = _turns.setdefault(connection, fresh)
    except TypeError:  # A pool, which needs none.
        return fresh
    return turn


def from_asyncpg(pool: Any) -> SqlClient:
    """A client of an asyncpg pool, or of one connection, whose statements then take turns. It stays
    open."""
    return _Asyncpg(pool)


class _Asyncpg:
    def __init__(self, pool: Any) -> None:
        self._pool = pool
        self._turn = _turn_of(pool, asyncio.Lock())

    @asynccontextmanager
    async def _connection(self) -> AsyncIterator[Any]:
        if hasattr(self._pool, "acquire"):
            async with self._pool.acquire() as connection:
                yield connection
        else:
            async with self._turn:
                yield self._pool

    async def all(self, sql: str, params: list[Any]) -> list[Any]:
        async with self._connection() as connection:
            rows: list[Any] = await connection.fetch(sql, *params)
            return rows

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[_AsyncpgTransaction]:
        async with self._connection() as connection, connection.transaction():
            yield _AsyncpgTransaction(connection)


class _AsyncpgTransaction:
    def __init__(self, connection: Any) -> None:
        self._connection = connection

    async def all(self, sql: str, params: list[Any]) -> list[Any]:
        rows: list[Any] = await self._connection.fetch(sql, *params)
        return rows


def from_psycopg(pool: Any) -> SqlClient:
    """A client of psycopg 3: a `ConnectionPool`, an `AsyncConnectionPool`, or a connection of
    either kind, whose statements then take turns. It stays open."""
    # A connection has something called `connection` too.
    connections = pool.connection if hasattr(pool, "getconn") else None
    if type(pool).__name__.startswith("Async"):
        return _AsyncPsycopg(pool, connections)
    return _Psycopg(pool, connections)


def _dollars(sql: str) -> str:
    """`$1` as psycopg wants it: `%s`, in order; per cent signs doubled."""
    import re

    return re.sub(r"\$\d+", "%s", sql.replace("%", "%%"))


class _Psycopg:
    def __init__(self, pool: Any, connections: Any) -> None:
        self._pool = pool
        self._connections = connections
        self._turn = _turn_of(pool, Lock())

    @contextmanager
    def _connection(self) -> Iterator[Any]:
        if self._connections is None:
            with self._turn:
                yield self._pool
        else:
            with self._connections() as connection:
                yield connection

    def all(self, sql: str, params: list[Any]) -> list[Any]:
        with self._connection() as connection, connection.transaction():
            return _rows(connection.execute(_dollars(sql), params))

    @contextmanager
    def transaction(self) -> Iterator[_PsycopgTransaction]:
        with self._connection() as connection, connection.transaction():
            yield _PsycopgTransaction(connection)


class _PsycopgTransaction:
    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def all(self, sql: str, params: list[Any]) -> list[Any]:
        return _rows(self._connection.execute(_dollars(sql), params))


class _AsyncPsycopg:
    def __init__(self, pool: Any, connections: Any) -> None:
        self._pool = pool
        self._connections = connections
        self._turn = _turn_of(pool, asyncio.Lock())

    @asynccontextmanager
    async def _connection(self) -> AsyncIterator[Any]:
        if self._connections is None:
            async with self._turn:
                yield self._pool
        else:
            async with self._connections() as connection:
                yield connection

    async def all(self, sql: str, params: list[Any]) -> list[Any]:
        async with self._connection() as connection, connection.transaction():
            return await _async_rows(await connection.execute(_dollars(sql), params))

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[_AsyncPsycopgTransaction]:
        async with self._connection() as connection, connection.transaction():
            yield _AsyncPsycopgTransaction(connection)


class _AsyncPsycopgTransaction:
    def __init__(self, connection: Any) -> None:
        self._connection = connection

    async def all(self, sql: str, params: list[Any]) -> list[Any]:
        return await _async_rows(await self._connection.execute(_dollars(sql), params))


async def _async_rows(cursor: Any) -> list[dict[str, Any]]:
    if cursor.description is None:
        return []
    names = [column[0] for column in cursor.description]
    return [dict(zip(names, row, strict=True)) for row in await cursor.fetchall()]


def from_sqlalchemy(engine: Any) -> SqlClient:
    """A client of a SQLAlchemy `Engine` or `AsyncEngine`. It stays open.

    Statements are sent as the database's driver takes them (`exec_driver_sql`). On SQLite every
    transaction must begin with `BEGIN IMMEDIATE`; see "Serializable isolation / Savepoints" in the
    SQLAlchemy documentation for how an engine is told so.
    """
    if hasattr(engine, "sync_engine"):
        return _AsyncAlchemy(engine)
    return _Alchemy(engine)


def _for_driver(engine: Any, sql: str, params: list[Any]) -> tuple[str, tuple[Any, ...]]:
    style = engine.dialect.paramstyle
    if style in ("format", "pyformat"):
        return _dollars(sql).replace("?", "%s"), tuple(params)
    return sql, tuple(params)


class _Alchemy:
    def __init__(self, engine: Any) -> None:
        self._engine = engine

    def all(self, sql: str, params: list[Any]) -> list[Any]:
        with self._engine.begin() as connection:
            return _AlchemyTransaction(self._engine, connection).all(sql, params)

    @contextmanager
    def transaction(self) -> Iterator[_AlchemyTransaction]:
        with self._engine.begin() as connection:
            yield _AlchemyTransaction(self._engine, connection)


class _AlchemyTransaction:
    def __init__(self, engine: Any, connection: Any) -> None:
        self._engine = engine
        self._connection = connection

    def all(self, sql: str, params: list[Any]) -> list[Any]:
        written, given = _for_driver(self._engine, sql, params)
        result = self._connection.exec_driver_sql(written, given)
        return [dict(row) for row in result.mappings()] if result.returns_rows else []


class _AsyncAlchemy:
    def __init__(self, engine: Any) -> None:
        self._engine = engine

    async def all(self, sql: str, params: list[Any]) -> list[Any]:
        async with self._engine.begin() as connection:
            return await _AsyncAlchemyTransaction(self._engine, connection).all(sql, params)

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[_AsyncAlchemyTransaction]:
        async with self._engine.begin() as connection:
            yield _AsyncAlchemyTransaction(self._engine, connection)


class _AsyncAlchemyTransaction:
    def __init__(self, engine: Any, connection: Any) -> None:
        self._engine = engine
        self._connection = connection

    async def all(self, sql: str, params: list[Any]) -> list[Any]:
        written, given = _for_driver(self._engine, sql, params)
        result = await self._connection.exec_driver_sql(written, given)
        return [dict(row) for row in result.mappings()] if result.returns_rows else []
