"""What a scheduler tells: nothing that happens to a slot is silent.

A listener gets one of these objects. Names of events are in snake_case:
`scheduler.on("lease_lost")`.

>>> from anarchon import Scheduler
>>> scheduler = Scheduler(backend="memory:")
>>> @scheduler.on("finished")
... def tell(event):
...     print(event.record.job, event.record.status)
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, TypeAlias

from .records import MissedRange, Record, RunRecord, Trigger

__all__ = [
    "DefinitionConflictEvent",
    "ErrorEvent",
    "Event",
    "EventName",
    "FinishedEvent",
    "MissedEvent",
    "OverdueEvent",
    "OverlapEvent",
    "RunEvent",
    "SkewEvent",
    "StoreDownEvent",
    "StoreUpEvent",
]

EventName = Literal[
    "won",
    "started",
    "finished",
    "missed",
    "overlap",
    "takeover",
    "lease_lost",
    "skew",
    "definition_conflict",
    "overdue",
    "store_down",
    "store_up",
    "error",
]
"""The names of all events."""


@dataclass(frozen=True, kw_only=True)
class RunEvent(Record):
    """`won`: a run was granted to this instance; `started`: its handler was entered; `takeover`: a
    run of another instance was taken over; `lease_lost`: a run was lost to another instance, or its
    lease could not be kept."""

    job: str
    """The job's name."""
    slot: int
    """The slot (ms)."""
    manual: bool
    """Asked for by hand."""
    instance_id: str
    """The instance that tells."""
    attempt: int
    """Grants of the run."""
    fence: int
    """The fencing number of the grant."""
    trigger: Trigger
    """What started it."""


@dataclass(frozen=True, kw_only=True)
class FinishedEvent(Record):
    """`finished`: a run ended here."""

    _parts: ClassVar[Mapping[str, type[Record]]] = {"record": RunRecord}

    record: RunRecord
    """The record as it was stored."""
    error: BaseException | None = None
    """What the handler raised, the object itself."""


@dataclass(frozen=True, kw_only=True)
class MissedEvent(MissedRange):
    """`missed`: slots that nobody ran."""

    job: str
    """The job's name."""


@dataclass(frozen=True, kw_only=True)
class OverlapEvent(Record):
    """`overlap`: a slot was skipped, another run was in the way."""

    job: str
    """The job's name."""
    slot: int
    """The slot that was skipped (ms)."""
    other_slot: int | None = None
    """The slot of the run in the way (ms)."""
    other_manual: bool | None = None
    """Whether that one is manual."""
    by: str | None = None
    """Who holds it."""


@dataclass(frozen=True, kw_only=True)
class SkewEvent(Record):
    """`skew`: the clock of this machine and the store's are apart."""

    offset_ms: int
    """Ours minus the store's (ms)."""
    job: str | None = None
    """The job that showed it, if one did."""


@dataclass(frozen=True, kw_only=True)
class DefinitionConflictEvent(Record):
    """`definition_conflict`: replicas disagree about a job, or about the time-zone tables."""

    job: str
    """The job's name."""
    ours: str
    """What this instance runs by."""
    stored: str
    """What the store says."""


@dataclass(frozen=True, kw_only=True)
class OverdueEvent(RunEvent):
    """`overdue`: a run is far over its time."""

    running_ms: int
    """For how long the handler has been running (ms)."""


@dataclass(frozen=True, kw_only=True)
class StoreDownEvent(Record):
    """`store_down`: the store does not answer."""

    message: str
    """What the last error said."""


@dataclass(frozen=True, kw_only=True)
class StoreUpEvent(Record):
    """`store_up`: the store answers again."""

    down_ms: int
    """For how long it had not answered (ms)."""


@dataclass(frozen=True, kw_only=True)
class ErrorEvent(Record):
    """`error`: an error in the background."""

    error: BaseException
    """The error, the object itself."""
    job: str | None = None
    """The job it concerns, if it concerns one."""


Event: TypeAlias = (
    RunEvent
    | FinishedEvent
    | MissedEvent
    | OverlapEvent
    | SkewEvent
    | DefinitionConflictEvent
    | OverdueEvent
    | StoreDownEvent
    | StoreUpEvent
    | ErrorEvent
)
"""Any of them."""

#: camelCase name -> (name here, class, level of the log)
KINDS: dict[str, tuple[EventName, type[Record], int]] = {
    "won": ("won", RunEvent, logging.DEBUG),
    "started": ("started", RunEvent, logging.DEBUG),
    "finished": ("finished", FinishedEvent, logging.DEBUG),
    "missed": ("missed", MissedEvent, logging.WARNING),
    "overlap": ("overlap", OverlapEvent, logging.INFO),
    "takeover": ("takeover", RunEvent, logging.WARNING),
    "leaseLost": ("lease_lost", RunEvent, logging.WARNING),
    "skew": ("skew", SkewEvent, logging.WARNING),
    "definitionConflict": ("definition_conflict", DefinitionConflictEvent, logging.WARNING),
    "overdue": ("overdue", OverdueEvent, logging.WARNING),
    "storeDown": ("store_down", StoreDownEvent, logging.ERROR),
    "storeUp": ("store_up", StoreUpEvent, logging.INFO),
    "error": ("error", ErrorEvent, logging.ERROR),
}

NAMES: tuple[EventName, ...] = tuple(name for name, _, _ in KINDS.values())


def read_event(name: str, payload: str, error: BaseException | None) -> tuple[EventName, Any, int]:
    """An event of the core: its name here, the object for listeners, and the level of the log."""
    snake, kind, level = KINDS[name]
    data = json.loads(payload)
    if kind is FinishedEvent:
        record = RunRecord._read(data["record"])
        failed = record.status in ("failed", "timed_out")
        return snake, FinishedEvent(record=record, error=error), logging.ERROR if failed else level
    if kind is ErrorEvent:
        return snake, ErrorEvent(error=error or Exception("unknown"), job=data.get("job")), level
    return snake, kind._read(data), level


def describe(name: str, event: Any) -> str:
    """An event as a line of the log.

    >>> describe("store_up", StoreUpEvent(down_ms=1500))
    'store_up: down_ms=1500'
    """
    if isinstance(event, FinishedEvent):
        record = event.record
        took = "" if record.duration_ms is None else f" after {record.duration_ms} ms"
        return f"finished: job={record.job!r} slot={record.slot} status={record.status}{took}"
    if isinstance(event, ErrorEvent):
        job = "" if event.job is None else f" of job {event.job!r}"
        return f"error{job}: {type(event.error).__name__}: {event.error}"
    told = " ".join(f"{key}={value!r}" for key, value in event.to_dict().items())
    return f"{name}: {told}"
