"""The schedules of tests/vectors, through the public calls."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from anarchon import AnarchonError, Scheduler
from anarchon.options import duration_ms, instant_ms

FILE = Path(__file__).resolve().parent.parent / "vectors" / "schedules.json"
ENTRIES: list[dict[str, Any]] = json.loads(FILE.read_text(encoding="utf-8"))


def ms(text: str) -> int:
    """An instant of the file."""
    return instant_ms(datetime.fromisoformat(text.replace("Z", "+00:00")), text)


def add(scheduler: Scheduler, entry: dict[str, Any]) -> None:
    """The job that an entry says how to build."""

    def handler() -> None: ...

    if entry["kind"] == "cron":
        options = {"timezone": entry["zone"], "seconds": entry["seconds"]}
        scheduler.cron("job", entry["expression"], handler, **options)
    elif entry["kind"] == "every":
        # As an option an offset is not negative.
        offset = entry["offset_ms"]
        if offset < 0:
            offset %= duration_ms(entry["interval"], "the interval")
        scheduler.every("job", entry["interval"], handler, offset_ms=offset)
    elif entry["kind"] == "at":
        scheduler.at("job", entry["when"], handler)
    elif entry["kind"] == "zone":
        Scheduler(backend="memory:", timezone=entry["name"])
    else:
        duration_ms(entry["text"], "the duration")


@pytest.mark.parametrize("entry", ENTRIES, ids=[entry["id"] for entry in ENTRIES])
def test_a_vector_holds(entry: dict[str, Any]) -> None:
    scheduler = Scheduler(backend="memory:")
    if entry.get("refuse"):
        with pytest.raises(AnarchonError) as refused:
            add(scheduler, entry)
        assert refused.value.code == entry["code"]
        assert all(text in str(refused.value) for text in entry.get("message_contains", ()))
        return
    if entry["kind"] == "duration":
        assert duration_ms(entry["text"], "the duration") == int(entry["expect_ms"])
        return
    add(scheduler, entry)
    if "expect" in entry:
        expected = [ms(text) for text in entry["expect"]]
        count = len(expected) + bool(entry.get("ends"))
        assert scheduler.next_slots("job", count, ms(entry["after"])) == expected
    if "expect_count" in entry and entry["expect_count"] < 50_000:
        found = scheduler.next_slots("job", entry["expect_count"] + 1, ms(entry["from"]) - 1)
        inside = [slot for slot in found if slot < ms(entry["to"])]
        assert len(inside) == entry["expect_count"]
