"""Objects of the user whose methods the core calls by name: backends, their leases, SQL clients."""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import json
import math
import os
import threading
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

from . import _anarchon
from ._bridge import register
from ._workers import Workers
from .handlers import tell_thrown
from .records import (
    ClaimInput,
    JobLimits,
    MissedRange,
    PauseRequest,
    Record,
    RunClaim,
    StoredResult,
)

Kinds = Mapping[str, tuple[type[Record] | None, ...]]

# What the positional arguments of a member are; a member that is not here gets plain values.
BACKEND: Kinds = {
    "init": (),
    "prepare_job": (),
    "claim": (ClaimInput,),
    "record_manual_run": (ClaimInput,),
    "record_claim": (ClaimInput,),
    "save_result": (None, StoredResult),
    "history": (),
    "close": (),
    "check_job": (JobLimits,),
}
RUNS: Kinds = {
    "claim": (RunClaim,),
    "heartbeat": (),
    "finish": (),
    "release": (),
    "active": (),
    "survey": (),
    "claim_manual": (ClaimInput,),
    "record_missed": (None, MissedRange),
    "set_paused": (None, PauseRequest),
    "cancel": (),
    "forget": (),
}

# Arguments added after the first form of a method: passed by keyword, to methods that take them.
ADDED: dict[str, tuple[str, type[Record]]] = {
    "prepare_job": ("limits", JobLimits),
    "finish": ("result", StoredResult),
}


class Line:
    """One plain call at a time: what is atomic because nothing interrupts it stays so."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: deque[Callable[[], None]] = deque()
        self._busy = False

    def submit(self, work: Callable[[], None]) -> None:
        """Calls `work` in a thread, after all that was submitted before it."""
        with self._lock:
            self._waiting.append(work)
            if self._busy:
                return
            self._busy = True
        _workers().submit(self._work)

    def _work(self) -> None:
        while True:
            with self._lock:
                if not self._waiting:
                    self._busy = False
                    return
                work = self._waiting.popleft()
            work()


_threads: tuple[int, Workers] | None = None


def _workers() -> Workers:
    """The threads for plain methods, in this process."""
    global _threads
    if _threads is None or _threads[0] != os.getpid():
        _threads = (os.getpid(), Workers("anarchon-backend"))
    return _threads[1]


class Host:
    """An object of the user's."""

    def __init__(self, target: Any, kinds: Kinds, line: Line | None) -> None:
        self.target = target
        self._kinds = kinds
        self._line = line
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self.number = register(self)

    def facts(self) -> str:
        """What the core wants to know of it, once."""
        members = [name for name in self._kinds if callable(getattr(self.target, name, None))]
        takes = [
            f"{name}.{added}"
            for name, (added, _) in ADDED.items()
            if name in members and _takes(getattr(self.target, name), added)
        ]
        name = type(self.target).__name__
        return json.dumps({"class": name, "members": members, "takes": takes})

    # -- what the core says --

    def _message(self, kind: str, first: Any, second: Any) -> None:
        if kind == "ask":
            self._answer(first)
        elif kind == "forget":
            task = self._tasks.get(first)
            if task is not None:
                task.cancel()

    def _answer(self, call: _anarchon.HostCall) -> None:
        try:
            method, positional, named = self._read(call)
            if inspect.iscoroutinefunction(method):
                self._begin_task(call, method(*positional, **named))
                return
            loop = asyncio.get_running_loop()
            variables = contextvars.copy_context()

            def work() -> None:
                variables.run(self._call_plain, call, loop, method, positional, named)

            if self._line is None:
                _workers().submit(work)
            else:
                self._line.submit(work)
        except BaseException as error:
            tell_thrown(call, error)

    def _read(
        self, call: _anarchon.HostCall
    ) -> tuple[Callable[..., Any], list[Any], dict[str, Any]]:
        positional, named = json.loads(call.arguments())
        member = call.member
        kinds = self._kinds.get(member, ())
        for index, kind in enumerate(kinds):
            if kind is not None and positional[index] is not None:
                positional[index] = kind.from_dict(positional[index])
        if member in ADDED:
            added, kind = ADDED[member]
            named = {name: kind.from_dict(value) for name, value in named.items() if name == added}
        return getattr(self.target, member), positional, named

    def _call_plain(
        self,
        call: _anarchon.HostCall,
        loop: asyncio.AbstractEventLoop,
        method: Callable[..., Any],
        positional: list[Any],
        named: dict[str, Any],
    ) -> None:
        try:
            answer = method(*positional, **named)
            if inspect.isawaitable(answer):
                # A plain method that hands out its work: that is on the loop.
                loop.call_soon_threadsafe(self._begin_task, call, answer)
                return
            text = _text(answer)
        except BaseException as error:
            tell_thrown(call, error)
        else:
            call.returned(text)

    def _begin_task(self, call: _anarchon.HostCall, answer: Any) -> None:
        task = asyncio.get_running_loop().create_task(self._wait(call, answer))
        self._tasks[call.id] = task
        task.add_done_callback(lambda _ended: self._tasks.pop(call.id, None))

    async def _wait(self, call: _anarchon.HostCall, answer: Any) -> None:
        try:
            text = _text(await answer)
        except BaseException as error:
            tell_thrown(call, error)
        else:
            call.returned(text)


def _takes(method: Any, argument: str) -> bool:
    try:
        parameters = inspect.signature(method).parameters
    except (TypeError, ValueError):
        return False
    found = parameters.get(argument)
    if found is not None:
        return found.kind in (found.POSITIONAL_OR_KEYWORD, found.KEYWORD_ONLY)
    return any(one.kind is one.VAR_KEYWORD for one in parameters.values())


def _text(answer: Any) -> str:
    """An answer as JSON; what is no plain value is shown, and refused by the core."""
    try:
        return _encode(answer)
    except (TypeError, ValueError):
        return json.dumps(repr(answer))


def _plain(value: Any) -> Any:
    if isinstance(value, Record):
        return value.to_dict()
    if isinstance(value, (set, frozenset)):
        return list(value)
    return repr(value)


# `json.dumps` with an argument makes an encoder for each call.
_encode = json.JSONEncoder(default=_plain).encode


# Objects that cannot carry their own half: those with __slots__.
_carried: dict[int, HostBackend] = {}


class HostBackend:
    """A user's backend and its native half; one per object, however many schedulers share it."""

    def __init__(self, backend: Any) -> None:
        self.backend = backend
        line = None if getattr(backend, "thread_safe", False) is True else Line()
        self._host = Host(backend, BACKEND, line)
        runs = getattr(backend, "runs", None)
        self._runs = None if runs is None else Host(runs, RUNS, line)
        window = getattr(backend, "dedupe_window_ms", "missing")
        facts = {
            "name": getattr(backend, "name", None),
            "dedupeWindowMs": None if window == math.inf else window,
            "keepsResult": getattr(runs, "keeps_result", False) is True,
        }
        self.native = _anarchon.host_backend(
            json.dumps(facts, default=repr),
            self._host.number,
            self._host.facts(),
            None if self._runs is None else self._runs.number,
            None if self._runs is None else self._runs.facts(),
        )

    @staticmethod
    def of(backend: Any) -> HostBackend:
        """The half of a backend, made when it is first handed over."""
        fields = getattr(backend, "__dict__", None)
        found = _carried.get(id(backend)) if fields is None else fields.get("_anarchon_half")
        # A copy of an object carries the half of the original.
        if not isinstance(found, HostBackend) or found.backend is not backend:
            found = HostBackend(backend)
            if fields is None:
                _carried[id(backend)] = found
            else:
                fields["_anarchon_half"] = found
        return found
