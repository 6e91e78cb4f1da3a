"""`make bench`: runs the parts of the benchmark and prints one table, ratios beside the figures.

Whatever is compared was measured in one run of one process, in turn, on the same settings; between
languages the figures are from the same minutes on the same machine.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
Figures = dict[tuple[str, str], tuple[float, str]]

LANGUAGES = ("rust", "python", "node")
PLAIN = "one handler call, plain function"
HOSTS = ("python", "node")
HOST_CALL = "host backend: one call"
CRONER = "lateness p50: bare croner timer"
COMMITS = f"{CRONER} and two commits"
# The bare minimum of each store: what takes a slot, and the ways to look who has it.
BY_HAND = "SELECT of a claim by hand"
STORES = {
    "sqlite": ("INSERT … ON CONFLICT DO NOTHING", "SELECT"),
    "postgres": ("INSERT … ON CONFLICT DO NOTHING", BY_HAND, "SELECT"),
    "mysql": ("INSERT IGNORE", BY_HAND, "SELECT"),
    "redis": ("SET NX GET", "GET"),
    "nats": ("publish with expected sequence", "MSG.GET and its JSON"),
    "rabbitmq": ("queue.declare", "passive queue.declare"),
}
Row = tuple[str, str, tuple[str, str] | None]


def rows_of_stores() -> Iterator[Row]:
    """What a store costs."""
    for store, (take, *looks) in STORES.items():
        for connections in ("1 connection", "16 connections"):
            bare = f"{store}: bare {take}, {connections}"
            yield "rust", f"{store}: claims won, {connections}", ("rust", bare)
            turns = f"{store}: claims won by two in turns, {connections}"
            yield "rust", turns, ("rust", bare)
        for look in looks:
            bare = f"{store}: bare {look}, 1 connection"
            yield "rust", f"{store}: claims lost, 1 connection", ("rust", bare)
    for what in (
        "1,000 jobs due at once, 3 replicas",
        "round trips of a winner",
        "round trips of a loser",
        "round trips of an end",
        "round trips of an idle fleet of 3 in 15 s",
        "pings by the clients of an idle fleet of 3 in 15 s",
    ):
        # What a store has no figure of is left out of the table.
        for store in STORES:
            yield "rust", f"{store}: {what}", None


def rows() -> Iterator[Row]:
    """Whose figure, which figure, and the figure it is compared with."""
    yield from rows_of_stores()
    for language in LANGUAGES:
        yield language, "lateness p50 on redis", ("node", f"{CRONER} and SET NX")
    for language in LANGUAGES:
        yield language, "lateness p50 on postgres", ("node", COMMITS)
    for name in ("lateness p50", "lateness p99"):
        for language in LANGUAGES:
            bare = "synced write" if language == "node" else "INSERT"
            yield language, name, (language, f"{name}: bare timer and {bare}")
    for name in (
        "one handler call",
        "one history() call",
        "10,000 jobs: add",
        "10,000 jobs: start until ready",
        "10,000 jobs: memory",
    ):
        for language in LANGUAGES:
            yield language, name, None if language == "rust" else ("rust", name)
    yield "python", PLAIN, ("rust", "one handler call")
    for language in HOSTS:
        yield language, HOST_CALL, (language, "one history() call")
        yield language, f"{HOST_CALL}, 10,000 jobs", (language, HOST_CALL)
        yield language, f"{HOST_CALL}, plain method", (language, HOST_CALL)
        yield language, "host backend: claims/s", None


def measure(command: list[str], environment: dict[str, str]) -> list[dict[str, Any]]:
    """Runs a part of the benchmark and reads its lines."""
    print(f"measuring: {' '.join(command[:4])}", file=sys.stderr, flush=True)
    answer = subprocess.run(
        command, cwd=ROOT, env=environment, check=True, stdout=subprocess.PIPE, text=True
    )
    return [json.loads(line) for line in answer.stdout.splitlines() if line.startswith("{")]


def show(value: float, unit: str) -> str:
    """A figure as a person reads it."""
    if not unit:
        return f"{value:,.0f}"
    digits = 0 if value >= 100 else 1 if value >= 10 else 2
    return f"{value:,.{digits}f} {unit}"


def table(figures: Figures) -> None:
    """Prints all rows; those of a store whose server does not answer are left out."""
    print(f"\n{'what':58} {'figure':>13} {'compared with':>13}   ratio")
    for language, name, other in rows():
        if (language, name) not in figures:
            continue
        title = f"{name}, {language.title()}"
        value, unit = figures[language, name]
        line = f"{title:58} {show(value, unit):>13}"
        if other in figures:
            base, base_unit = figures[other]
            line += f" {show(base, base_unit):>13} {value / base if base else 0:7.2f}"
            line += f"   {other[1].partition(': ')[2] or f'in {other[0].title()}'}"
        print(line)


def main() -> int:
    """Runs everything."""
    profile = os.environ.get("PROFILE", "release")
    flags = ["--release"] if profile == "release" else []
    wanted = [word for name in ("bench", "stores", "late") for word in ("--example", name)]
    subprocess.run(["cargo", "build", "-q", "--workspace", *flags, *wanted], cwd=ROOT, check=True)
    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    built = target / ("release" if flags else "debug") / "examples"
    figures: Figures = {}
    with tempfile.TemporaryDirectory(dir=ROOT / ".build") as folder:
        for command in (
            [sys.executable, str(HERE / "lateness.py"), str(built / "late")],
            # This one removes what the one before has written.
            [str(built / "stores"), folder],
            [str(built / "bench"), folder],
            [sys.executable, str(HERE / "bridge.py"), folder],
            ["node", str(HERE / "bridge.mjs"), folder],
        ):
            for line in measure(command, dict(os.environ)):
                figures[line["language"], line["name"]] = (line["value"], line["unit"])
    print(f"\nprofile {profile}, {os.cpu_count()} cores, Python {sys.version.split()[0]}")
    table(figures)
    return 0


if __name__ == "__main__":
    sys.exit(main())
