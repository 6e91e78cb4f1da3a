"""Runs test suites one after the other and counts, at the end, what passed, failed and was skipped.

usage: suites.py SUITE...

Every skipped test is printed with its reason. With CI=true a skipped test is a failure unless
.make/allowed-skips.txt names it. The last line is `N passed, N failed, N skipped`.
"""

from __future__ import annotations

import fnmatch
import os
import re
import shutil
import subprocess
import sys
import time
import xml.etree.ElementTree as ET
from dataclasses import dataclass, field
from pathlib import Path

import contract
import mysql_server

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / ".build" / "results"
# Where tests leave their reports on the contract.
TALLY = RESULTS / "contract"
# How a test in Rust, which has no other way, says that it was skipped.
SKIP = re.compile(r"^SKIPPED[^:\n]*: (.*)$", re.MULTILINE)
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))


@dataclass
class Outcome:
    """What one suite came to."""

    suite: str
    passed: int = 0
    failed: list[str] = field(default_factory=list)
    skipped: list[tuple[str, str]] = field(default_factory=list)
    seconds: float = 0.0


def run(command: list[str], capture: bool = False) -> tuple[int, str]:
    """Runs a command in the checkout; its output is shown, and returned if asked for."""
    process = subprocess.Popen(
        command,
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE if capture else None,
        stderr=subprocess.STDOUT if capture else None,
        text=True,
    )
    lines = []
    if process.stdout is not None:
        for line in process.stdout:
            sys.stdout.write(line)
            sys.stdout.flush()
            lines.append(line)
    return process.wait(), "".join(lines)


def read_junit(outcome: Outcome, report: Path) -> None:
    """Adds the test cases of a JUnit report."""
    for case in ET.parse(report).getroot().iter("testcase"):
        place = case.get("classname") or case.get("file") or ""
        name = f"{place}::{case.get('name')}" if place else str(case.get("name"))
        skip = case.find("skipped")
        told = SKIP.search("\n".join(part.text or "" for part in case.iter() if part is not case))
        if case.find("failure") is not None or case.find("error") is not None:
            outcome.failed.append(name)
        elif skip is not None:
            reason = skip.get("message") or (skip.text or "").strip()
            outcome.skipped.append((name, "" if reason == "true" else reason))
        elif told is not None:
            outcome.skipped.append((name, told[1].strip()))
        else:
            outcome.passed += 1


def read_cargo(outcome: Outcome, text: str) -> None:
    """Adds what `cargo test` printed."""
    for name, result in re.findall(r"^test (.+?) \.\.\. (.+)$", text, re.MULTILINE):
        if result.startswith("ignored"):
            outcome.skipped.append((name, result.partition(",")[2].strip()))
        elif result.startswith("FAILED"):
            outcome.failed.append(name)
        elif result.startswith("ok"):
            outcome.passed += 1


def ignored_rust_tests(outcome: Outcome) -> None:
    """Nextest does not report `#[ignore]`: the sources say which and why."""
    pattern = re.compile(r'#\[ignore(?:\s*=\s*"([^"]*)")?\][^{;]*?fn\s+(\w+)')
    for folder in ("core", "tests/rust"):
        for source in sorted((ROOT / folder).rglob("*.rs")):
            for reason, name in pattern.findall(source.read_text(encoding="utf-8")):
                place = source.relative_to(ROOT).as_posix()
                outcome.skipped.append((f"{place}::{name}", reason))


def cargo(outcome: Outcome, *tests: str) -> int:
    """The Rust tests or some of them, with nextest where it is installed."""
    if shutil.which("cargo-nextest") is None:
        wanted = tests or ("--lib", "--tests")
        status, text = run(["cargo", "test", "--workspace", *wanted], capture=True)
        read_cargo(outcome, text)
        return status
    report = TARGET / "nextest" / "default" / "junit.xml"
    report.unlink(missing_ok=True)
    status, _ = run(["cargo", "nextest", "run", "--workspace", *tests])
    if report.exists():
        read_junit(outcome, report)
    return status


def rust(outcome: Outcome) -> int:
    """The Rust tests."""
    status = cargo(outcome)
    ignored_rust_tests(outcome)
    return status


def rust_doc(outcome: Outcome) -> int:
    """The examples in the Rust documentation."""
    status, text = run(["cargo", "test", "--workspace", "--doc"], capture=True)
    read_cargo(outcome, text)
    return status


def pytest_of(outcome: Outcome, *tests: str) -> int:
    """Some pytest tests."""
    report = RESULTS / f"{outcome.suite}.xml"
    report.unlink(missing_ok=True)
    status, _ = run([sys.executable, "-m", "pytest", "-rs", f"--junitxml={report}", *tests])
    if report.exists():
        read_junit(outcome, report)
    return status


def pytest(outcome: Outcome) -> int:
    """A folder of pytest tests."""
    return pytest_of(outcome, f"tests/{outcome.suite}")


def node_of(outcome: Outcome, *tests: str) -> int:
    """Some files of Node tests."""
    report = RESULTS / f"node-{outcome.suite}.xml"
    report.unlink(missing_ok=True)
    status, _ = run(
        [
            "node",
            "--test",
            # A file that never ends is a failure with a name, not a run without an end.
            "--test-timeout=300000",
            "--test-reporter=dot",
            "--test-reporter-destination=stdout",
            "--test-reporter=junit",
            f"--test-reporter-destination={report}",
            *tests,
        ]
    )
    if report.exists():
        read_junit(outcome, report)
    return status


def node(outcome: Outcome) -> int:
    """The Node tests."""
    tests = sorted(str(path.relative_to(ROOT)) for path in ROOT.glob("tests/node/*.test.*js"))
    return node_of(outcome, *tests) if tests else 0


def mysql(outcome: Outcome) -> int:
    """The tests of the MySQL store once more, on MySQL: the machine's server may be MariaDB."""
    if not mysql_server.PROGRAM.exists():
        outcome.skipped.append(("mysql", "no MySQL, which .make/fetch-mysql.sh brings"))
        return 0
    with mysql_server.running():
        return max(
            cargo(outcome, "--test", "mysql"),
            pytest_of(outcome, "-k", "mysql", "tests/python"),
            node_of(outcome, "tests/node/mysql.test.mjs"),
        )


SUITES = {
    "rust": rust,
    "rust-doc": rust_doc,
    "python": pytest,
    "node": node,
    "docs": pytest,
    "mixed": pytest,
    "stores": pytest,
    "faults": pytest,
    "tls": pytest,
    "mysql": mysql,
}
# No public item may need an example that Rust can run, so this one may be empty.
MAY_BE_EMPTY = {"rust-doc"}


def allowed_skips() -> list[str]:
    """The patterns of the tests that CI may skip."""
    lines = (ROOT / ".make" / "allowed-skips.txt").read_text(encoding="utf-8").splitlines()
    return [line.split("#")[0].strip() for line in lines if line.split("#")[0].strip()]


def judge(outcome: Outcome, status: int, allowed: list[str], ci: bool) -> None:
    """Turns what must not happen into failures."""
    counted = outcome.passed + len(outcome.failed) + len(outcome.skipped)
    if status != 0 and not outcome.failed:
        outcome.failed.append(f"{outcome.suite}: its runner ended with status {status}")
    elif counted == 0 and outcome.suite not in MAY_BE_EMPTY:
        outcome.failed.append(f"{outcome.suite}: no test ran")
    for name, reason in outcome.skipped:
        if ci and not any(fnmatch.fnmatchcase(name, pattern) for pattern in allowed):
            outcome.failed.append(f"{name}: skipped where nothing may be ({reason or 'no reason'})")


def main(suites: list[str]) -> int:
    """Runs the suites and prints the count."""
    unknown = [suite for suite in suites if suite not in SUITES]
    if unknown or not suites:
        print(f"unknown suites {unknown}; there are {', '.join(SUITES)}", file=sys.stderr)
        return 2
    shutil.rmtree(TALLY, ignore_errors=True)
    TALLY.mkdir(parents=True)
    os.environ["ANARCHON_TEST_TALLY"] = str(TALLY)
    allowed, ci = allowed_skips(), os.environ.get("CI") == "true"
    outcomes = []
    for suite in suites:
        print(f"\n=== {suite}", flush=True)
        outcome, begin = Outcome(suite), time.monotonic()
        status = SUITES[suite](outcome)
        outcome.seconds = time.monotonic() - begin
        judge(outcome, status, allowed, ci)
        outcomes.append(outcome)

    contract.show(TALLY)
    print("\n=== results")
    for outcome in outcomes:
        print(
            f"{outcome.suite:10} {outcome.passed:5} passed {len(outcome.failed):4} failed "
            f"{len(outcome.skipped):4} skipped {outcome.seconds:7.1f} s"
        )
    for outcome in outcomes:
        for name, reason in outcome.skipped:
            print(f"skipped: {outcome.suite} {name}: {reason or 'no reason given'}")
    for outcome in outcomes:
        for name in outcome.failed:
            print(f"failed: {outcome.suite} {name}")
    passed = sum(outcome.passed for outcome in outcomes)
    failed = sum(len(outcome.failed) for outcome in outcomes)
    skipped = sum(len(outcome.skipped) for outcome in outcomes)
    print(f"\n{passed} passed, {failed} failed, {skipped} skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
