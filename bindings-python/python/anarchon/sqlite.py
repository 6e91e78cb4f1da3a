"""The store in a SQLite file."""

from __future__ import annotations

import os
from typing import Any, Literal
from urllib.parse import quote

from . import _anarchon
from .builtin import NativeBackend
from .errors import InvalidOptionError
from .options import Duration
from .sql import WrappedClient, one_of
from .url import optional_ms, with_options

__all__ = ["SqliteBackend"]


class SqliteBackend(NativeBackend):
    """A store in one SQLite file, with leases, for the processes of one machine.

    - **path**: the file; its directory must exist. It must not lie on a network file system.
    - **database**: in place of a path: a client that you have, anything with `all` and
      `transaction`; see `SqlClient` and `from_sqlite3`. With it only `namespace`, `table` and
      `create_tables` apply. Renewals then go through Python: a loop that is blocked, or a GIL that
      is held, for as long as a lease can lose it.
    - **namespace**: keeps applications in one file apart, 1 to 64 of `[a-z0-9_-]`. Default
      `default`.
    - **pool**: how many connections at most, beside one for heartbeats, 1 to 1000. Default 4.
    - **create_tables**: whether missing tables are created. Default True.
    - **synchronous**: when SQLite waits for the disk: `full` (default), `extra` or `normal`.
    - **busy_timeout_ms**: how long one attempt waits for another process that writes, up to 10 min.
      Default 2 s.
    - **table**: the name of the table of runs; the others are named after it.
    - **call_timeout_ms**: how long a call is tried again, 1 ms to 10 min.
    - **allow_network**: allow a network file system, whose locks cannot be relied on.

    Raises `InvalidOptionError`. Touches no file until it is used.

    >>> from anarchon import Scheduler, SqliteBackend
    >>> scheduler = Scheduler(backend=SqliteBackend("jobs.db", synchronous="normal"))
    """

    def __init__(
        self,
        path: str | os.PathLike[str] | None = None,
        *,
        database: Any = None,
        namespace: str | None = None,
        pool: int | None = None,
        create_tables: bool | None = None,
        synchronous: Literal["full", "extra", "normal"] | None = None,
        busy_timeout_ms: Duration | None = None,
        table: str | None = None,
        call_timeout_ms: Duration | None = None,
        allow_network: bool | None = None,
    ) -> None:
        of_path = {
            "pool": pool,
            "synchronous": synchronous,
            "busy_timeout_ms": busy_timeout_ms,
            "call_timeout_ms": call_timeout_ms,
            "allow_network": allow_network,
        }
        one_of("SqliteBackend", "path", path, database, of_path)
        if database is not None:
            self._client = WrappedClient.of(database)
            options = {"namespace": namespace, "table": table, "createTables": create_tables}
            super().__init__(self._client.open("sqlite", "sqlite", options))
            return
        given = {
            "namespace": namespace,
            "pool": pool,
            "createTables": create_tables,
            "synchronous": synchronous,
            "busyTimeoutMs": optional_ms(busy_timeout_ms, "busy_timeout_ms"),
            "table": table,
            "callTimeoutMs": optional_ms(call_timeout_ms, "call_timeout_ms"),
            "allowNetwork": allow_network,
        }
        text = os.fspath(path or "")
        if not isinstance(text, str):
            raise InvalidOptionError(f"the path is {path!r}; it must be a text")
        url = "sqlite:" + ("//" if text.startswith("/") else "") + quote(text)
        full = with_options("SqliteBackend", url, given)
        super().__init__(_anarchon.open_backend(full, ["sqlite"]))
