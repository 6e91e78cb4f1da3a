"""A job scheduler for applications that run in several replicas.

Every replica runs the same scheduler; there is no leader. All compute the same slots, and claim
each in a store they share: exactly one wins and runs the handler.

>>> from anarchon import Scheduler
>>> scheduler = Scheduler(backend="memory:")
>>> @scheduler.every("cleanup", "15m")
... async def cleanup(ctx):
...     print("cleaning up for", ctx.scheduled_at)
"""

import atexit
import os

from . import _anarchon
from .adapters import from_asyncpg, from_psycopg, from_sqlalchemy, from_sqlite3
from .backend import Backend, RunStore, build_history
from .builtin import NativeBackend
from .context import JobContext
from .errors import (
    AnarchonError,
    BackendRefusedError,
    BackendRequiredError,
    BackendUnavailableError,
    DedupeWindowTooShortError,
    DuplicateJobError,
    ForkedError,
    InvalidOptionError,
    InvalidScheduleError,
    LeaseLostError,
    LeasesRequiredError,
    OverlapError,
    RunCancelledError,
    RunTimeoutError,
    SchedulerStoppedError,
    SchemaTooNewError,
    UnknownJobError,
)
from .events import (
    DefinitionConflictEvent,
    ErrorEvent,
    Event,
    EventName,
    FinishedEvent,
    MissedEvent,
    OverdueEvent,
    OverlapEvent,
    RunEvent,
    SkewEvent,
    StoreDownEvent,
    StoreUpEvent,
)
from .handlers import Handler
from .memory import MemoryBackend
from .mysql import MySqlBackend
from .nats import NatsBackend
from .options import Duration, Instant, Interval, JobOptions, RetryOptions, SchedulerOptions
from .postgres import PostgresBackend
from .rabbitmq import RabbitMqBackend
from .records import (
    ActiveRun,
    ClaimInput,
    ClaimKind,
    ClaimOutcome,
    ClaimRecord,
    ErrorInfo,
    Explanation,
    JobInfo,
    JobLimits,
    MissedRange,
    Pause,
    PauseRequest,
    Record,
    RunClaim,
    RunRecord,
    RunRef,
    Status,
    StopReport,
    StoredResult,
    Survey,
    Trigger,
)
from .redis import RedisBackend
from .scheduler import Scheduler
from .sql import Connected, SqlBackend, SqlClient, SqlDialect, SqlQueryable
from .sqlite import SqliteBackend
from .sync import SyncScheduler

__all__ = [
    "ActiveRun",
    "AnarchonError",
    "Backend",
    "BackendRefusedError",
    "BackendRequiredError",
    "BackendUnavailableError",
    "ClaimInput",
    "ClaimKind",
    "ClaimOutcome",
    "ClaimRecord",
    "Connected",
    "DedupeWindowTooShortError",
    "DefinitionConflictEvent",
    "DuplicateJobError",
    "Duration",
    "ErrorEvent",
    "ErrorInfo",
    "Event",
    "EventName",
    "Explanation",
    "FinishedEvent",
    "ForkedError",
    "Handler",
    "Instant",
    "Interval",
    "InvalidOptionError",
    "InvalidScheduleError",
    "JobContext",
    "JobInfo",
    "JobLimits",
    "JobOptions",
    "LeaseLostError",
    "LeasesRequiredError",
    "MemoryBackend",
    "MissedEvent",
    "MissedRange",
    "MySqlBackend",
    "NativeBackend",
    "NatsBackend",
    "OverdueEvent",
    "OverlapError",
    "OverlapEvent",
    "Pause",
    "PauseRequest",
    "PostgresBackend",
    "RabbitMqBackend",
    "Record",
    "RedisBackend",
    "RetryOptions",
    "RunCancelledError",
    "RunClaim",
    "RunEvent",
    "RunRecord",
    "RunRef",
    "RunStore",
    "RunTimeoutError",
    "Scheduler",
    "SchedulerOptions",
    "SchedulerStoppedError",
    "SchemaTooNewError",
    "SkewEvent",
    "SqlBackend",
    "SqlClient",
    "SqlDialect",
    "SqlQueryable",
    "SqliteBackend",
    "Status",
    "StopReport",
    "StoreDownEvent",
    "StoreUpEvent",
    "StoredResult",
    "Survey",
    "SyncScheduler",
    "Trigger",
    "UnknownJobError",
    "build_history",
    "from_asyncpg",
    "from_psycopg",
    "from_sqlalchemy",
    "from_sqlite3",
]

# The interpreter's end waits until no thread is in the native half; a child of fork has no threads.
atexit.register(_anarchon.close_door)
os.register_at_fork(after_in_child=_anarchon.after_fork)
