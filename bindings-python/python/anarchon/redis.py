"""The store in Redis or Valkey."""

from __future__ import annotations

from collections.abc import Sequence

from . import _anarchon
from .builtin import NativeBackend
from .options import Duration
from .url import optional_ms, with_options

__all__ = ["RedisBackend"]


class RedisBackend(NativeBackend):
    """A store in Redis or Valkey, with leases, for any number of machines.

    - **url**: `redis://user:password@host:port/db`; `rediss:` is with TLS, `valkey(s):` means the
      same. No message shows its user and password.
    - **namespace**: keeps applications on one server apart, 1 to 64 of `[a-z0-9_-]`. Default
      `default`.
    - **prefix**: what all keys begin with, 1 to 64 of `[A-Za-z0-9._-]`. Default `anarchon`.
    - **pool**: connections, beside one that is kept for heartbeats, 1 to 64. Default 1.
    - **cluster**: whether the server is a node of a Redis Cluster. Default False.
    - **nodes**: more nodes of the cluster (`host:port`), in case the first one is away at the
      start.
    - **tls_ca**, **tls_cert**, **tls_key**: files (PEM) with the certificates that are trusted, our
      own certificate, and its key.
    - **wait_replicas**: how many replicas must have a change before it counts, 0 to 100. Default 0.
    - **wait_timeout_ms**: how long replicas are waited for, 1 ms to 10 min. Default 1 s.
    - **call_timeout_ms**: how long connecting and a single answer may take. Default 5 s.
    - **allow_eviction**: start in spite of an eviction policy that can drop the claims of won
      slots. Default False.

    Raises `InvalidOptionError`. Touches no socket until it is used.

    >>> from anarchon import RedisBackend, Scheduler
    >>> backend = RedisBackend("redis://localhost:6379/0", prefix="shop")
    >>> scheduler = Scheduler(backend=backend)
    """

    def __init__(
        self,
        url: str,
        *,
        namespace: str | None = None,
        prefix: str | None = None,
        pool: int | None = None,
        cluster: bool | None = None,
        nodes: Sequence[str] | None = None,
        tls_ca: str | None = None,
        tls_cert: str | None = None,
        tls_key: str | None = None,
        wait_replicas: int | None = None,
        wait_timeout_ms: Duration | None = None,
        call_timeout_ms: Duration | None = None,
        allow_eviction: bool | None = None,
    ) -> None:
        given = {
            "namespace": namespace,
            "prefix": prefix,
            "pool": pool,
            "cluster": cluster,
            "nodes": nodes,
            "tlsCa": tls_ca,
            "tlsCert": tls_cert,
            "tlsKey": tls_key,
            "waitReplicas": wait_replicas,
            "waitTimeoutMs": optional_ms(wait_timeout_ms, "wait_timeout_ms"),
            "callTimeoutMs": optional_ms(call_timeout_ms, "call_timeout_ms"),
            "allowEviction": allow_eviction,
        }
        full = with_options("RedisBackend", url, given)
        schemes = ["redis", "rediss", "valkey", "valkeys"]
        super().__init__(_anarchon.open_backend(full, schemes))
