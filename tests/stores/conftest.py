from __future__ import annotations

from collections.abc import Iterator

import pytest
from fleet.scenarios import played, playing, pytest_collection_finish
from fleet.stores import RUN, forget_rabbitmq

__all__ = ["played", "playing", "pytest_collection_finish"]


@pytest.fixture(scope="session", autouse=True)
def forgotten() -> Iterator[None]:
    """What the fleets have left in a store is gone after the tests."""
    yield
    forget_rabbitmq(f"{RUN}-")
