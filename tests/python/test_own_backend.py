"""Backends written in Python: plain or async, with leases or without."""

from __future__ import annotations

import asyncio
import copy
import dataclasses
import math
import re
import threading
import time
from collections.abc import Callable
from typing import Any, ClassVar

import pytest
from anarchon import (
    AnarchonError,
    Backend,
    ClaimInput,
    ClaimOutcome,
    ClaimRecord,
    DedupeWindowTooShortError,
    InvalidOptionError,
    JobContext,
    JobLimits,
    LeasesRequiredError,
    MemoryBackend,
    RunClaim,
    RunRecord,
    Scheduler,
    StoredResult,
    build_history,
)
from anarchon.testing import BackendCases, case_names, check_backend
from python.tally import tally


class PageBackend:
    """The smallest backend: it checks and then writes, and nothing interrupts it."""

    name = "page"
    dedupe_window_ms = math.inf

    def __init__(self) -> None:
        self.claims: dict[tuple[str, int, bool], tuple[str, ClaimRecord]] = {}
        self.results: dict[str, list[StoredResult]] = {}
        self.calls: list[str] = []
        self.threads: set[str] = set()

    def init(self) -> None:
        self.calls.append("init")

    def prepare_job(self, job: str, history_size: int) -> None:
        self.calls.append("prepare_job")

    def claim(self, input: ClaimInput) -> bool:
        self.threads.add(threading.current_thread().name)
        key = (input.job, input.slot, False)
        existing = self.claims.get(key)
        if existing is not None:
            return existing[0] == input.token
        time.sleep(0.001)  # Anybody else who came here meanwhile would win too.
        self.claims[key] = (input.token, self.record(input, manual=False))
        return True

    def record_manual_run(self, input: ClaimInput) -> None:
        key = (input.job, input.slot, True)
        self.claims[key] = (input.token, self.record(input, manual=True))

    def record(self, input: ClaimInput, *, manual: bool) -> ClaimRecord:
        at = int(time.time() * 1000)
        return ClaimRecord(slot=input.slot, by=input.instance_id, at=at, manual=manual)

    def save_result(
        self, job: str, result: StoredResult, history_size: int, history_ttl_ms: int | None = None
    ) -> None:
        self.results.setdefault(job, []).append(result)

    def history(self, job: str, limit: int) -> list[RunRecord]:
        claims = [record for key, (_, record) in self.claims.items() if key[0] == job]
        return build_history(job=job, claims=claims, results=self.results.get(job, []), limit=limit)

    def close(self) -> None:
        self.calls.append("close")


class AsyncBackend(PageBackend):
    """The same, async throughout."""

    name = "async-page"

    async def init(self) -> None:  # type: ignore[override]
        super().init()

    async def claim(self, input: ClaimInput) -> bool:  # type: ignore[override]
        key = (input.job, input.slot, False)
        existing = self.claims.get(key)
        if existing is not None:
            return existing[0] == input.token
        self.claims[key] = (input.token, self.record(input, manual=False))
        await asyncio.sleep(0)
        return True

    async def history(self, job: str, limit: int) -> list[RunRecord]:  # type: ignore[override]
        return super().history(job, limit)


class LeasedRuns:
    """Leases in Python: here another store is asked."""

    keeps_result = True

    def __init__(self, runs: Any) -> None:
        self.runs = runs

    async def claim(self, input: RunClaim) -> ClaimOutcome:
        assert isinstance(input, RunClaim)
        outcome: ClaimOutcome = await self.runs.claim(input)
        return outcome

    async def finish(
        self,
        job: str,
        slot: int,
        token: str,
        status: str,
        result: StoredResult | None = None,
    ) -> bool:
        assert result is None or isinstance(result, StoredResult)
        return bool(await self.runs.finish(job, slot, token, status, result))

    def __getattr__(self, name: str) -> Any:
        return getattr(self.runs, name)


class LeasedBackend:
    """A backend with leases, whose members are those of another."""

    name = "leased"
    dedupe_window_ms = math.inf

    def __init__(self) -> None:
        self.store = MemoryBackend()
        self.runs = LeasedRuns(self.store.runs)

    async def prepare_job(self, job: str, history_size: int, *, limits: JobLimits) -> None:
        assert isinstance(limits, JobLimits)
        await self.store.prepare_job(job, history_size, limits)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name == "check_job" or name == "record_claim":
            raise AttributeError(name)
        return getattr(self.store, name)


@pytest.mark.parametrize("kind", [PageBackend, AsyncBackend, LeasedBackend])
async def test_three_schedulers_run_each_slot_once(kind: type[Any]) -> None:
    backend = kind()
    slots: list[int] = []
    seen = asyncio.Event()

    async def tick(ctx: JobContext) -> None:
        slots.append(ctx.slot)
        if len(slots) >= 8:
            seen.set()

    schedulers = [Scheduler(backend=backend, instance_id=name) for name in "ABC"]
    for scheduler in schedulers:
        scheduler.every("tick", "100ms", tick, jitter_ms=5)
    await asyncio.gather(*(scheduler.start() for scheduler in schedulers))
    assert schedulers[0].backend is backend
    await asyncio.wait_for(seen.wait(), 20)
    await asyncio.gather(*(scheduler.stop() for scheduler in schedulers))
    assert len(slots) == len(set(slots))
    if isinstance(backend, PageBackend):
        assert backend.calls.count("init") == 1, "initialised by the first user"
        assert backend.calls.count("close") == 1, "closed by the last"


async def test_plain_methods_run_one_at_a_time_in_threads_of_ours() -> None:
    class Counting(PageBackend):
        inside = 0
        most = 0

        def claim(self, input: ClaimInput) -> bool:
            Counting.inside += 1
            Counting.most = max(Counting.most, Counting.inside)
            time.sleep(0.002)
            Counting.inside -= 1
            return super().claim(input)

    backend = Counting()
    async with Scheduler(backend=backend) as scheduler:
        won = asyncio.Event()
        scheduler.on("won", lambda _event: won.set())
        for number in range(20):
            scheduler.every(f"job-{number}", "100ms", lambda: None, jitter_ms=0)
        await asyncio.wait_for(won.wait(), 20)
    assert Counting.most == 1
    assert all(name.startswith("anarchon-backend") for name in backend.threads)


async def test_a_class_that_says_so_is_called_side_by_side() -> None:
    class Concurrent(PageBackend):
        thread_safe = True
        together = threading.Barrier(4, timeout=20)

        def history(self, job: str, limit: int) -> list[RunRecord]:
            self.together.wait()
            return []

    scheduler = Scheduler(backend=Concurrent())
    assert await asyncio.gather(*(scheduler.history("job") for _ in range(4))) == [[]] * 4
    await scheduler.stop()


async def test_what_a_member_raises_reaches_the_caller_as_the_object_it_is() -> None:
    class Down(Exception):
        code = "E_DOWN"

    thrown = Down("out of paper")

    class Broken(PageBackend):
        def history(self, job: str, limit: int) -> list[RunRecord]:
            if job == "another":
                raise thrown
            return []

        async def record_manual_run(self, input: ClaimInput) -> None:  # type: ignore[override]
            raise thrown

    scheduler = Scheduler(backend=Broken())
    scheduler.every("job", "1h", lambda: None)
    async with scheduler:
        for call in (lambda: scheduler.history("another"), lambda: scheduler.run_now("job")):
            with pytest.raises(Down) as caught:
                await call()
            assert caught.value is thrown
            assert caught.value.code == "E_DOWN"

    class NoStart(PageBackend):
        def init(self) -> None:
            raise thrown

    class NoJob(PageBackend):
        def check_job(self, job: JobLimits) -> None:
            assert isinstance(job, JobLimits)
            if job.name == "bad":
                raise thrown

    with pytest.raises(Down) as caught:
        await Scheduler(backend=NoStart(), start_timeout_ms=0).start()
    assert caught.value is thrown
    choosy = Scheduler(backend=NoJob())
    choosy.every("good", "1h", lambda: None)
    with pytest.raises(Down) as caught:
        choosy.every("bad", "1h", lambda: None)
    assert caught.value is thrown
    assert [job.name for job in choosy.jobs] == ["good"]


async def test_an_error_in_the_background_is_an_event_with_the_object() -> None:
    class Down(Exception): ...

    thrown = Down("out of paper")

    class Broken(PageBackend):
        def save_result(self, *_: Any, **__: Any) -> None:
            raise thrown

    heard: list[Any] = []
    told = asyncio.Event()
    scheduler = Scheduler(backend=Broken())
    scheduler.every("job", "1h", lambda: None)
    scheduler.on("error", heard.append)
    scheduler.on("error", lambda _event: told.set())
    async with scheduler:
        running = asyncio.ensure_future(scheduler.run_now("job", wait=False))
        await asyncio.wait_for(told.wait(), 20)
        await running
        assert heard[0].error is thrown
        await scheduler.stop(grace_ms=0)


async def test_an_answer_of_the_wrong_type_names_the_member() -> None:
    class Wrong(PageBackend):
        def history(self, job: str, limit: int) -> Any:
            return {"not": "a list"}

    class Odd(PageBackend):
        def history(self, job: str, limit: int) -> Any:
            return object()

    for kind in (Wrong, Odd):
        scheduler = Scheduler(backend=kind())
        with pytest.raises(AnarchonError, match=rf"{kind.__name__}\.history\(\)") as refused:
            await scheduler.history("job")
        assert refused.value.code == "BACKEND_REFUSED"
        await scheduler.stop()


def test_an_object_that_is_no_backend_is_refused() -> None:
    class Half(PageBackend):
        history = None  # type: ignore[assignment]

    class Nameless(PageBackend):
        name = ""

    class Forgetful(PageBackend):
        dedupe_window_ms = "long"  # type: ignore[assignment]

    class Leaseless(PageBackend):
        runs = object()

    class AsyncCheck(PageBackend):
        async def check_job(self, job: JobLimits) -> None: ...

    for kind, says in (
        (Half, "history"),
        (Nameless, "name"),
        (Forgetful, "dedupe_window_ms"),
        (Leaseless, "heartbeat"),
        (dict, "backend object"),
    ):
        with pytest.raises(InvalidOptionError, match=says):
            Scheduler(backend=kind())
    with pytest.raises(InvalidOptionError, match="check_job is async"):
        Scheduler(backend=AsyncCheck()).every("job", "1h", print)


def test_what_the_backend_cannot_promise_is_refused() -> None:
    class Short(PageBackend):
        dedupe_window_ms = 20_000

    scheduler = Scheduler(backend=Short())
    with pytest.raises(DedupeWindowTooShortError) as refused:
        scheduler.every("job", "1h", print)
    assert "20000" in str(refused.value)
    assert "max_late_ms" in str(refused.value)
    scheduler.every("job", "1m", print, max_late_ms="5s")
    for options in ({"lease_ms": "5s"}, {"overlap": "skip"}, {"catch_up": "all"}):
        with pytest.raises(LeasesRequiredError):
            scheduler.every("leased", "1m", print, max_late_ms="5s", **options)  # type: ignore[arg-type]


async def test_added_arguments_go_only_to_methods_that_take_them() -> None:
    seen: list[Any] = []

    class Newer(PageBackend):
        def prepare_job(self, job: str, history_size: int, **more: Any) -> None:
            seen.append(more)

    for backend in (Newer(), PageBackend()):
        async with Scheduler(backend=backend) as scheduler:
            scheduler.every("job", "1h", lambda: None)
            await scheduler.ready()
    assert [type(more["limits"]) for more in seen] == [JobLimits]


async def test_a_method_that_never_answers_harms_nobody() -> None:
    class Silent(PageBackend):
        async def history(self, job: str, limit: int) -> Any:
            await asyncio.Event().wait()

    scheduler = Scheduler(backend=Silent())
    asking = asyncio.ensure_future(scheduler.history("job"))
    await asyncio.sleep(0.01)
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    await scheduler.stop()


def test_it_serves_programs_without_a_loop_and_one_loop_after_another() -> None:
    backend = PageBackend()
    scheduler = Scheduler(backend=backend)
    scheduler.every("job", "1h", lambda: "fine")

    async def once() -> str | None:
        async with scheduler:
            return (await scheduler.run_now("job")).output

    assert asyncio.run(once()) == '"fine"'
    assert asyncio.run(once()) == '"fine"'
    with scheduler.sync as sync:
        assert sync.run_now("job").output == '"fine"'
        assert len(sync.history("job")) == 3


async def test_a_copy_is_a_backend_of_its_own() -> None:
    first = PageBackend()
    Scheduler(backend=first)
    second = copy.copy(first)
    second.claims = {}
    async with Scheduler(backend=second) as scheduler:
        scheduler.every("job", "1h", lambda: None)
        await scheduler.run_now("job")
    assert first.claims == {}
    assert len(second.claims) == 1


async def test_an_object_with_slots_is_a_backend_too() -> None:
    class Slotted:
        __slots__ = ("inner", "name")
        dedupe_window_ms = math.inf

        def __init__(self) -> None:
            self.name = "slotted"
            self.inner = PageBackend()

        def __getattr__(self, name: str) -> Any:
            if name.startswith("_") or name in ("runs", "check_job", "record_claim"):
                raise AttributeError(name)
            return getattr(self.inner, name)

    async with Scheduler(backend=Slotted()) as scheduler:
        scheduler.every("job", "1h", lambda: None)
        assert (await scheduler.run_now("job")).status == "succeeded"


@pytest.mark.parametrize("kind", [PageBackend, AsyncBackend])
async def test_a_backend_without_leases_keeps_the_contract(kind: type[PageBackend]) -> None:
    backend = kind()
    report = await check_backend(lambda: backend, rounds=5)
    tally("class: claims" if kind is PageBackend else "class: claims, async", report)
    report.check()
    passed = [case for case in report.cases if case.status == "passed"]
    skipped = [case for case in report.cases if case.status == "skipped"]
    assert len(passed) >= 15
    assert len(passed) + len(skipped) == len(case_names()) + 1, "and the closing"
    assert all(case.message for case in skipped)


class TestLeasedBackend(BackendCases):
    """A backend with leases keeps every rule of them, through every member."""

    options: ClassVar[dict[str, Any]] = {"rounds": 5, "histories": 3}
    backend = LeasedBackend()

    def open(self) -> Any:
        return self.backend


class TestMemoryBackend(BackendCases):
    options: ClassVar[dict[str, Any]] = {"rounds": 5, "histories": 3}
    backend = MemoryBackend()

    async def open(self) -> Backend:
        return self.backend


# -- broken on purpose: the suite has to say so --


class ChecksThenWrites(AsyncBackend):
    async def claim(self, input: ClaimInput) -> bool:  # type: ignore[override]
        key = (input.job, input.slot, False)
        existing = self.claims.get(key)
        await asyncio.sleep(0.001)
        if existing is not None:
            return existing[0] == input.token
        self.claims[key] = (input.token, self.record(input, manual=False))
        return True


class IgnoresTheToken(PageBackend):
    def claim(self, input: ClaimInput) -> bool:
        taken = (input.job, input.slot, False) in self.claims
        return not taken and super().claim(input)


class GrantsToAnybody(PageBackend):
    def claim(self, input: ClaimInput) -> bool:
        super().claim(input)
        return True


class OldestFirst(PageBackend):
    def history(self, job: str, limit: int) -> list[RunRecord]:
        return super().history(job, limit)[::-1]


class IgnoresTheLimit(PageBackend):
    def history(self, job: str, limit: int) -> list[RunRecord]:
        return super().history(job, 1_000)


class ForgetsResults(PageBackend):
    def save_result(self, *_: Any, **__: Any) -> None: ...


class LosesTheManualFlag(PageBackend):
    def record_manual_run(self, input: ClaimInput) -> None:
        key = (input.job, input.slot, True)
        self.claims[key] = (input.token, self.record(input, manual=False))


class SharesStateByPrefix(PageBackend):
    def claim(self, input: ClaimInput) -> bool:
        return super().claim(dataclasses.replace(input, job=input.job[:4]))


class ThrowsOnRepeat(PageBackend):
    def claim(self, input: ClaimInput) -> bool:
        if (input.job, input.slot, False) in self.claims:
            raise KeyError(input.slot)
        return super().claim(input)


class ForgetsAtTrim(PageBackend):
    def save_result(self, job: str, result: StoredResult, *rest: Any) -> None:
        super().save_result(job, result, 1)
        for key in [key for key in self.claims if key[0] == job]:
            del self.claims[key]


class WrongInstance(PageBackend):
    def record(self, input: ClaimInput, *, manual: bool) -> ClaimRecord:
        return ClaimRecord(slot=input.slot, by="somebody", at=1, manual=manual)


class Leased(LeasedBackend):
    """A store of leases with one member replaced."""

    def __init__(self, **members: Callable[..., Any]) -> None:
        super().__init__()
        for name, member in members.items():
            setattr(self.runs, name, member(self.runs.runs))


def takes_over_a_live_lease(runs: Any) -> Any:
    async def claim(input: RunClaim) -> ClaimOutcome:
        outcome = await runs.claim(input)
        return ClaimOutcome(kind="won") if outcome.kind == "running" else outcome

    return claim


def beats_for_anybody(runs: Any) -> Any:
    async def heartbeat(job: str, slot: int, token: str, lease_ms: int) -> bool:
        await runs.heartbeat(job, slot, token, lease_ms)
        return True

    return heartbeat


def moves_the_lease_back(runs: Any) -> Any:
    async def heartbeat(job: str, slot: int, token: str, lease_ms: int) -> bool:
        beaten = bool(await runs.heartbeat(job, slot, token, 1))
        await asyncio.sleep(0.01)  # By now the lease is over.
        return beaten

    return heartbeat


def never_releases(runs: Any) -> Any:
    async def release(job: str, slot: int, token: str) -> bool:
        return True

    return release


def finishes_for_anybody(runs: Any) -> Any:
    async def finish(job: str, slot: int, token: str, status: str) -> bool:
        await runs.finish(job, slot, token, status, None)
        return True

    return finish


def shows_nothing(runs: Any) -> Any:
    async def active(job: str) -> list[Any]:
        return []

    return active


def answers_with_true(runs: Any) -> Any:
    async def claim(input: RunClaim) -> Any:
        return True

    return claim


def ignores_what_is_in_the_way(runs: Any) -> Any:
    async def claim(input: RunClaim) -> ClaimOutcome:
        outcome: ClaimOutcome = await runs.claim(dataclasses.replace(input, overlap="allow"))
        return outcome

    return claim


class RoundsToSeconds(PageBackend):
    def claim(self, input: ClaimInput) -> bool:
        return super().claim(dataclasses.replace(input, slot=input.slot // 1_000 * 1_000))


class AnswersOne(PageBackend):
    def claim(self, input: ClaimInput) -> Any:
        return int(super().claim(input))


class NeverAnswers(AsyncBackend):
    async def save_result(self, *_: Any, **__: Any) -> None:  # type: ignore[override]
        await asyncio.Event().wait()


class SetsUpOnce(PageBackend):
    def prepare_job(self, job: str, history_size: int) -> None:
        if "prepare_job" in self.calls:
            raise KeyError("the table exists")
        super().prepare_job(job, history_size)


# What is wrong: the store, the case that finds it, and what its message says.
BROKEN: dict[str, tuple[Callable[[], Any], str, str]] = {
    "checks and then writes": (
        ChecksThenWrites,
        "the race: of several clients",
        r"clients claimed the same slot at once .*must be one step of the store",
    ),
    "ignores the token": (
        IgnoresTheToken,
        "the winner's claim again",
        "the winning claim sent again with the same token was refused",
    ),
    "grants to anybody": (
        GrantsToAnybody,
        "a different token loses",
        "granted again to a different token; compare the stored token",
    ),
    "throws on repeat": (
        ThrowsOnRepeat,
        "the winner's claim again",
        r"a call was answered with an error: KeyError",
    ),
    "history oldest first": (
        OldestFirst,
        "newest first",
        r"five slots came back in the order \[.*\]; the newest slot comes first",
    ),
    "history without a limit": (IgnoresTheLimit, "newest first", "history with limit 3 showed"),
    "history without results": (
        ForgetsResults,
        "a claim and its saved result",
        "the saved result was `succeeded`, the record says `unfinished`",
    ),
    "loses the manual flag": (
        LosesTheManualFlag,
        "manual runs are not deduplicated",
        "a manual run was said to have slot .*, and history does not show it",
    ),
    "shares state by a prefix": (
        SharesStateByPrefix,
        "different job names never share",
        "its name is taken for another's",
    ),
    "rounds slots to seconds": (
        RoundsToSeconds,
        "slots are whole milliseconds",
        "was refused: it is taken for one a few milliseconds apart",
    ),
    "forgets at trim": (
        ForgetsAtTrim,
        "a slot never starts again",
        "a new claim for it was granted: trimming must not forget",
    ),
    "shows another instance": (
        WrongInstance,
        "a claim and its saved result",
        '"instance-0" claimed the slot, the record says "somebody"',
    ),
    "answers 1 for true": (
        AnswersOne,
        "the race: of several clients",
        r"AnswersOne\.claim\(\) answered 1; it must answer true or false",
    ),
    "never answers": (
        NeverAnswers,
        "a claim and its saved result",
        "did not end within 2000 ms: a call never answers",
    ),
    "cannot be set up twice": (
        SetsUpOnce,
        "setting up can be repeated",
        "a call was answered with an error: KeyError: 'the table exists'",
    ),
    "takes over a live lease": (
        lambda: Leased(claim=takes_over_a_live_lease),
        "rule 3",
        r'claims slot 0 with token 2.* the rules say "running"',
    ),
    "heartbeats without a token": (
        lambda: Leased(heartbeat=beats_for_anybody),
        "heartbeat: only with the token",
        "heartbeat for slot 0 with token 2.*the rules say false",
    ),
    "moves the lease back": (
        lambda: Leased(heartbeat=moves_the_lease_back),
        "heartbeat: only with the token",
        r'claims slot 0 with token 2.* the rules say "running"',
    ),
    "never releases": (
        lambda: Leased(release=never_releases),
        "one given back is taken over at once",
        "a backup that asked then was answered `running`: release must end the lease now",
    ),
    "finishes without a token": (
        lambda: Leased(finish=finishes_for_anybody),
        "finish: only with the token",
        "finishes slot 0 with token 2.*the rules say false",
    ),
    "shows nothing that is active": (
        lambda: Leased(active=shows_nothing),
        "active and survey",
        r"the unfinished runs are listed \(active\).*`active` shows \[\], the rules say",
    ),
    "ignores runs in the way": (
        lambda: Leased(claim=ignores_what_is_in_the_way),
        "of two slots that skip each other",
        "only one run of the job may be unfinished",
    ),
    "answers a claim with true": (
        lambda: Leased(claim=answers_with_true),
        "leases, the race: exactly one wins",
        r"runs\.claim\(\) answered true; it must answer an outcome",
    ),
}


@pytest.mark.parametrize("fault", BROKEN)
async def test_the_suite_says_what_is_broken(fault: str) -> None:
    kind, part, says = BROKEN[fault]
    [name] = [name for name in case_names() if part in name]
    backend = kind()
    report = await check_backend(lambda: backend, rounds=5, only=[name], case_timeout_ms="2s")
    assert not report.passed, f"nobody noticed: {fault}"
    [failed] = [case for case in report.cases if case.status == "failed"]
    assert failed.name == name
    assert re.search(says, failed.message or "", re.DOTALL), failed.message
    with pytest.raises(AssertionError) as caught:
        report.check()
    assert (failed.message or "") in str(caught.value), "the error says it as well"


async def test_an_open_that_fails_leaves_the_suite_as_it_is() -> None:
    class Lost(Exception): ...

    lost = Lost("no such host")

    async def open_backend() -> Any:
        raise lost

    with pytest.raises(Lost) as caught:
        await check_backend(open_backend)
    assert caught.value is lost


@pytest.mark.parametrize(
    ("options", "says"),
    [({"clients": 1}, "clients is 1"), ({"case_timeout_ms": "soon"}, "case_timeout_ms")],
)
async def test_an_option_of_the_suite_that_is_not_allowed_is_refused(
    options: Any, says: str
) -> None:
    with pytest.raises(InvalidOptionError, match=says):
        await check_backend(PageBackend, **options)
