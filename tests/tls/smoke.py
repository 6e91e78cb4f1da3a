"""A store on an encrypted server in Python: what the tests ask of both languages.

usage: smoke.py CONFIG_JSON, with the store's `name`, its `url`, the `ours` and `theirs` options of
a replica that knows the server's authority and of one that knows another
"""

from __future__ import annotations

import asyncio
import json
import re
import sys
from typing import Any
from urllib.parse import urlencode

from anarchon import (
    AnarchonError,
    MySqlBackend,
    NatsBackend,
    PostgresBackend,
    RabbitMqBackend,
    RedisBackend,
    Scheduler,
)
from anarchon.testing import check_backend
from python.tally import tally

CLASSES: dict[str, Any] = {
    "postgres": PostgresBackend,
    "mariadb": MySqlBackend,
    "mysql": MySqlBackend,
    "redis": RedisBackend,
    "nats": NatsBackend,
    "rabbitmq": RabbitMqBackend,
}
NAMESPACE = "python"


def keywords(options: dict[str, str]) -> dict[str, str]:
    """Options in the words of this language."""
    return {
        re.sub("[A-Z]", lambda up: f"_{up[0].lower()}", name): options[name] for name in options
    }


async def by_class(config: dict[str, Any]) -> list[list[str]]:
    """How the cases of the contract end on stores that the class makes."""
    kind, options = CLASSES[config["name"]], keywords(config["ours"])
    report = await check_backend(
        lambda: kind(config["url"], namespace=NAMESPACE, **options), **config["check"]
    )
    tally(f"{config['name']} with TLS", report)
    return [[case.name, case.status, case.message or ""] for case in report.cases]


async def by_url(config: dict[str, Any]) -> list[list[Any]]:
    """The history of a job that ran once, on a store that a URL names."""
    query = urlencode({**config["ours"], "namespace": NAMESPACE})
    url = f"{config['url']}{'&' if '?' in config['url'] else '?'}{query}"
    async with Scheduler(backend=url, instance_id="a") as scheduler:
        scheduler.every("report", "1h", lambda: {"rows": 3})
        await scheduler.run_now("report")
        shown = await scheduler.history("report")
        return [[run.by, str(run.status), json.loads(run.output or "")] for run in shown]


async def refused(config: dict[str, Any]) -> dict[str, Any]:
    """What who trusts another authority is told."""
    store = CLASSES[config["name"]](config["url"], **keywords(config["theirs"]))
    try:
        await store.init()
    except AnarchonError as error:
        return {"code": error.code, "message": str(error)}
    finally:
        await store.close()
    return {"code": None, "message": "let in"}


async def main(config: dict[str, Any]) -> None:
    """Prints what became of it, as one line of JSON."""
    told = {
        "byClass": await by_class(config),
        "byUrl": await by_url(config),
        "refused": await refused(config),
    }
    print(json.dumps(told))


if __name__ == "__main__":
    asyncio.run(main(json.loads(sys.argv[1])))
