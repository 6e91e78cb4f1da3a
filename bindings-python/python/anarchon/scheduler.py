"""The scheduler."""

from __future__ import annotations

import asyncio
import inspect
import json
import logging
from collections.abc import Callable
from datetime import datetime
from itertools import count
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, NoReturn, TypeVar, overload

from . import _anarchon
from ._bridge import LoopBridge, register
from .backends import native_backend
from .builtin import NativeBackend
from .emitter import Listeners, check_name
from .errors import InvalidOptionError
from .events import EventName
from .handlers import Handler, HandlerFunction, ReadHandler
from .options import (
    Duration,
    Instant,
    Interval,
    JobOptions,
    at_text,
    cron_text,
    duration_ms,
    every_text,
    instant_ms,
    options_text,
)
from .records import (
    ActiveRun,
    Explanation,
    JobInfo,
    JobLimits,
    MissedRange,
    RunRecord,
    StopReport,
)
from .running import Runs
from .signals import Signals
from .sync import SyncScheduler

if TYPE_CHECKING:
    from typing_extensions import Self, Unpack

    from .backend import Backend
    from .testing import ManualClock

__all__ = ["Scheduler"]

log = logging.getLogger("anarchon")

L = TypeVar("L", bound=Callable[[Any], Any])

_OWN_CHECK = NativeBackend.check_job
_OPTIONS = ("namespace", "instance_id", "timezone", "defaults", "max_concurrent_runs")


class Scheduler:
    """One replica's scheduler: of all replicas that share its backend, exactly one runs each slot.

    Every option may be left out. Making one touches no event loop, file, socket or thread, so it
    may be made at import and before a fork.

    - **backend**: a backend object or a URL (`memory:`, `sqlite:jobs.db` …). Without it the
      variable `ANARCHON_URL`; without that `sqlite:anarchon.db`, which coordinates the processes of
      one machine, except where the environment shows an orchestrator (`BackendRequiredError`).
    - **namespace**: part of every key of the built-in stores, 1 to 64 of `[a-z0-9_-]`. Default
      `ANARCHON_NAMESPACE`, else `default`.
    - **instance_id**: default `host:pid:random`, drawn when it starts.
    - **timezone**: the IANA zone of cron jobs that name none. Default `UTC`, never the machine's.
    - **defaults**: options of all jobs that do not set them.
    - **max_concurrent_runs**: the places; without a free place nothing is claimed. Default 100; 0
      registers and reads only.
    - **start_timeout_ms**: how long `start` tries to reach a store. Default 10 s.
    - **clock**: a `anarchon.testing.ManualClock`, for tests.

    Raises `InvalidOptionError`, `BackendRequiredError`.

    >>> from anarchon import Scheduler
    >>> scheduler = Scheduler(backend="memory:")
    >>> @scheduler.every("cleanup", "15m")
    ... async def cleanup(ctx):
    ...     print("cleaning up for", ctx.scheduled_at)
    >>> # scheduler.run() runs it until SIGTERM or SIGINT;
    >>> # in a program with asyncio: async with scheduler: ...
    """

    def __init__(
        self,
        *,
        backend: Backend | str | None = None,
        namespace: str | None = None,
        instance_id: str | None = None,
        timezone: str | None = None,
        defaults: JobOptions | None = None,
        max_concurrent_runs: int | None = None,
        start_timeout_ms: Duration | None = None,
        clock: ManualClock | None = None,
        **unknown: NoReturn,
    ) -> None:
        for name in unknown:
            known = ["backend", *_OPTIONS, "start_timeout_ms", "clock"]
            near = _anarchon.nearest_name(name, known)
            raise InvalidOptionError(
                f'there is no scheduler option "{name}"{near}; the options are {", ".join(known)}'
            )
        given = {
            "namespace": namespace,
            "instance_id": instance_id,
            "timezone": timezone,
            "defaults": defaults,
            "max_concurrent_runs": max_concurrent_runs,
            "start_timeout_ms": start_timeout_ms,
        }
        options = {name: value for name, value in given.items() if value is not None}
        url = backend if isinstance(backend, str) else None
        store = None if backend is None or url is not None else native_backend(backend)
        self._number = register(self)
        self._native = _anarchon.Scheduler(
            self._number,
            options_text(options),
            url,
            store,
            None if clock is None else clock._native,
        )
        self._backend: Any = backend if store is not None else None
        self._announced = False
        self._runs = Runs()
        self._handler_numbers = count(1)
        self._listeners = Listeners()
        self._bridge: LoopBridge | None = None
        self._left = asyncio.Event()
        self._stopping: asyncio.Task[StopReport] | None = None

    # -- jobs --

    @overload
    def every(
        self, name: str, interval: Interval, handler: Handler, **options: Unpack[JobOptions]
    ) -> None: ...

    @overload
    def every(
        self, name: str, interval: Interval, **options: Unpack[JobOptions]
    ) -> Callable[[HandlerFunction], HandlerFunction]: ...

    def every(
        self,
        name: str,
        interval: Interval,
        handler: Handler | None = None,
        **options: Unpack[JobOptions],
    ) -> Callable[[HandlerFunction], HandlerFunction] | None:
        """Adds a job that is due every so often: at the multiples of the interval since the Unix
        epoch (plus `offset_ms`), so at the same instants on every replica.

        `interval` is a text like `'15m'` or `'1h30m'` (units ms s m h d w; a day is 24 h), or a
        `timedelta`; at least 100 ms. `name` is 1 to 255 bytes without control characters. Without a
        handler this is a decorator that returns the function unchanged. Jobs may be added before
        and after the start.

        Raises `InvalidScheduleError`, `InvalidOptionError`, `DuplicateJobError`,
        `DedupeWindowTooShortError`, `LeasesRequiredError`, and what the backend's `check_job` does.

        >>> scheduler = Scheduler(backend="memory:")
        >>> @scheduler.every("tick", "1s", timeout_ms="500ms")
        ... async def tick(ctx):
        ...     print(ctx.slot)
        """
        return self._add(name, "every", every_text(interval), handler, options)

    @overload
    def cron(
        self, name: str, expression: str, handler: Handler, **options: Unpack[JobOptions]
    ) -> None: ...

    @overload
    def cron(
        self, name: str, expression: str, **options: Unpack[JobOptions]
    ) -> Callable[[HandlerFunction], HandlerFunction]: ...

    def cron(
        self,
        name: str,
        expression: str,
        handler: Handler | None = None,
        **options: Unpack[JobOptions],
    ) -> Callable[[HandlerFunction], HandlerFunction] | None:
        """Adds a job that is due at the wall times of a cron expression: minute, hour, day of
        month, month, day of week (and seconds in front with `seconds=True`), in `timezone`
        (default: the scheduler's, which is `UTC` by default).

        Names, decorator and errors are as for `every`.

        >>> scheduler = Scheduler(backend="memory:")
        >>> @scheduler.cron("nightly", "0 2 * * *", timezone="Europe/Berlin")
        ... def nightly():
        ...     print("good night")
        """
        return self._add(name, "cron", cron_text(expression), handler, options)

    @overload
    def at(
        self,
        name: str,
        when: datetime | str | int,
        handler: Handler,
        **options: Unpack[JobOptions],
    ) -> None: ...

    @overload
    def at(
        self, name: str, when: datetime | str | int, **options: Unpack[JobOptions]
    ) -> Callable[[HandlerFunction], HandlerFunction]: ...

    def at(
        self,
        name: str,
        when: datetime | str | int,
        handler: Handler | None = None,
        **options: Unpack[JobOptions],
    ) -> Callable[[HandlerFunction], HandlerFunction] | None:
        """Adds a job that is due once, at an instant that every replica knows. It is not a queue of
        delayed jobs: where replicas disagree, the first registered instant wins.

        `when` is an aware `datetime`, an ISO 8601 text with `Z` or an offset, or whole milliseconds
        since the Unix epoch. A naive `datetime` is refused, and so is a time in the past beyond
        `max_late_ms` at the first registration.

        Names, decorator and errors are as for `every`.

        >>> scheduler = Scheduler(backend="memory:")
        >>> scheduler.at("launch", "2127-01-31T09:00:00Z", lambda: print("lift-off"))
        """
        return self._add(name, "at", at_text(when), handler, options)

    def _add(
        self, name: str, kind: str, when: str, handler: Any, options: Any
    ) -> Callable[[HandlerFunction], HandlerFunction] | None:
        if handler is None:

            def decorate(function: HandlerFunction) -> HandlerFunction:
                self._add(name, kind, when, function, options)
                return function

            return decorate
        if not isinstance(name, str):
            raise InvalidOptionError(f"the job name is {name!r}; it must be a text")
        read = ReadHandler(handler, name)
        text = options_text(options)
        check_job = getattr(self._backend, "check_job", None)
        # A store of ours checks it by itself.
        if callable(check_job) and getattr(check_job, "__func__", None) is not _OWN_CHECK:
            limits = self._native.check_job(name, kind, when, text)
            answer = check_job(JobLimits._read(json.loads(limits)))
            if inspect.isawaitable(answer):
                if inspect.iscoroutine(answer):
                    answer.close()
                raise InvalidOptionError(
                    f"{type(self._backend).__name__}.check_job is async; it must be a plain "
                    "function, which refuses a job by raising"
                )
        number = next(self._handler_numbers)
        self._runs.handlers[number] = read
        try:
            warnings = self._native.add(name, kind, when, text, number)
        except BaseException:
            self._runs.handlers.pop(number, None)
            raise
        for warning in warnings:
            log.warning("job %r: %s", name, warning)
        return None

    def remove(self, name: str) -> None:
        """Removes a job from this instance; a run of it that has begun goes on.

        Other replicas and what is stored are not touched: see `forget`. Raises `UnknownJobError`.
        """
        self._native.remove(name)

    @property
    def jobs(self) -> list[JobInfo]:
        """The registered jobs, in the order of their registration.

        >>> scheduler = Scheduler(backend="memory:")
        >>> scheduler.every("tick", "1s", print)
        >>> [job.name for job in scheduler.jobs]
        ['tick']
        """
        return [JobInfo._read(job) for job in json.loads(self._native.jobs())]

    def next_slots(self, name: str, count: int = 1, from_: Instant | None = None) -> list[int]:
        """The next `count` slots of a job (ms), strictly after `from_` (ms or an aware `datetime`;
        default now). Fewer where the schedule ends. Raises `UnknownJobError`.

        >>> scheduler = Scheduler(backend="memory:")
        >>> scheduler.every("tick", "1m", print)
        >>> scheduler.next_slots("tick", 2, from_=0)
        [60000, 120000]
        """
        if isinstance(count, bool) or not isinstance(count, int) or not 0 <= count <= 100_000:
            raise InvalidOptionError(f"count is {count!r}; allowed is a whole number up to 100000")
        start = None if from_ is None else instant_ms(from_, "from_")
        return self._native.next_slots(name, count, start)

    # -- life --

    async def start(self, *, wait: bool = True) -> None:
        """Starts: from now on this replica claims slots, and its handlers run on the running loop.

        Plain functions run in daemon threads. All handlers see the context variables of this call.
        With `wait=False` returns at once and goes on trying to reach the store (`store_down`).

        Raises `BackendUnavailableError` when the store does not answer for `start_timeout_ms`,
        `BackendRefusedError`, `SchemaTooNewError`, `ForkedError` in a child of the process that has
        started it, and what a backend of yours raises.
        """
        bridge = LoopBridge.of_this_loop()
        first = not self._native.running
        if first:
            self._runs.prepare()
            self._bridge = bridge
            self._left = asyncio.Event()
            bridge.attach(self._number, self)
        try:
            await self._call(self._native.start, wait)
        except asyncio.CancelledError:
            if first:  # Half a start is taken back.
                self._stopping = asyncio.ensure_future(self._stop(0))
            raise
        except BaseException:
            if not self._native.running:
                self._detach()
            raise
        if first:
            log.info("started: %s", self._native.summary())

    async def stop(self, *, grace_ms: Duration | None = None) -> StopReport:
        """Stops: nothing is claimed any more, handlers get `grace_ms` (default 20 s) to end, then
        they are cancelled and get at most 5 s more. What was cancelled is given back, for another
        replica to take over.

        Repeating it waits for the same stop. Afterwards the scheduler may be started again. It also
        closes the store of a scheduler that was never started and has only read.
        """
        grace = None if grace_ms is None else duration_ms(grace_ms, "grace_ms")
        if self._stopping is None or self._stopping.done():
            loop = asyncio.get_running_loop()
            self._stopping = loop.create_task(self._stop(grace), name="anarchon:stop")
        elif not LoopBridge.of_this_loop().is_loop(self._stopping.get_loop()):
            return await self._stop(grace)
        # Whoever waits may be cancelled; the stop goes on.
        return await asyncio.shield(self._stopping)

    async def _stop(self, grace: int | None) -> StopReport:
        try:
            report = await self._call(self._native.stop, grace)
        finally:
            if not self._native.running:
                self._detach()
        return StopReport._read(json.loads(report or "{}"))

    def _detach(self) -> None:
        bridge, self._bridge = self._bridge, None
        if bridge is not None:
            bridge.detach(self._number)

    def _detached(self) -> None:
        self._left.set()

    async def ready(self) -> None:
        """Waits until the store knows every job. Raises what the store says of a job that it
        refuses, `SchedulerStoppedError`."""
        await self._call(self._native.ready)

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.stop()

    def run(self, *, grace_ms: Duration | None = None) -> StopReport:
        """Starts, blocks until SIGTERM or SIGINT, stops, and returns what the stop left behind.

        A second signal ends the process at once. In a thread that is not the main one no signals
        are handled, and it blocks until somebody calls `scheduler.sync.stop()`. For programs that
        do nothing else; in a program with asyncio use `async with scheduler`.

        Raises what `start` raises, and `RuntimeError` where an event loop is running.
        """
        if asyncio._get_running_loop() is not None:
            raise RuntimeError(
                "run() blocks and cannot be called where an event loop is running; use "
                "`async with scheduler:` or `await scheduler.start()`"
            )
        with Signals() as signals:
            return asyncio.run(self._serve(signals, grace_ms))

    async def _serve(self, signals: Signals, grace_ms: Duration | None) -> StopReport:
        signals.listen(asyncio.get_running_loop())
        starting = asyncio.ensure_future(self.start())
        told = asyncio.ensure_future(signals.told.wait())
        await asyncio.wait({starting, told}, return_when=asyncio.FIRST_COMPLETED)
        if not starting.done():
            starting.cancel()
            await asyncio.wait({starting})
            return await self.stop(grace_ms=0)
        try:
            starting.result()
            stopped = asyncio.ensure_future(self._left.wait())
            await asyncio.wait({told, stopped}, return_when=asyncio.FIRST_COMPLETED)
            stopped.cancel()
            return await self.stop(grace_ms=grace_ms)
        finally:
            told.cancel()

    async def _call(self, begin: Callable[..., _anarchon.Call], *arguments: Any) -> str | None:
        """A call that may use the store."""
        if not self._announced:
            self._announced = True
            notice = self._native.notice()
            if notice is not None:
                log.warning("%s", notice)
        return await LoopBridge.of_this_loop().call(begin, *arguments)

    # -- asking --

    async def run_now(
        self, name: str, *, slot: Instant | None = None, force: bool = False, wait: bool = True
    ) -> RunRecord:
        """Runs a job here and now, and returns its record, whatever its status.

        `slot` is the instant that the handler sees (ms or an aware `datetime`; default now): to
        make up a missed day. `force` starts it although another run is unfinished. With
        `wait=False` it returns as soon as the run has been granted. Cancelling the wait cancels the
        run.

        Raises `OverlapError`, `UnknownJobError`, `SchedulerStoppedError`.

        >>> async def once(scheduler):
        ...     record = await scheduler.run_now("report")
        ...     print(record.status, record.output)
        """
        at = None if slot is None else instant_ms(slot, "slot")
        cancels: list[_anarchon.Cancel] = []

        def begin(native: _anarchon.Bridge, number: int) -> _anarchon.Call:
            call, cancel = self._native.run_now(native, number, name, at, force, wait)
            cancels.append(cancel)
            return call

        future, _ = LoopBridge.of_this_loop().begin(begin)
        try:
            record = await future
        except asyncio.CancelledError:
            # The run is cancelled, not forgotten: it ends with a record.
            for cancel in cancels:
                cancel.cancel()
            raise
        return RunRecord._read(json.loads(record or "{}"))

    @overload
    async def history(
        self, name: str, *, limit: int = 20, missed: Literal[False] = False
    ) -> list[RunRecord]: ...

    @overload
    async def history(
        self, name: str, *, limit: int = 20, missed: bool
    ) -> list[RunRecord | MissedRange]: ...

    async def history(
        self, name: str, *, limit: int = 20, missed: bool = False
    ) -> list[RunRecord] | list[RunRecord | MissedRange]:
        """The latest `limit` runs of a job from all instances, newest first; with `missed=True` the
        ranges of slots that nobody ran are among them. Works without a start.

        Raises what the store says.
        """
        if isinstance(limit, bool) or not isinstance(limit, int) or not 0 <= limit <= 100_000:
            raise InvalidOptionError(f"limit is {limit!r}; allowed is a whole number up to 100000")
        found = await self._call(self._native.history, name, limit, missed)
        return [
            MissedRange._read(entry["missed"]) if "missed" in entry else RunRecord._read(entry)
            for entry in json.loads(found or "[]")
        ]

    async def active(self, name: str) -> list[ActiveRun]:
        """The unfinished runs of a job from all instances. Works without a start.

        Raises `LeasesRequiredError`, and what the store says.
        """
        found = await self._call(self._native.active, name)
        return [ActiveRun._read(entry) for entry in json.loads(found or "[]")]

    async def explain(self, name: str, slot: Instant) -> Explanation:
        """Why a slot (ms or an aware `datetime`) did or did not run. Works without a start.

        >>> async def why(scheduler):
        ...     print((await scheduler.explain("report", 1_767_225_600_000)).text)
        """
        at = instant_ms(slot, "slot")
        found = await self._call(self._native.explain, name, at)
        return Explanation._read(json.loads(found or "{}"))

    # -- the fleet --

    async def pause(self, name: str, *, reason: str | None = None) -> None:
        """Pauses a job on the whole fleet: nobody starts it until `resume`. Raises
        `LeasesRequiredError`, and what the store says."""
        await self._call(self._native.pause, name, reason)

    async def resume(self, name: str) -> None:
        """Resumes a paused job on the whole fleet. Raises as `pause`."""
        await self._call(self._native.resume, name)

    async def cancel(self, name: str, *, slot: Instant | None = None) -> int:
        """Cancels the unfinished runs of a job (of one slot, ms or an aware `datetime`, or all),
        whoever holds them, and returns how many. Raises as `pause`."""
        at = None if slot is None else instant_ms(slot, "slot")
        return int(await self._call(self._native.cancel, name, at) or 0)

    async def forget(self, name: str) -> None:
        """Drops a job's records and definition from the store. Raises `OverlapError` while a run is
        unfinished, and as `pause`."""
        await self._call(self._native.forget, name)

    # -- events --

    @overload
    def on(self, event: EventName, listener: Callable[[Any], Any]) -> None: ...

    @overload
    def on(self, event: EventName) -> Callable[[L], L]: ...

    def on(
        self, event: EventName, listener: Callable[[Any], Any] | None = None
    ) -> Callable[[L], L] | None:
        """Calls `listener` with every event of this name (see `anarchon.events`), on the loop that
        the scheduler was started on. Without a listener this is a decorator.

        A listener may be `async def`. One that raises is logged. Raises `InvalidOptionError` for a
        name that is none.

        >>> scheduler = Scheduler(backend="memory:")
        >>> @scheduler.on("error")
        ... def tell(event):
        ...     print("in the background:", event.error)
        """
        check_name(event)
        if listener is None:

            def decorate(function: L) -> L:
                self._listeners.add(event, function)
                return function

            return decorate
        self._listeners.add(event, listener)
        return None

    def off(self, event: EventName, listener: Callable[[Any], Any]) -> None:
        """Calls `listener` no more; one that was not there is no error."""
        self._listeners.drop(event, listener)

    # -- looking --

    @property
    def backend(self) -> Backend:
        """The backend: the object that was given, or one for the store of the URL."""
        if self._backend is None:
            self._backend = NativeBackend(self._native.backend())
        return self._backend  # type: ignore[no-any-return]

    @property
    def instance_id(self) -> str | None:
        """The name of this instance; drawn by the start if none was given."""
        return self._native.instance_id

    @property
    def running(self) -> bool:
        """Whether it has been started, here in this process, and not stopped."""
        return self._native.running

    @property
    def sync(self) -> SyncScheduler:
        """The same calls for programs without asyncio: they block, from any thread.

        >>> scheduler = Scheduler(backend="memory:")
        >>> scheduler.every("tick", "1h", lambda: "done")
        >>> with scheduler.sync as started:
        ...     started.run_now("tick").output
        '"done"'
        """
        return SyncScheduler(self)

    def __repr__(self) -> str:
        state = "running" if self.running else "not running"
        return f"<Scheduler {self._native.backend_name} {self.instance_id or 'unnamed'} {state}>"

    # -- what the core says --

    def _message(self, kind: str, first: Any, second: Any) -> None:
        if kind == "run":
            self._runs.begin(first, second)
        elif kind == "cancel":
            self._runs.cancel(first)
        elif kind == "event":
            self._listeners.tell(first, *second)
        elif kind == "drop":
            self._runs.handlers.pop(first, None)

    def _cut_off(self, why: str) -> None:
        """The loop is gone or going: nothing can run here any more."""
        self._bridge = None
        running = self._native.running
        self._native.abort()
        if running:
            log.warning(
                "a scheduler was not stopped before %s: its unfinished runs are left to be taken "
                "over when their leases end; call `await scheduler.stop()` first",
                why,
            )
