"""Options of a store as the query of its URL: the native half reads and judges them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from .errors import InvalidOptionError
from .options import Duration, duration_ms


def with_options(what: str, url: Any, options: Mapping[str, Any]) -> str:
    """A URL with options added to its query; `None` counts as not given.

    >>> with_options("RedisBackend", "redis://localhost", {"pool": 2, "cluster": True})
    'redis://localhost?pool=2&cluster=true'
    """
    if not isinstance(url, str):
        raise InvalidOptionError(f"{what}: url is {url!r}; allowed is a URL")
    given = {name: value for name, value in options.items() if value is not None}
    query = "&".join(f"{name}={quote(_text(value), safe='')}" for name, value in given.items())
    if not query:
        return url
    return f"{url}{'&' if '?' in url else '?'}{query}"


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (list, tuple)):
        return ",".join(str(item) for item in value)
    return str(value)


def optional_ms(value: Duration | None, what: str) -> int | None:
    """A duration in ms, if it is given."""
    return None if value is None else duration_ms(value, what)
