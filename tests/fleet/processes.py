"""Starts replicas as processes, reads their logs, and compares these with their store."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .stores import SQLITE, Store

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
# Built with everything else of the workspace.
PROFILE = "release" if os.environ.get("PROFILE") == "release" else "debug"
RUST = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / PROFILE / "fleet_replica"
# What the name of a replica begins with is its language.
PROGRAMS = {
    "py": [sys.executable, str(HERE / "replica.py")],
    "node": ["node", str(HERE / "replica.mjs")],
    "rust": [str(RUST)],
}
# How long anything may take that should happen "at once", on a machine that is busy with tests.
PATIENCE = 60.0


@dataclass(frozen=True)
class Line:
    """One line of a replica's log. `what`: ready, start, end, cancelled, stopped, or an event."""

    what: str
    by: str
    at: int
    job: str = ""
    slot: int = 0
    attempt: int = 0
    fence: int = 0
    trigger: str = ""
    event: Any = None
    released: int = 0
    still_running: int = 0


@dataclass
class Replica:
    """One process of a fleet."""

    id: str
    process: subprocess.Popen[bytes]
    log: Path
    output: Path
    asked_to_stop: bool = False
    read_to: int = 0
    lines: list[Line] = field(default_factory=list)

    def read(self) -> list[Line]:
        """All lines so far."""
        if self.log.exists():
            text = self.log.read_text(encoding="utf-8")
            whole = text[self.read_to : text.rfind("\n") + 1]
            self.read_to += len(whole)
            self.lines += [Line(**json.loads(line)) for line in whole.splitlines()]
        return self.lines

    def send(self, number: signal.Signals) -> int:
        """Sends a signal; answers when (ms)."""
        at = int(time.time() * 1000)
        if number == signal.SIGTERM and self.process.stdin is not None:
            # A Rust replica stops when nobody holds its standard input.
            self.process.stdin.close()
        else:
            self.process.send_signal(number)
        self.asked_to_stop |= number == signal.SIGTERM
        return at

    def said(self) -> str:
        """What it printed: nothing, unless something is wrong."""
        return self.output.read_text(encoding="utf-8", errors="replace")


class Fleet:
    """Several replicas on one store. As a context manager it leaves no process behind."""

    def __init__(self, folder: Path, store: Store = SQLITE) -> None:
        self.folder = folder
        self.place = store.place(folder)
        self.replicas: dict[str, Replica] = {}

    def __enter__(self) -> Fleet:
        return self

    def __exit__(self, *_: object) -> None:
        for replica in self.replicas.values():
            if replica.process.poll() is None:
                replica.process.send_signal(signal.SIGCONT)
                replica.process.kill()
            replica.process.wait()
            if replica.process.stdin is not None:
                replica.process.stdin.close()

    def start(self, id: str, jobs: list[dict[str, Any]], grace_ms: int = 20_000) -> Replica:
        """Starts a replica; `id` begins with `py`, `node` or `rust`, which is its language."""
        log = self.folder / f"{id}.log"
        output = self.folder / f"{id}.out"
        config = {
            "id": id,
            "url": self.place.url,
            "log": str(log),
            "jobs": jobs,
            "graceMs": grace_ms,
        }
        language = id.split("-")[0]
        with output.open("wb") as sink:
            process = subprocess.Popen(
                [*PROGRAMS[language], json.dumps(config)],
                stdin=subprocess.PIPE if language == "rust" else subprocess.DEVNULL,
                stdout=sink,
                stderr=subprocess.STDOUT,
                env={**os.environ, "PYTHONUNBUFFERED": "1"},
            )
        replica = Replica(id, process, log, output)
        self.replicas[id] = replica
        return replica

    def start_all(self, ids: Iterable[str], jobs: list[dict[str, Any]], **more: int) -> None:
        """Starts replicas and waits until each is ready."""
        names = list(ids)
        for id in names:
            self.start(id, jobs, **more)
        for id in names:
            self.wait_for("ready", id)

    def wait_for(self, what: str, by: str) -> Line:
        """Waits until a replica says this word."""
        return self.wait(lambda line: (line.what, line.by) == (what, by), f"{by}: {what}")

    def lines(self, *what: str, job: str | None = None) -> list[Line]:
        """What the logs say, by time."""
        found = [
            line
            for replica in self.replicas.values()
            for line in replica.read()
            if (not what or line.what in what) and (job is None or line.job == job)
        ]
        return sorted(found, key=lambda line: line.at)

    def wait(self, wanted: Callable[[Line], bool], name: str, seconds: float = PATIENCE) -> Line:
        """Waits for a line."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            for line in self.lines():
                if wanted(line):
                    return line
            for replica in self.replicas.values():
                status = replica.process.poll()
                if status not in (None, 0, -signal.SIGKILL):
                    raise AssertionError(f"{replica.id} ended ({status}): {replica.said()}")
            time.sleep(0.02)
        raise AssertionError(f"not seen in {seconds} s: {name}; the logs: {self.lines()}")

    def stop(self) -> None:
        """Asks all that live to stop and checks that they end well and have printed nothing."""
        alive = [r for r in self.replicas.values() if r.process.poll() is None]
        for replica in alive:
            # A second one would reach a process that is about to leave, and no longer listens.
            if not replica.asked_to_stop:
                replica.send(signal.SIGTERM)
        for replica in alive:
            status = replica.process.wait(timeout=PATIENCE)
            assert (status, replica.said()) == (0, ""), f"{replica.id}: {status} {replica.said()}"

    def stored(self, job: str) -> list[dict[str, Any]]:
        """The runs of a job as the store has them, by slot."""
        return self.place.stored(job)


def between_slots() -> int:
    """Waits for the middle of a second, where no slot is under way; answers when that is (ms)."""
    time.sleep((1.5 - time.time() % 1) % 1 or 1)
    return int(time.time() * 1000)


def slots_between(begin: int, end: int, period: int) -> list[int]:
    """The multiples of `period` in `[begin, end]` (ms)."""
    return list(range(-(-begin // period) * period, end + 1, period))


def assert_each_once(fleet: Fleet, job: str, slots: list[int]) -> None:
    """Each slot was started exactly once, by its handler and in the store alike."""
    started = Counter(line.slot for line in fleet.lines("start", job=job))
    wrong = {slot: started[slot] for slot in slots if started[slot] != 1}
    assert not wrong, f"starts per slot, where not one: {wrong}; {fleet.lines()}"
    doubled = {slot: count for slot, count in started.items() if count > 1}
    assert not doubled, f"slots that were started more than once: {doubled}"
    stored = {run["slot"]: run for run in fleet.stored(job)}
    by = {line.slot: line.by for line in fleet.lines("start", job=job)}
    for slot in slots:
        run = stored[slot]
        told = (run["status"], run["attempt"], run["held_by"])
        assert told == ("succeeded", 1, by[slot]), f"the store says of {slot}: {run}"


def missed_slots(fleet: Fleet, job: str, period: int) -> set[int]:
    """The slots that some replica reported as missed."""
    found: set[int] = set()
    for line in fleet.lines("missed"):
        event = line.event
        if event["job"] == job:
            first, last = event["from" if "from" in event else "from_"], event["to"]
            found.update(slots_between(first, last, period))
    return found
