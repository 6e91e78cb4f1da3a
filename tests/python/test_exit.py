"""The end of the interpreter: clean, whatever is running."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

ENVIRONMENT = {name: v for name, v in os.environ.items() if not name.startswith("ANARCHON_")}
# How often each way out is taken; ANARCHON_TEST_EXITS=200 for the whole case.
TIMES = int(os.environ.get("ANARCHON_TEST_EXITS", "8"))

BEGIN = """
    import asyncio, os, sys, threading, time
    from anarchon import Scheduler

    scheduler = Scheduler(backend="memory:")
    busy = threading.Event()

    @scheduler.every("async", "100ms", jitter_ms=0, overlap="allow", lease_ms="1s")
    async def waiting():
        await asyncio.sleep(0.01)

    @scheduler.every("plain", "100ms", jitter_ms=0, overlap="allow", lease_ms="1s")
    def plain(ctx):
        busy.set()
        while not ctx.wait_cancelled(5):
            ctx.cancel_reason

    @scheduler.every("spin", "100ms", jitter_ms=0, overlap="allow")
    def spin():
        end = time.monotonic() + 0.05
        while time.monotonic() < end: pass
"""

WAYS = {
    "main returns from a daemon loop": """
        scheduler.sync.start()
        busy.wait()
    """,
    "asyncio.run returns without a stop": """
        async def main():
            await scheduler.start()
            await asyncio.to_thread(busy.wait)
        asyncio.run(main())
    """,
    "sys.exit in a daemon loop": """
        scheduler.sync.start()
        busy.wait()
        sys.exit(0)
    """,
    "sys.exit in asyncio.run": """
        async def main():
            await scheduler.start()
            await asyncio.to_thread(busy.wait)
            sys.exit(0)
        asyncio.run(main())
    """,
    "daemon threads that ask": """
        scheduler.sync.start()
        def ask():
            while True:
                scheduler.sync.history("plain")
                scheduler.sync.run_now("async", force=True)
        for _ in range(4):
            threading.Thread(target=ask, daemon=True).start()
        busy.wait()
    """,
    "a loop in a thread of the user's": """
        async def main():
            await scheduler.start()
            await asyncio.Event().wait()
        threading.Thread(target=asyncio.run, args=(main(),), daemon=True).start()
        busy.wait()
    """,
    "stopped at exit": """
        import atexit
        atexit.register(lambda: scheduler.sync.stop(grace_ms=0))
        scheduler.sync.start()
        busy.wait()
    """,
    "a spawned process": """
        import multiprocessing
        def child():
            scheduler.sync.start()
            busy.wait()
        if __name__ == "__main__":
            process = multiprocessing.get_context("spawn").Process(target=child)
            process.start()
            process.join()
            sys.exit(process.exitcode)
    """,
}


@pytest.mark.parametrize("way", WAYS)
def test_the_interpreter_ends_cleanly(way: str, tmp_path: Path) -> None:
    # Case B04: no crash, status 0, and no waiting for what runs.
    file = tmp_path / "program.py"
    file.write_text(textwrap.dedent(BEGIN) + textwrap.dedent(WAYS[way]), encoding="utf-8")

    def end(_number: int) -> tuple[int, str]:
        ended = subprocess.run(
            [sys.executable, "-X", "faulthandler", str(file)],
            cwd=tmp_path,
            env=ENVIRONMENT,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        return ended.returncode, ended.stderr

    with ThreadPoolExecutor(2) as pool:
        for status, errors in pool.map(end, range(TIMES)):
            assert status == 0, errors
            assert "panicked" not in errors
            assert "Traceback" not in errors
            assert "never awaited" not in errors


RUN = """
    import asyncio, sys, time
    from anarchon import Scheduler

    scheduler = Scheduler(backend="memory:")

    @scheduler.every("job", "1h")
    async def job():
        print("entered", flush=True)
        {body}

    @scheduler.on("started")
    def started(event): ...

    async def begin():
        while not scheduler.running:
            await asyncio.sleep(0.01)
        await scheduler.ready()
        await scheduler.run_now("job")

    import threading
    def ask():
        while not scheduler.running: time.sleep(0.01)
        try:
            scheduler.sync.ready()
            record = scheduler.sync.run_now("job")
            print(record.status, flush=True)
        except Exception as error:
            print(type(error).__name__, flush=True)
    thread = threading.Thread(target=ask)
    thread.start()
    report = scheduler.run(grace_ms={grace})
    thread.join()
    print("stopped", len(report.finished), len(report.released), flush=True)
"""


def begin(tmp_path: Path, body: str, grace: str) -> subprocess.Popen[str]:
    """A program in `run()` whose handler has been entered."""
    file = tmp_path / "program.py"
    file.write_text(textwrap.dedent(RUN).format(body=body, grace=grace), encoding="utf-8")
    process = subprocess.Popen(
        [sys.executable, str(file)],
        cwd=tmp_path,
        env=ENVIRONMENT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "entered\n", process.communicate()[1]
    return process


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_run_and_lets_handlers_end(tmp_path: Path, number: signal.Signals) -> None:
    process = begin(tmp_path, "await asyncio.sleep(0.3)", "None")
    process.send_signal(number)
    output, errors = process.communicate(timeout=30)
    assert (process.returncode, output) == (0, "succeeded\nstopped 1 0\n"), errors


def test_a_handler_that_does_not_end_is_cancelled_after_the_grace(tmp_path: Path) -> None:
    process = begin(tmp_path, "await asyncio.sleep(3600)", "'100ms'")
    process.send_signal(signal.SIGTERM)
    output, errors = process.communicate(timeout=30)
    assert process.returncode == 0, errors
    assert output == "cancelled\nstopped 1 0\n", errors


@pytest.mark.parametrize("body", ["await asyncio.sleep(3600)", "time.sleep(3600)"])
def test_a_second_signal_ends_the_process_at_once(tmp_path: Path, body: str) -> None:
    process = begin(tmp_path, body, "None")
    process.send_signal(signal.SIGTERM)
    # The first one has been taken when the second comes: signals of one kind are joined.
    time.sleep(0.3)
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=30)
    assert process.returncode == -signal.SIGTERM


def test_run_says_where_it_cannot_run(program: Callable[..., Any]) -> None:
    ended = program(
        """
        import asyncio, threading, time
        from anarchon import Scheduler

        scheduler = Scheduler(backend="memory:")

        async def main():
            try:
                scheduler.run()
            except RuntimeError as error:
                print("async with" in str(error))

        asyncio.run(main())

        # In another thread it handles no signals, and ends when somebody stops it.
        thread = threading.Thread(target=lambda: print(scheduler.run().finished))
        thread.start()
        while not scheduler.running:
            time.sleep(0.01)
        scheduler.sync.stop()
        thread.join()
        """
    )
    assert (ended.status, ended.output) == (0, "True\n()\n"), ended
