"""What the scheduler and its stores tell and are told: plain, frozen, keyword-only records.

All times are whole milliseconds since the Unix epoch, all lengths of time whole milliseconds.
Fields may be added in minor versions; build a record by keywords and ignore what you do not know.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from functools import cache
from typing import Any, ClassVar, Literal, TypeVar

__all__ = [
    "ActiveRun",
    "ClaimInput",
    "ClaimKind",
    "ClaimOutcome",
    "ClaimRecord",
    "ErrorInfo",
    "Explanation",
    "JobInfo",
    "JobLimits",
    "MissedRange",
    "Pause",
    "PauseRequest",
    "Record",
    "RunClaim",
    "RunRecord",
    "RunRef",
    "Status",
    "StopReport",
    "StoredResult",
    "Survey",
    "Trigger",
]

Status = Literal[
    "succeeded",
    "failed",
    "timed_out",
    "cancelled",
    "skipped",
    "lost",
    "running",
    "stalled",
    "unfinished",
]
"""How a run ended, or how it stands (the last three)."""

Trigger = Literal["slot", "catch_up", "takeover", "manual"]
"""What started a run."""

ClaimKind = Literal["slot", "backup", "catch_up"]
"""Why a lease is asked for."""

R = TypeVar("R", bound="Record")


@cache
def camel(name: str) -> str:
    """The camelCase of a snake_case name: how a field is called on the wire.

    >>> camel("history_ttl_ms")
    'historyTtlMs'
    """
    first, *rest = name.split("_")
    return first + "".join(part.capitalize() for part in rest)


def own(name: str) -> str:
    """A field's name as Python shows it: `from_` is `from`.

    >>> own("from_")
    'from'
    """
    return name.rstrip("_")


class _Style:
    """How names are written, remembered for each kind of record."""

    def __init__(self, write: Callable[[str], str]) -> None:
        self._write = write
        self._names: dict[type, tuple[tuple[str, str], ...]] = {}

    def names_of(self, kind: type[Record]) -> tuple[tuple[str, str], ...]:
        names = self._names.get(kind)
        if names is None:
            names = tuple((field.name, self._write(field.name)) for field in fields(kind))
            self._names[kind] = names
        return names


_WIRE = _Style(camel)
_OWN = _Style(own)


@dataclass(frozen=True, kw_only=True)
class Record:
    """Base of all records."""

    _parts: ClassVar[Mapping[str, type[Record]]] = {}

    def to_dict(self) -> dict[str, Any]:
        """The record as plain values, names in snake_case; fields without a value are left out.

        >>> ClaimRecord(slot=0, by="a", at=5, manual=False).to_dict()
        {'slot': 0, 'by': 'a', 'at': 5, 'manual': False}
        """
        return self._write(own)

    def to_wire(self) -> dict[str, Any]:
        """The record as it is stored and sent, names in camelCase.

        >>> ActiveRun(slot=0, manual=False, by="a", attempt=1, left_ms=5, alive=True).to_wire()
        {'slot': 0, 'manual': False, 'by': 'a', 'attempt': 1, 'leftMs': 5, 'alive': True}
        """
        return self._write(camel)

    def _write(self, rename: Any) -> dict[str, Any]:
        written = {}
        for field in fields(self):
            value = getattr(self, field.name)
            if value is not None:
                written[rename(field.name)] = _plain(value, rename)
        return written

    @classmethod
    def from_dict(cls: type[R], data: Mapping[str, Any]) -> R:
        """A record from what `to_dict` writes; fields that this version does not know are ignored.

        >>> ClaimRecord.from_dict({"slot": 0, "by": "a", "at": 5, "manual": False, "new": 1})
        ClaimRecord(slot=0, by='a', at=5, manual=False)
        """
        return cls._build(data, _OWN)

    @classmethod
    def _read(cls: type[R], data: Mapping[str, Any]) -> R:
        """A record from its wire form; unknown fields are ignored."""
        return cls._build(data, _WIRE)

    @classmethod
    def _build(cls: type[R], data: Mapping[str, Any], style: _Style) -> R:
        given: dict[str, Any] = {}
        for name, written in style.names_of(cls):
            value = data.get(written)
            if value is None:
                continue
            part = cls._parts.get(name)
            if part is None:
                given[name] = tuple(value) if isinstance(value, list) else value
            elif isinstance(value, list):
                given[name] = tuple(part._build(item, style) for item in value)
            else:
                given[name] = part._build(value, style)
        return cls(**given)


def _plain(value: Any, rename: Any) -> Any:
    if isinstance(value, Record):
        return value._write(rename)
    if isinstance(value, (list, tuple)):
        return [_plain(item, rename) for item in value]
    return value


@dataclass(frozen=True, kw_only=True)
class ErrorInfo(Record):
    """What a raised error leaves in the history."""

    name: str
    """The class of the error."""
    message: str
    """What it says."""
    stack: str | None = None
    """Where it was raised, up to 8 KiB."""


@dataclass(frozen=True, kw_only=True)
class RunRecord(Record):
    """One run, as `history()` shows it."""

    _parts: ClassVar[Mapping[str, type[Record]]] = {"error": ErrorInfo}

    job: str
    """The job's name."""
    slot: int
    """The instant the run stands for (ms)."""
    manual: bool
    """Asked for by hand."""
    by: str
    """The instance that claimed it last."""
    at: int
    """When it was claimed last (ms)."""
    status: Status
    """How it ended, or how it stands."""
    attempt: int | None = None
    """Grants so far: above 1 it has been taken over."""
    fence: int | None = None
    """The fencing number of the last grant."""
    started_at: int | None = None
    """When the handler was entered (ms)."""
    ended_at: int | None = None
    """When it ended (ms)."""
    duration_ms: int | None = None
    """How long the handler took (ms)."""
    error: ErrorInfo | None = None
    """What the handler raised."""
    output: str | None = None
    """What the handler returned, as JSON text of at most 8 KiB."""
    output_truncated: bool | None = None
    """The output was longer and has been cut."""
    abandoned: bool | None = None
    """The handler ignored its cancellation and may still run."""


@dataclass(frozen=True, kw_only=True)
class MissedRange(Record):
    """Slots that nobody ran, reported once for the whole fleet."""

    from_: int
    """The first missed slot (ms)."""
    to: int
    """The last missed slot (ms), inclusive."""
    count: int
    """How many slots were missed; 0 if the reporter did not know the schedule."""
    reason: str
    """`no_instance`, `no_place`, `store_down`, `too_late`, `paused` or `dropped`."""
    by: str
    """The instance that reported it."""
    at: int
    """When it was reported (ms)."""


@dataclass(frozen=True, kw_only=True)
class ActiveRun(Record):
    """An unfinished run."""

    slot: int
    """The slot (ms)."""
    manual: bool
    """Asked for by hand."""
    by: str
    """Who holds it, or held it last."""
    attempt: int
    """Grants so far."""
    left_ms: int
    """What is left of its lease (ms); 0 if it is over."""
    alive: bool
    """The lease is alive."""


@dataclass(frozen=True, kw_only=True)
class Explanation(Record):
    """Why a slot did or did not run."""

    _parts: ClassVar[Mapping[str, type[Record]]] = {"records": RunRecord}

    outcome: str
    """`ran`, `running`, `skipped`, `lost`, `missed`, `paused`, `not_a_slot`, `not_yet`,
    `unknown`."""
    reason: str
    """Why, as a word."""
    records: tuple[RunRecord, ...] = ()
    """The records of the slot."""
    text: str
    """All of it as a sentence."""


@dataclass(frozen=True, kw_only=True)
class JobInfo(Record):
    """A registered job."""

    name: str
    """The job's name."""
    schedule: str
    """The schedule in words."""
    timezone: str | None = None
    """The zone of a cron job."""
    ready: bool
    """Whether the store knows the job."""


@dataclass(frozen=True, kw_only=True)
class RunRef(Record):
    """A run, named."""

    job: str
    """The job's name."""
    slot: int
    """The slot (ms)."""
    manual: bool
    """Asked for by hand."""


@dataclass(frozen=True, kw_only=True)
class StopReport(Record):
    """What a stop left behind."""

    _parts: ClassVar[Mapping[str, type[Record]]] = {
        "finished": RunRef,
        "released": RunRef,
        "still_running": RunRef,
    }

    finished: tuple[RunRef, ...] = ()
    """Runs that ended by themselves while stopping."""
    released: tuple[RunRef, ...] = ()
    """Runs that were cancelled and given back, for another instance to take over."""
    still_running: tuple[RunRef, ...] = ()
    """Runs whose handlers ignore their cancellation; their leases are kept until they end."""


@dataclass(frozen=True, kw_only=True)
class ClaimInput(Record):
    """What an instance sends to claim a slot."""

    job: str
    """The job's name, 1 to 255 bytes."""
    slot: int
    """The scheduled time (ms): with `job`, the identity of the run."""
    token: str
    """A random value unique to this attempt: the same claim sent again has the same token."""
    instance_id: str
    """Who is asking."""
    history_size: int
    """How many ended records to keep."""
    history_ttl_ms: int | None = None
    """How long to keep them (ms)."""
    lease_ms: int | None = None
    """The length of the lease asked for (ms)."""
    overlap: Literal["skip", "allow"] | None = None
    """Whether another unfinished run is in the way."""
    force: bool | None = None
    """A manual run that is started although another one is unfinished."""
    max_early_ms: int | None = None
    """How far the caller's clock may run ahead of the store's (ms)."""
    asked_at: int | None = None
    """For a manual run: when it was asked for (ms)."""


@dataclass(frozen=True, kw_only=True)
class RunClaim(ClaimInput):
    """What an instance sends to claim a slot with a lease."""

    kind: ClaimKind
    """Why it is asked for."""
    max_takeovers: int
    """How many crashes others may take over, if this claim starts the run."""
    not_after_ms: int | None = None
    """The last instant on the store's clock at which the slot may still be started (ms)."""


@dataclass(frozen=True, kw_only=True)
class ClaimOutcome(Record):
    """The answer to a claim with a lease. Only `kind` is always there."""

    kind: str
    """`won`, `running`, `done`, `overlap`, `none`, `late`, `early` or `paused`; another is
    `done`."""
    attempt: int | None = None
    """Grants of this run so far (`won`, `running`)."""
    fence: int | None = None
    """The fencing number of the grant (`won`)."""
    max_takeovers: int | None = None
    """The run's own policy (`won`)."""
    slot: int | None = None
    """The slot of the run in the way (`overlap`), or the slot used (manual runs)."""
    manual: bool | None = None
    """Whether the run in the way is a manual one (`overlap`)."""
    by: str | None = None
    """Who holds the run, or the run in the way (`running`, `overlap`)."""
    left_ms: int | None = None
    """What is left of that lease (ms)."""
    now_ms: int | None = None
    """The store's clock at the decision (ms)."""
    next_ms: int | None = None
    """What is left of the earliest lease of the job's other unfinished runs (ms)."""


@dataclass(frozen=True, kw_only=True)
class ClaimRecord(Record):
    """A claim, as history is built from it."""

    slot: int
    """The slot (ms)."""
    by: str
    """The instance that won it."""
    at: int
    """When (ms)."""
    manual: bool
    """Asked for by hand."""


@dataclass(frozen=True, kw_only=True)
class StoredResult(Record):
    """How a run ended, as it is stored."""

    _parts: ClassVar[Mapping[str, type[Record]]] = {"error": ErrorInfo}

    slot: int
    """The slot of the run (ms)."""
    manual: bool
    """Asked for by hand."""
    by: str
    """The instance that ran it."""
    status: Status
    """How it ended."""
    started_at: int
    """When the handler was entered first (ms)."""
    ended_at: int
    """When it ended (ms)."""
    attempt: int | None = None
    """Grants of the run."""
    error: ErrorInfo | None = None
    """What the handler raised."""
    output: str | None = None
    """What the handler returned, as JSON text of at most 8 KiB."""
    output_truncated: bool | None = None
    """The output was longer and has been cut."""
    abandoned: bool | None = None
    """The handler ignored its cancellation and may still run."""


@dataclass(frozen=True, kw_only=True)
class JobLimits(Record):
    """What a job will ask of the store."""

    name: str
    """The job's name."""
    jitter_ms: int
    """The longest wait before a claim (ms)."""
    max_late_ms: int
    """How late a slot may still be started (ms)."""
    history_size: int
    """How many ended records to keep."""
    history_ttl_ms: int | None = None
    """How long to keep them (ms)."""
    lease_ms: int | None = None
    """The length of a lease (ms)."""
    overlap: Literal["skip", "allow"] | None = None
    """Whether runs may overlap."""
    catch_up: Literal["none", "latest", "all"] | None = None
    """Which missed slots are made up for."""
    schedule: str | None = None
    """The fingerprint of the schedule."""
    keep_ms: int | None = None
    """Trimming leaves every record younger than this (ms)."""
    keep_slots: int | None = None
    """Trimming leaves so many of the newest scheduled records …"""
    keep_window_ms: int | None = None
    """… that are younger than this (ms)."""
    zone_tables: str | None = None
    """The version of the time-zone tables."""


@dataclass(frozen=True, kw_only=True)
class Pause(Record):
    """A job that is paused."""

    since: int
    """Since when (ms, the store's clock)."""
    by: str
    """The instance that paused it."""
    reason: str | None = None
    """Why, in the words of whoever paused it."""


@dataclass(frozen=True, kw_only=True)
class PauseRequest(Record):
    """Who pauses a job, and why."""

    by: str
    """The instance that asks."""
    reason: str | None = None
    """Why."""


@dataclass(frozen=True, kw_only=True)
class Survey(Record):
    """What the scheduler needs to know of a job at a start, after a gap and for a sweep."""

    _parts: ClassVar[Mapping[str, type[Record]]] = {
        "paused": Pause,
        "runs": ActiveRun,
        "missed": MissedRange,
    }

    now_ms: int
    """The store's clock (ms)."""
    schedule: str = ""
    """The fingerprint in force; empty if the job is not registered."""
    since: int = 0
    """When that definition was first registered (ms)."""
    floor: int = 0
    """The greatest scheduled slot whose record has been trimmed."""
    paused: Pause | None = None
    """Set while no new run may be started."""
    slots: tuple[int, ...] = ()
    """The slots of all scheduled records, ascending."""
    runs: tuple[ActiveRun, ...] = ()
    """The unfinished runs."""
    missed: tuple[MissedRange, ...] = ()
    """The ranges already reported as missed."""
    zone_tables: str = ""
    """The version of the time-zone tables of whoever registered last."""
