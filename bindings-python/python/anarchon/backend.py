"""The contract between the scheduler and a store: what a backend of your own has to have.

One rule matters more than everything else: for one job and one slot, `claim()` answers True to
exactly one instance. An exception, or no answer in time, means *unknown*: the same claim is asked
again with the same token, and a claim that was granted is granted again.

A method is `async def` or plain. Plain methods run in a thread of ours, one call at a time per
object, unless its class says `thread_safe = True`. An argument that a later version adds is passed
by keyword, and only to a method whose signature takes it.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Iterable
from typing import Any, Protocol, TypeAlias, TypeVar, runtime_checkable

from . import _anarchon
from .records import (
    ActiveRun,
    ClaimInput,
    ClaimOutcome,
    ClaimRecord,
    RunClaim,
    RunRecord,
    StoredResult,
)

__all__ = ["Backend", "RunStore", "build_history"]

T = TypeVar("T")
MaybeAwaitable: TypeAlias = T | Awaitable[T]


@runtime_checkable
class Backend(Protocol):
    """The members that every backend has. May be subclassed, but need not be.

    Optional members are looked up by name: `check_job(limits)` refuses a job by raising,
    `record_claim(input)` is called after a won claim where the claim itself is no history record,
    and `runs`, a `RunStore`, gives leases: backups, overlap protection, catch-up and hand-over.
    """

    name: str
    """Shown as `scheduler.backend.name`, for example `memory`."""

    dedupe_window_ms: float
    """How long a claimed run is remembered (ms); `math.inf` if for ever. A job whose
    `jitter_ms + max_late_ms` is not shorter is refused."""

    def init(self) -> MaybeAwaitable[None]:
        """Connects and checks the server. Called by the start and before reads."""

    def prepare_job(self, job: str, history_size: int) -> MaybeAwaitable[None]:
        """One-time set-up for a job. May take `limits` (a `JobLimits`) by keyword."""

    def claim(self, input: ClaimInput) -> MaybeAwaitable[bool]:
        """True for exactly one instance per slot; safe to repeat with the same token."""
        raise NotImplementedError

    def record_manual_run(self, input: ClaimInput) -> MaybeAwaitable[int | None]:
        """Records a manual run, which is not deduplicated; the slot used, if it is another."""
        return None

    def save_result(
        self, job: str, result: StoredResult, history_size: int, history_ttl_ms: int | None = None
    ) -> MaybeAwaitable[None]:
        """Stores how a run ended."""

    def history(self, job: str, limit: int) -> MaybeAwaitable[list[RunRecord]]:
        """The latest runs from all instances, newest first: see `build_history`."""
        raise NotImplementedError

    def close(self) -> MaybeAwaitable[None]:
        """Closes what the backend opened itself."""


@runtime_checkable
class RunStore(Protocol):
    """The leases of a backend. Each method is one atomic step.

    Optional members: `survey(job)`, `claim_manual(input)`, `record_missed(job, range)`,
    `set_paused(job, paused)`, `cancel(job, slot, manual)`, `forget(job)`, and `keeps_result = True`
    where `finish` stores the result it is given.
    """

    def claim(self, input: RunClaim) -> MaybeAwaitable[ClaimOutcome]:
        """Decides between won, running, done, overlap, none and late from the run's stored
        state."""
        raise NotImplementedError

    def heartbeat(self, job: str, slot: int, token: str, lease_ms: int) -> MaybeAwaitable[bool]:
        """Moves the lease end forward, only if the stored token matches."""
        raise NotImplementedError

    def finish(self, job: str, slot: int, token: str, status: str) -> MaybeAwaitable[bool]:
        """Marks the run ended, only with the matching token. May take `result` by keyword."""
        raise NotImplementedError

    def release(self, job: str, slot: int, token: str) -> MaybeAwaitable[bool]:
        """Ends a live lease now, so that a backup can take over."""
        raise NotImplementedError

    def active(self, job: str) -> MaybeAwaitable[list[ActiveRun]]:
        """Lists unfinished runs and whether each lease is alive."""
        raise NotImplementedError


def build_history(
    *,
    job: str,
    claims: Iterable[ClaimRecord],
    results: Iterable[StoredResult],
    limit: int = 20,
) -> list[RunRecord]:
    """Merges claims and results into records, newest slot first, at most `limit`.

    There is one record per run; a manual and a scheduled run of the same slot are two. A claim
    without a result is `unfinished`; a result without a claim is shown as well.

    >>> claim = ClaimRecord(slot=60_000, by="a", at=60_012, manual=False)
    >>> [run.status for run in build_history(job="tick", claims=[claim], results=[])]
    ['unfinished']
    """
    records = _anarchon.build_history(job, _wire_list(claims), _wire_list(results), limit)
    return [RunRecord._read(record) for record in json.loads(records)]


def _wire_list(records: Iterable[Any]) -> str:
    return json.dumps([record.to_wire() for record in records])
