"""What a handler may know about its run."""

from __future__ import annotations

import asyncio
import json
import select
from collections.abc import Awaitable
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING

from . import _anarchon
from .errors import AnarchonError
from .options import Duration, duration_ms
from .records import Trigger

if TYPE_CHECKING:
    from ._bridge import LoopBridge

__all__ = ["JobContext"]

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


class JobContext:
    """What a handler is called with.

    An `async def` handler is cancelled in the way of asyncio: `CancelledError` is raised where it
    waits. A plain function looks at `cancelled`, or waits in `wait_cancelled`. Either finds out why
    in `cancel_reason`.

    >>> from anarchon import JobContext, Scheduler
    >>> scheduler = Scheduler(backend="memory:")
    >>> @scheduler.every("report", "1h")
    ... def report(ctx: JobContext) -> None:
    ...     print(ctx.job, ctx.scheduled_at.isoformat())
    """

    __slots__ = (
        "__weakref__",
        "_bridge",
        "_offset_seconds",
        "_run",
        "_threaded",
        "attempt",
        "fence",
        "instance_id",
        "job",
        "manual",
        "retry",
        "slot",
        "timezone",
        "token",
        "trigger",
    )

    job: str
    """The job's name."""
    slot: int
    """The instant the run stands for (ms since the Unix epoch)."""
    timezone: str
    """The zone of the job: an IANA name."""
    instance_id: str
    """Who runs it."""
    attempt: int
    """Grants of this run, from 1: above 1 it has been taken over."""
    retry: int
    """Tries by this holder before this one, from 0."""
    fence: int
    """Grows with every grant of the job: a downstream store that remembers the greatest one can
    refuse a holder that has lost its lease. 0 on a store without leases."""
    token: str
    """The holder's token: 128 random bits in hex."""
    trigger: Trigger
    """What started the run: `slot`, `catch_up`, `takeover` or `manual`."""
    manual: bool
    """Asked for by hand."""

    def __init__(self, run: _anarchon.Run, bridge: LoopBridge, threaded: bool) -> None:
        told = json.loads(run.describe())
        self._run = run
        self._bridge = bridge
        self._threaded = threaded
        self._offset_seconds: int = told["offsetSeconds"]
        self.job = told["job"]
        self.slot = told["slot"]
        self.timezone = told["timezone"]
        self.instance_id = told["instanceId"]
        self.attempt = told["attempt"]
        self.retry = told["retry"]
        self.fence = told["fence"]
        self.token = told["token"]
        self.trigger = told["trigger"]
        self.manual = told["manual"]

    @property
    def scheduled_at(self) -> datetime:
        """The slot as an aware `datetime` in the job's zone.

        Its zone is a `zoneinfo.ZoneInfo` where Python has the zone and agrees with the tables that
        the slots are computed by; else a fixed offset, the right one at this instant.
        """
        at = _EPOCH + timedelta(milliseconds=self.slot)
        offset = timedelta(seconds=self._offset_seconds)
        if self.timezone == "UTC":
            return at
        try:
            from zoneinfo import ZoneInfo

            local = at.astimezone(ZoneInfo(self.timezone))
            if local.utcoffset() == offset:
                return local
        except (ImportError, LookupError, ValueError, OSError):
            pass  # No tables on this machine.
        return at.astimezone(timezone(offset, self.timezone))

    @property
    def cancelled(self) -> bool:
        """Whether the run is to end: a time-out, a lost lease, a stop, or somebody's wish."""
        return self._run.cancelled

    @property
    def cancel_reason(self) -> AnarchonError | None:
        """Why the run is to end: an error with the code `TIMEOUT`, `LEASE_LOST`, `STOPPED` or
        `CANCELLED`; `None` while it is not."""
        return self._run.cancel_reason()

    def wait_cancelled(self, timeout_ms: Duration | None = None) -> bool:
        """For a plain function: waits until the run is to end, at most `timeout_ms` (whole ms, a
        text like `'5s'`, or a `timedelta`; for ever without it). Other threads go on meanwhile.
        True if the run is to end.

        >>> def handler(ctx: JobContext) -> None:
        ...     while not ctx.wait_cancelled("5s"):
        ...         ...  # a piece of work every five seconds
        """
        self._only_in_thread("wait_cancelled", "is cancelled where it awaits")
        wait = None if timeout_ms is None else duration_ms(timeout_ms, "timeout_ms")
        if self.cancelled:
            return True
        _listen(self._run.cancel_bell(), wait)
        return self.cancelled

    def sleep(self, duration: Duration) -> Awaitable[None]:
        """Sleeps on the scheduler's clock: `await ctx.sleep('30s')`. In tests a `ManualClock`
        passes the time.

        In a plain function it blocks and there is nothing to await; there it returns early when the
        run is to end.
        """
        ms = duration_ms(duration, "the duration of a sleep")
        if self._threaded and asyncio._get_running_loop() is None:
            _listen(self._run.sleep_bell(ms), None)
            return _nothing()
        return self._sleep(ms)

    async def _sleep(self, ms: int) -> None:
        from ._bridge import LoopBridge

        await LoopBridge.of_this_loop().call(self._run.sleep, ms)

    def _only_in_thread(self, name: str, instead: str) -> None:
        if asyncio._get_running_loop() is not None:
            raise RuntimeError(f"{name}() would block the event loop; an async handler {instead}")

    def __repr__(self) -> str:
        return (
            f"<JobContext job={self.job!r} slot={self.slot} trigger={self.trigger!r} "
            f"attempt={self.attempt} retry={self.retry}>"
        )


class _Nothing:
    """What a sleep that is over leaves to await."""

    def __await__(self):  # type: ignore[no-untyped-def]
        return iter(())


def _nothing() -> Awaitable[None]:
    return _Nothing()


def _listen(bell: _anarchon.Bell, timeout_ms: int | None) -> bool:
    """Waits in Python's own poll, so that the interpreter may end meanwhile."""
    poll = select.poll()
    poll.register(bell.fileno(), select.POLLIN)
    return bool(poll.poll(timeout_ms))
