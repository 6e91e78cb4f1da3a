"""Durations, instants and options: how they are written, and how they cross to the core."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime, timedelta, timezone
from typing import Any, Literal, TypeAlias, TypedDict

from . import _anarchon
from .errors import InvalidOptionError, InvalidScheduleError

__all__ = ["Duration", "Instant", "Interval", "JobOptions", "RetryOptions", "SchedulerOptions"]

Duration: TypeAlias = int | str | timedelta
"""A length of time: whole milliseconds, a text like `'90s'` or `'1h30m'` (units ms s m h d w; a day
is 24 h), or a `timedelta` of whole milliseconds."""

Interval: TypeAlias = str | timedelta
"""The interval of an `every` job, at least 100 ms: a text like `'15m'`, or a `timedelta`. A bare
number is refused, for it does not say its unit."""

Instant: TypeAlias = int | datetime
"""A point in time: whole milliseconds since the Unix epoch, or an aware `datetime`."""

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_MS = timedelta(milliseconds=1)


class RetryOptions(TypedDict, total=False):
    """Further tries of a failed run by the same holder, under the same claim.

    Try `n` (from 0) waits `min(backoff_ms * factor ** n, max_backoff_ms)`.
    """

    attempts: int
    """How many further tries, 0 to 1000. Default 1."""
    backoff_ms: Duration
    """The wait before the first of them. Default 1 s."""
    factor: float
    """What the wait is multiplied with each time, 1 to 100. Default 2."""
    max_backoff_ms: Duration
    """The longest wait. Default 60 s."""


class JobOptions(TypedDict, total=False):
    """Options of a job. Each is optional; a value out of range is an `InvalidOptionError`.

    The *period* of a slot is the distance to the job's next slot; an `at` job has none.
    """

    jitter_ms: Duration | None
    """The longest random wait before the claim, below the shortest period.
    Default `min(1 s, period / 10)`."""
    max_late_ms: Duration | None
    """How late a slot may still be started. Default `min(max(period, 10 s), 10 min)`. A job that
    sets it and not `catch_up` gets `catch_up='none'`: then nothing ever starts later."""
    timezone: str | None
    """The IANA zone of a cron job. Default: the scheduler's."""
    seconds: bool | None
    """Whether a cron expression has six fields, the first of them seconds. Default False."""
    offset_ms: Duration | None
    """What is added to the slots of an `every` job. Default 0."""
    timeout_ms: Duration | None
    """How long one try may take: then the handler is cancelled. Default: no limit."""
    abandon_after_ms: Duration | None
    """How long a timed-out handler may ignore its cancellation. Default 60 s."""
    retries: RetryOptions | None
    """Further tries of a failed run. Default: none."""
    history_size: int | None
    """How many ended records are kept, 1 to 100 000. Default 100."""
    history_ttl_ms: Duration | None
    """How long they are kept. Default: for ever."""
    keep_output: bool | None
    """Whether the handler's return value is kept. Default True."""
    lease_ms: Duration | None
    """The length of a lease, at least 1 s; it is renewed every third of it. Default 30 s."""
    overlap: Literal["skip", "allow"] | None
    """Whether a slot is skipped that falls due while a run is unfinished.
    Default `skip` on a backend with leases, else `allow`."""
    catch_up: Literal["none", "latest", "all"] | None
    """Which missed slots are made up for. Default `latest` on a backend with leases, else
    `none`."""
    catch_up_window_ms: Duration | None
    """How old a slot may be to be made up for. Default `max(24 h, period)`, at most 7 days."""
    catch_up_limit: int | None
    """How many slots `catch_up='all'` makes up for, 1 to 1000. Default 10."""
    max_takeovers: int | None
    """How many crashes others may take over, 0 to 1000; with 0 a run is never started a second
    time. Default 2."""
    max_early_ms: Duration | None
    """How far this machine's clock may run ahead of the store's. Default 2 s."""


class SchedulerOptions(TypedDict, total=False):
    """The options of `Scheduler`, for programs that collect them before they build one.

    See `Scheduler` for what each means.
    """

    backend: Any
    namespace: str | None
    instance_id: str | None
    timezone: str | None
    defaults: JobOptions | None
    max_concurrent_runs: int | None
    start_timeout_ms: Duration | None
    clock: Any


def duration_ms(value: Duration, what: str) -> int:
    """A duration in milliseconds.

    >>> duration_ms("1h30m", "a wait")
    5400000
    """
    if isinstance(value, bool) or not isinstance(value, (int, str, timedelta)):
        raise InvalidOptionError(
            f"{what} is {value!r}; allowed are whole milliseconds, a text like '90s', or a "
            "timedelta"
        )
    if isinstance(value, str):
        try:
            return _anarchon.parse_duration_ms(value)
        except InvalidOptionError as error:
            raise InvalidOptionError(f"{what}: {error}") from None
    if isinstance(value, timedelta):
        return _timedelta_ms(value, what)
    return value


def _timedelta_ms(value: timedelta, what: str) -> int:
    whole, rest = divmod(value, _MS)
    if rest:
        raise InvalidOptionError(f"{what} is {value!r}; it must be a whole number of milliseconds")
    return whole


def instant_ms(value: Instant, what: str) -> int:
    """An instant in milliseconds since the Unix epoch; parts of a millisecond are dropped.

    >>> instant_ms(datetime(1970, 1, 1, 0, 0, 1, tzinfo=timezone.utc), "the slot")
    1000
    """
    if isinstance(value, datetime):
        if value.tzinfo is None or value.utcoffset() is None:
            raise InvalidScheduleError(
                f"{what} is the naive datetime {value.isoformat()}, which is no point in time; "
                "give it a zone: datetime(..., tzinfo=timezone.utc)"
            )
        return (value - _EPOCH) // _MS
    if isinstance(value, bool) or not isinstance(value, int):
        raise InvalidOptionError(
            f"{what} is {value!r}; allowed are whole milliseconds since the Unix epoch, or an "
            "aware datetime"
        )
    return value


def every_text(interval: Any) -> str:
    """The interval of an `every` job as JSON."""
    if isinstance(interval, timedelta):
        try:
            return json.dumps(f"{_timedelta_ms(interval, 'the interval')}ms")
        except InvalidOptionError as error:
            raise InvalidScheduleError(str(error)) from None
    return _json(interval, "the interval")


def at_text(when: Any) -> str:
    """The instant of an `at` job as JSON."""
    if isinstance(when, datetime):
        return json.dumps(instant_ms(when, "the time"))
    return _json(when, "the time")


def cron_text(expression: Any) -> str:
    """A cron expression as JSON."""
    return _json(expression, "the cron expression")


def _json(value: Any, what: str) -> str:
    try:
        return json.dumps(value, allow_nan=False)
    except (TypeError, ValueError):
        raise InvalidScheduleError(
            f"{what} is {value!r}, which is nothing that can be read"
        ) from None


def options_text(options: Mapping[str, Any]) -> str:
    """Options as JSON: timedeltas in milliseconds, everything else for the core to judge."""
    return json.dumps(_options(options, ""))


def _options(options: Mapping[str, Any], path: str) -> dict[str, Any]:
    return {name: _option(value, f"{path}{name}") for name, value in options.items()}


def _option(value: Any, name: str) -> Any:
    if isinstance(value, timedelta):
        return _timedelta_ms(value, name)
    if isinstance(value, Mapping):
        return _options(value, f"{name}.")
    try:
        json.dumps(value, allow_nan=False)
    except (TypeError, ValueError):
        raise InvalidOptionError(f"{name} is {value!r}, which is no value of an option") from None
    return value
