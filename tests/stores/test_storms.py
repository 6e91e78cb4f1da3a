"""Replicas are killed and started all the while: no slot runs twice, none is lost.

ANARCHON_TEST_STORM_SLOTS says how many slots on each store (default 2,000), ANARCHON_TEST_SEED
where the dice begin (default 1).
"""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest
from fleet import storm
from fleet.scenarios import plays
from fleet.stores import STORES
from fleet.storm import Storm

SLOTS = int(os.environ.get("ANARCHON_TEST_STORM_SLOTS", "2000"))
SEED = int(os.environ.get("ANARCHON_TEST_SEED", "1"))
SECONDS = 40 if SLOTS <= 2_000 else 65
# Jobs of every second, so that the slots come together in that time.
JOBS = -(-SLOTS // SECONDS)
# A machine of two cores has room for so many at the same time.
AT_ONCE = threading.Semaphore(2 if SLOTS <= 2_000 else 1)


def stormy(folder: Path, name: str) -> Storm:
    """A storm on one store."""
    STORES[name].need()
    with AT_ONCE:
        return storm.play(folder, STORES[name], JOBS, SECONDS, SEED)


stormy.wave = 1  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", [pytest.param(n, marks=plays(stormy, n)) for n in STORES])
def test_no_slot_is_doubled_and_none_is_silent(played: Storm, name: str) -> None:
    print(f"{name}, seed {SEED}: {played}")
    assert len(played.wanted) >= SLOTS
    assert played.kills >= 3
    assert played.doubled == {}
    assert played.silent == []
    assert played.disputed == {}
    if STORES[name].has_leases:
        assert played.lost == {}, "survivors go on with what a killed replica had begun"
