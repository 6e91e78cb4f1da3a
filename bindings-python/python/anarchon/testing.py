"""For tests: a clock that moves only when told to, and a suite for backends of your own.

>>> import asyncio
>>> from anarchon import Scheduler
>>> from anarchon.testing import ManualClock
>>> async def a_day():
...     clock, runs = ManualClock(), []
...     scheduler = Scheduler(clock=clock)
...     @scheduler.every("tick", "1h")
...     async def tick(ctx):
...         runs.append(ctx.slot)
...     async with scheduler:
...         await clock.advance("1d")
...     return len(runs)
>>> asyncio.run(a_day())
24
"""

from __future__ import annotations

import asyncio
import inspect
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import Any, ClassVar, Literal

from . import _anarchon
from ._bridge import LoopBridge, live_bridges
from .backends import native_backend
from .errors import InvalidOptionError
from .options import Duration, Instant, duration_ms, instant_ms
from .records import Record

__all__ = [
    "BackendCases",
    "CaseResult",
    "CheckReport",
    "ManualClock",
    "case_names",
    "check_backend",
]

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)

# How many turns of the loop let go on what is ready to: callbacks of callbacks of callbacks.
_TURNS = 12


def _all_read(loops: list[_anarchon.Bridge]) -> bool:
    return all(loop.is_empty() for loop in loops)


class ManualClock:
    """A clock for schedulers on a `memory:` store, and on backends of your own, which may read it
    too; several schedulers may share one.

    It shows 2026-01-01T00:00:00Z at first, unless `start` (ms since the Unix epoch, or an aware
    `datetime`) says otherwise. A scheduler with a clock and without a backend gets a store in
    memory that reads the same clock; a `MemoryBackend` of your own needs it too:
    `MemoryBackend(clock=clock)`.
    """

    def __init__(self, start: Instant | None = None) -> None:
        wall = None if start is None else instant_ms(start, "start")
        self._native = _anarchon.ManualClock(wall)

    @property
    def now_ms(self) -> int:
        """What the wall clock shows (ms since the Unix epoch)."""
        return self._native.wall_ms()

    @property
    def now(self) -> datetime:
        """What the wall clock shows, in UTC."""
        return _EPOCH + timedelta(milliseconds=self.now_ms)

    async def advance(self, duration: Duration) -> None:
        """Moves on by whole ms, a text like `'1h'` or a `timedelta`, from due time to due time.

        At each it waits until no call to the store is under way, every handler that is due has been
        entered, and the loop has nothing ready to do. It does not wait for handlers to end.
        """
        ms = duration_ms(duration, "the duration")
        if ms < 0:
            raise InvalidOptionError(f"the duration is {ms} ms; a clock is moved on, not back")
        target = self._native.mono_ms() + ms
        while await self._settle(target) != "done":
            pass

    async def settle(self) -> None:
        """Waits until nothing is going on, without moving the clock."""
        while await self._settle(None) != "done":
            pass

    async def _settle(self, target: int | None) -> str | None:
        """Waits until nothing is going on, and then moves to the next due time up to `target`."""
        bridge = LoopBridge.of_this_loop()
        quiet = 0
        while quiet < _TURNS:
            await asyncio.sleep(0)
            loops = live_bridges()
            quiet = quiet + 1 if self._native.is_idle() and _all_read(loops) else 0
        return await bridge.call(self._native.settle, target, loops)

    def step_wall(self, duration: Duration) -> None:
        """Steps the wall clock alone, as a person or a time service would; a negative number of ms
        steps it back."""
        self._native.step_wall(duration_ms(duration, "the step"))

    def __repr__(self) -> str:
        return f"<ManualClock {self.now.isoformat()}>"


@dataclass(frozen=True, kw_only=True)
class CaseResult(Record):
    """A case of the conformance suite and how it ended."""

    name: str
    """A sentence that is true of a backend that passes."""
    status: Literal["passed", "failed", "skipped"]
    """How it ended."""
    message: str | None = None
    """What went wrong, or why it does not apply."""


@dataclass(frozen=True, kw_only=True)
class CheckReport(Record):
    """How a backend did."""

    _parts: ClassVar[Mapping[str, type[Record]]] = {"cases": CaseResult}

    backend: str
    """The name of the backend."""
    cases: tuple[CaseResult, ...] = ()
    """All cases, in the order of the table."""
    text: str
    """What failed, with the shortest trace that shows it, and the counts."""

    @property
    def passed(self) -> bool:
        """Whether no case failed."""
        return all(case.status != "failed" for case in self.cases)

    def check(self) -> None:
        """Raises `AssertionError` with what failed, if anything did."""
        if not self.passed:
            raise AssertionError(self.text)

    def __str__(self) -> str:
        return self.text


def case_names() -> list[str]:
    """The names of all cases of the conformance suite, in order."""
    return _anarchon.case_names()


async def check_backend(
    open: Callable[[], Any],
    *,
    clients: int = 4,
    rounds: int = 20,
    histories: int = 20,
    steps: int = 30,
    seed: int = 1,
    case_timeout_ms: Duration = "60s",
    complete: bool = False,
    only: Iterable[str] = (),
) -> CheckReport:
    """Holds a backend against the contract: the race, repeat safety, history, trimming, and with
    `runs` every rule of leases against the reference on random histories.

    - **open**: called once per client, plain or async; gives a backend object, each one more client
      of the *same* store. The suite initialises and closes them; the store may hold other jobs.
    - **clients**: how many race with each other, at least 2.
    - **rounds**: how often each race is run.
    - **histories**, **steps**: how many random histories there are, and how many calls each has.
    - **seed**: what they are drawn from; a failure names it.
    - **case_timeout_ms**: how long a case may take.
    - **complete**: require what a backend may leave out.
    - **only**: run only the cases whose name contains one of these.

    >>> import asyncio
    >>> from anarchon import MemoryBackend
    >>> backend = MemoryBackend()
    >>> report = asyncio.run(check_backend(lambda: backend, rounds=2, histories=1, steps=5))
    >>> report.passed
    True
    """
    if isinstance(clients, bool) or not isinstance(clients, int) or not 2 <= clients <= 64:
        raise InvalidOptionError(f"clients is {clients!r}; allowed is a whole number from 2 to 64")
    opened = []
    for _ in range(clients):
        backend = open()
        if inspect.isawaitable(backend):
            backend = await backend
        opened.append(backend)
    options = {
        "rounds": rounds,
        "histories": histories,
        "steps": steps,
        "seed": seed,
        "caseTimeoutMs": duration_ms(case_timeout_ms, "case_timeout_ms"),
        "complete": complete,
        "only": list(only),
    }
    natives = [native_backend(backend) for backend in opened]
    answer = await LoopBridge.of_this_loop().call(
        _anarchon.check_backend, natives, json.dumps(options)
    )
    told = json.loads(answer or "{}")
    return CheckReport._read({**told["report"], "text": told["text"]})


class BackendCases:
    """The conformance suite as pytest cases: subclass it, and give `open`.

        class TestMyBackend(BackendCases):
            def open(self):
                return MyBackend("test.db")

    Each case is a test of its own. `options` are passed to `check_backend`.
    """

    options: ClassVar[Mapping[str, Any]] = {}
    """Options of `check_backend`: `rounds`, `histories`, `steps`, `seed` …"""

    def open(self) -> Any:
        """Gives one more client of the store under test; plain or async."""
        raise NotImplementedError("give open(): it answers a backend object")

    def pytest_generate_tests(self, metafunc: Any) -> None:
        """Makes one test of each case."""
        if "contract" in metafunc.fixturenames:
            metafunc.parametrize("contract", case_names())

    def test_contract(self, contract: str) -> None:
        """Runs one case."""
        report = asyncio.run(check_backend(self.open, **{**self.options, "only": [contract]}))
        report.check()
        skipped = [case.message for case in report.cases if case.name == contract]
        if report.cases and report.cases[0].status == "skipped":
            import pytest

            pytest.skip(skipped[0] or "does not apply")
