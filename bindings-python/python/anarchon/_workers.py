"""Daemon threads of our own for plain functions.

Not the event loop's default executor: handlers that wait would starve it, and the interpreter's
exit would wait for them.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from queue import Empty, SimpleQueue

log = logging.getLogger("anarchon")

IDLE_SECONDS = 10.0


class Workers:
    """Runs plain functions, each at once: in a thread that is free, or else in a new one.

    How many there can be is the business of whoever submits: a scheduler has its places. A thread
    that has had nothing to do for a while ends.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._lock = threading.Lock()
        self._free: list[_Worker] = []
        self._made = 0

    def submit(self, work: Callable[[], None]) -> None:
        """Calls `work` in a thread, now."""
        with self._lock:
            worker = self._free.pop() if self._free else None
            if worker is None:
                self._made += 1
                worker = _Worker(self, f"{self._name}-{self._made}")
        worker.inbox.put(work)
        worker.begin()

    def give_back(self, worker: _Worker) -> None:
        with self._lock:
            self._free.append(worker)

    def take_out(self, worker: _Worker) -> bool:
        """Whether the worker was free, and is not in the list any more."""
        with self._lock:
            if worker in self._free:
                self._free.remove(worker)
                return True
            return False


class _Worker:
    def __init__(self, owner: Workers, name: str) -> None:
        self.inbox: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self._owner = owner
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)
        self._begun = False

    def begin(self) -> None:
        if not self._begun:
            self._begun = True
            self._thread.start()

    def _work(self) -> None:
        while True:
            try:
                work = self.inbox.get(timeout=IDLE_SECONDS)
            except Empty:
                if self._owner.take_out(self):
                    return
                continue  # Work is on its way: we were taken from the list a moment ago.
            try:
                work()
            except BaseException:
                log.exception("a worker thread caught what its work should have caught")
            del work
            self._owner.give_back(self)
