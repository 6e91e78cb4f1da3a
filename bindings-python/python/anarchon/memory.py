"""The store in memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

from . import _anarchon
from .builtin import NativeBackend

if TYPE_CHECKING:
    from .testing import ManualClock

__all__ = ["MemoryBackend"]


class MemoryBackend(NativeBackend):
    """A store in memory, with leases: schedulers that share the object share a fleet. For tests,
    and for programs of one process.

    `clock` is a `anarchon.testing.ManualClock`, for schedulers that are driven by one.

    >>> from anarchon import MemoryBackend, Scheduler
    >>> backend = MemoryBackend()
    >>> replicas = [Scheduler(backend=backend, instance_id=name) for name in "ab"]
    """

    def __init__(self, *, clock: ManualClock | None = None) -> None:
        super().__init__(_anarchon.memory_backend(None if clock is None else clock._native))
