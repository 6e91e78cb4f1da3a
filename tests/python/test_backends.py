"""The stores that come with the library, as objects."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
from anarchon import (
    Backend,
    ClaimInput,
    InvalidOptionError,
    LeasesRequiredError,
    MemoryBackend,
    NativeBackend,
    RunClaim,
    RunStore,
    Scheduler,
    SqliteBackend,
    StoredResult,
)
from anarchon.testing import case_names, check_backend
from python.tally import tally


@pytest.fixture(params=["memory", "sqlite"])
def backend(request: pytest.FixtureRequest, tmp_path: Path) -> NativeBackend:
    if request.param == "memory":
        return MemoryBackend()
    return SqliteBackend(tmp_path / "jobs.db", pool=2, busy_timeout_ms="1s")


def claim(**more: Any) -> dict[str, Any]:
    """The fields of a claim."""
    return {
        "job": "job",
        "slot": 60_000,
        "token": "t" * 32,
        "instance_id": "a",
        "history_size": 10,
        **more,
    }


async def test_the_contract_member_for_member(backend: NativeBackend) -> None:
    assert isinstance(backend, Backend)
    assert isinstance(backend.runs, RunStore)
    assert backend.dedupe_window_ms == math.inf
    await backend.init()
    await backend.prepare_job("job", 10)
    assert await backend.claim(ClaimInput(**claim()))
    assert await backend.claim(ClaimInput(**claim())), "the same claim sent again is still ours"
    assert not await backend.claim(ClaimInput(**claim(token="u" * 32)))
    assert await backend.record_manual_run(ClaimInput(**claim(token="m" * 32))) is not None
    result = StoredResult(
        slot=60_000, manual=False, by="a", status="succeeded", started_at=60_001, ended_at=60_002
    )
    await backend.save_result("job", result, 10)
    runs = await backend.history("job", 10)
    assert {(run.slot, run.manual) for run in runs} >= {(60_000, False)}
    assert [run.status for run in runs if not run.manual] == ["succeeded"]
    await backend.close()
    await backend.close()


@pytest.mark.parametrize("name", ["memory", "sqlite"])
async def test_the_whole_contract(name: str, tmp_path: Path) -> None:
    memory = MemoryBackend()
    report = await check_backend(
        lambda: memory if name == "memory" else SqliteBackend(tmp_path / "jobs.db"),
        complete=True,
        rounds=3,
        histories=5,
    )
    tally(name, report)
    report.check()
    # All cases of the table, and the one about closing.
    assert [case.status for case in report.cases] == ["passed"] * (len(case_names()) + 1)


async def test_the_leases_member_for_member(backend: NativeBackend) -> None:
    await backend.init()
    await backend.prepare_job("job", 10)
    runs = backend.runs
    asked = RunClaim(**claim(slot=1_000, lease_ms=60_000), kind="slot", max_takeovers=2)
    won = await runs.claim(asked)
    assert (won.kind, won.attempt) == ("won", 1)
    other = RunClaim(**claim(slot=1_000, token="u" * 32), kind="slot", max_takeovers=2)
    assert (await runs.claim(other)).kind == "running"
    assert await runs.heartbeat("job", 1_000, "t" * 32, 60_000)
    assert not await runs.heartbeat("job", 1_000, "u" * 32, 60_000)
    [active] = await runs.active("job")
    assert (active.slot, active.by, active.alive) == (1_000, "a", True)
    survey = await runs.survey("job")
    assert survey.slots == (1_000,)
    assert survey.runs == (active,) or survey.runs[0].slot == 1_000
    assert await runs.finish("job", 1_000, "t" * 32, "failed")
    assert await runs.finish("job", 1_000, "t" * 32, "failed"), "true again when repeated"
    assert not await runs.release("job", 1_000, "t" * 32)
    assert await runs.active("job") == []
    assert not await runs.cancel("job", 1_000, False)
    assert await runs.forget("job")
    await backend.close()


async def test_a_wrong_argument_is_named(backend: NativeBackend) -> None:
    await backend.init()
    with pytest.raises(InvalidOptionError, match="claim: argument 1"):
        await backend.claim(StoredResult(**result_fields()))  # type: ignore[arg-type]
    await backend.close()


def result_fields() -> dict[str, Any]:
    """The fields of a result."""
    return {
        "slot": 1,
        "manual": False,
        "by": "a",
        "status": "succeeded",
        "started_at": 1,
        "ended_at": 2,
    }


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"pool": 0}, "pool"),
        ({"synchronous": "off"}, "off"),
        ({"namespace": "A b"}, "A b"),
        ({"busy_timeout_ms": "soon"}, "soon"),
        ({"table": "drop table;"}, "table"),
    ],
)
def test_a_wrong_option_of_a_store_is_refused(options: dict[str, Any], says: str) -> None:
    with pytest.raises(InvalidOptionError) as refused:
        SqliteBackend("jobs.db", **options)
    assert says in str(refused.value)


@pytest.mark.parametrize("path", ["", ":memory:", b"jobs.db"])
def test_a_wrong_path_is_refused(path: Any) -> None:
    with pytest.raises(InvalidOptionError):
        SqliteBackend(path)


async def test_a_path_may_have_any_characters(tmp_path: Path) -> None:
    folder = tmp_path / "50% off? #1 & ünïcode"
    folder.mkdir()
    scheduler = Scheduler(backend=SqliteBackend(folder / "my jobs.db"))
    scheduler.every("job", "1h", lambda: "fine")
    async with scheduler:
        assert (await scheduler.run_now("job")).status == "succeeded"
    assert (folder / "my jobs.db").exists()


async def test_a_store_is_shared_and_closed_by_its_last_user(tmp_path: Path) -> None:
    backend = SqliteBackend(tmp_path / "jobs.db")
    first, second = (Scheduler(backend=backend, instance_id=name) for name in "ab")
    for scheduler in (first, second):
        scheduler.every("job", "1h", lambda: "fine")
        await scheduler.start()
    assert first.backend is second.backend is backend
    await first.stop()
    assert (await second.run_now("job")).status == "succeeded"
    await second.stop()


async def test_namespaces_do_not_meet(tmp_path: Path) -> None:
    url = f"sqlite:{tmp_path}/jobs.db"
    blue, green = (Scheduler(backend=url, namespace=name) for name in ("blue", "green"))
    for scheduler in (blue, green):
        scheduler.every("job", "1h", lambda: "fine")
    async with blue, green:
        await blue.run_now("job")
        assert len(await blue.history("job")) == 1
        assert await green.history("job") == []
        assert len(await blue.backend.history("job", 10)) == 1  # type: ignore[misc]
        assert await green.backend.history("job", 10) == []  # type: ignore[misc]


async def test_readers_never_create_a_file(tmp_path: Path) -> None:
    reader = Scheduler(backend=f"sqlite:{tmp_path}/jobs.db")
    with pytest.raises(Exception, match=r"jobs\.db") as refused:
        await reader.history("job")
    assert hasattr(refused.value, "code")
    await reader.stop()
    assert list(tmp_path.iterdir()) == []


def test_the_leases_error_is_ours() -> None:
    assert LeasesRequiredError.code == "LEASES_REQUIRED"
