"""What the SQL servers have in common."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from . import _anarchon
from .builtin import NativeBackend
from .options import Duration
from .sql import WrappedClient, one_of
from .url import optional_ms, with_options


class SqlServerBackend(NativeBackend):
    """A store on a SQL server, at a URL or over a client that the program has."""

    def __init__(
        self,
        what: str,
        schemes: Sequence[str],
        url: str | None,
        database: Any,
        more: Mapping[str, Any],
        *,
        namespace: str | None,
        pool: int | None,
        create_tables: bool | None,
        table: str | None,
        statement_cache: int | None,
        call_timeout_ms: Duration | None,
        ssl_mode: str | None,
        ssl_ca: str | os.PathLike[str] | None,
        ssl_cert: str | os.PathLike[str] | None,
        ssl_key: str | os.PathLike[str] | None,
    ) -> None:
        """**what** is the name of the class, **schemes** are those of its URLs, the first is the
        name of the store too; **more** are the options that it alone has, in the words of its URL.
        """
        of_url = {
            "pool": pool,
            "statementCache": statement_cache,
            "callTimeoutMs": optional_ms(call_timeout_ms, "call_timeout_ms"),
            "sslMode": ssl_mode,
            "sslCa": ssl_ca,
            "sslCert": ssl_cert,
            "sslKey": ssl_key,
            **more,
        }
        given = {"namespace": namespace, "table": table, "createTables": create_tables}
        one_of(what, "url", url, database, of_url)
        if database is not None:
            self._client = WrappedClient.of(database)
            super().__init__(self._client.open(schemes[0], schemes[0], given))
            return
        full = with_options(what, url, {**given, **of_url})
        super().__init__(_anarchon.open_backend(full, list(schemes)))
