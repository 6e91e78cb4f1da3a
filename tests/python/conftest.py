"""What the Python tests share."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import textwrap
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
from anarchon import MemoryBackend, Scheduler
from anarchon.testing import ManualClock

ENVIRONMENT = {name: v for name, v in os.environ.items() if not name.startswith("ANARCHON_")}
PATIENCE = 60


class Ended:
    """A program that has ended."""

    def __init__(self, status: int, output: str, errors: str) -> None:
        self.status = status
        self.output = output
        self.errors = errors

    def __repr__(self) -> str:
        return f"status {self.status}\n--- output\n{self.output}\n--- errors\n{self.errors}"


@pytest.fixture
def program(tmp_path: Path) -> Callable[..., Ended]:
    """Runs a Python program to its end in a folder of its own."""

    def run(code: str, *arguments: str) -> Ended:
        file = tmp_path / "program.py"
        file.write_text(textwrap.dedent(code), encoding="utf-8")
        ended = subprocess.run(
            [sys.executable, "-X", "faulthandler", str(file), *arguments],
            cwd=tmp_path,
            env=ENVIRONMENT,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
        return Ended(ended.returncode, ended.stdout, ended.stderr)

    return run


@pytest.fixture
def clock() -> ManualClock:
    """A clock that shows one second past midnight: no job with round times is due."""
    return ManualClock(1_767_225_601_000)


@pytest.fixture
async def scheduler(clock: ManualClock) -> AsyncIterator[Scheduler]:
    """A scheduler on a manual clock, stopped at the end of the test."""
    scheduler = Scheduler(backend=MemoryBackend(clock=clock), clock=clock, instance_id="a")
    yield scheduler
    # The clock stands still: a stop that waits for handlers is moved on.
    stopping = asyncio.ensure_future(scheduler.stop(grace_ms=0))
    while not stopping.done():
        await clock.advance("1s")
    await stopping
