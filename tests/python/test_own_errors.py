"""What members of a backend in Python do wrong: who hears of it, as what, and that nothing else
comes of it."""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import pytest
from anarchon import (
    AnarchonError,
    BackendRefusedError,
    BackendUnavailableError,
    ClaimInput,
    ClaimOutcome,
    JobContext,
    RunClaim,
    Scheduler,
    Survey,
)
from python.stores.claims import ClaimStore
from python.stores.leases import Leases, LeaseStore

PATIENCE = 30


class Mine(Exception):
    """An error with a code of its own."""

    code = "E_MINE"


class Whole(Leases):
    """Leases with the optional members too."""

    def survey(self, job: str) -> Survey:
        kept = self.store.job(job)
        slots = sorted(slot for slot, manual in kept.runs if not manual)
        runs = tuple(self.active(job))
        now_ms = self.store.now()
        return Survey(now_ms=now_ms, since=kept.since, slots=tuple(slots), runs=runs)

    def set_paused(self, job: str, paused: Any) -> None: ...

    def cancel(self, job: str, slot: int, manual: bool) -> bool:
        return False

    def forget(self, job: str) -> bool:
        return True

    def claim_manual(self, input: ClaimInput) -> ClaimOutcome:
        return ClaimOutcome(kind="won", slot=self.store.record_manual_run(input))


class WholeStore(LeaseStore):
    """A backend with all of that."""

    def __init__(self) -> None:
        super().__init__()
        self.runs = Whole(self)


def replace(store: Any, path: str, member: Callable[..., Any]) -> Any:
    """Puts another member in place of one of the store or of its leases; answers the old one."""
    target = store.runs if path.startswith("runs.") else store
    name = path.removeprefix("runs.")
    old = getattr(target, name)
    setattr(target, name, member)
    return old


def raises(error: BaseException) -> Callable[..., Any]:
    """A plain member that raises."""

    def member(*_: Any, **__: Any) -> Any:
        raise error

    return member


def rejects(error: BaseException) -> Callable[..., Any]:
    """An async member that raises."""

    async def member(*_: Any, **__: Any) -> Any:
        raise error

    return member


def hands_out(error: BaseException) -> Callable[..., Any]:
    """A plain member whose awaitable raises."""

    def member(*_: Any, **__: Any) -> Any:
        return rejects(error)()

    return member


Act = Callable[[Scheduler], Awaitable[Any]]

# The call of the user; the member that it reaches; whether the scheduler was started before.
REACHED: list[tuple[str, str, bool, Act]] = [
    ("start", "init", False, lambda one: one.start()),
    ("start", "prepare_job", False, lambda one: one.start()),
    ("history without a start", "init", False, lambda one: one.history("job")),
    ("run_now", "runs.claim_manual", True, lambda one: one.run_now("job")),
    ("history", "history", True, lambda one: one.history("job")),
    ("missed", "runs.survey", True, lambda one: one.history("job", missed=True)),
    ("active", "runs.active", True, lambda one: one.active("job")),
    ("explain", "history", True, lambda one: one.explain("job", 1)),
    ("explain", "runs.survey", True, lambda one: one.explain("job", 1)),
    ("pause", "runs.set_paused", True, lambda one: one.pause("job")),
    ("resume", "runs.set_paused", True, lambda one: one.resume("job")),
    ("cancel", "runs.active", True, lambda one: one.cancel("job")),
    ("forget", "runs.forget", True, lambda one: one.forget("job")),
    ("stop", "close", True, lambda one: one.stop()),
]


@pytest.mark.parametrize("thrown", [Mine("no"), KeyError("no"), BackendRefusedError("mine")])
@pytest.mark.parametrize("how", [raises, rejects, hands_out])
@pytest.mark.parametrize("reached", REACHED, ids=lambda reached: f"{reached[0]}: {reached[1]}")
async def test_what_a_member_raises_leaves_the_call_as_it_is(
    reached: tuple[str, str, bool, Act], how: Callable[..., Any], thrown: Exception
) -> None:
    _, path, is_started, act = reached
    store = WholeStore()
    # Members are looked at when the object is handed over, and this one is there already.
    is_bad = False
    bad = how(thrown)
    works = replace(store, path, lambda: None)
    replace(store, path, lambda *given: bad(*given) if is_bad else works(*given))
    scheduler = Scheduler(backend=store, start_timeout_ms=0)
    scheduler.on("error", lambda _event: None)
    scheduler.every("job", "1h", lambda: None)
    if is_started:
        await scheduler.start()
    is_bad = True
    with pytest.raises(type(thrown)) as caught:
        await act(scheduler)
    assert caught.value is thrown
    is_bad = False
    await scheduler.stop()


async def test_what_cancel_of_the_leases_raises_leaves_cancel_as_it_is() -> None:
    store = WholeStore()
    thrown = Mine("not yours")
    replace(store, "runs.cancel", raises(thrown))
    entered = asyncio.Event()

    async def work() -> None:
        entered.set()
        await asyncio.Event().wait()

    scheduler = Scheduler(backend=store)
    scheduler.every("job", "1h", work)
    async with scheduler:
        await scheduler.run_now("job", wait=False)
        await entered.wait()
        with pytest.raises(Mine) as caught:
            await scheduler.cancel("job")
        assert caught.value is thrown
        await scheduler.stop(grace_ms=0)


async def test_what_record_manual_run_raises_leaves_run_now_as_it_is() -> None:
    store = ClaimStore()
    thrown = Mine("no")
    replace(store, "record_manual_run", rejects(thrown))
    async with Scheduler(backend=store) as scheduler:
        scheduler.every("job", "1h", lambda: None)
        with pytest.raises(Mine) as caught:
            await scheduler.run_now("job")
        assert caught.value is thrown


async def until(event: asyncio.Event) -> None:
    """Waits, but not for ever."""
    await asyncio.wait_for(event.wait(), PATIENCE)


def event_of(scheduler: Scheduler, name: Any) -> asyncio.Event:
    """Is set when the scheduler tells of this."""
    told = asyncio.Event()
    scheduler.on(name, lambda _event: told.set())
    return told


# What fails in the background, and whether the run is won and goes on all the same.
BACKGROUND: list[tuple[str, type[Any], bool]] = [
    ("claim", ClaimStore, False),
    ("record_claim", ClaimStore, True),
    ("runs.claim", WholeStore, False),
    ("record_claim", WholeStore, True),
]


@pytest.mark.parametrize(("path", "kind", "goes_on"), BACKGROUND)
@pytest.mark.parametrize("how", [raises, rejects])
async def test_what_a_member_raises_in_the_background_is_told_once_as_it_is(
    path: str, kind: type[Any], goes_on: bool, how: Callable[..., Any]
) -> None:
    store, thrown = kind(), Mine(f"from {path}")
    if path == "record_claim":
        store.record_claim = how(thrown)
    else:
        replace(store, path, how(thrown))
    scheduler = Scheduler(backend=store)
    heard: list[Any] = []
    ended: list[str] = []
    scheduler.on("error", heard.append)
    scheduler.on("finished", lambda event: ended.append(event.record.status))
    told, down = event_of(scheduler, "error"), event_of(scheduler, "store_down")
    finished = event_of(scheduler, "finished")
    scheduler.every("job", "1s", lambda: None, jitter_ms=0)
    async with scheduler:
        await until(told)
        if goes_on:
            await until(finished)
        else:
            await until(down)  # It has failed again.
        await scheduler.stop(grace_ms=0)
    assert [(event.error, event.job) for event in heard] == [(thrown, "job")]
    assert heard[0].error is thrown
    assert set(ended) == ({"succeeded"} if goes_on else set())


@pytest.mark.parametrize(
    ("path", "kind"), [("save_result", ClaimStore), ("runs.finish", WholeStore)]
)
async def test_an_end_that_cannot_be_stored_is_told_once_and_stored_when_it_can(
    path: str, kind: type[Any]
) -> None:
    store, thrown = kind(), Mine(f"from {path}")
    is_broken = True
    works = replace(store, path, lambda: None)

    def member(*given: Any) -> Any:
        if is_broken:
            raise thrown
        return works(*given)

    replace(store, path, member)
    scheduler = Scheduler(backend=store)
    heard: list[Any] = []
    scheduler.on("error", heard.append)
    down = event_of(scheduler, "store_down")
    scheduler.every("job", "1h", lambda: "kept")
    async with scheduler:
        running = asyncio.ensure_future(scheduler.run_now("job"))
        await until(down)
        is_broken = False
        record = await asyncio.wait_for(running, PATIENCE)
        assert (record.status, record.output) == ("succeeded", '"kept"')
        assert [event.error for event in heard] == [thrown]
        assert (await scheduler.history("job"))[0].output == '"kept"'


# The member; what it answers; the call that hears of it, or none for the background; what is said.
WRONG: list[tuple[str, Any, Act | None, str]] = [
    ("claim", 1, None, r"ClaimStore\.claim\(\) answered 1; it must answer true or false"),
    ("claim", None, None, r"ClaimStore\.claim\(\) answered null; it must"),
    ("claim", object, None, r"ClaimStore\.claim\(\) answered \"<class 'object'>\"; it must"),
    (
        "history",
        "rows",
        lambda one: one.history("job"),
        r'ClaimStore\.history\(\) answered "rows"; it must',
    ),
    (
        "history",
        [{"slot": 1}],
        lambda one: one.history("job"),
        r'ClaimStore\.history\(\) answered \[\{"slot":1\}\]; it must answer a list of run records',
    ),
    (
        "record_manual_run",
        True,
        lambda one: one.run_now("job"),
        r"ClaimStore\.record_manual_run\(\) answered true; it must",
    ),
    (
        "runs.claim",
        "won",
        None,
        r'WholeStore\.runs\.claim\(\) answered "won"; it must answer an outcome',
    ),
    (
        "runs.claim",
        True,
        None,
        r"WholeStore\.runs\.claim\(\) answered true; it must answer an outcome",
    ),
    (
        "runs.active",
        {},
        lambda one: one.active("job"),
        r"WholeStore\.runs\.active\(\) answered \{\}; it must",
    ),
    (
        "runs.survey",
        5,
        lambda one: one.history("job", missed=True),
        r"WholeStore\.runs\.survey\(\) answered 5; it must",
    ),
    (
        "runs.forget",
        "gone",
        lambda one: one.forget("job"),
        r'WholeStore\.runs\.forget\(\) answered "gone"; it must answer true or false',
    ),
]


@pytest.mark.parametrize("wrong", WRONG, ids=lambda wrong: f"{wrong[0]}: {wrong[1]!r}")
async def test_an_answer_of_the_wrong_type_is_refused_by_name(
    wrong: tuple[str, Any, Act | None, str],
) -> None:
    path, answer, act, says = wrong
    store: Any = WholeStore() if path.startswith("runs.") else ClaimStore()
    works = replace(store, path, lambda: None)
    is_wrong = act is None
    replace(store, path, lambda *given: answer if is_wrong else works(*given))
    scheduler = Scheduler(backend=store)
    heard: list[Any] = []
    scheduler.on("error", heard.append)
    told = event_of(scheduler, "error")
    scheduler.every("job", "1s" if act is None else "1h", lambda: "fine", jitter_ms=0)
    async with scheduler:
        if act is None:
            await until(told)
            error = heard[0].error
        else:
            is_wrong = True
            with pytest.raises(AnarchonError) as caught:
                await act(scheduler)
            error = caught.value
        assert error.code == "BACKEND_REFUSED"
        assert re.search(says, str(error)), error
        is_wrong = False
        assert (await scheduler.run_now("job", force=True)).output == '"fine"'
        await scheduler.stop(grace_ms=0)


async def test_a_cyclic_answer_is_refused_by_name_and_harms_nothing() -> None:
    store = ClaimStore()
    cyclic: list[Any] = []
    cyclic.append(cyclic)
    replace(store, "history", lambda *_: cyclic)
    async with Scheduler(backend=store) as scheduler:
        scheduler.every("job", "1h", lambda: "fine")
        with pytest.raises(AnarchonError, match=r"ClaimStore\.history\(\)") as refused:
            await scheduler.history("job")
        assert refused.value.code == "BACKEND_REFUSED"
        assert (await scheduler.run_now("job")).output == '"fine"'


class Gate:
    """A member that answers when it is let, in a thread or on the loop."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer
        self.opened = threading.Event()
        self.cancelled = False
        self.answered = threading.Event()

    def plain(self, *_: Any) -> Any:
        assert self.opened.wait(PATIENCE)
        self.answered.set()
        return self.answer

    async def on_the_loop(self, *_: Any) -> Any:
        # It does not listen when nobody waits for it any more.
        while not self.opened.is_set():
            try:
                await asyncio.sleep(0.005)
            except asyncio.CancelledError:
                self.cancelled = True
        self.answered.set()
        return self.answer


@pytest.mark.parametrize("how", ["plain", "on_the_loop"])
async def test_a_member_that_never_answers_is_named_and_answers_after_stop_in_vain(
    how: str,
) -> None:
    store = WholeStore()
    gate = Gate(ClaimOutcome(kind="won", attempt=1, fence=1))
    works = replace(store, "runs.claim", getattr(gate, how))
    entered: list[JobContext] = []
    scheduler = Scheduler(backend=store)
    heard: list[Any] = []
    scheduler.on("error", heard.append)
    told = event_of(scheduler, "error")
    # The deadline of a call is a sixth of the lease.
    scheduler.every("job", "1s", entered.append, jitter_ms=0, lease_ms=1_200)
    await scheduler.start()
    await until(told)
    error = heard[0].error
    assert isinstance(error, BackendUnavailableError)
    assert 'backend "leases", runs.claim: no answer within 200 ms' in str(error)
    stopping = asyncio.ensure_future(scheduler.stop(grace_ms=0))
    if how == "plain":
        # Its thread is taken: what waits behind it may not be answered any more either.
        await asyncio.sleep(0)
    with suppress(AnarchonError):
        await stopping
    gate.opened.set()
    await asyncio.get_running_loop().run_in_executor(None, gate.answered.wait, PATIENCE)
    await asyncio.sleep(0.01)
    assert entered == [], "what was answered after the stop is not looked at"
    assert gate.cancelled == (how == "on_the_loop"), "a coroutine hears that nobody waits any more"
    # The object can be used again.
    replace(store, "runs.claim", works)
    async with Scheduler(backend=store) as again:
        again.every("other", "1h", lambda: "again")
        assert (await again.run_now("other")).output == '"again"'


async def test_a_claim_without_an_answer_holds_up_no_other_job() -> None:
    store = LeaseStore()
    works = store.runs.claim

    async def claim(input: RunClaim) -> ClaimOutcome:
        if input.job == "stuck":
            await asyncio.Event().wait()
        return works(input)

    replace(store, "runs.claim", claim)
    scheduler = Scheduler(backend=store)
    heard: list[Any] = []
    ran: list[int] = []
    thrice = asyncio.Event()

    def fine(ctx: JobContext) -> None:
        ran.append(ctx.slot)

    def ended(_event: Any) -> None:
        if len(ran) >= 3:
            thrice.set()

    scheduler.on("error", heard.append)
    scheduler.on("finished", ended)
    # Both fall due in the same moments; a call has a sixth of the lease, two seconds.
    for name, work in (("stuck", lambda: None), ("fine", fine)):
        scheduler.every(name, "500ms", work, jitter_ms=0, lease_ms="12s")
    async with scheduler:
        await asyncio.wait_for(thrice.wait(), PATIENCE)
        await scheduler.stop(grace_ms=0)
    assert ran == list(range(ran[0], ran[-1] + 1, 500)), "no slot was skipped"
    assert {event.job for event in heard} <= {"stuck"}


async def test_a_heartbeat_without_an_answer_costs_no_other_run_its_lease() -> None:
    store = LeaseStore()
    works = store.runs.heartbeat
    beats: list[str] = []
    enough = asyncio.Event()

    async def heartbeat(job: str, slot: int, token: str, lease_ms: int) -> bool:
        if job == "stuck":
            await asyncio.Event().wait()
        beats.append(job)
        if len(beats) >= 5:
            enough.set()
        return works(job, slot, token, lease_ms)

    replace(store, "runs.heartbeat", heartbeat)
    scheduler = Scheduler(backend=store)
    lost: list[str] = []
    scheduler.on("lease_lost", lambda event: lost.append(event.job))

    async def work() -> None:
        await asyncio.Event().wait()

    for name in ("stuck", "fine"):
        scheduler.every(name, "1h", work, lease_ms="2s")
    async with scheduler:
        for name in ("stuck", "fine"):
            await scheduler.run_now(name, wait=False)
        await asyncio.wait_for(enough.wait(), PATIENCE)
        await scheduler.stop(grace_ms=0)
    assert lost == ["stuck"], "only the run that could not be renewed"
