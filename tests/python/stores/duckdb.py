"""DuckDB, of which the library knows nothing, described as a program that uses it would."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import duckdb
from anarchon import Connected, SqlBackend


class DuckDbDialect:
    """What differs from other databases."""

    bigint = "BIGINT"
    # The clock of the machine, as of the start of the statement: the engine reads it outside of
    # transactions.
    now_ms = "epoch_ms(now())"
    # A transaction that comes second to a row fails with a conflict, and is made again.
    for_update = ""

    def placeholders(self, sql: str) -> str:
        return sql

    def extra_tables(self, table: str) -> list[str]:
        return []

    def serialize(self, tx: Any, job: str) -> None: ...

    def is_already_created(self, error: BaseException) -> bool:
        return isinstance(error, duckdb.CatalogException) and "already exists" in str(error)


class DuckDbClient:
    """A connection, whose methods are plain: they run in one thread, one at a time."""

    def __init__(self, connection: duckdb.DuckDBPyConnection) -> None:
        self.connection = connection

    def all(self, sql: str, params: list[Any]) -> list[dict[str, Any]]:
        answer = self.connection.execute(sql, params)
        names = [column[0] for column in answer.description or ()]
        return [dict(zip(names, row, strict=True)) for row in answer.fetchall()]

    @contextmanager
    def transaction(self) -> Iterator[DuckDbClient]:
        self.connection.begin()
        try:
            yield self
        except BaseException:
            self.connection.rollback()
            raise
        self.connection.commit()

    def close(self) -> None:
        self.connection.close()


class DuckDbBackend(SqlBackend):
    """A backend on a DuckDB database, which all schedulers of this process may share."""

    name = "duckdb"
    dialect = DuckDbDialect()

    def __init__(self, database: duckdb.DuckDBPyConnection, table: str = "duck_runs") -> None:
        super().__init__(table)
        self.database = database

    def connect(self) -> Connected:
        # A cursor of DuckDB's is a connection of its own.
        return Connected(DuckDbClient(self.database.cursor()), owned=True)

    def check_server(self) -> None: ...
