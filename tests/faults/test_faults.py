"""Replicas that are killed, stopped and blocked in the middle of a run, in either language.

Each scenario has one job with a single slot, a victim that is alone when it is due, and two heirs,
one in each language, that come while it runs and so know from the store who holds it.
"""

from __future__ import annotations

import signal
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from fleet.processes import Fleet, Line
from fleet.scenarios import plays

LEASE = 3_000
# A handler that blocks its process goes on until the heirs have long been there.
BLOCKED = 6 * LEASE
# How long a victim has for its start, on a machine that starts several of them.
START_S = 10
HEIRS = ("py-heir", "node-heir")


@dataclass
class Outcome:
    """What a scenario left behind."""

    lines: list[Line]
    run: dict[str, Any]
    struck_at: int = 0

    def starts(self) -> list[Line]:
        """The starts of the handler, by time."""
        return [line for line in self.lines if line.what == "start"]


def job(slot: int, work: str, ms: int) -> list[dict[str, Any]]:
    """The job, with the work of the victim or of an heir."""
    options = {"leaseMs": LEASE, "jitterMs": 0, "maxLateMs": 30_000}
    return [
        {"name": "work", "kind": "at", "when": slot, "work": work, "ms": ms, "options": options}
    ]


def begin(fleet: Fleet, victim: str, work: str, ms: int, grace_ms: int = 20_000) -> None:
    """Starts the victim, waits until it is in the middle of the run, and starts its heirs.

    Were the heirs there when the slot is due, a jitter could not keep them behind the victim: its
    wait is drawn from nothing upwards.
    """
    slot = (int(time.time()) + START_S) * 1_000
    fleet.start(victim, job(slot, work, ms), grace_ms)
    fleet.wait_for("ready", victim)
    assert time.time() * 1000 < slot, f"the machine was too slow to start {victim} in {START_S} s"
    fleet.wait_for("start", victim)
    # An heir's work is short: it is to be seen, not to last. Who is ready knows who holds the run.
    fleet.start_all(HEIRS, job(slot, "sleep", 100))
    ended = fleet.lines("end")
    assert not ended, f"the machine was too slow to start two heirs within the run: {ended}"


def close(fleet: Fleet, struck_at: int = 0) -> Outcome:
    """Waits for the end of the run, stops the living, and gathers what is left."""
    fleet.wait(lambda line: line.what == "end", "the run ends")
    fleet.stop()
    runs = fleet.stored("work")
    assert len(runs) == 1, runs
    return Outcome(fleet.lines(), runs[0], struck_at)


def killed(folder: Path, victim: str) -> Outcome:
    """The holder is killed."""
    with Fleet(folder) as fleet:
        begin(fleet, victim, "sleep", 30_000)
        struck_at = fleet.replicas[victim].send(signal.SIGKILL)
        return close(fleet, struck_at)


def stopped(folder: Path, victim: str) -> Outcome:
    """The holder is asked to stop, and its handler obeys."""
    with Fleet(folder) as fleet:
        begin(fleet, victim, "sleep", 30_000, grace_ms=300)
        struck_at = fleet.replicas[victim].send(signal.SIGTERM)
        return close(fleet, struck_at)


def stubborn(folder: Path, victim: str) -> Outcome:
    """The holder is asked to stop, and its handler goes on for longer than stop() waits."""
    with Fleet(folder) as fleet:
        begin(fleet, victim, "ignore", 20_000, grace_ms=300)
        struck_at = fleet.replicas[victim].send(signal.SIGTERM)
        return close(fleet, struck_at)


def blocked(folder: Path, victim: str, work: str) -> Outcome:
    """The handler lets nothing else run in its process for several leases."""
    with Fleet(folder) as fleet:
        begin(fleet, victim, work, BLOCKED)
        return close(fleet)


# What blocks takes a processor for itself, which the others need to be in time.
blocked.wave = 1  # type: ignore[attr-defined]


def of(scenario: Any, *arguments: str) -> Any:
    """A parameter that plays a scenario."""
    return pytest.param(arguments[0], marks=plays(scenario, *arguments), id="-".join(arguments))


EACH_LANGUAGE = ("py-victim", "node-victim")


@pytest.mark.parametrize("victim", [of(killed, victim) for victim in EACH_LANGUAGE])
def test_a_killed_holders_run_is_taken_over_within_its_lease_and_two_seconds(
    played: Outcome, victim: str
) -> None:
    first, second = played.starts()
    assert (first.by, first.attempt, second.attempt) == (victim, 1, 2)
    assert second.by in HEIRS
    assert second.trigger == "takeover"
    assert second.fence > first.fence
    assert second.at - played.struck_at <= LEASE + 2_000
    assert (played.run["status"], played.run["attempt"], played.run["crashes"]) == (
        "succeeded",
        2,
        1,
    )
    assert played.run["held_by"] == second.by


@pytest.mark.parametrize("victim", [of(stopped, victim) for victim in EACH_LANGUAGE])
def test_a_stopped_holder_hands_its_run_over_without_a_crash(played: Outcome, victim: str) -> None:
    first, second = played.starts()
    assert (first.by, first.attempt, second.attempt) == (victim, 1, 2)
    assert [line.by for line in played.lines if line.what == "cancelled"] == [victim]
    report = next(line for line in played.lines if line.what == "stopped" and line.by == victim)
    assert (report.released, report.still_running) == (1, 0)
    assert second.at - played.struck_at <= LEASE + 2_000
    assert (played.run["status"], played.run["attempt"], played.run["crashes"]) == (
        "succeeded",
        2,
        0,
    )


@pytest.mark.parametrize("victim", [of(stubborn, victim) for victim in EACH_LANGUAGE])
def test_a_handler_that_ignores_its_cancellation_keeps_its_lease(
    played: Outcome, victim: str
) -> None:
    assert [(line.by, line.attempt) for line in played.starts()] == [(victim, 1)]
    report = next(line for line in played.lines if line.what == "stopped" and line.by == victim)
    assert (report.released, report.still_running) == (0, 1)
    ended = next(line for line in played.lines if line.what == "end")
    assert report.at < ended.at, "stop() returns while the handler still runs"
    assert (played.run["attempt"], played.run["crashes"]) == (1, 0)
    assert played.run["status"] == "succeeded"


@pytest.mark.parametrize(
    "victim",
    [
        of(blocked, "py-victim", "block"),
        of(blocked, "py-victim", "hold"),
        of(blocked, "node-victim", "block"),
    ],
)
def test_a_handler_that_blocks_its_process_keeps_its_lease(played: Outcome, victim: str) -> None:
    assert [(line.by, line.attempt) for line in played.starts()] == [(victim, 1)]
    there = max(line.at for line in played.lines if line.what == "ready" and line.by in HEIRS)
    ended = next(line.at for line in played.lines if line.what == "end")
    assert ended - there >= 2 * LEASE, "the heirs came too late to see what they are to see"
    assert [line for line in played.lines if line.what in ("lease_lost", "takeover")] == []
    assert (played.run["status"], played.run["attempt"], played.run["crashes"]) == (
        "succeeded",
        1,
        0,
    )
