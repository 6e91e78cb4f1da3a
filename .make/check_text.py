"""Checks the text of every file under version control for what must not be in it."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

# (what is wrong, where it is looked for, the pattern)
RULES = [
    ("a path of somebody's machine", r".*", r"(?<![\w.$/-])/(?:home|Users|root|work)/\w"),
    ("a merge marker", r".*", r"^(?:<{7}|>{7}) "),
    ("a body that is missing", r".*\.rs$", r"\b(?:todo|unimplemented)!\("),
    ("a glob import", r"(?:core|bindings-\w+|tests)/.*\.rs$", r"^\s*(?:pub )?use .*::\*;"),
    ("a glob import", r".*\.pyi?$", r"^from \S+ import \*"),
    ("a test that shuts out the others", r"tests/node/.*", r"\b(?:test|it|describe)\.only\("),
    (
        "an address of a package registry",
        r"(?:.*/)?(?:package-lock\.json|[^/]*requirements[^/]*\.txt|[^/]*\.toml|\.npmrc)$",
        r"(?i)\"resolved\"|--(?:extra-)?index-url|(?<![\w-])registry\s*=",
    ),
]
SELF = ".make/check_text.py"


def tracked() -> list[str]:
    """The files under version control."""
    listing = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True, text=True
    )
    return [name for name in listing.stdout.split("\0") if name]


def check_cargo_lock(problems: list[str]) -> None:
    """Every locked crate comes from crates.io or from here."""
    text = (ROOT / "Cargo.lock").read_text(encoding="utf-8")
    public = "registry+https://github.com/rust-lang/crates.io-index"
    for source in sorted(set(re.findall(r'^source = "(.*)"$', text, re.MULTILINE))):
        if source != public:
            problems.append(f"Cargo.lock: a crate from {source}; only crates.io is meant")


def check_versions(problems: list[str]) -> None:
    """The crate, the wheel and the npm package carry one version."""
    cargo = (ROOT / "Cargo.toml").read_text(encoding="utf-8")
    found = re.search(r'^version = "([^"]+)"$', cargo, re.MULTILINE)
    version = found.group(1) if found else ""
    package = ROOT / "bindings-node" / "package.json"
    if package.exists():
        given = json.loads(package.read_text(encoding="utf-8"))["version"]
        if given != version:
            problems.append(
                f"bindings-node/package.json: version {given}; Cargo.toml has {version}"
            )


def main() -> int:
    """Prints what is wrong, one line each."""
    problems: list[str] = []
    for name in tracked():
        path = ROOT / name
        if name == SELF or not path.is_file() or path.is_symlink():
            continue
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue
        if text and not text.endswith("\n"):
            problems.append(f"{name}: the last line does not end")
        for what, where, pattern in RULES:
            if not re.fullmatch(where, name):
                continue
            for found in re.finditer(pattern, text, re.MULTILINE):
                line = text.count("\n", 0, found.start()) + 1
                problems.append(f"{name}:{line}: {what}: {found.group(0).strip()}")
    check_cargo_lock(problems)
    check_versions(problems)
    for problem in problems:
        print(problem)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
