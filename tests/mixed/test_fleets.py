"""Eight replicas, four in Python and four in Node, on one SQLite file, for sixty seconds."""

from __future__ import annotations

import signal
import sqlite3
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from fleet.processes import (
    Fleet,
    Line,
    assert_each_once,
    between_slots,
    missed_slots,
    slots_between,
)
from fleet.scenarios import plays

EIGHT = [f"{language}-{number}" for number in range(1, 5) for language in ("py", "node")]
SECOND = 1_000
LENGTH = 60.0
PAUSE = 6.0
LONG_PAUSE = 16.0


@dataclass
class Outcome:
    """What a fleet left behind."""

    fleet: Fleet
    slots: list[int]
    complaints: list[Line] = field(default_factory=list)
    paused: tuple[int, int] = (0, 0)


def every_second(**options: Any) -> list[dict[str, Any]]:
    """The one job of these fleets."""
    # Every record is to be there in the end, and a busy machine must not look like a crash.
    options = {"historySize": 1_000, **options}
    return [{"name": "tick", "kind": "every", "when": "1s", "work": "quick", "options": options}]


def end(fleet: Fleet, begin: int, paused: tuple[int, int] = (0, 0)) -> Outcome:
    """Stops a fleet and gathers what it came to."""
    until = between_slots()
    fleet.stop()
    complaints = fleet.lines("missed", "error", "store_down", "lease_lost", "skew", "overdue")
    return Outcome(fleet, slots_between(begin, until, SECOND), complaints, paused)


def steady(folder: Path, options: tuple[tuple[str, Any], ...]) -> Outcome:
    """Nothing happens but slots."""
    with Fleet(folder) as fleet:
        fleet.start_all(EIGHT, every_second(**dict(options)))
        begin = between_slots()
        time.sleep(LENGTH)
        return end(fleet, begin)


def one_paused(folder: Path, victim: str) -> Outcome:
    """One replica is suspended over several slots and goes on."""
    with Fleet(folder) as fleet:
        fleet.start_all(EIGHT, every_second())
        begin = between_slots()
        time.sleep(5)
        between_slots()
        stopped = fleet.replicas[victim].send(signal.SIGSTOP)
        time.sleep(PAUSE)
        going_on = fleet.replicas[victim].send(signal.SIGCONT)
        time.sleep(10)
        return end(fleet, begin, (stopped, going_on))


def all_paused(folder: Path) -> Outcome:
    """All eight are suspended together, for longer than a slot may be late."""
    with Fleet(folder) as fleet:
        # Several slots are made up for at once here, by several replicas: they may overlap.
        fleet.start_all(EIGHT, every_second(overlap="allow"))
        begin = between_slots()
        time.sleep(5)
        between_slots()
        stopped = [replica.send(signal.SIGSTOP) for replica in fleet.replicas.values()]
        time.sleep(LONG_PAUSE)
        going_on = [replica.send(signal.SIGCONT) for replica in fleet.replicas.values()]
        time.sleep(20)
        return end(fleet, begin, (min(stopped), max(going_on)))


def idle(folder: Path) -> tuple[int, int, list[Line]]:
    """A hundred jobs, none of which is due: the store's version before and after a while."""
    far = int(time.time() * 1000) + 3_000_000
    jobs = [
        {"name": f"job-{number}", "kind": "at", "when": far + number, "work": "quick"}
        for number in range(100)
    ]
    with Fleet(folder) as fleet:
        fleet.start_all(["py-1", "node-1", "py-2"], jobs)
        time.sleep(5)
        with sqlite3.connect(fleet.folder / "fleet.db") as connection:
            version = "PRAGMA data_version"
            before = connection.execute(version).fetchone()[0]
            time.sleep(25)
            after = connection.execute(version).fetchone()[0]
        fleet.stop()
        return before, after, fleet.lines("start", "missed", "error", "store_down")


@plays(steady, ())
def test_every_slot_of_a_steady_fleet_runs_once(played: Outcome) -> None:
    assert len(played.slots) >= 60
    assert_each_once(played.fleet, "tick", played.slots)
    assert played.complaints == []


@plays(steady, (("jitterMs", 900),))
def test_every_slot_of_a_fleet_with_jitter_runs_once(played: Outcome) -> None:
    assert len(played.slots) >= 60
    # With a jitter of nearly a period the last slot may still be under way when the fleet stops.
    assert_each_once(played.fleet, "tick", played.slots[:-1])
    assert played.complaints == []
    winners = {line.by for line in played.fleet.lines("start")}
    assert winners >= set(EIGHT[:2]), f"only {winners} ever won"


@plays(steady, (("jitterMs", 0),))
def test_every_slot_of_a_fleet_that_asks_all_at_once_runs_once(played: Outcome) -> None:
    assert len(played.slots) >= 60
    assert_each_once(played.fleet, "tick", played.slots)
    assert played.complaints == []


@pytest.mark.parametrize(
    "victim",
    [
        pytest.param("py-1", marks=plays(one_paused, "py-1")),
        pytest.param("node-1", marks=plays(one_paused, "node-1")),
    ],
)
def test_a_replica_that_was_suspended_doubles_nothing_and_reports_nothing(
    played: Outcome, victim: str
) -> None:
    assert_each_once(played.fleet, "tick", played.slots)
    assert played.complaints == []
    stopped, going_on = played.paused
    by_victim = [line.slot for line in played.fleet.lines("start") if line.by == victim]
    asleep = [slot for slot in by_victim if stopped < slot < going_on - SECOND]
    assert asleep == [], "the others were there for these slots"


@plays(all_paused)
def test_after_all_were_suspended_each_slot_has_run_or_is_reported(played: Outcome) -> None:
    stopped, going_on = played.paused
    asleep = [slot for slot in played.slots if stopped < slot < going_on]
    awake = [slot for slot in played.slots if slot not in asleep]
    assert len(asleep) >= 14
    assert_each_once(played.fleet, "tick", awake)
    started = [line.slot for line in played.fleet.lines("start")]
    assert len(started) == len(set(started)), "no slot is started twice"
    reported = missed_slots(played.fleet, "tick", SECOND)
    silent = [slot for slot in asleep if slot not in {*started, *reported}]
    assert silent == [], f"neither run nor reported; reported are {sorted(reported)}"
    assert not set(started) & reported, "a slot that ran is not missed"
    others = [line for line in played.complaints if line.what not in ("missed", "skew")]
    assert others == []


@plays(idle)
def test_an_idle_fleet_of_a_hundred_jobs_changes_nothing_in_the_store(
    played: tuple[int, int, list[Line]],
) -> None:
    before, after, lines = played
    assert after == before
    assert lines == []
