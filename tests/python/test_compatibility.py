"""The compatibility rules for backends that people have written, a test or more for each line of
docs/writing-your-own-backend.md."""

from __future__ import annotations

import asyncio
import dataclasses
import math
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import pytest
from anarchon import (
    ClaimInput,
    ClaimOutcome,
    ClaimRecord,
    ErrorInfo,
    JobLimits,
    LeasesRequiredError,
    RunClaim,
    RunRecord,
    Scheduler,
    StoredResult,
    build_history,
)
from python.stores.claims import ClaimStore
from python.stores.leases import LeaseStore

MEMBERS = (
    "init",
    "prepare_job",
    "claim",
    "record_manual_run",
    "save_result",
    "history",
    "close",
)
RUNS = ("claim", "heartbeat", "finish", "release", "active")


def only(target: Any, names: tuple[str, ...], **more: Any) -> Any:
    """An object with these members of another and no further one."""
    return SimpleNamespace(**{name: getattr(target, name) for name in names}, **more)


@asynccontextmanager
async def running(backend: Any, **options: Any) -> AsyncIterator[tuple[Scheduler, Any, list[Any]]]:
    """A scheduler that has started, the end of its first run, and what it had to complain about."""
    scheduler = Scheduler(backend=backend, instance_id="a")
    finished: asyncio.Future[RunRecord] = asyncio.get_running_loop().create_future()
    errors: list[Any] = []
    scheduler.on("error", errors.append)
    scheduler.on("finished", lambda end: finished.done() or finished.set_result(end.record))
    scheduler.every("job", "1s", lambda ctx: ctx.attempt, **{"jitter_ms": 0, **options})
    asyncio.get_running_loop().call_later(20, finished.cancel, "no run has ended")
    async with scheduler:
        yield scheduler, finished, errors
        await scheduler.stop(grace_ms=0)


async def test_new_members_of_backend_are_optional_the_nine_of_the_first_version_are_enough() -> (
    None
):
    backend = only(ClaimStore(), MEMBERS, name="nine", dedupe_window_ms=math.inf)
    async with running(backend) as (scheduler, finished, errors):
        record = await finished
        assert record.status == "succeeded"
        by_hand = await scheduler.run_now("job", slot=1_000)
        assert (by_hand.slot, by_hand.manual) == (1_000, True)
        shown = await scheduler.history("job")
        assert any(one.slot == record.slot and not one.manual for one in shown)
        assert (await scheduler.explain("job", record.slot)).outcome == "ran"
        for call in (scheduler.active, scheduler.pause, scheduler.resume, scheduler.forget):
            with pytest.raises(LeasesRequiredError):
                await call("job")
        with pytest.raises(LeasesRequiredError):
            await scheduler.cancel("job")
        assert errors == []


async def test_new_members_of_run_store_are_optional_the_five_of_the_first_version_are_enough() -> (
    None
):
    store = LeaseStore()
    saved: list[int] = []

    def save_result(job: str, result: StoredResult, *rest: Any) -> None:
        saved.append(result.slot)
        store.save_result(job, result, *rest)

    runs = only(store.runs, RUNS)
    backend = only(store, MEMBERS, name="five", dedupe_window_ms=math.inf, runs=runs)
    backend.save_result = save_result
    async with running(backend) as (scheduler, finished, errors):
        record = await finished
        assert (record.status, record.output) == ("succeeded", "1")
        assert record.slot in saved, "finish keeps no result, so save_result is called"
        assert (await scheduler.run_now("job", force=True)).status == "succeeded"
        assert await scheduler.active("job") == []
        assert (await scheduler.explain("job", record.slot)).outcome == "ran"
        for call in (scheduler.pause, scheduler.cancel, scheduler.forget):
            with pytest.raises(LeasesRequiredError):
                await call("job")
        assert errors == []


async def test_new_fields_of_what_you_receive_are_optional_to_read() -> None:
    seen: list[ClaimInput] = []

    class Reads(ClaimStore):
        def claim(self, input: ClaimInput) -> bool:
            seen.append(input)
            return super().claim(input)

    async with running(Reads(), history_size=7) as (_, finished, _errors):
        await finished
    first = seen[0]
    assert isinstance(first, ClaimInput)
    assert re.fullmatch("[0-9a-f]{32}", first.token)
    assert first.slot % 1_000 == 0
    assert (first.job, first.instance_id, first.history_size) == ("job", "a", 7)


def test_a_field_that_this_version_does_not_know_is_ignored() -> None:
    data = {"job": "job", "slot": 1, "token": "t", "instance_id": "a", "history_size": 5}
    assert ClaimInput.from_dict({**data, "colour": "blue"}) == ClaimInput.from_dict(data)
    more = {**data, "kind": "slot", "max_takeovers": 2}
    assert RunClaim.from_dict({**more, "mood": [1]}) == RunClaim.from_dict(more)
    limits = {"name": "job", "jitter_ms": 0, "max_late_ms": 0, "history_size": 5}
    assert JobLimits.from_dict({**limits, "region": "eu"}) == JobLimits.from_dict(limits)


async def test_a_new_argument_goes_only_to_methods_that_take_it() -> None:
    seen: dict[str, Any] = {}

    class Older(LeaseStore):
        def prepare_job(self, job: str, history_size: int) -> None:  # type: ignore[override]
            seen["older"] = (job, history_size)

    class Newer(LeaseStore):
        def prepare_job(self, job: str, history_size: int, **added: Any) -> None:
            seen["newer"] = added

    for kind in (Older, Newer):
        async with running(kind()) as (_, finished, errors):
            assert (await finished).status == "succeeded"
            assert errors == []
    assert seen["older"] == ("job", 100)
    assert {name: type(value) for name, value in seen["newer"].items()} == {"limits": JobLimits}


async def test_new_fields_of_what_you_return_are_optional_the_least_of_an_outcome_is_its_kind() -> (
    None
):
    store = LeaseStore()
    claim = store.runs.claim
    store.runs.claim = lambda input: ClaimOutcome(kind=claim(input).kind)  # type: ignore[method-assign]
    store.runs.active = lambda job: []  # type: ignore[method-assign]
    async with running(store) as (_, finished, errors):
        record = await finished
        assert (record.status, record.output) == ("succeeded", "1")
        assert errors == []


async def test_fields_that_the_scheduler_does_not_know_do_no_harm() -> None:
    store = LeaseStore()
    claim, history = store.runs.claim, store.history
    store.runs.claim = lambda input: {  # type: ignore[method-assign, assignment, return-value]
        **claim(input).to_dict(),
        "mood": "good",
        "nested": {"a": [1]},
    }
    store.history = lambda job, limit: [  # type: ignore[method-assign, assignment, misc]
        {**record.to_dict(), "region": "eu", "tags": []} for record in history(job, limit)
    ]
    async with running(store) as (scheduler, finished, errors):
        record = await finished
        assert (await scheduler.history("job"))[-1].slot == record.slot
        assert errors == []


def test_build_history_carries_every_field_of_a_result_into_the_record() -> None:
    fields: dict[str, Any] = {
        "slot": 60_000,
        "manual": False,
        "by": "a",
        "status": "failed",
        "started_at": 60_010,
        "ended_at": 60_050,
        "attempt": 2,
        "error": ErrorInfo(name="TypeError", message="no", stack="at x"),
        "output": "[1,2",
        "output_truncated": True,
        "abandoned": True,
    }
    result = StoredResult(**fields)
    known = {field.name for field in dataclasses.fields(StoredResult)}
    assert set(result.to_dict()) == known, "a field is left out"
    claim = ClaimRecord(slot=60_000, by="a", at=60_004, manual=False)
    [record] = build_history(job="job", claims=[claim], results=[result], limit=1)
    assert record == RunRecord(job="job", at=60_004, duration_ms=40, **fields)


async def test_an_outcome_of_a_kind_that_the_scheduler_does_not_know_is_treated_like_done() -> None:
    store = LeaseStore()
    asked: list[int] = []
    enough = asyncio.Event()
    loop = asyncio.get_running_loop()

    def claim(input: RunClaim) -> ClaimOutcome:
        asked.append(input.slot)
        if len(asked) >= 3:
            loop.call_soon_threadsafe(enough.set)
        return ClaimOutcome(kind="queued_elsewhere", now_ms=store.now())

    store.runs.claim = claim  # type: ignore[method-assign]
    won: list[Any] = []
    async with running(store) as (scheduler, _, errors):
        scheduler.on("won", won.append)
        await asyncio.wait_for(enough.wait(), 20)
    assert won == []
    assert errors == []
    assert len(set(asked)) == len(asked), "a slot that is done is not asked for again"


async def test_errors_that_you_throw_reach_the_user_as_they_are() -> None:
    class Mine(Exception):
        code = "E_MINE"

    thrown = Mine("mine")

    class Throws(ClaimStore):
        is_broken = False

        def history(self, job: str, limit: int) -> list[RunRecord]:
            if self.is_broken:
                raise thrown
            return super().history(job, limit)

    store = Throws()
    async with running(store) as (scheduler, finished, _errors):
        await finished
        store.is_broken = True
        with pytest.raises(Mine) as caught:
            await scheduler.history("job")
        assert caught.value is thrown
        assert caught.value.code == "E_MINE"
