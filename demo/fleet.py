"""The demo: two Python replicas and one Node replica share one SQLite file for fifteen seconds.

Every second one of them runs `beat`. In the middle the replica that is running the long job
`report` is killed, and another one takes it over. The summary at the end is computed from the store
and from what the handlers wrote into their own logs; the exit status is 0 only if both agree that
every slot ran exactly once and nothing was lost.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from anarchon import RunRecord, Scheduler

HERE = Path(__file__).resolve().parent
REPLICAS = ("py-1", "py-2", "node-1")
SECONDS = 15
REPORT_AFTER = 4
KILL_AFTER = 1.5


@dataclass(frozen=True)
class Line:
    """One line of a replica's log."""

    what: str
    by: str
    at: int
    job: str = ""
    slot: int = 0
    attempt: int = 0


class Paint:
    """Colours, where there is a terminal to show them."""

    on = sys.stdout.isatty() and "NO_COLOR" not in os.environ

    @classmethod
    def colour(cls, code: int, text: str) -> str:
        """The text in a colour of the terminal."""
        return f"\x1b[{code}m{text}\x1b[0m" if cls.on else text

    @classmethod
    def green(cls, text: str) -> str:
        """What went well."""
        return cls.colour(32, text)

    @classmethod
    def red(cls, text: str) -> str:
        """What died."""
        return cls.colour(31, text)

    @classmethod
    def yellow(cls, text: str) -> str:
        """What is remarkable."""
        return cls.colour(33, text)

    @classmethod
    def dim(cls, text: str) -> str:
        """What is there for orientation."""
        return cls.colour(2, text)


class Fleet:
    """The three processes and their logs."""

    def __init__(self, folder: Path, report_at: int) -> None:
        self.folder = folder
        self.url = f"sqlite://{folder / 'demo.db'}"
        self.read_to = dict.fromkeys(REPLICAS, 0)
        self.lines: list[Line] = []
        self.processes = {
            name: subprocess.Popen(
                [*self.program(name), name, self.url, str(report_at), str(self.log(name))],
                stdin=subprocess.DEVNULL,
                stdout=(folder / f"{name}.out").open("w"),
                stderr=subprocess.STDOUT,
            )
            for name in REPLICAS
        }

    @staticmethod
    def program(name: str) -> list[str]:
        """What runs a replica of this name."""
        if name.startswith("py"):
            return [sys.executable, str(HERE / "replica.py")]
        return ["node", str(HERE / "replica.mjs")]

    def log(self, name: str) -> Path:
        """Where the handlers of a replica write what they did."""
        return self.folder / f"{name}.log"

    def read(self) -> list[Line]:
        """The lines that have been written since the last call."""
        news = []
        for name in REPLICAS:
            if not self.log(name).exists():
                continue
            text = self.log(name).read_text()
            whole = text[self.read_to[name] : text.rfind("\n") + 1]
            self.read_to[name] += len(whole)
            news += [Line(**json.loads(line)) for line in whole.splitlines()]
        news.sort(key=lambda line: line.at)
        self.lines += news
        return news

    def kill(self, name: str) -> None:
        """Ends a replica as a machine that loses its power would."""
        self.processes[name].send_signal(signal.SIGKILL)
        self.processes[name].wait()

    def stop(self) -> list[str]:
        """Asks the living to stop; answers what went wrong with that."""
        problems = []
        alive = {name: p for name, p in self.processes.items() if p.returncode is None}
        for process in alive.values():
            process.send_signal(signal.SIGTERM)
        for name, process in alive.items():
            try:
                status = process.wait(timeout=30)
            except subprocess.TimeoutExpired:
                process.kill()
                status = process.wait()
            if status != 0:
                output = (self.folder / f"{name}.out").read_text()[-2_000:]
                problems.append(f"{name} ended with status {status}:\n{output}")
        return problems


class Picture:
    """One line per second: who ran the slot, and what else happened."""

    def __init__(self) -> None:
        self.dead: set[str] = set()
        self.notes: list[str] = []
        print(Paint.dim("  slot of beat " + "".join(f"{name:^9}" for name in REPLICAS)))

    def clock(self, slot: int) -> str:
        """The slot as a person reads it."""
        return time.strftime("%H:%M:%S", time.localtime(slot / 1000))

    def show(self, line: Line) -> None:
        """A line of a log: a slot's own line, or a remark at the end of the next one."""
        if line.job == "report":
            verb = "starts" if line.what == "start" else "has finished"
            taken = ", taken over" if line.attempt > 1 and line.what == "start" else ""
            self.remark(f"{line.by} {verb} report (attempt {line.attempt}{taken})")
        elif line.job == "beat" and line.what == "start":
            cells = "".join(self.cell(name, line.by) for name in REPLICAS)
            remarks = Paint.yellow("   ".join(self.notes))
            print(f"  {self.clock(line.slot)}     {cells}  {remarks}".rstrip(), flush=True)
            self.notes.clear()

    def remark(self, text: str) -> None:
        """Something to be said beside the next slot."""
        self.notes.append(text)

    def cell(self, name: str, winner: str) -> str:
        """What one replica did with a slot, padded before it is coloured."""
        if name == winner:
            return Paint.green(f"{'●':^9}")
        return Paint.red(f"{'✗':^9}") if name in self.dead else Paint.dim(f"{'·':^9}")


def play(fleet: Fleet, until: float) -> str:
    """Shows the fleet at work and kills whoever is in the middle of `report`."""
    picture = Picture()
    victim, kill_at = "", 0.0
    while (now := time.time()) < until:
        for line in fleet.read():
            picture.show(line)
            if line.job == "report" and line.what == "start" and not victim:
                victim, kill_at = line.by, line.at / 1000 + KILL_AFTER
        if kill_at and now >= kill_at:
            fleet.kill(victim)
            picture.dead.add(victim)
            picture.remark(f"{victim} is killed in the middle of report")
            kill_at = 0.0
        broken = [n for n, p in fleet.processes.items() if p.poll() is not None and n != victim]
        if broken:
            output = (fleet.folder / f"{broken[0]}.out").read_text()[-2_000:]
            sys.exit(f"{broken[0]} ended by itself:\n{output}")
        time.sleep(0.02)
    for remark in picture.notes:
        print(f"  {remark}")
    return victim


async def read_store(url: str) -> tuple[list[RunRecord], list[RunRecord]]:
    """The history of both jobs, read by a scheduler that never starts."""
    reader = Scheduler(backend=url, max_concurrent_runs=0)
    beats = await reader.history("beat", limit=1_000)
    reports = await reader.history("report", limit=10)
    await reader.stop()
    return beats, reports


def check_beats(lines: list[Line], records: list[RunRecord]) -> tuple[str, list[str]]:
    """Every slot of `beat` exactly once, in the logs and in the store alike."""
    started = [line for line in lines if line.job == "beat" and line.what == "start"]
    slots = sorted({line.slot for line in started} | {record.slot for record in records})
    problems = []
    for slot in range(slots[0], slots[-1] + 1_000, 1_000) if slots else []:
        runs = [line.by for line in started if line.slot == slot]
        stored = [record for record in records if record.slot == slot]
        if len(runs) != 1:
            problems.append(f"the handler of beat ran {len(runs)} times for slot {slot}: {runs}")
        if [(r.status, r.by) for r in stored] != [("succeeded", by) for by in runs]:
            problems.append(f"the store says of slot {slot}: {stored}")
    if len(slots) < SECONDS - 4:
        problems.append(f"only {len(slots)} slots of beat in {SECONDS} s")
    share = ", ".join(f"{n} {sum(line.by == n for line in started)}" for n in REPLICAS)
    return f"beat: {len(slots)} slots, {len(started)} runs ({share})", problems


def check_report(lines: list[Line], records: list[RunRecord], victim: str) -> tuple[str, list[str]]:
    """`report` was begun by the victim and finished by another, as attempt 2 of one run."""
    seen = [(line.what, line.by, line.attempt) for line in lines if line.job == "report"]
    if not victim:
        return "report: never started", ["nobody started report"]
    if len(records) != 1:
        return "report: not one run", [f"the store has {len(records)} runs of report: {records}"]
    record = records[0]
    heir = record.by
    expected = [("start", victim, 1), ("start", heir, 2), ("end", heir, 2)]
    problems = []
    if heir == victim or seen != expected:
        problems.append(f"the handlers of report did {seen}")
    if record.status != "succeeded" or record.attempt != 2:
        problems.append(f"the store says of report: {record}")
    text = f"report: {victim} was killed, {heir} took over as attempt {record.attempt}"
    return f"{text}, {record.status}", problems


def main() -> int:
    """Runs the demo."""
    folder = Path(tempfile.mkdtemp(prefix="anarchon-demo-"))
    begin = time.time()
    report_at = (int(begin) + REPORT_AFTER) * 1_000
    print(f"three replicas, one store, no leader: {', '.join(REPLICAS)} on {folder / 'demo.db'}\n")
    fleet = Fleet(folder, report_at)
    try:
        # In the middle of a second no slot of beat is under way: nothing has to be handed over.
        victim = play(fleet, int(begin) + SECONDS + 0.6)
    finally:
        problems = fleet.stop()
    fleet.read()
    beats, reports = asyncio.run(read_store(fleet.url))
    complaints = [line.by for line in fleet.lines if line.what == "complaint"]
    problems += [f"{name} reported a missed slot or an error" for name in complaints]
    print()
    for text, wrong in (
        check_beats(fleet.lines, beats),
        check_report(fleet.lines, reports, victim),
    ):
        problems += wrong
        mark = Paint.red("wrong") if wrong else Paint.green("right")
        print(f"  {mark}  {text}")
    if problems:
        print("\n" + "\n".join(problems) + f"\n\nwhat is left is in {folder}")
        return 1
    print(f"  {Paint.green('right')}  each slot ran exactly once, nothing was lost")
    shutil.rmtree(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
