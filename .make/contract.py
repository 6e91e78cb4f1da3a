"""The table of the contract: how many of its cases every store keeps, in every language.

Tests that hold a store against the contract leave their reports in a folder; see `tally` in
tests/rust/src, tests/python and tests/node.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

LANGUAGES = ("rust", "python", "node")
# Columns of the names of stores.
WIDE = 42
# A case that was passed in one report of a store counts as passed, one that failed as failed.
WEIGHT = {"skipped": 0, "passed": 1, "failed": 2}
Cases = dict[str, tuple[str, str]]


def read(folder: Path) -> dict[tuple[str, str], Cases]:
    """By store and language: every case with how it ended and what was said of it."""
    found: dict[tuple[str, str], Cases] = defaultdict(dict)
    for file in sorted(folder.glob("*.json")):
        report: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
        cases = found[report["store"], report["language"]]
        for case in report["cases"]:
            name, status = case["name"], case["status"]
            if name not in cases or WEIGHT[status] > WEIGHT[cases[name][0]]:
                cases[name] = status, case.get("message") or ""
    return dict(found)


def cell(cases: Cases | None) -> str:
    """Counts as a person reads them: `54`, or `19 + 36 skipped`."""
    if cases is None:
        return "-"
    count = Counter(status for status, _ in cases.values())
    parts = [str(count["passed"])]
    parts += [f"{count[status]} {status}" for status in ("skipped", "failed") if count[status]]
    return " + ".join(parts)


def reasons(cases: Cases) -> Counter[str]:
    """Why cases were skipped, and how many for each reason."""
    return Counter(why.splitlines()[0] for status, why in cases.values() if status == "skipped")


def show(folder: Path) -> None:
    """Prints the table, if there is anything to show."""
    found = read(folder)
    if not found:
        return
    whole = max(len(cases) for cases in found.values())
    print(f"\n=== the contract: of {whole} cases each store keeps")
    print(f"{'store':{WIDE}}" + "".join(f" {language:24}" for language in LANGUAGES).rstrip())
    for store in sorted({store for store, _ in found}):
        cells = [cell(found.get((store, language))) for language in LANGUAGES]
        print(f"{store:{WIDE}}" + "".join(f" {one:24}" for one in cells).rstrip())
    for (store, language), cases in sorted(found.items()):
        for why, count in reasons(cases).most_common():
            print(f"skipped: {store}, {language}: {count} × {why}")
