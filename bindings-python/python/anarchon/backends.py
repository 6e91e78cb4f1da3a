"""Backend objects: ours, which the core drives by itself, and the user's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from . import _anarchon
from ._host import BACKEND, HostBackend
from .builtin import NativeBackend
from .errors import InvalidOptionError

if TYPE_CHECKING:
    from .backend import Backend


def native_backend(backend: Backend | Any) -> _anarchon.Backend:
    """The native half of a backend object."""
    if isinstance(backend, NativeBackend) and not _overrides(backend):
        return backend._native
    if backend is None or isinstance(backend, (bool, int, float, bytes, list, dict, tuple, type)):
        raise InvalidOptionError(
            f"backend is {backend!r}; allowed are a URL like 'sqlite:jobs.db' and a backend object"
        )
    return HostBackend.of(backend).native


def _overrides(backend: NativeBackend) -> bool:
    """Whether a subclass has members of its own: then it is asked in Python, and may ask
    `super()`."""
    return any(
        getattr(type(backend), name, None) is not getattr(NativeBackend, name, None)
        for name in BACKEND
    )
