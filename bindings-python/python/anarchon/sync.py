"""The scheduler for programs without asyncio: the same calls, blocking, from any thread."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Coroutine
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, TypeVar, overload

from .options import Duration, Instant
from .records import ActiveRun, Explanation, MissedRange, RunRecord, StopReport

if TYPE_CHECKING:
    from typing_extensions import Self

    from .scheduler import Scheduler

__all__ = ["SyncScheduler"]

T = TypeVar("T")


class SyncScheduler:
    """What `scheduler.sync` gives. `async def` handlers and listeners then run on a loop of ours in
    a daemon thread, plain functions in daemon threads.

    It may be mixed with the other calls: a scheduler that was started with `await
    scheduler.start()` may be asked from a thread through this one. Where its loop runs, a blocking
    call would wait for itself and is refused with `RuntimeError`.

    >>> from anarchon import Scheduler
    >>> scheduler = Scheduler(backend="memory:")
    >>> scheduler.every("tick", "1h", lambda: None)
    >>> scheduler.sync.start()
    >>> scheduler.sync.run_now("tick").status
    'succeeded'
    >>> scheduler.sync.stop().finished
    ()
    """

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler

    def start(self, *, wait: bool = True) -> None:
        """See `Scheduler.start`."""
        self._wait(self._scheduler.start(wait=wait))

    def stop(self, *, grace_ms: Duration | None = None) -> StopReport:
        """See `Scheduler.stop`."""
        return self._wait(self._scheduler.stop(grace_ms=grace_ms))

    def ready(self) -> None:
        """See `Scheduler.ready`."""
        self._wait(self._scheduler.ready())

    def run_now(
        self, name: str, *, slot: Instant | None = None, force: bool = False, wait: bool = True
    ) -> RunRecord:
        """See `Scheduler.run_now`."""
        return self._wait(self._scheduler.run_now(name, slot=slot, force=force, wait=wait))

    @overload
    def history(
        self, name: str, *, limit: int = 20, missed: Literal[False] = False
    ) -> list[RunRecord]: ...

    @overload
    def history(
        self, name: str, *, limit: int = 20, missed: bool
    ) -> list[RunRecord | MissedRange]: ...

    def history(
        self, name: str, *, limit: int = 20, missed: bool = False
    ) -> list[RunRecord] | list[RunRecord | MissedRange]:
        """See `Scheduler.history`."""
        return self._wait(self._scheduler.history(name, limit=limit, missed=missed))

    def active(self, name: str) -> list[ActiveRun]:
        """See `Scheduler.active`."""
        return self._wait(self._scheduler.active(name))

    def explain(self, name: str, slot: Instant) -> Explanation:
        """See `Scheduler.explain`."""
        return self._wait(self._scheduler.explain(name, slot))

    def pause(self, name: str, *, reason: str | None = None) -> None:
        """See `Scheduler.pause`."""
        self._wait(self._scheduler.pause(name, reason=reason))

    def resume(self, name: str) -> None:
        """See `Scheduler.resume`."""
        self._wait(self._scheduler.resume(name))

    def cancel(self, name: str, *, slot: Instant | None = None) -> int:
        """See `Scheduler.cancel`."""
        return self._wait(self._scheduler.cancel(name, slot=slot))

    def forget(self, name: str) -> None:
        """See `Scheduler.forget`."""
        self._wait(self._scheduler.forget(name))

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def _wait(self, work: Coroutine[Any, Any, T]) -> T:
        loop = own_loop()
        running = asyncio._get_running_loop()
        bridge = self._scheduler._bridge
        if running is not None and (running is loop or (bridge and bridge.is_loop(running))):
            work.close()
            raise RuntimeError(
                "a call of scheduler.sync would block the event loop that it waits for; here use "
                "`await` and the scheduler's own method"
            )
        future = asyncio.run_coroutine_threadsafe(work, loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()  # Of a wait that was interrupted; for one that has ended it is nothing.
            raise


class _OwnLoop:
    """The loop of this process, in a daemon thread."""

    def __init__(self) -> None:
        self.pid = os.getpid()
        self.lock = threading.Lock()
        self.loop: asyncio.AbstractEventLoop | None = None

    def get(self) -> asyncio.AbstractEventLoop:
        with self.lock:
            if self.loop is None:
                self.loop = asyncio.new_event_loop()
                threading.Thread(target=self._run, name="anarchon-loop", daemon=True).start()
            return self.loop

    def _run(self) -> None:
        assert self.loop is not None
        asyncio.set_event_loop(self.loop)
        self.loop.run_forever()


_own = _OwnLoop()


def own_loop() -> asyncio.AbstractEventLoop:
    """The loop of ours, made at its first use in this process."""
    return _own.get()


def _after_fork() -> None:
    """A child has neither the thread nor, perhaps, a lock that is free."""
    global _own
    _own = _OwnLoop()


os.register_at_fork(after_in_child=_after_fork)
