"""Who listens to a scheduler, and the log that always does."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Callable
from typing import Any

from . import _anarchon
from .errors import InvalidOptionError
from .events import NAMES, describe, read_event

log = logging.getLogger("anarchon")


def check_name(event: Any) -> None:
    """Refuses what is no event."""
    if event not in NAMES:
        near = _anarchon.nearest_name(str(event), list(NAMES))
        raise InvalidOptionError(
            f"there is no event {event!r}{near}; the events are {', '.join(NAMES)}"
        )


class Listeners:
    """The listeners of one scheduler."""

    def __init__(self) -> None:
        self._by_name: dict[str, list[Callable[[Any], Any]]] = {}
        self._tasks: set[asyncio.Future[Any]] = set()

    def add(self, event: str, listener: Any) -> None:
        """One more."""
        if not callable(listener):
            raise InvalidOptionError(f"the listener of {event!r} is {listener!r}; give a function")
        self._by_name[event] = [*self._by_name.get(event, []), listener]

    def drop(self, event: str, listener: Any) -> None:
        """One less; one that was not there is no error."""
        kept = list(self._by_name.get(event, []))
        if listener in kept:
            kept.remove(listener)
        self._by_name[event] = kept

    def tell(self, wire_name: str, payload: str, error: BaseException | None) -> None:
        """Writes an event into the log, and calls its listeners."""
        name, event, level = read_event(wire_name, payload, error)
        listeners = self._by_name.get(name, ())
        if log.isEnabledFor(level) and not (name == "error" and listeners):
            log.log(level, "%s", describe(name, event), exc_info=error)
        for listener in listeners:
            try:
                result = listener(event)
                if inspect.iscoroutine(result):
                    self._wait(name, result)
            except BaseException:
                # SystemExit too: a listener ends neither the loop nor the scheduler.
                log.exception("a listener of %r raised", name)

    def _wait(self, name: str, result: Any) -> None:
        async def wait() -> None:
            try:
                await result
            except asyncio.CancelledError:
                raise
            except BaseException:
                log.exception("a listener of %r raised", name)

        task = asyncio.ensure_future(wait())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
