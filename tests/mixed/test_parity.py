"""The two languages, the core and the documentation say the same words."""

from __future__ import annotations

import dataclasses
import inspect
import re
from pathlib import Path
from typing import Any, get_args

import anarchon
import pytest
from anarchon.records import camel

ROOT = Path(__file__).resolve().parent.parent.parent
TYPESCRIPT = ROOT / "bindings-node" / "ts"
CORE = ROOT / "core" / "src"
DOCS = ROOT / "docs" / "reference"


def interface(name: str) -> set[str]:
    """The fields of a TypeScript interface, those of what it extends included."""
    for source in sorted(TYPESCRIPT.glob("*.ts")):
        pattern = rf"^export interface {name}(?: extends (\w+))? {{\n(.*?)^}}"
        found = re.search(pattern, source.read_text("utf-8"), re.MULTILINE | re.DOTALL)
        if found:
            own = set(re.findall(r"^  (?:readonly )?(\w+)\??:", found[2], re.MULTILINE))
            return own | interface(found[1]) if found[1] else own
    raise AssertionError(f"no TypeScript interface {name}")


def members(source: str, name: str) -> set[str]:
    """The public methods and getters of a TypeScript class."""
    text = (TYPESCRIPT / source).read_text("utf-8")
    found = re.search(rf"^export class {name}\b.*?^}}", text, re.MULTILINE | re.DOTALL)
    assert found, f"no TypeScript class {name}"
    words = r"^  (?:async |get )?(\w+)\("
    return set(re.findall(words, found[0], re.MULTILINE)) - {"constructor", "if", "for"}


def taken_by(name: str) -> set[str]:
    """The options that the constructor of a TypeScript class takes, in whatever combination."""
    for source in sorted(TYPESCRIPT.glob("*.ts")):
        pattern = rf"^export class {name}\b.*?^  constructor\((.*?)\) {{"
        found = re.search(pattern, source.read_text("utf-8"), re.MULTILINE | re.DOTALL)
        if found:
            kinds = [alias(kind) for kind in re.findall(r"\b[A-Z]\w+Options\b", found[1])]
            return set().union(*(interface(kind) for kind in kinds))
    raise AssertionError(f"no TypeScript class {name}")


def alias(name: str) -> str:
    """What a TypeScript type is another name of, or itself."""
    for source in sorted(TYPESCRIPT.glob("*.ts")):
        found = re.search(rf"^export type {name} = (\w+);", source.read_text("utf-8"), re.MULTILINE)
        if found:
            return found[1]
    return name


def core_words(source: str, pattern: str) -> set[str]:
    """What a pattern finds in a file of the core."""
    words = set(re.findall(pattern, (CORE / source).read_text("utf-8")))
    assert words, f"{source} has nothing of {pattern}"
    return words


def fields(record: Any) -> set[str]:
    """The fields of a Python record, as the wire and TypeScript call them."""
    return {camel(field.name.rstrip("_")) for field in dataclasses.fields(record)}


def documented(page: str) -> set[str]:
    """The words in the first column of the tables of a page."""
    cells = re.findall(r"^\| (`.*?) \|", (DOCS / page).read_text("utf-8"), re.MULTILINE)
    return {word for cell in cells for word in re.findall(r"`(\w+)`", cell)}


CODES = core_words("error.rs", r'=> "([A-Z_]+)"')
EVENTS = core_words("events.rs", r'=> "([a-z][A-Za-z]+)",') & interface("SchedulerEvents")
JOB_OPTIONS = core_words("scheduler/options.rs", r'^    \("(\w+)", \|o, f\|'.replace("^", "(?m)^"))


def test_the_error_codes_are_the_same_everywhere() -> None:
    classes = anarchon.AnarchonError.__subclasses__()
    assert {kind.code for kind in classes} == CODES
    typescript = (TYPESCRIPT / "errors.ts").read_text("utf-8")
    union = re.search(r"export type ErrorCode =(.*?);", typescript, re.DOTALL)
    assert union
    assert set(re.findall(r"'(\w+)'", union[1])) == CODES
    page = (DOCS / "errors.md").read_text("utf-8")
    table = dict(re.findall(r"^\| `([A-Z_]+)` \| `(\w+)` \|", page, re.MULTILINE))
    assert table == {kind.code: kind.__name__ for kind in classes}


def test_the_events_are_the_same_everywhere() -> None:
    assert len(EVENTS) == 13
    assert interface("SchedulerEvents") == EVENTS
    assert {camel(name) for name in get_args(anarchon.EventName)} == EVENTS
    assert documented("events.md") == EVENTS


def test_the_job_options_are_the_same_everywhere() -> None:
    assert len(JOB_OPTIONS) == 18
    assert interface("JobOptions") == JOB_OPTIONS
    assert {camel(name) for name in anarchon.JobOptions.__annotations__} == JOB_OPTIONS
    assert documented("options.md") >= JOB_OPTIONS


def test_the_scheduler_options_are_the_same_but_for_what_a_language_has_of_its_own() -> None:
    of_node = {"keepAlive", "logger"}
    python = {camel(name) for name in anarchon.SchedulerOptions.__annotations__}
    shared = interface("SchedulerOptions") - of_node
    assert python | {"backend", "clock"} == shared | {"backend", "clock"}
    assert documented("options.md") == JOB_OPTIONS | shared | of_node


STORES = {
    "MemoryBackend": "memory",
    "SqliteBackend": "sqlite",
    "PostgresBackend": "postgres",
    "MySqlBackend": "mysql",
    "RedisBackend": "redis",
    "NatsBackend": "nats",
    "RabbitMqBackend": "rabbitmq",
}


def test_these_are_all_stores() -> None:
    backends = {name for name in anarchon.__all__ if name.endswith("Backend")}
    assert backends - {"Backend", "NativeBackend", "SqlBackend"} == set(STORES)


@pytest.mark.parametrize("name", STORES)
def test_a_store_takes_the_same_options_in_both_languages_and_its_page_tells_them(
    name: str,
) -> None:
    python = {camel(option) for option in inspect.signature(getattr(anarchon, name)).parameters}
    assert python == taken_by(name)
    places = {"url", "path", "clock"}
    assert documented(f"backends/{STORES[name]}.md") >= python - places


def test_the_parts_of_retries_are_the_same() -> None:
    python = {camel(name) for name in anarchon.RetryOptions.__annotations__}
    assert python == interface("Retries")


@pytest.mark.parametrize(
    "name",
    [
        "ActiveRun",
        "ClaimInput",
        "ClaimOutcome",
        "ClaimRecord",
        "Explanation",
        "JobInfo",
        "JobLimits",
        "MissedRange",
        "PauseRequest",
        "RunClaim",
        "RunRecord",
        "RunRef",
        "StopReport",
        "StoredResult",
        "Survey",
    ],
)
def test_a_record_has_the_same_fields_in_both_languages(name: str) -> None:
    assert fields(getattr(anarchon, name)) == interface(name)


def test_the_scheduler_has_the_same_members_in_both_languages() -> None:
    # What only one of them has, and why: Python has a blocking face and runs itself; an
    # EventEmitter's own members are Node's.
    python = {camel(name) for name in vars(anarchon.Scheduler) if not name.startswith("_")}
    python -= {"sync", "run", "on", "off"}
    assert python == members("scheduler.ts", "Scheduler")
