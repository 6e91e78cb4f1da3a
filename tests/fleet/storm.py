"""A storm: many jobs of every second on one store, while replicas are killed and started.

What the handlers really did is in the log of each process; a run that two processes started, a slot
that nobody did, and what the store says of either are found by comparing.
"""

from __future__ import annotations

import random
import signal
import time
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .processes import PATIENCE, Fleet, Line, between_slots, slots_between
from .stores import Store

LANGUAGES = ("py", "node", "rust")
SECOND = 1_000
# A call may take a sixth of it: with less a busy machine would give up what it has nearly done.
LEASE = 20_000
# What is taken over is taken over within this: a lease, and the look after it.
CALM = LEASE / 1_000 + 5
# How long after its time a busy machine may come to a slot.
SLOW = 10 * SECOND
Slot = tuple[str, int]


@dataclass
class Storm:
    """What a storm left behind."""

    wanted: list[Slot]
    starts: dict[Slot, list[Line]]
    kills: int
    # Runs of which two starts are not explained by a kill.
    doubled: dict[Slot, list[Line]] = field(default_factory=dict)
    # Slots that nobody started, and what is known of them: a status, or "reported".
    lost: dict[Slot, str] = field(default_factory=dict)
    # Slots of which neither a log nor the store knows.
    silent: list[Slot] = field(default_factory=list)
    # Slots of which the store says something else than the logs.
    disputed: dict[Slot, dict[str, Any]] = field(default_factory=dict)

    def __str__(self) -> str:
        again = sum(len(lines) > 1 for lines in self.starts.values())
        return (
            f"{len(self.wanted)} slots, {self.kills} replicas killed, {again} runs taken over "
            f"after a start, {len(self.doubled)} doubled, {len(self.lost)} lost and known "
            f"{dict(Counter(self.lost.values()))}, "
            f"{len(self.silent)} silent, {len(self.disputed)} disputed"
        )


def jobs(count: int, seconds: float, store: Store) -> list[dict[str, Any]]:
    """The jobs: every record is to be there in the end, and a busy machine is not late."""
    options: dict[str, Any] = {"historySize": int(seconds) * 2 + 100, "maxLateMs": 30_000}
    if store.has_leases:
        options |= {"leaseMs": LEASE, "overlap": "allow"}
    return [
        {
            "name": f"storm-{number}",
            "kind": "every",
            "when": "1s",
            "work": "quick",
            "options": options,
        }
        for number in range(count)
    ]


def play(folder: Path, store: Store, count: int, seconds: float, seed: int) -> Storm:
    """Kills and starts replicas for so long, then lets the survivors finish."""
    chance = random.Random(seed)
    work = jobs(count, seconds, store)
    with Fleet(folder, store) as fleet:
        current = {language: f"{language}-0" for language in LANGUAGES}
        fleet.start_all(current.values(), work)
        killed: dict[str, int] = {}
        begin, end = between_slots(), time.monotonic() + seconds
        while time.monotonic() < end:
            time.sleep(chance.uniform(0.5, 3.0))
            language = chance.choice(LANGUAGES)
            victim = fleet.replicas[current[language]]
            killed[victim.id] = victim.send(signal.SIGKILL)
            victim.process.wait()
            current[language] = f"{language}-{len(killed)}"
            fleet.start(current[language], work)
            # The next victim falls when the fleet is whole again.
            fleet.wait_for("ready", current[language])
        slots = slots_between(begin, between_slots(), SECOND)
        wanted = [(job["name"], slot) for job in work for slot in slots]
        calm_down(fleet, wanted)
        fleet.stop()
        return judge(fleet, store, wanted, killed)


def calm_down(fleet: Fleet, wanted: list[Slot]) -> None:
    """Waits until what a killed replica held has been taken over, and a busy machine has come to
    the last slot."""
    time.sleep(CALM)
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        known = {(line.job, line.slot) for line in fleet.lines("start")}
        if known.union(reports(fleet)).issuperset(wanted):
            return
        time.sleep(2)


def judge(fleet: Fleet, store: Store, wanted: list[Slot], killed: dict[str, int]) -> Storm:
    """Compares the logs with each other and with the store."""
    starts: dict[Slot, list[Line]] = defaultdict(list)
    for line in fleet.lines("start"):
        starts[line.job, line.slot].append(line)
    reported = set(reports(fleet))
    storm = Storm(wanted, starts, len(killed))
    for slot, lines in starts.items():
        # A run is started again after its holder was killed, and as another attempt.
        widows = all(line.by in killed for line in lines[:-1])
        attempts = len({line.attempt for line in lines}) == len(lines)
        if len(lines) > 1 and not (store.has_leases and widows and attempts):
            storm.doubled[slot] = lines
    history = fleet.place.history({job for job, _ in wanted})
    stored = {(job, run["slot"]): run for job, runs in history.items() for run in runs}
    for slot in wanted:
        run = stored.get(slot)
        if slot in starts:
            last = starts[slot][-1]
            if not agree(run, last, killed, store):
                storm.disputed[slot] = {"stored": run, "started": last}
        elif run is not None:
            storm.lost[slot] = run["status"]
        elif slot in reported:
            storm.lost[slot] = "reported"
        elif not store.has_leases and in_a_killed_hand(slot[1], killed.values()):
            storm.lost[slot] = "claimed by a killed replica"
        else:
            storm.silent.append(slot)
    return storm


def agree(run: dict[str, Any] | None, last: Line, killed: Collection[str], store: Store) -> bool:
    """Whether the store tells of a run what its last holder's log does."""
    # Without leases nobody goes on with what a killed replica had begun, and where a claim is no
    # record in itself, it may have been killed before it wrote one.
    unended = not store.has_leases and last.by in killed
    if run is None:
        return unended
    return run["held_by"] == last.by and (run["status"] == "succeeded" or unended)


def in_a_killed_hand(slot: int, kills: Iterable[int]) -> bool:
    """Whether a replica that was killed may have claimed the slot just before."""
    return any(slot <= at <= slot + SLOW for at in kills)


def reports(fleet: Fleet) -> list[Slot]:
    """The slots that some replica reported as missed."""
    found = []
    for line in fleet.lines("missed"):
        event = line.event
        first = event["from"] if "from" in event else event["from_"]
        found += [(event["job"], slot) for slot in slots_between(first, event["to"], SECOND)]
    return found
