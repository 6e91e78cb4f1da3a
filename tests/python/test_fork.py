"""Processes that fork: created before and started after is fine, started before is refused."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

PRELOAD = """
    import json, os, sys, time
    from anarchon import Scheduler

    scheduler = Scheduler(backend="sqlite:jobs.db")

    @scheduler.every("tick", "200ms", jitter_ms="20ms")
    def tick(ctx):
        with open(f"log-{os.getpid()}", "a") as log:
            log.write(f"{ctx.slot}\\n")

    {before}
    children = []
    for _ in range(4):
        child = os.fork()
        if child == 0:
            scheduler.sync.start()
            scheduler.sync.ready()
            time.sleep(2)
            scheduler.sync.stop()
            os._exit(0)
        children.append(child)
    statuses = [os.waitpid(child, 0)[1] for child in children]
    print(json.dumps(statuses))
"""


def slots_of(folder: Path) -> list[int]:
    """What the handlers of all processes wrote down."""
    return [int(line) for log in folder.glob("log-*") for line in log.read_text().split()]


def test_a_scheduler_made_at_import_is_started_in_each_child(
    program: Callable[..., Any], tmp_path: Path
) -> None:
    # Case B07, as gunicorn does it with preload_app and four workers.
    ended = program(PRELOAD.replace("{before}", ""))
    assert ended.status == 0, ended
    assert json.loads(ended.output) == [0, 0, 0, 0], ended
    slots = slots_of(tmp_path)
    assert len(slots) >= 5
    assert len(slots) == len(set(slots)), "a slot ran twice"


def test_the_children_have_names_and_tokens_of_their_own(
    program: Callable[..., Any], tmp_path: Path
) -> None:
    # The parent has used the runtime and the loop of ours before the fork.
    before = """
    other = Scheduler(backend="memory:")
    other.every("job", "1h", lambda: "fine")
    with other.sync as sync:
        assert sync.run_now("job").output == '"fine"'
    """
    ended = program(PRELOAD.replace("{before}", before.strip()))
    assert ended.status == 0, ended
    assert json.loads(ended.output) == [0, 0, 0, 0], ended
    with sqlite3.connect(tmp_path / "jobs.db") as database:
        tables = [row[0] for row in database.execute("SELECT name FROM sqlite_master")]
    assert tables
    slots = slots_of(tmp_path)
    assert len(slots) == len(set(slots))


def test_a_started_scheduler_is_refused_in_a_child(program: Callable[..., Any]) -> None:
    ended = program(
        """
        import asyncio, os, sys
        from anarchon import ForkedError, Scheduler

        scheduler = Scheduler(backend="sqlite:jobs.db")
        scheduler.every("tick", "1h", lambda: "fine")
        scheduler.sync.start()
        pid = os.fork()
        if pid == 0:
            calls = [
                scheduler.sync.start,
                lambda: scheduler.sync.run_now("tick"),
                lambda: scheduler.sync.history("tick"),
                scheduler.sync.stop,
                lambda: scheduler.every("tock", "1h", print),
                lambda: scheduler.remove("tick"),
                lambda: asyncio.run(scheduler.start()),
            ]
            refused = 0
            for call in calls:
                try:
                    call()
                except ForkedError as error:
                    refused += "after the fork" in str(error)
            # Another one, made here, is as good as ever.
            own = Scheduler(backend="sqlite:jobs.db")
            own.every("own", "1h", lambda: "fine")
            with own.sync as sync:
                fine = sync.run_now("own").status == "succeeded"
            sys.stdout.write(f"child {refused} {fine} {scheduler.running}\\n")
            sys.exit(0)
        assert os.waitpid(pid, 0)[1] == 0
        # The parent is unaffected.
        print("parent", scheduler.sync.run_now("tick").status)
        scheduler.sync.stop()
        """
    )
    assert ended.status == 0, ended
    assert ended.output == "child 7 True False\nparent succeeded\n", ended


def test_a_child_of_a_running_loop_ends_without_a_word(program: Callable[..., Any]) -> None:
    ended = program(
        """
        import asyncio, multiprocessing
        from anarchon import Scheduler

        scheduler = Scheduler(backend="memory:")
        scheduler.every("tick", "100ms", lambda: None)

        def child(): return

        async def main():
            async with scheduler:
                for _ in range(5):
                    process = multiprocessing.get_context("fork").Process(target=child)
                    process.start()
                    await asyncio.to_thread(process.join)
                    assert process.exitcode == 0
                print((await scheduler.run_now("tick")).status)

        asyncio.run(main())
        """
    )
    assert (ended.status, ended.output, ended.errors) == (0, "succeeded\n", ""), ended
