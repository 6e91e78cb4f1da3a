"""The stores on servers, by URL and by class. A server that is not there is a skip, but in CI."""

from __future__ import annotations

import asyncio
import os
import secrets
from typing import Any

import pytest
from anarchon import (
    InvalidOptionError,
    JobContext,
    MySqlBackend,
    NatsBackend,
    PostgresBackend,
    RedisBackend,
    Scheduler,
)
from anarchon.testing import check_backend
from python.tally import tally

# One entry a store.
SERVERS: dict[str, tuple[type[Any], str, str]] = {
    "redis": (
        RedisBackend,
        os.environ.get("ANARCHON_TEST_REDIS_URL", "redis://127.0.0.1:6379/0"),
        "rabbitmq://localhost",
    ),
    "postgres": (
        PostgresBackend,
        os.environ.get("ANARCHON_TEST_POSTGRES_URL", "postgres://postgres@127.0.0.1:5432/test"),
        "mysql://localhost",
    ),
    "mysql": (
        MySqlBackend,
        os.environ.get("ANARCHON_TEST_MYSQL_URL", "mysql://root@127.0.0.1:3306/test"),
        "postgres://localhost",
    ),
    "nats": (
        NatsBackend,
        os.environ.get("ANARCHON_TEST_NATS_URL", "nats://127.0.0.1:4222"),
        "redis://localhost",
    ),
}
# How thoroughly the contract is asked of a store from here.
BRIEF: dict[str, Any] = {"clients": 2, "rounds": 2, "histories": 1, "steps": 15}
WHOLE: dict[str, Any] = {"complete": True, "rounds": 5, "histories": 5}
# A namespace of its own for each run, so that no test meets the records of another.
NAMESPACE = f"py-{secrets.token_hex(6)}"


@pytest.fixture(params=SERVERS)
async def server(request: pytest.FixtureRequest) -> tuple[type[Any], str, str]:
    kind, url, other = SERVERS[request.param]
    backend = kind(url, namespace=NAMESPACE)
    try:
        await backend.init()
    except Exception as error:
        if os.environ.get("CI") == "true":
            raise
        pytest.skip(f"no server: {error}")
    finally:
        await backend.close()
    return kind, url, other


async def test_two_replicas_share_the_slots(server: tuple[type[Any], str, str]) -> None:
    _, url, _ = server
    slots: list[int] = []
    enough = asyncio.Event()

    async def tick(ctx: JobContext) -> None:
        slots.append(ctx.slot)
        if len(slots) == 8:
            enough.set()

    replicas = [Scheduler(backend=url, namespace=NAMESPACE, instance_id=name) for name in "ab"]
    for replica in replicas:
        replica.every("tick", "100ms", tick, jitter_ms=10)
        await replica.start()
    await asyncio.wait_for(enough.wait(), 30)
    for replica in replicas:
        await replica.stop()
    assert len(slots) == len(set(slots))


async def test_the_class_keeps_the_contract(server: tuple[type[Any], str, str]) -> None:
    kind, url, _ = server
    thoroughly = WHOLE if kind is PostgresBackend else BRIEF
    report = await check_backend(lambda: kind(url, namespace=NAMESPACE), **thoroughly)
    tally(report.backend, report)
    report.check()


@pytest.mark.parametrize("name", SERVERS)
def test_a_wrong_option_is_refused_without_a_word_of_secrets(name: str) -> None:
    kind, url, other = SERVERS[name]
    scheme = url.split(":", 1)[0]
    for wrong, options, says in (
        (other, {}, scheme),
        (5, {}, "url"),
        (f"{scheme}://scott:tiger@localhost/0", {"namespace": "A b"}, "A b"),
        (f"{scheme}://scott:tiger@localhost/0?colour=blue", {}, "colour"),
    ):
        with pytest.raises(InvalidOptionError) as refused:
            kind(wrong, **options)
        assert says in str(refused.value)
        assert "tiger" not in str(refused.value)
