"""Runs the scenarios of all selected tests at the same time: they mostly wait.

A scenario that must not meet others on the machine says `scenario.wave = 1`: it begins when all of
the waves before have ended.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Any

import pytest

Key = tuple[Any, ...]


def plays(scenario: Any, *arguments: Any) -> pytest.MarkDecorator:
    """Says which scenario a test judges."""
    return pytest.mark.plays.with_args(scenario, *arguments)


_wanted: dict[Key, None] = {}


def pytest_collection_finish(session: pytest.Session) -> None:
    """Notes which scenarios the selected tests play."""
    for item in session.items:
        mark = item.get_closest_marker("plays")
        if mark is not None:
            _wanted[mark.args] = None


@pytest.fixture(scope="session")
def playing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[Key, Future[Any]]]:
    """All scenarios, started."""
    with ThreadPoolExecutor(max_workers=max(len(_wanted), 1)) as pool:
        playing: dict[Key, Future[Any]] = {}
        for key in sorted(_wanted, key=_wave):
            before = [one for other, one in playing.items() if _wave(other) < _wave(key)]
            playing[key] = pool.submit(_play, before, *_call(key, tmp_path_factory))
        yield playing


def _wave(key: Key) -> int:
    return getattr(key[0], "wave", 0)


def _play(before: list[Future[Any]], scenario: Any, *arguments: Any) -> Any:
    wait(before)
    return scenario(*arguments)


def _call(key: Key, tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, ...]:
    scenario, *arguments = key
    words = [scenario.__name__, *map(str, arguments)]
    folder = tmp_path_factory.mktemp(re.sub(r"\W+", "-", "-".join(words)))
    return (scenario, folder, *arguments)


@pytest.fixture
def played(request: pytest.FixtureRequest, playing: dict[Key, Future[Any]]) -> Any:
    """What the scenario of this test came to."""
    mark = request.node.get_closest_marker("plays")
    assert mark is not None, "the test needs @plays(scenario)"
    return playing[mark.args].result()
