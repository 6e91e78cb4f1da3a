"""What the stores that come with the library have in common."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from . import _anarchon
from ._bridge import LoopBridge
from .records import (
    ActiveRun,
    ClaimInput,
    ClaimOutcome,
    JobLimits,
    MissedRange,
    PauseRequest,
    Record,
    RunClaim,
    RunRecord,
    Status,
    StoredResult,
    Survey,
)

__all__ = ["NativeBackend"]


class NativeBackend:
    """Base of the stores that come with the library: the contract, member for member.

    A scheduler drives them without a detour through Python. The methods are there for programs that
    look into a store, and for tests.
    """

    def __init__(self, native: _anarchon.Backend | Callable[[], _anarchon.Backend]) -> None:
        self._half = native
        if not callable(native):
            self.name: str = native.name
            """The name of the store, for example `memory`."""
        # A store that is made later is one in a SQL database, and has leases.
        if callable(native) or native.has_leases:
            self.runs = NativeRunStore(self)
            """The leases of this store, if it has them."""

    @property
    def _native(self) -> _anarchon.Backend:
        """The native half; a subclass may have it made when it is first needed."""
        if callable(self._half):
            self._half = self._half()
        return self._half

    if TYPE_CHECKING:
        # A protocol's plain attribute is settable: a read-only property would not fit `Backend`.
        dedupe_window_ms: float
    else:

        @property
        def dedupe_window_ms(self) -> float:
            """How long a claimed run is remembered (ms); `math.inf` for ever."""
            window = self._native.dedupe_window_ms
            return math.inf if window is None else window

    async def init(self) -> None:
        """Connects and checks the store."""
        await self._ask("init")

    async def prepare_job(
        self, job: str, history_size: int, limits: JobLimits | None = None
    ) -> None:
        """One-time set-up for a job; registers its limits."""
        if limits is None:
            limits = JobLimits(name=job, jitter_ms=0, max_late_ms=0, history_size=history_size)
        await self._ask("prepareJob", limits)

    async def claim(self, input: ClaimInput) -> bool:
        """True for exactly one instance per slot, and again for the same token."""
        return bool(await self._ask("claim", input))

    async def record_manual_run(self, input: ClaimInput) -> int | None:
        """Records a manual run; the slot used."""
        slot: int | None = await self._ask("recordManualRun", input)
        return slot

    async def save_result(
        self,
        job: str,
        result: StoredResult,
        history_size: int,
        history_ttl_ms: int | None = None,
    ) -> None:
        """Stores how a run ended."""
        await self._ask("saveResult", job, result, history_size, history_ttl_ms)

    async def history(self, job: str, limit: int) -> list[RunRecord]:
        """The latest runs from all instances, newest first."""
        return [RunRecord._read(record) for record in await self._ask("history", job, limit)]

    def check_job(self, job: JobLimits) -> None:
        """Refuses a job that this store cannot run safely. The scheduler does so by itself."""
        self._native.check_job(json.dumps(job.to_wire()))

    def ddl(self) -> list[str]:
        """The statements that create its tables, for `create_tables=False`; none without tables."""
        return self._native.ddl() or []

    async def close(self) -> None:
        """Closes what the store opened."""
        await self._ask("close")

    async def _ask(self, member: str, *arguments: Any) -> Any:
        wire = [value.to_wire() if isinstance(value, Record) else value for value in arguments]
        text = json.dumps(wire)
        answer = await LoopBridge.of_this_loop().call(self._native.ask, member, text)
        return None if answer is None else json.loads(answer)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name}>"


class NativeRunStore:
    """The leases of a store that comes with the library."""

    keeps_result = True
    """`finish` stores the result it is given."""

    def __init__(self, backend: NativeBackend) -> None:
        self._backend = backend

    async def claim(self, input: RunClaim) -> ClaimOutcome:
        """Decides between won, running, done, overlap, none, late, early and paused."""
        return ClaimOutcome._read(await self._ask("claim", input))

    async def heartbeat(self, job: str, slot: int, token: str, lease_ms: int) -> bool:
        """Moves the lease end forward, only if the stored token matches."""
        return bool(await self._ask("heartbeat", job, slot, token, lease_ms))

    async def finish(
        self, job: str, slot: int, token: str, status: Status, result: StoredResult | None = None
    ) -> bool:
        """Marks the run ended, only with the matching token; true again when repeated."""
        return bool(await self._ask("finish", job, slot, token, status, result))

    async def release(self, job: str, slot: int, token: str) -> bool:
        """Ends a live lease now, so that a backup can take over."""
        return bool(await self._ask("release", job, slot, token))

    async def active(self, job: str) -> list[ActiveRun]:
        """The unfinished runs, oldest slot first."""
        return [ActiveRun._read(run) for run in await self._ask("active", job)]

    async def survey(self, job: str) -> Survey:
        """Everything about a job that a sweep or a start needs."""
        return Survey._read(await self._ask("survey", job))

    async def claim_manual(self, input: ClaimInput) -> ClaimOutcome:
        """A manual run under a lease."""
        return ClaimOutcome._read(await self._ask("claimManual", input))

    async def record_missed(self, job: str, range: MissedRange) -> bool:
        """Records a missed range, once for the fleet: false if it was known already."""
        return bool(await self._ask("recordMissed", job, range))

    async def set_paused(self, job: str, paused: PauseRequest | None) -> None:
        """Pauses a job, or with `None` resumes it."""
        await self._ask("setPaused", job, paused)

    async def cancel(self, job: str, slot: int, manual: bool) -> bool:
        """Ends an unfinished run as `cancelled`, whoever holds it."""
        return bool(await self._ask("cancel", job, slot, manual))

    async def forget(self, job: str) -> bool:
        """Drops the ended records of a job and its definition; false while a run is unfinished."""
        return bool(await self._ask("forget", job))

    async def _ask(self, member: str, *arguments: Any) -> Any:
        return await self._backend._ask(f"runs.{member}", *arguments)
