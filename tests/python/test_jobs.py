"""How jobs are added, listed and removed, and what is refused."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from functools import partial
from typing import Any

import anarchon
import pytest
from anarchon import (
    AnarchonError,
    DuplicateJobError,
    InvalidOptionError,
    Scheduler,
    UnknownJobError,
)


@pytest.fixture
def reader() -> Scheduler:
    return Scheduler(backend="memory:")


def nothing() -> None:
    """A handler."""


def test_every_is_due_at_the_multiples_of_its_interval(reader: Scheduler) -> None:
    reader.every("tick", "1m", nothing)
    reader.every("tock", timedelta(minutes=1), nothing, offset_ms=timedelta(seconds=5))
    assert reader.next_slots("tick", 2, 0) == [60_000, 120_000]
    assert reader.next_slots("tock", 2, datetime(1970, 1, 1, tzinfo=timezone.utc)) == [
        5_000,
        65_000,
    ]


def test_cron_is_due_in_its_zone(reader: Scheduler) -> None:
    reader.cron("nightly", "0 3 * * *", nothing, timezone="Europe/Berlin")
    assert reader.next_slots("nightly", 1, 1_767_225_600_000) == [1_767_225_600_000 + 2 * 3_600_000]


def test_at_is_due_once(reader: Scheduler) -> None:
    berlin = timezone(timedelta(hours=1))
    for name, when in {
        "text": "2127-01-31T09:00:00Z",
        "datetime": datetime(2127, 1, 31, 10, tzinfo=berlin),
        "ms": 4_957_059_600_000,
    }.items():
        reader.at(name, when, nothing)
        assert reader.next_slots(name, 3) == [4_957_059_600_000]


def test_a_decorator_gives_the_function_back_unchanged(reader: Scheduler) -> None:
    def tick() -> None: ...

    assert reader.every("a", "1s")(tick) is tick
    assert reader.cron("b", "* * * * *")(tick) is tick
    assert reader.at("c", "2127-01-31T09:00:00Z")(tick) is tick
    assert [job.name for job in reader.jobs] == ["a", "b", "c"]


def test_a_removed_job_is_gone(reader: Scheduler) -> None:
    reader.every("tick", "1s", nothing)
    reader.remove("tick")
    assert reader.jobs == []
    with pytest.raises(UnknownJobError, match="tick"):
        reader.remove("tick")
    with pytest.raises(UnknownJobError):
        reader.next_slots("tick")


def test_a_name_is_taken_once(reader: Scheduler) -> None:
    reader.every("tick", "1s", nothing)
    with pytest.raises(DuplicateJobError, match="tick"):
        reader.cron("tick", "* * * * *", nothing)


WRONG: list[tuple[str, str, Any, dict[str, Any], str]] = [
    ("INVALID_SCHEDULE", "every", 60, {}, "'60s'"),
    ("INVALID_SCHEDULE", "every", 60.5, {}, "timedelta"),
    ("INVALID_SCHEDULE", "every", "50ms", {}, "100"),
    ("INVALID_SCHEDULE", "every", "1 fortnight", {}, "1 fortnight"),
    ("INVALID_SCHEDULE", "every", None, {}, "interval"),
    ("INVALID_SCHEDULE", "every", object(), {}, "interval"),
    ("INVALID_SCHEDULE", "every", timedelta(microseconds=1500), {}, "whole number of milliseconds"),
    ("INVALID_SCHEDULE", "cron", "61 * * * *", {}, "61"),
    ("INVALID_SCHEDULE", "cron", 5, {}, "cron expression is 5"),
    ("INVALID_SCHEDULE", "cron", "* * * * *", {"timezone": "Europe/Berln"}, "Europe/Berlin"),
    ("INVALID_SCHEDULE", "at", datetime(2127, 1, 1), {}, "naive"),
    ("INVALID_SCHEDULE", "at", "2127-01-01T00:00:00", {}, "offset"),
    ("INVALID_SCHEDULE", "at", True, {}, "true"),
    ("INVALID_OPTION", "every", "1s", {"jiter_ms": 5}, 'did you mean "jitter_ms"'),
    ("INVALID_OPTION", "every", "1s", {"jitterMs": 5}, "jitter_ms"),
    ("INVALID_OPTION", "every", "1s", {"jitter_ms": -1}, "-1"),
    ("INVALID_OPTION", "every", "1s", {"jitter_ms": "2s"}, "below the shortest"),
    ("INVALID_OPTION", "every", "1s", {"jitter_ms": float("nan")}, "nan"),
    ("INVALID_OPTION", "every", "1s", {"timeout_ms": object()}, "timeout_ms"),
    ("INVALID_OPTION", "every", "1s", {"timeout_ms": True}, "true"),
    ("INVALID_OPTION", "every", "1s", {"overlap": "never"}, '"skip" or "allow"'),
    ("INVALID_OPTION", "every", "1s", {"retries": {"attemps": 2}}, "attempts"),
    ("INVALID_OPTION", "every", "1s", {"retries": 3}, "attempts"),
    ("INVALID_OPTION", "every", "1s", {"seconds": True}, "cron"),
    ("INVALID_OPTION", "cron", "* * * * *", {"offset_ms": 5}, "every"),
]


@pytest.mark.parametrize(("code", "kind", "when", "options", "says"), WRONG)
def test_what_is_wrong_is_refused_in_the_call(
    reader: Scheduler, code: str, kind: str, when: Any, options: dict[str, Any], says: str
) -> None:
    with pytest.raises(AnarchonError) as refused:
        getattr(reader, kind)("tick", when, nothing, **options)
    assert refused.value.code == code
    assert says in str(refused.value)
    assert reader.jobs == []


@pytest.mark.parametrize("name", ["", "a\nb", "x" * 256, 5, None])
def test_a_name_that_is_none_is_refused(reader: Scheduler, name: Any) -> None:
    with pytest.raises(InvalidOptionError):
        reader.every(name, "1s", nothing)


def test_a_handler_that_is_none_is_refused(reader: Scheduler) -> None:
    def numbers() -> Any:
        yield 1

    async def more() -> Any:
        yield 1

    def two(_a: int, _b: int) -> None: ...

    for handler, says in (
        (5, "function"),
        (numbers, "generator"),
        (more, "generator"),
        (two, "_b"),
    ):
        with pytest.raises(InvalidOptionError, match=says):
            reader.every("tick", "1s", handler)  # type: ignore[arg-type]
    reader.every("bound", "1s", partial(two, 1))


OPTIONS: list[tuple[dict[str, Any], str]] = [
    ({"bakend": "memory:"}, 'did you mean "backend"'),
    ({"maxConcurrentRuns": 5}, 'did you mean "max_concurrent_runs"'),
    ({"namespace": "A b"}, "namespace"),
    ({"timezone": "Mars/Olympus"}, "Mars"),
    ({"max_concurrent_runs": -1}, "-1"),
    ({"defaults": {"jiter_ms": 1}}, "jitter_ms"),
    ({"defaults": 5}, "defaults"),
    ({"backend": "oracle://x"}, "oracle"),
    ({"backend": 5}, "backend object"),
    ({"instance_id": ""}, "instance_id"),
    ({"start_timeout_ms": "soon"}, "soon"),
]


@pytest.mark.parametrize(("options", "says"), OPTIONS)
def test_a_wrong_scheduler_option_is_refused(options: dict[str, Any], says: str) -> None:
    with pytest.raises(InvalidOptionError) as refused:
        Scheduler(**{"backend": "memory:", **options})
    assert says in str(refused.value)


def test_user_info_of_a_url_is_never_shown() -> None:
    with pytest.raises(InvalidOptionError) as refused:
        Scheduler(backend="oracle://scott:tiger@host/db")
    assert "tiger" not in str(refused.value)


def test_defaults_hold_where_a_job_says_nothing() -> None:
    scheduler = Scheduler(backend="memory:", defaults={"timezone": "Europe/Berlin"})
    scheduler.cron("here", "0 0 * * *", nothing)
    scheduler.cron("there", "0 0 * * *", nothing, timezone="UTC")
    assert [job.timezone for job in scheduler.jobs] == ["Europe/Berlin", "UTC"]


def test_the_names_of_options_are_those_of_the_core() -> None:
    told = {anarchon.records.camel(name) for name in anarchon.JobOptions.__annotations__}
    assert told == set(anarchon._anarchon.job_option_names())
