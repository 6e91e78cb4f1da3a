"""Five replicas, two in Python, two in Node and one in Rust, on each store, for sixty seconds."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

import pytest
from fleet.processes import Fleet, Line, assert_each_once, between_slots, slots_between
from fleet.scenarios import plays
from fleet.stores import STORES

FIVE = ["py-1", "py-2", "node-1", "node-2", "rust-1"]
LENGTH = 60.0


@dataclass
class Outcome:
    """What a fleet left behind."""

    fleet: Fleet
    slots: list[int]
    complaints: list[Line]


def steady(folder: Path, name: str) -> Outcome:
    """Nothing happens but slots."""
    STORES[name].need()
    jobs = [
        {
            "name": "tick",
            "kind": "every",
            "when": "1s",
            "work": "quick",
            "options": {"historySize": 1_000},
        }
    ]
    with Fleet(folder, STORES[name]) as fleet:
        fleet.start_all(FIVE, jobs)
        begin = between_slots()
        time.sleep(LENGTH)
        until = between_slots()
        fleet.stop()
        complaints = fleet.lines(
            "missed", "error", "store_down", "lease_lost", "skew", "overdue", "takeover"
        )
        return Outcome(fleet, slots_between(begin, until, 1_000), complaints)


@pytest.mark.parametrize("name", [pytest.param(n, marks=plays(steady, n)) for n in STORES])
def test_every_slot_runs_once_and_each_replica_wins_some(played: Outcome, name: str) -> None:
    assert len(played.slots) >= 60
    assert_each_once(played.fleet, "tick", played.slots)
    assert played.complaints == []
    winners = {line.by for line in played.fleet.lines("start")}
    assert winners == set(FIVE), f"on {name} these never won: {set(FIVE) - winners}"
