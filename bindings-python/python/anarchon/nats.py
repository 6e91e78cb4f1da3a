"""The store in NATS JetStream."""

from __future__ import annotations

from . import _anarchon
from .builtin import NativeBackend
from .options import Duration
from .url import optional_ms, with_options

__all__ = ["NatsBackend"]


class NatsBackend(NativeBackend):
    """A store in NATS JetStream (2.9 and later), with leases, for any number of machines.

    - **url**: `nats://user:password@host:port,host:port`, or `nats://token@host`; `nats+tls:` and
      `tls:` are with TLS. No message shows its user, password and token.
    - **namespace**: keeps applications on one server apart, 1 to 64 of `[a-z0-9_-]`. Default
      `default`.
    - **prefix**: the name of the stream, and what all subjects begin with, 1 to 64 of
      `[A-Za-z0-9_-]`. Default `anarchon`.
    - **replicas**: how many servers of a cluster keep the stream: 1, 3 or 5. Default: as the stream
      is; one that is made has 1.
    - **nkey_file**: a file with the seed of an nkey.
    - **credentials_file**: a credentials file (`.creds`).
    - **tls_ca**, **tls_cert**, **tls_key**: files (PEM) with the certificates that are trusted, our
      own certificate, and its key.
    - **domain**: the domain of JetStream, if it is not the server's own.
    - **call_timeout_ms**: how long connecting and a single answer may take. Default 5 s.
    - **allow_memory**: take a stream in the server's memory, whose restart forgets every claim.
      Default False.

    Raises `InvalidOptionError`. Touches no socket until it is used.

    >>> from anarchon import NatsBackend, Scheduler
    >>> backend = NatsBackend("nats://localhost:4222", prefix="shop")
    >>> scheduler = Scheduler(backend=backend)
    """

    def __init__(
        self,
        url: str,
        *,
        namespace: str | None = None,
        prefix: str | None = None,
        replicas: int | None = None,
        nkey_file: str | None = None,
        credentials_file: str | None = None,
        tls_ca: str | None = None,
        tls_cert: str | None = None,
        tls_key: str | None = None,
        domain: str | None = None,
        call_timeout_ms: Duration | None = None,
        allow_memory: bool | None = None,
    ) -> None:
        given = {
            "namespace": namespace,
            "prefix": prefix,
            "replicas": replicas,
            "nkeyFile": nkey_file,
            "credentialsFile": credentials_file,
            "tlsCa": tls_ca,
            "tlsCert": tls_cert,
            "tlsKey": tls_key,
            "domain": domain,
            "callTimeoutMs": optional_ms(call_timeout_ms, "call_timeout_ms"),
            "allowMemory": allow_memory,
        }
        full = with_options("NatsBackend", url, given)
        super().__init__(_anarchon.open_backend(full, ["nats", "nats+tls", "tls"]))
