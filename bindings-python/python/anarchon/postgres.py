"""The store in PostgreSQL."""

from __future__ import annotations

import os
from typing import Any, Literal

from .options import Duration
from .server import SqlServerBackend

__all__ = ["PostgresBackend"]


class PostgresBackend(SqlServerBackend):
    """A store in PostgreSQL, with leases, for any number of machines.

    - **url**: `postgres://user:password@host:port/database`. No message shows its user and
      password.
    - **database**: in place of a URL: a client that you have, anything with `all` and
      `transaction`; see `SqlClient` and `from_asyncpg`, `from_psycopg`,
      `from_sqlalchemy`. With it only `namespace`, `table` and
      `create_tables` apply. Renewals then go through Python: a loop that is blocked, or a GIL
      that is held, for as long as a lease can lose it.
    - **namespace**: keeps applications in one database apart, 1 to 64 of `[a-z0-9_-]`. Default
      `default`.
    - **pool**: how many connections at most, beside one for heartbeats, at least 1.
    - **create_tables**: whether missing tables are created; else `ddl()` tells the statements.
    - **table**: the name of the table of runs; the others are named after it.
    - **statement_cache**: how many prepared statements each connection keeps; 0 prepares none, as
      poolers need it that give each transaction another connection.
    - **call_timeout_ms**: how long a call is tried again.
    - **ssl_mode**: `disable`, `prefer`, `require`, `verify-ca` or `verify-full`.
    - **ssl_ca**, **ssl_cert**, **ssl_key**: files (PEM) with the certificates that are trusted, our
      own certificate, and its key.
    - **schema**: the schema of the tables. Default: the first of the search path.
    - **notify**: whether releases and ends are pushed to the other replicas.
    - **application_name**: how the server's views name the connections.

    Raises `InvalidOptionError`. Touches no socket until it is used.

    >>> from anarchon import PostgresBackend, Scheduler
    >>> scheduler = Scheduler(backend=PostgresBackend("postgres://localhost/app"))
    """

    def __init__(
        self,
        url: str | None = None,
        *,
        database: Any = None,
        namespace: str | None = None,
        pool: int | None = None,
        create_tables: bool | None = None,
        table: str | None = None,
        statement_cache: int | None = None,
        call_timeout_ms: Duration | None = None,
        ssl_mode: Literal["disable", "prefer", "require", "verify-ca", "verify-full"] | None = None,
        ssl_ca: str | os.PathLike[str] | None = None,
        ssl_cert: str | os.PathLike[str] | None = None,
        ssl_key: str | os.PathLike[str] | None = None,
        schema: str | None = None,
        notify: bool | None = None,
        application_name: str | None = None,
    ) -> None:
        super().__init__(
            "PostgresBackend",
            ("postgres", "postgresql"),
            url,
            database,
            {"schema": schema, "notify": notify, "applicationName": application_name},
            namespace=namespace,
            pool=pool,
            create_tables=create_tables,
            table=table,
            statement_cache=statement_cache,
            call_timeout_ms=call_timeout_ms,
            ssl_mode=ssl_mode,
            ssl_ca=ssl_ca,
            ssl_cert=ssl_cert,
            ssl_key=ssl_key,
        )
