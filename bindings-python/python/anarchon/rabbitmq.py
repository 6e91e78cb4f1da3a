"""The store in RabbitMQ."""

from __future__ import annotations

from . import _anarchon
from .builtin import NativeBackend
from .options import Duration
from .url import optional_ms, with_options

__all__ = ["RabbitMqBackend"]


class RabbitMqBackend(NativeBackend):
    """A store in RabbitMQ, without leases, for any number of machines.

    Each slot is claimed once; there are no backups, no catch-up and no overlap protection, and
    options that need them raise `LeasesRequiredError`. RabbitMQ has no clock to ask: what is too
    early or too old is judged by ours.

    - **url**: `amqp://user:password@host:port/vhost`; `amqps:` is with TLS. No message shows its
      user and password.
    - **namespace**: keeps applications on one server apart, 1 to 64 of `[a-z0-9_-]`. Default
      `default`.
    - **prefix**: what the names of all queues begin with, 1 to 64 of `[A-Za-z0-9._-]`. Default
      `anarchon`.
    - **dedupe_window_ms**: how long a claimed slot is remembered, 1 s to 14 d. Default 1 h. A job
      whose `jitter_ms` and `max_late_ms` are together not shorter raises
      `DedupeWindowTooShortError`.
    - **channels**: claims that are under way at once, 1 to 256. Default 16.
    - **history_bytes**: how many bytes of records are kept for a job, 1 MiB to 1 GiB. Default
      2 MiB.
    - **call_timeout_ms**: how long connecting and a single answer may take. Default 5 s.
    - **tls_ca**: a file (PEM) with certificates that are trusted beside the system's.
    - **tls_cert**, **tls_key**: files (PEM) with our own certificate and its key.

    Raises `InvalidOptionError`. Touches no socket until it is used.

    >>> from anarchon import RabbitMqBackend, Scheduler
    >>> backend = RabbitMqBackend("amqp://localhost", dedupe_window_ms="2h")
    >>> scheduler = Scheduler(backend=backend)
    """

    def __init__(
        self,
        url: str,
        *,
        namespace: str | None = None,
        prefix: str | None = None,
        dedupe_window_ms: Duration | None = None,
        channels: int | None = None,
        history_bytes: int | None = None,
        call_timeout_ms: Duration | None = None,
        tls_ca: str | None = None,
        tls_cert: str | None = None,
        tls_key: str | None = None,
    ) -> None:
        given = {
            "namespace": namespace,
            "prefix": prefix,
            "dedupeWindowMs": optional_ms(dedupe_window_ms, "dedupe_window_ms"),
            "channels": channels,
            "historyBytes": history_bytes,
            "callTimeoutMs": optional_ms(call_timeout_ms, "call_timeout_ms"),
            "tlsCa": tls_ca,
            "tlsCert": tls_cert,
            "tlsKey": tls_key,
        }
        full = with_options("RabbitMqBackend", url, given)
        super().__init__(_anarchon.open_backend(full, ["amqp", "amqps"]))
