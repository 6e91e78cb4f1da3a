"""The one place where an event loop and the core talk.

The core never calls Python: it queues messages and makes a file descriptor readable; the loop
fetches them here. Python never waits in the core: a call is begun, and its answer is a message.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from itertools import count
from typing import TYPE_CHECKING, Any, Protocol
from weakref import WeakKeyDictionary, WeakValueDictionary, ref

from . import _anarchon

if TYPE_CHECKING:
    from .scheduler import Scheduler

log = logging.getLogger("anarchon")

_bridges: WeakKeyDictionary[asyncio.AbstractEventLoop, LoopBridge] = WeakKeyDictionary()

# Whom a message is for, by number. A bridge holds the schedulers that have started on its loop;
# others are told of events as long as somebody else holds them.
_receivers: WeakValueDictionary[int, Receiver] = WeakValueDictionary()
_numbers = count(1)


class Receiver(Protocol):
    """Whom the core has something to say to."""

    def _message(self, kind: str, first: Any, second: Any) -> None: ...


def register(receiver: Receiver) -> int:
    """The number by which the core names a scheduler, or an object of the user's."""
    number = next(_numbers)
    _receivers[number] = receiver
    return number


def live_bridges() -> list[_anarchon.Bridge]:
    """The native halves of all bridges whose loops are there."""
    return [bridge.native for bridge in list(_bridges.values()) if not bridge.closed]


class LoopBridge:
    """The bridge of one event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.native = _anarchon.Bridge()
        self.closed = False
        self.ending = False
        self._loop = ref(loop)
        self._calls = count(1)
        self._pending: dict[int, asyncio.Future[str | None]] = {}
        self._schedulers: dict[int, Scheduler] = {}
        self._keeper: asyncio.Task[None] | None = None
        loop.add_reader(self.native.fileno(), _Reader(self))

    @staticmethod
    def of_this_loop() -> LoopBridge:
        """The bridge of the running loop."""
        loop = asyncio.get_running_loop()
        bridge = _bridges.get(loop)
        if bridge is None or bridge.closed:
            bridge = _bridges[loop] = LoopBridge(loop)
        return bridge

    def loop(self) -> asyncio.AbstractEventLoop:
        """The loop; it must be there, for whoever asks runs on it or serves it."""
        loop = self._loop()
        if loop is None:
            raise RuntimeError("the event loop is gone")
        return loop

    def is_loop(self, loop: asyncio.AbstractEventLoop | None) -> bool:
        """Whether this is the bridge of `loop`."""
        return self._loop() is loop

    # -- calls of the core --

    async def call(self, begin: Callable[..., _anarchon.Call], *arguments: Any) -> str | None:
        """Begins a call and waits for its answer; a cancelled wait gives the call up."""
        future, call = self.begin(begin, *arguments)
        try:
            return await future
        except asyncio.CancelledError:
            call.abort()
            raise

    def begin(
        self, begin: Callable[..., _anarchon.Call], *arguments: Any
    ) -> tuple[asyncio.Future[str | None], _anarchon.Call]:
        """Begins a call; the answer comes to the future."""
        number = next(self._calls)
        future: asyncio.Future[str | None] = self.loop().create_future()
        self._pending[number] = future
        try:
            return future, begin(self.native, number, *arguments)
        except BaseException:
            del self._pending[number]
            raise

    # -- schedulers that have started here --

    def attach(self, number: int, scheduler: Scheduler) -> None:
        """A scheduler starts: what the core says to it comes here."""
        self._schedulers[number] = scheduler
        if self._keeper is None:
            self._keeper = self.loop().create_task(self._keep(), name="anarchon:keeper")
            # A loop that is closed without ending its tasks shall not complain about this one.
            self._keeper._log_destroy_pending = False  # type: ignore[attr-defined]

    def detach(self, number: int) -> None:
        """A scheduler has stopped. May be called from any thread."""
        loop = self._loop()
        if loop is None or loop.is_closed():
            return
        if self.is_loop(asyncio._get_running_loop()):
            self._detach(number)
        else:
            with suppress(RuntimeError):  # Closed in this moment.
                loop.call_soon_threadsafe(self._detach, number)

    def _detach(self, number: int) -> None:
        scheduler = self._schedulers.pop(number, None)
        if scheduler is not None:
            scheduler._detached()
        if not self._schedulers and self._keeper is not None:
            keeper, self._keeper = self._keeper, None
            keeper.cancel()

    async def _keep(self) -> None:
        """Notices that all tasks of the loop are being cancelled: `asyncio.run` is about to end."""
        try:
            await self.loop().create_future()
        except asyncio.CancelledError:
            if self._schedulers:
                self.ending = True
                self._cut_off("all tasks of its event loop were cancelled")
            raise

    async def is_ending(self) -> bool:
        """Whether a task that was cancelled, not by us, was so because the loop is ending."""
        await asyncio.sleep(0)  # The keeper was cancelled in the same turn.
        return self.ending

    def loop_gone(self) -> None:
        """The loop has been closed."""
        if not self.closed:
            self.closed = True
            self._cut_off("its event loop was closed")
            self.native.close()

    def _cut_off(self, why: str) -> None:
        schedulers, self._schedulers = list(self._schedulers.values()), {}
        for scheduler in schedulers:
            scheduler._cut_off(why)

    # -- messages --

    def fetch(self) -> None:
        """Hands out what the core has said."""
        for kind, target, first, second in self.native.drain():
            try:
                self._hand_out(kind, target, first, second)
            except BaseException:
                log.exception("a message of the core could not be handed out: %s", kind)

    def _hand_out(self, kind: str, target: int, first: Any, second: Any) -> None:
        if kind == "settle":
            self._settle(target, first, second)
            return
        receiver = _receivers.get(target)
        if receiver is not None:
            receiver._message(kind, first, second)

    def _settle(self, number: int, answer: str | None, error: BaseException | None) -> None:
        future = self._pending.pop(number, None)
        if future is None or future.done():
            return
        if error is None:
            future.set_result(answer)
        elif isinstance(error, StopIteration):
            # A future refuses it, for it would end the generator that waits.
            wrapped = RuntimeError("StopIteration was raised")
            wrapped.__cause__ = error
            future.set_exception(wrapped)
        else:
            future.set_exception(error)


class _Reader:
    """What the loop calls. The loop alone holds it: when it goes, the loop has been closed."""

    def __init__(self, bridge: LoopBridge) -> None:
        self._bridge = bridge

    def __call__(self) -> None:
        self._bridge.fetch()

    def __del__(self) -> None:
        self._bridge.loop_gone()
