"""For tests: a clock that moves only when told to.

>>> import asyncio
>>> from anarchon import Scheduler
>>> from anarchon.testing import ManualClock
>>> async def a_day():
...     clock, runs = ManualClock(), []
...     scheduler = Scheduler(clock=clock)
...     scheduler.every("tick", "1h", lambda ctx: runs.append(ctx.slot))
...     async with scheduler:
...         await clock.advance("1d")
...     return len(runs)
>>> asyncio.run(a_day())
24
"""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta, timezone

from . import _anarchon
from ._bridge import LoopBridge, live_bridges
from .errors import InvalidOptionError
from .options import Duration, Instant, duration_ms, instant_ms

__all__ = ["ManualClock"]

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)

# How many turns of the loop let go on what is ready to: callbacks of callbacks of callbacks.
_TURNS = 12


def _all_read(loops: list[_anarchon.Bridge]) -> bool:
    return all(loop.is_empty() for loop in loops)


class ManualClock:
    """A clock for schedulers on a `memory:` store; several may share one.

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
