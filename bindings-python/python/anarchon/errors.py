"""The errors of the library: one class per code, all of them `AnarchonError`.

>>> from anarchon import InvalidScheduleError, Scheduler
>>> try:
...     Scheduler(backend="memory:").every("tick", "1 fortnight", print)
... except InvalidScheduleError as error:
...     print(error.code)
INVALID_SCHEDULE
"""

from __future__ import annotations

__all__ = [
    "AnarchonError",
    "BackendRefusedError",
    "BackendRequiredError",
    "BackendUnavailableError",
    "DedupeWindowTooShortError",
    "DuplicateJobError",
    "ForkedError",
    "InvalidOptionError",
    "InvalidScheduleError",
    "LeaseLostError",
    "LeasesRequiredError",
    "OverlapError",
    "RunCancelledError",
    "RunTimeoutError",
    "SchedulerStoppedError",
    "SchemaTooNewError",
    "UnknownJobError",
]


class AnarchonError(Exception):
    """Base of every error that the library makes itself.

    `code` is a stable word, the same in every language; the text says what was given, what is
    allowed, and what to do. Errors of your own code (a handler, a backend of yours) are never
    wrapped in it: they reach you as the objects they are.
    """

    code: str = ""


class InvalidScheduleError(AnarchonError):
    """A schedule that cannot be read, or that never has a slot."""

    code = "INVALID_SCHEDULE"


class InvalidOptionError(AnarchonError):
    """An option, name, path or URL that is not allowed."""

    code = "INVALID_OPTION"


class DuplicateJobError(AnarchonError):
    """A second job of the same name in one scheduler."""

    code = "DUPLICATE_JOB"


class UnknownJobError(AnarchonError):
    """No job of this name is registered."""

    code = "UNKNOWN_JOB"


class DedupeWindowTooShortError(AnarchonError):
    """`jitter_ms + max_late_ms` is not shorter than the store's memory of claims."""

    code = "DEDUPE_WINDOW_TOO_SHORT"


class LeasesRequiredError(AnarchonError):
    """Something that needs leases was asked of a backend without them."""

    code = "LEASES_REQUIRED"


class OverlapError(AnarchonError):
    """Another run of the job is unfinished."""

    code = "OVERLAP"


class LeaseLostError(AnarchonError):
    """The run was lost to another replica, or its lease could not be kept."""

    code = "LEASE_LOST"


class RunTimeoutError(AnarchonError):
    """A try took longer than `timeout_ms`."""

    code = "TIMEOUT"


class RunCancelledError(AnarchonError):
    """The run was cancelled by a person or a program."""

    code = "CANCELLED"


class BackendRequiredError(AnarchonError):
    """No backend was named where the embedded default would be wrong."""

    code = "BACKEND_REQUIRED"


class BackendUnavailableError(AnarchonError):
    """The store does not answer: nothing is known about what was asked."""

    code = "BACKEND_UNAVAILABLE"


class BackendRefusedError(AnarchonError):
    """The store answered, and what it is or how it is set up breaks the promise."""

    code = "BACKEND_REFUSED"


class SchemaTooNewError(AnarchonError):
    """The store was written by a newer major version of the library."""

    code = "SCHEMA_TOO_NEW"


class ForkedError(AnarchonError):
    """A scheduler that was started in the parent process is used in a child of `fork`."""

    code = "FORKED"


class SchedulerStoppedError(AnarchonError):
    """The scheduler is not started, stopped or stopping."""

    code = "STOPPED"


_CLASSES: dict[str, type[AnarchonError]] = {
    kind.code: kind for kind in AnarchonError.__subclasses__()
}


def error_of_code(code: str, message: str) -> AnarchonError:
    """The error of a code; for a code of a newer version the base class, with that code.

    >>> error_of_code("OVERLAP", "the job 'tick' is running").code
    'OVERLAP'
    """
    kind = _CLASSES.get(code)
    if kind is not None:
        return kind(message)
    error = AnarchonError(message)
    error.code = code
    return error
