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
INSERT = "sqlite: bare INSERT … ON CONFLICT DO NOTHING"
PLAIN = "one handler call, plain function"
HOSTS = ("python",)
HOST_CALL = "host backend: one call"


def rows() -> Iterator[tuple[str, str, tuple[str, str] | None]]:
    """Whose figure, which figure, and the figure it is compared with."""
    yield "rust", "sqlite: claims won", ("rust", INSERT)
    yield "rust", "sqlite: claims lost", ("rust", "sqlite: bare SELECT")
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
        yield language, "host backend: claims/s", None
    yield "python", f"{HOST_CALL}, plain method", ("python", HOST_CALL)


def measure(command: list[str], environment: dict[str, str]) -> list[dict[str, Any]]:
    """Runs a part of the benchmark and reads its lines."""
    print(f"measuring: {' '.join(command[:4])}", file=sys.stderr, flush=True)
    answer = subprocess.run(
        command, cwd=ROOT, env=environment, check=True, stdout=subprocess.PIPE, text=True
    )
    return [json.loads(line) for line in answer.stdout.splitlines() if line.startswith("{")]


def show(value: float, unit: str) -> str:
    """A figure as a person reads it."""
    digits = 0 if value >= 100 else 1 if value >= 10 else 2
    return f"{value:,.{digits}f} {unit}"


def table(figures: Figures) -> None:
    """Prints all rows."""
    print(f"\n{'what':42} {'figure':>14} {'compared with':>14}   ratio")
    for language, name, other in rows():
        title = f"{name}, {language.title()}"
        value, unit = figures[language, name]
        line = f"{title:42} {show(value, unit):>14}"
        if other is not None:
            base, base_unit = figures[other]
            line += f" {show(base, base_unit):>14} {value / base if base else 0:7.2f}"
            line += f"   {other[1].partition(': ')[2] or f'in {other[0].title()}'}"
        print(line)


def main() -> int:
    """Runs everything."""
    profile = os.environ.get("PROFILE", "release")
    flags = ["--release"] if profile == "release" else []
    figures: Figures = {}
    with tempfile.TemporaryDirectory(dir=ROOT / ".build") as folder:
        for command in (
            ["cargo", "run", "-q", *flags, "-p", "anarchon-tests", "--example", "bench", folder],
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
