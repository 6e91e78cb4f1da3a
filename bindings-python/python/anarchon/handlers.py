"""The user's functions: how they are read at registration, called, and what is kept of their
ends."""

from __future__ import annotations

import dataclasses
import datetime
import inspect
import json
import traceback
from collections.abc import Awaitable, Callable
from enum import Enum
from functools import partial
from typing import Any, TypeAlias, TypeVar

from . import _anarchon
from .context import JobContext
from .errors import InvalidOptionError
from .records import Record

__all__ = ["Handler", "HandlerFunction"]

Handler: TypeAlias = (
    Callable[[JobContext], Any]
    | Callable[[], Any]
    | Callable[[JobContext], Awaitable[Any]]
    | Callable[[], Awaitable[Any]]
)
"""A handler: plain or `async def`, with the context or without any argument."""

HandlerFunction = TypeVar("HandlerFunction", bound=Callable[..., Any])
"""The decorated function, returned unchanged."""


class ReadHandler:
    """A handler whose signature has been read."""

    __slots__ = ("function", "is_async", "takes_context")

    def __init__(self, function: Any, job: str) -> None:
        if not callable(function):
            raise InvalidOptionError(
                f"the handler of job {job!r} is {function!r}; it must be a function, plain or "
                "async, that takes the context or nothing"
            )
        inner = function
        while isinstance(inner, partial):
            inner = inner.func
        if not inspect.isroutine(inner) and not inspect.isclass(inner):
            inner = type(inner).__call__
        if inspect.isgeneratorfunction(inner) or inspect.isasyncgenfunction(inner):
            raise InvalidOptionError(
                f"the handler of job {job!r} is a generator function, which does nothing when it "
                "is called; take the `yield` out of it"
            )
        self.function: Callable[..., Any] = function
        self.is_async = inspect.iscoroutinefunction(inner)
        self.takes_context = _takes_context(function, job)

    def call(self, context: JobContext) -> Any:
        """Calls the function."""
        return self.function(context) if self.takes_context else self.function()


def _takes_context(function: Any, job: str) -> bool:
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return True  # A function of C that does not tell.
    for arguments, takes in ((("context",), True), ((), False)):
        try:
            signature.bind(*arguments)
        except TypeError:
            continue
        return takes
    raise InvalidOptionError(
        f"the handler of job {job!r} has the signature {signature}; it is called with the context "
        "as its only argument, or with nothing: bind the others with functools.partial"
    )


def output_text(value: Any) -> str | None:
    """What a handler returned, as JSON text; `None` for nothing.

    Dates are written in ISO 8601, sets and tuples as lists, dataclasses and records as objects,
    enums by their value, anything else that JSON does not know as its `str`. What cannot be written
    even so (a cycle, NaN) is kept as its `repr`: a run never fails over what it returned.

    >>> output_text({"rows": 3, "day": datetime.date(2027, 1, 31)})
    '{"rows": 3, "day": "2027-01-31"}'
    """
    if value is None:
        return None
    try:
        text = json.dumps(value, default=_jsonable, ensure_ascii=False, allow_nan=False)
        text.encode()
        return text
    except UnicodeEncodeError:
        return json.dumps(value, default=_jsonable, allow_nan=False)
    except Exception:
        return json.dumps(_shown(value), ensure_ascii=True)


def _jsonable(value: Any) -> Any:
    if isinstance(value, Record):
        return value.to_dict()
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    if isinstance(value, (datetime.datetime, datetime.date, datetime.time)):
        return value.isoformat()
    if isinstance(value, (set, frozenset)):
        return list(value)
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, (bytes, bytearray)):
        return bytes(value).decode("utf-8", "backslashreplace")
    return str(value)


def _shown(value: Any) -> str:
    try:
        return repr(value)
    except Exception:
        return f"<{type(value).__name__} without a repr>"


def tell_thrown(call: _anarchon.Run | _anarchon.HostCall, error: BaseException) -> None:
    """Hands an exception to the core: the object itself, and what records say of it."""
    name = type(error).__name__
    try:
        message = str(error)
    except Exception:
        message = "(its text cannot be had)"
    try:
        stack = "".join(traceback.format_exception(type(error), error, error.__traceback__))
    except Exception:
        stack = None
    call.threw(error, _text(name), _text(message), None if stack is None else _text(stack))


def _text(given: str) -> str:
    """A text without lone surrogates, which UTF-8 cannot carry."""
    return given.encode("utf-8", "backslashreplace").decode("utf-8")
