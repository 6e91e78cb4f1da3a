"""Records and errors as Python objects."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle

import anarchon
import pytest
from anarchon import (
    AnarchonError,
    ClaimRecord,
    ErrorInfo,
    MissedRange,
    OverlapError,
    RunRecord,
    StoredResult,
    build_history,
)
from anarchon.errors import error_of_code
from anarchon.records import Record

RECORD = RunRecord(
    job="job",
    slot=5,
    manual=False,
    by="a",
    at=6,
    status="failed",
    started_at=6,
    error=ErrorInfo(name="ValueError", message="no"),
)


def test_a_record_is_written_with_its_own_names_or_those_of_the_wire() -> None:
    assert RECORD.to_dict() == {
        "job": "job",
        "slot": 5,
        "manual": False,
        "by": "a",
        "at": 6,
        "status": "failed",
        "started_at": 6,
        "error": {"name": "ValueError", "message": "no"},
    }
    assert RECORD.to_wire()["startedAt"] == 6
    assert RunRecord._read(RECORD.to_wire()) == RECORD
    missed = MissedRange(from_=1, to=2, count=2, reason="paused", by="a", at=3)
    assert missed.to_dict()["from"] == 1
    assert MissedRange._read(missed.to_wire()) == missed


def test_a_field_of_a_newer_version_is_ignored() -> None:
    assert RunRecord._read({**RECORD.to_wire(), "colour": "blue"}) == RECORD


def test_records_are_frozen_take_keywords_only_and_are_copied() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        RECORD.slot = 7  # type: ignore[misc]
    with pytest.raises(TypeError):
        ClaimRecord(1, "a", 2, False)  # type: ignore[misc]
    assert dataclasses.replace(RECORD, slot=7).slot == 7
    assert pickle.loads(pickle.dumps(RECORD)) == RECORD == copy.deepcopy(RECORD)


def test_every_field_says_what_it_is_in_the_order_of_the_core() -> None:
    kinds = [kind for kind in vars(anarchon).values() if isinstance(kind, type)]
    records = [kind for kind in kinds if issubclass(kind, Record)]
    assert len(records) > 20
    assert all(kind.__doc__ and "(" not in kind.__doc__[:20] for kind in records)


def test_history_is_built_from_claims_and_results() -> None:
    def claim(slot: int, manual: bool = False) -> ClaimRecord:
        return ClaimRecord(slot=slot, by="a", at=slot + 1, manual=manual)

    def result(slot: int, manual: bool = False) -> StoredResult:
        return StoredResult(
            slot=slot, manual=manual, by="a", status="succeeded", started_at=2, ended_at=5
        )

    runs = build_history(
        job="job",
        claims=[claim(1), claim(3), claim(3, manual=True)],
        results=[result(1), result(2), result(3, manual=True)],
        limit=20,
    )
    assert [(run.slot, run.manual, run.status) for run in runs] == [
        (3, True, "succeeded"),
        (3, False, "unfinished"),
        (2, False, "succeeded"),
        (1, False, "succeeded"),
    ]
    assert runs[0].duration_ms == 3
    assert len(build_history(job="job", claims=[claim(1), claim(2)], results=[], limit=1)) == 1
    assert build_history(job="job", claims=(), results=()) == []


def test_there_is_a_class_for_every_code() -> None:
    for code in anarchon._anarchon.error_codes():
        error = error_of_code(code, "what to do")
        assert type(error) is not AnarchonError
        assert error.code == code
        assert str(error) == "what to do"
        assert type(error).__name__ in anarchon.__all__
        again = pickle.loads(pickle.dumps(error))
        assert (type(again), again.code, str(again)) == (type(error), code, "what to do")
    unknown = error_of_code("FROM_THE_FUTURE", "hm")
    assert (type(unknown), unknown.code) == (AnarchonError, "FROM_THE_FUTURE")
    assert issubclass(OverlapError, AnarchonError)


def test_every_public_name_has_a_docstring() -> None:
    for name in anarchon.__all__:
        thing = getattr(anarchon, name)
        if isinstance(thing, type) or inspect.isfunction(thing):
            assert thing.__doc__, name
        if isinstance(thing, type):
            for member, value in vars(thing).items():
                if not member.startswith("_") and (callable(value) or isinstance(value, property)):
                    assert value.__doc__, f"{name}.{member}"
