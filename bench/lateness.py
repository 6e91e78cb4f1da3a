"""The lateness part of `make bench`: how long after its slot a handler is entered.

One job every second without jitter on three replicas, in each language, on Redis and PostgreSQL;
and a bare timer of croner, three of them as well, with SET NX in one second and two commits in the
next. All run at the same time, each a part of a second after the other, so that whatever else the
machine does falls on all of them. The figure is the median of five runs' medians: one JSON line per
figure on standard output.

usage: lateness.py RUST_REPLICA
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
SERVERS = {
    "redis": os.environ.get("ANARCHON_TEST_REDIS_URL", "redis://127.0.0.1:6379"),
    "postgres": os.environ.get(
        "ANARCHON_TEST_POSTGRES_URL", "postgres://postgres@127.0.0.1:5432/test"
    ),
}
# Names that the stores' part removes in the end.
QUERIES = {"redis": "prefix=anarchon-bench", "postgres": "table=bench_runs&pool=2"}
LANGUAGES = ("rust", "python", "node")
BARE = {
    "timer": "bare croner timer",
    "redis": "bare croner timer and SET NX",
    "postgres": "bare croner timer and two commits",
}
APART = 150
RUNS = 5
RUN_SECONDS = 16
START_SECONDS = 10


def stores(language: str) -> list[dict[str, Any]]:
    """What a replica of a language does: its job on each store, at an offset of its own."""
    found = []
    for number, (name, url) in enumerate(SERVERS.items()):
        offset = APART * (1 + number * len(LANGUAGES) + LANGUAGES.index(language))
        url = f"{url}?{QUERIES[name]}&namespace=late"
        found.append({"name": name, "url": url, "job": language, "offsetMs": offset})
    return found


def programs(rust: Path) -> dict[str, list[str]]:
    """How a replica of a language is started."""
    return {
        "rust": [str(rust)],
        "python": [sys.executable, str(HERE / "late.py")],
        "node": ["node", str(HERE / "late.mjs")],
    }


def notes(rust: Path, until: int) -> Iterator[dict[str, Any]]:
    """What all processes noted by that instant (ms)."""
    bare = {**SERVERS, "name": f"anarchon-bench:bare:{until}", "until": until}
    commands = []
    for number in range(3):
        commands.append(["node", str(HERE / "bare.mjs"), json.dumps({**bare, "id": str(number)})])
        for language, program in programs(rust).items():
            config = {"id": f"{language}-{number}", "stores": stores(language), "until": until}
            commands.append([*program, json.dumps(config)])
    processes = [subprocess.Popen(c, stdout=subprocess.PIPE, text=True) for c in commands]
    for process, command in zip(processes, commands, strict=True):
        output, _ = process.communicate()
        if process.returncode:
            raise RuntimeError(f"{command[:2]} ended with {process.returncode}")
        for line in output.splitlines():
            if line:
                yield {"bare": "bare.mjs" in command[1], **json.loads(line)}


def main(rust: Path) -> None:
    """Measures. What is said of the bare timer is said as Node's, which it is written in."""
    begin = (int(time.time()) + START_SECONDS) * 1000
    length = RUN_SECONDS * 1000
    runs: dict[tuple[str, str], list[list[float]]] = defaultdict(lambda: [[] for _ in range(RUNS)])
    for note in notes(rust, begin + RUNS * length):
        run = int((note["slot"] - begin) // length)
        if 0 <= run < RUNS:
            on = f": {BARE[note['store']]}" if note["bare"] else f" on {note['store']}"
            name = f"lateness p50{on}"
            runs[note["language"], name][run].append(note["at"] - note["slot"])
    for (language, name), values in runs.items():
        # What is bare asks each store in every other second.
        halved = any(name.endswith(BARE[store]) for store in SERVERS)
        if min(map(len, values)) < RUN_SECONDS // (1 + halved) - 2:
            raise RuntimeError(f"{language}, {name}: too few slots: {list(map(len, values))}")
        late = statistics.median(map(statistics.median, values))
        print(json.dumps({"language": language, "name": name, "value": late, "unit": "ms"}))


main(Path(sys.argv[1]))
