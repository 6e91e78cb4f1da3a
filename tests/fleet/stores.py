"""The stores that fleets meet in: one row each, and what the store itself says of a job.

A server is found by its variable; one that does not answer is a skip, and a failure where CI is
true.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import socket
import sqlite3
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from anarchon import Scheduler

# What all namespaces of this run of the tests begin with.
RUN = f"fleet-{secrets.token_hex(4)}"
FORGET_RABBITMQ = Path(__file__).resolve().parent.parent / "forget-rabbitmq.sh"


def forget_rabbitmq(namespace: str) -> None:
    """Removes the streams of the namespaces that begin so, which do not go by themselves."""
    subprocess.run([str(FORGET_RABBITMQ), f"anarchon.{namespace}"], check=True)


@dataclass(frozen=True)
class Store:
    """A kind of store."""

    name: str
    variable: str = ""
    default: str = ""
    query: str = ""
    has_leases: bool = True

    @property
    def server(self) -> str:
        """The URL of the server, without a namespace."""
        return os.environ.get(self.variable, self.default)

    def need(self) -> None:
        """Skips the test if the server does not answer."""
        if not self.variable:
            return
        parts = urlsplit(self.server)
        try:
            socket.create_connection((parts.hostname or "", parts.port or 0), timeout=5).close()
        except OSError as error:
            why = f"{self.name} does not answer ({error}); set {self.variable}"
            if os.environ.get("CI") == "true":
                pytest.fail(why)
            pytest.skip(why)

    def place(self, folder: Path) -> Place:
        """A place in it that nobody else has."""
        namespace = f"{RUN}-{secrets.token_hex(6)}"
        if self.variable:
            return Place(self, f"{self.server}?namespace={namespace}{self.query}")
        return Place(self, f"sqlite://{folder / 'fleet.db'}")


# Few connections: several fleets and other tests share a server.
SQLITE = Store("sqlite")
STORES = {
    store.name: store
    for store in (
        SQLITE,
        Store(
            "postgres",
            "ANARCHON_TEST_POSTGRES_URL",
            "postgres://postgres@127.0.0.1:5432/test",
            "&pool=2",
        ),
        Store("mysql", "ANARCHON_TEST_MYSQL_URL", "mysql://root@127.0.0.1:3306/test", "&pool=2"),
        Store("redis", "ANARCHON_TEST_REDIS_URL", "redis://127.0.0.1:6379/0"),
        Store("nats", "ANARCHON_TEST_NATS_URL", "nats://127.0.0.1:4222"),
        # Its queues are gone a few minutes after the test.
        Store(
            "rabbitmq",
            "ANARCHON_TEST_RABBITMQ_URL",
            "amqp://guest:guest@127.0.0.1:5672",
            "&dedupeWindowMs=180000",
            has_leases=False,
        ),
    )
}


@dataclass(frozen=True)
class Place:
    """What the replicas of one fleet share."""

    store: Store
    url: str

    def stored(self, job: str, limit: int = 10_000) -> list[dict[str, Any]]:
        """The runs of a job as the store has them, by slot."""
        if self.store is SQLITE:
            return self._rows(job)
        return self.history([job], limit)[job]

    def history(self, jobs: Iterable[str], limit: int = 10_000) -> dict[str, list[dict[str, Any]]]:
        """The runs of several jobs, as a reader is told them."""

        async def read() -> dict[str, list[dict[str, Any]]]:
            reader = Scheduler(backend=self.url)
            found = {}
            for job in jobs:
                records = await reader.history(job, limit=limit)
                runs: list[dict[str, Any]] = [
                    {
                        "slot": run.slot,
                        "status": str(run.status),
                        "attempt": run.attempt,
                        "held_by": run.by,
                    }
                    for run in records
                ]
                found[job] = sorted(runs, key=lambda run: run["slot"])
            await reader.stop()
            return found

        return asyncio.run(read())

    def _rows(self, job: str) -> list[dict[str, Any]]:
        with sqlite3.connect(urlsplit(self.url).path) as connection:
            connection.row_factory = sqlite3.Row
            rows = connection.execute(
                "SELECT * FROM anarchon_runs WHERE CAST(job AS TEXT) = ? ORDER BY slot", (job,)
            ).fetchall()
        return [dict(row) for row in rows]
