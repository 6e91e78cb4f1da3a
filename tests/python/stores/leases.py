"""A store with leases, in memory, as a user writes it after the page "Leases". Its methods are
plain, so each of them is one step."""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from anarchon import (
    ActiveRun,
    ClaimInput,
    ClaimOutcome,
    ClaimRecord,
    JobLimits,
    RunClaim,
    RunRecord,
    StoredResult,
    build_history,
)

Key = tuple[int, bool]
"""A run of a job: its slot, and whether it is manual."""


def wall_ms() -> int:
    """The clock of the machine."""
    return time.time_ns() // 1_000_000


@dataclass(kw_only=True)
class Run:
    """A run that has been claimed."""

    slot: int
    manual: bool
    token: str
    by: str
    at: int
    lease_ms: int
    lease_until: int
    max_takeovers: int
    fence: int | None
    attempt: int | None = 1
    crashes: int = 0
    released: bool = False
    status: str | None = None
    ended_at: int = 0

    @property
    def key(self) -> Key:
        return self.slot, self.manual

    def is_lost(self, now: int) -> bool:
        """Whether nobody may take it over any more, and its lease is over."""
        crashes = self.crashes + (0 if self.released else 1)
        return self.lease_until <= now and (self.manual or crashes > self.max_takeovers)


@dataclass
class Job:
    """What is kept of a job."""

    since: int = 0
    floor: float = -math.inf
    fence: int = 0
    schedule: str | None = None
    before: str | None = None
    history_size: int = 20
    keep_ms: int = 0
    keep_slots: int = 0
    keep_window_ms: int = 0
    runs: dict[Key, Run] = field(default_factory=dict)
    results: dict[Key, StoredResult] = field(default_factory=dict)

    def unfinished(self) -> list[Run]:
        """The runs without an end, oldest first."""
        return sorted((run for run in self.runs.values() if not run.status), key=lambda r: r.key)

    def settle(self, now: int) -> None:
        """Runs that nobody may take over are lost when their leases are over."""
        for run in self.unfinished():
            run.lease_until = min(run.lease_until, now + run.lease_ms)
            if run.is_lost(now):
                run.status, run.ended_at = "lost", run.lease_until

    def trim(self, now: int) -> None:
        """Drops ended records, but none that somebody may still ask for."""
        newest = sorted(self.runs.values(), key=lambda run: run.key, reverse=True)
        wanted = [run for run in newest if not run.manual][: self.keep_slots]
        for run in [run for run in newest if run.status][self.history_size :]:
            if max(run.slot, run.ended_at) + self.keep_ms > now:
                continue
            if run in wanted and run.slot + self.keep_window_ms > now:
                continue
            del self.runs[run.key]
            self.results.pop(run.key, None)
            if not run.manual:
                self.floor = max(self.floor, run.slot)


class LeaseStore:
    """A backend with leases for the schedulers of one process."""

    name = "leases"
    dedupe_window_ms = math.inf

    def __init__(self, now: Callable[[], int] = wall_ms) -> None:
        self.now = now
        self.jobs: dict[str, Job] = {}
        self.runs = Leases(self)

    def init(self) -> None: ...
    def close(self) -> None: ...

    def job(self, name: str) -> Job:
        """What is kept of this job."""
        return self.jobs.setdefault(name, Job())

    def prepare_job(self, job: str, history_size: int, limits: JobLimits | None = None) -> None:
        kept, now = self.job(job), self.now()
        kept.history_size = history_size
        if limits is not None:
            kept.keep_ms = max(kept.keep_ms, limits.keep_ms or 0)
            kept.keep_slots = max(kept.keep_slots, limits.keep_slots or 0)
            kept.keep_window_ms = max(kept.keep_window_ms, limits.keep_window_ms or 0)
            if limits.schedule not in (kept.schedule, kept.before):
                kept.since = now
            if limits.schedule != kept.schedule:
                kept.before, kept.schedule = kept.schedule, limits.schedule
        kept.trim(now)

    def claim(self, input: ClaimInput) -> bool:
        """A claim without a lease. A scheduler asks `runs` instead; others may share the store."""
        job, now = self.job(input.job), self.now()
        found = job.runs.get((input.slot, False))
        if found is not None:
            return found.token == input.token
        if input.slot <= job.floor or input.slot > now + early(input):
            return False
        self.begin_plain(job, input, now, manual=False)
        job.history_size = input.history_size
        job.trim(now)
        return True

    def record_manual_run(self, input: ClaimInput) -> int:
        job, now = self.job(input.job), self.now()
        slot = input.slot
        while (found := job.runs.get((slot, True))) is not None:
            if found.token == input.token:
                return slot
            slot += 1
        input = dataclasses.replace(input, slot=slot)
        if input.lease_ms is None:
            self.begin_plain(job, input, now, manual=True)
        else:
            self.begin(job, input, now, manual=True)
        return slot

    def begin(self, job: Job, input: ClaimInput, now: int, *, manual: bool = False) -> Run:
        """Records a run with a lease and a fence."""
        job.fence += 1
        run = self.recorded(job, input, now, manual)
        run.fence = job.fence
        return run

    def begin_plain(self, job: Job, input: ClaimInput, now: int, *, manual: bool) -> None:
        """A run without a lease: for leases it is over, and its result is still to come."""
        run = self.recorded(job, dataclasses.replace(input, lease_ms=0), now, manual)
        run.status, run.ended_at, run.attempt = "unfinished", now, None

    @staticmethod
    def recorded(job: Job, input: ClaimInput, now: int, manual: bool) -> Run:
        """Records a run."""
        lease_ms = input.lease_ms or 0
        run = Run(
            slot=input.slot,
            manual=manual,
            token=input.token,
            by=input.instance_id,
            at=now,
            lease_ms=lease_ms,
            lease_until=now + lease_ms,
            max_takeovers=input.max_takeovers if isinstance(input, RunClaim) else 0,
            fence=None,
        )
        job.runs[run.key] = run
        return run

    def save_result(
        self, job: str, result: StoredResult, history_size: int, history_ttl_ms: int | None = None
    ) -> None:
        kept = self.job(job)
        key = result.slot, result.manual
        kept.results[key] = result
        run = kept.runs.get(key)
        if run is not None and run.status == "unfinished":
            run.status = result.status
        kept.trim(self.now())

    def history(self, job: str, limit: int) -> list[RunRecord]:
        kept, now = self.job(job), self.now()
        claims = [
            ClaimRecord(slot=run.slot, by=run.by, at=run.at, manual=run.manual)
            for run in kept.runs.values()
        ]
        results = [one for key, one in kept.results.items() if is_ended(kept.runs.get(key))]
        records = build_history(job=job, claims=claims, results=results, limit=limit)
        return [shown(record, kept.runs[record.slot, record.manual], now) for record in records]


def early(input: ClaimInput) -> float:
    """How far in the future a slot may lie (ms)."""
    return math.inf if input.max_early_ms is None else input.max_early_ms


def is_ended(run: Run | None) -> bool:
    """Whether the run is there and has ended."""
    return run is not None and run.status is not None


def shown(record: RunRecord, run: Run, now: int) -> RunRecord:
    """A record with what the leases know of the run."""
    end: dict[str, object] = {}
    if run.status is not None:
        end = {"status": run.status, "ended_at": run.ended_at}
    elif run.is_lost(now):
        end = {"status": "lost", "ended_at": run.lease_until}
    else:
        end = {"status": "running" if run.lease_until > now else "stalled"}
    known = {"attempt": run.attempt, "fence": run.fence, **end}
    return RunRecord.from_dict({**record.to_dict(), **known})


class Leases:
    """The leases of a `LeaseStore`: the five methods, and no other."""

    def __init__(self, store: LeaseStore) -> None:
        self.store = store

    def claim(self, input: RunClaim) -> ClaimOutcome:
        job, now = self.store.job(input.job), self.store.now()
        job.settle(now)
        outcome = self.decide(job, input, now)
        others = [run.lease_until for run in job.unfinished() if run.key != (input.slot, False)]
        next_ms = max(0, min(others) - now) if others else None
        job.trim(now)
        return dataclasses.replace(outcome, now_ms=now, next_ms=next_ms)

    def decide(self, job: Job, input: RunClaim, now: int) -> ClaimOutcome:
        """The rules, in order."""
        run = job.runs.get((input.slot, False))
        if run is not None:
            return self.decide_known(job, run, input, now)
        if input.slot <= job.floor:
            return ClaimOutcome(kind="late")
        if input.kind == "backup" or (input.kind == "catch_up" and input.slot < job.since):
            return ClaimOutcome(kind="none")
        if input.kind == "slot" and input.not_after_ms is not None and now > input.not_after_ms:
            return ClaimOutcome(kind="late")
        if input.slot > now + early(input):
            return ClaimOutcome(kind="early")
        in_the_way = job.unfinished() if input.overlap == "skip" else []
        if in_the_way:
            return self.skip(job, in_the_way[0], input, now)
        return won(self.store.begin(job, input, now))

    def skip(self, job: Job, other: Run, input: RunClaim, now: int) -> ClaimOutcome:
        """Records that the slot is not run, for another run is in the way."""
        if input.slot > now:
            return ClaimOutcome(kind="early")
        if input.kind == "slot":
            run = self.store.recorded(job, input, now, manual=False)
            run.status, run.ended_at, run.attempt = "skipped", now, 0
        left_ms = max(0, other.lease_until - now)
        in_the_way = {"slot": other.slot, "manual": other.manual, "by": other.by}
        return ClaimOutcome(kind="overlap", left_ms=left_ms, **in_the_way)

    def decide_known(self, job: Job, run: Run, input: RunClaim, now: int) -> ClaimOutcome:
        """The rules for a slot that has a record."""
        lease_ms = input.lease_ms or 0
        if run.status is not None:
            return ClaimOutcome(kind="done")
        if run.token == input.token:
            if run.released:
                return ClaimOutcome(kind="running", by=run.by, attempt=run.attempt, left_ms=0)
            run.lease_ms, run.lease_until = lease_ms, max(run.lease_until, now + lease_ms)
            return won(run)
        if run.lease_until > now:
            left_ms = run.lease_until - now
            return ClaimOutcome(kind="running", by=run.by, attempt=run.attempt, left_ms=left_ms)
        job.fence += 1
        run.crashes += 0 if run.released else 1
        run.token, run.by, run.at, run.released = input.token, input.instance_id, now, False
        run.attempt, run.fence = (run.attempt or 0) + 1, job.fence
        run.lease_ms, run.lease_until = lease_ms, now + lease_ms
        return won(run)

    def held(self, job: str, slot: int, token: str) -> Run | None:
        """The unfinished run that the caller holds."""
        runs = self.store.job(job).unfinished()
        return next((run for run in runs if run.slot == slot and run.token == token), None)

    def heartbeat(self, job: str, slot: int, token: str, lease_ms: int) -> bool:
        run = self.held(job, slot, token)
        if run is None or run.released:
            return False
        run.lease_ms = lease_ms
        run.lease_until = max(run.lease_until, self.store.now() + lease_ms)
        return True

    def finish(self, job: str, slot: int, token: str, status: str) -> bool:
        kept = self.store.job(job)
        runs = kept.runs.values()
        run = next((run for run in runs if run.slot == slot and run.token == token), None)
        if run is None:
            return False
        if run.status is not None:
            return run.status == status
        run.status, run.ended_at = status, self.store.now()
        kept.trim(self.store.now())
        return True

    def release(self, job: str, slot: int, token: str) -> bool:
        run = self.held(job, slot, token)
        if run is None:
            return False
        if not run.released:
            run.released, run.lease_until = True, self.store.now()
        return True

    def active(self, job: str) -> list[ActiveRun]:
        now = self.store.now()
        return [
            ActiveRun(
                slot=run.slot,
                manual=run.manual,
                by=run.by,
                attempt=run.attempt or 0,
                left_ms=max(0, run.lease_until - now),
                alive=run.lease_until > now,
            )
            for run in self.store.job(job).unfinished()
            if not run.is_lost(now)
        ]


def won(run: Run) -> ClaimOutcome:
    """The answer to whoever holds the run now."""
    return ClaimOutcome(
        kind="won", attempt=run.attempt, fence=run.fence, max_takeovers=run.max_takeovers
    )
