"""The smallest store: claims without leases, in memory, as a user writes it."""

from __future__ import annotations

import math
import time

from anarchon import ClaimInput, ClaimRecord, RunRecord, StoredResult, build_history


class ClaimStore:
    """It checks and then writes, in plain methods, which are called one at a time."""

    name = "claims"
    dedupe_window_ms = math.inf

    def __init__(self) -> None:
        self.claims: dict[tuple[str, int, bool], tuple[str, ClaimRecord]] = {}
        self.results: dict[str, list[StoredResult]] = {}

    def init(self) -> None: ...
    def prepare_job(self, job: str, history_size: int) -> None: ...
    def close(self) -> None: ...

    def claim(self, input: ClaimInput) -> bool:
        found = self.claims.get((input.job, input.slot, False))
        if found is not None:
            return found[0] == input.token
        self.keep(input, manual=False)
        return True

    def record_manual_run(self, input: ClaimInput) -> int | None:
        self.keep(input, manual=True)
        return None

    def save_result(
        self, job: str, result: StoredResult, history_size: int, history_ttl_ms: int | None = None
    ) -> None:
        self.results.setdefault(job, []).append(result)

    def history(self, job: str, limit: int) -> list[RunRecord]:
        claims = [record for key, (_, record) in self.claims.items() if key[0] == job]
        return build_history(job=job, claims=claims, results=self.results.get(job, []), limit=limit)

    def keep(self, input: ClaimInput, *, manual: bool) -> None:
        """Records a claim."""
        at = time.time_ns() // 1_000_000
        record = ClaimRecord(slot=input.slot, by=input.instance_id, at=at, manual=manual)
        self.claims[input.job, input.slot, manual] = (input.token, record)
