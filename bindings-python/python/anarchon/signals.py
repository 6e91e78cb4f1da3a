"""Signals while `run()` blocks."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from types import FrameType
from typing import Any


class Signals:
    """SIGTERM and SIGINT while `run()` blocks: the first one tells, the second ends the process."""

    def __init__(self) -> None:
        self.told = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._count = 0
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Signals:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGTERM, signal.SIGINT):
                self._before[number] = signal.signal(number, self._handle)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def listen(self, loop: asyncio.AbstractEventLoop) -> None:
        """The loop that waits for `told`."""
        self._loop = loop
        if self._count:
            self.told.set()

    def _handle(self, number: int, frame: FrameType | None) -> None:
        self._count += 1
        if self._count == 1:
            if self._loop is not None:
                self._loop.call_soon_threadsafe(self.told.set)
            return
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
