"""The stores on servers, by URL and by class. A server that is not there is a skip, but in CI."""

from __future__ import annotations

import asyncio
import json
import os
import secrets
from collections.abc import Iterator
from typing import Any

import pytest
from anarchon import (
    DedupeWindowTooShortError,
    InvalidOptionError,
    JobContext,
    LeasesRequiredError,
    MySqlBackend,
    NatsBackend,
    PostgresBackend,
    RabbitMqBackend,
    RedisBackend,
    Scheduler,
)
from anarchon.testing import check_backend
from fleet.stores import forget_rabbitmq
from python.tally import tally

# One entry a store.
SERVERS: dict[str, tuple[type[Any], str, str]] = {
    "rabbitmq": (
        RabbitMqBackend,
        os.environ.get("ANARCHON_TEST_RABBITMQ_URL", "amqp://guest:guest@127.0.0.1:5672"),
        "redis://localhost",
    ),
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


@pytest.fixture(scope="module", autouse=True)
def forgotten() -> Iterator[None]:
    """The streams of RabbitMQ do not go by themselves."""
    yield
    forget_rabbitmq(f"{NAMESPACE}.")


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


def test_rabbitmq_has_no_leases_and_a_window() -> None:
    _, url, _ = SERVERS["rabbitmq"]
    backend = RabbitMqBackend(url, namespace=NAMESPACE, dedupe_window_ms="5s", channels=2)
    assert backend.dedupe_window_ms == 5_000
    assert not hasattr(backend, "runs")
    assert RabbitMqBackend(url).dedupe_window_ms == 3_600_000
    scheduler = Scheduler(backend=backend)
    with pytest.raises(DedupeWindowTooShortError) as short:
        scheduler.every("late", "1m", lambda: None, jitter_ms=1_000, max_late_ms=4_000)
    assert "5000" in str(short.value)
    for name, options in (
        ("skipping", {"overlap": "skip"}),
        ("catching", {"catch_up": "latest"}),
    ):
        with pytest.raises(LeasesRequiredError):
            scheduler.every(name, "1m", lambda: None, max_late_ms=1_000, **options)


async def test_a_run_on_rabbitmq_is_in_the_history_of_every_replica() -> None:
    _, url, _ = SERVERS["rabbitmq"]
    kinds = [RabbitMqBackend(url, namespace=NAMESPACE) for _ in range(2)]
    try:
        await kinds[0].init()
    except Exception as error:
        if os.environ.get("CI") == "true":
            raise
        pytest.skip(f"no server: {error}")
    finally:
        await kinds[0].close()
    one = Scheduler(backend=kinds[0], instance_id="a")
    two = Scheduler(backend=kinds[1], instance_id="b")
    for scheduler in (one, two):
        scheduler.every("report", "1h", lambda: {"rows": 3})
    async with one:
        record = await one.run_now("report")
        assert record.status == "succeeded"
        shown = await two.history("report")
    await two.stop()
    assert [(run.by, run.status, json.loads(run.output or "")) for run in shown] == [
        ("a", "succeeded", {"rows": 3})
    ]
