"""The demo ends well, and its summary would say so if it had not."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

from anarchon import RunRecord
from fleet.scenarios import plays

PROGRAM = Path(__file__).resolve().parent.parent.parent / "demo" / "fleet.py"


def load() -> ModuleType:
    """The demo as a module."""
    spec = importlib.util.spec_from_file_location("demo_fleet", PROGRAM)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    # A dataclass looks its module up by name.
    sys.modules["demo_fleet"] = module
    spec.loader.exec_module(module)
    return module


demo = load()
SLOTS = range(1_000, 15_000, 1_000)


def beat(slot: int, by: str = "py-1") -> Any:
    """A handler that started."""
    return demo.Line("start", by, slot, "beat", slot, 1)


def record(slot: int, by: str = "py-1", job: str = "beat", attempt: int = 1) -> RunRecord:
    """A run in the store."""
    return RunRecord(
        job=job, slot=slot, manual=False, by=by, at=slot, status="succeeded", attempt=attempt
    )


BEATS = [beat(slot) for slot in SLOTS]
RECORDS = [record(slot) for slot in SLOTS]
REPORT = [
    demo.Line("start", "py-1", 1, "report", 4_000, 1),
    demo.Line("start", "node-1", 2, "report", 4_000, 2),
    demo.Line("end", "node-1", 3, "report", 4_000, 2),
]
REPORTED = [record(4_000, "node-1", "report", 2)]


def run_demo(folder: Path) -> subprocess.CompletedProcess[str]:
    """The demo, without a terminal."""
    return subprocess.run(
        [sys.executable, str(PROGRAM)], cwd=folder, capture_output=True, text=True, timeout=120
    )


@plays(run_demo)
def test_the_demo_ends_well(played: subprocess.CompletedProcess[str]) -> None:
    assert played.returncode == 0, played.stdout + played.stderr
    assert "was killed" in played.stdout
    assert "as attempt 2" in played.stdout
    assert "each slot ran exactly once" in played.stdout
    assert "\x1b" not in played.stdout, "colours are for terminals"


def test_a_good_fleet_is_called_right() -> None:
    assert demo.check_beats(BEATS, RECORDS)[1] == []
    assert demo.check_report(REPORT, REPORTED, "py-1")[1] == []


def test_a_doubled_slot_is_called_wrong() -> None:
    assert demo.check_beats([*BEATS, beat(5_000, "py-2")], RECORDS)[1]


def test_a_lost_slot_is_called_wrong() -> None:
    lines = [line for line in BEATS if line.slot != 5_000]
    assert demo.check_beats(lines, RECORDS)[1]
    records = [run for run in RECORDS if run.slot != 5_000]
    assert demo.check_beats(lines, records)[1]


def test_a_store_that_names_another_winner_is_called_wrong() -> None:
    records = [replace(run, by="py-2") if run.slot == 5_000 else run for run in RECORDS]
    assert demo.check_beats(BEATS, records)[1]


def test_a_fleet_that_did_nothing_is_called_wrong() -> None:
    assert demo.check_beats([], [])[1]
    assert demo.check_report([], [], "")[1]


def test_a_run_that_was_not_taken_over_is_called_wrong() -> None:
    assert demo.check_report(REPORT[:1], REPORTED, "py-1")[1]
    assert demo.check_report(REPORT, [replace(REPORTED[0], attempt=1)], "py-1")[1]
    assert demo.check_report(REPORT, [replace(REPORTED[0], status="running")], "py-1")[1]
    assert demo.check_report(REPORT, REPORTED * 2, "py-1")[1]


def test_a_killed_holder_that_went_on_is_called_wrong() -> None:
    alive = demo.Line("end", "py-1", 4, "report", 4_000, 1)
    assert demo.check_report([*REPORT, alive], REPORTED, "py-1")[1]
