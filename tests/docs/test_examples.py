"""Every example of README.md, of docs/ and of the doc comments does what a reader expects of it."""

from __future__ import annotations

import doctest
import importlib
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from docs.blocks import ROOT, Example, examples, file_of, modules

PATIENCE = 60
# How long a program that runs until it is stopped is watched before that.
WATCHED = 3.0
ENVIRONMENT = {
    **{k: v for k, v in os.environ.items() if not k.startswith("ANARCHON_")},
    "PYTHONUNBUFFERED": "1",
    "PYTHONDONTWRITEBYTECODE": "1",
}


def of(*languages: str, ran: bool = True) -> list[Example]:
    """The examples in these languages that are run, or that are only compiled."""
    quiet = ("check", "file")
    return [
        example
        for example in examples()
        if example.language in languages and ran != any(word in example.how for word in quiet)
    ]


def play(command: list[str], folder: Path, example: Example) -> None:
    """Runs an example to its end, or for a while and then stops it."""
    process = subprocess.Popen(
        command,
        cwd=folder,
        env=ENVIRONMENT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        if "until-stopped" in example.how:
            time.sleep(WATCHED)
            assert process.poll() is None, f"{example} ended by itself: {process.communicate()[0]}"
            process.send_signal(signal.SIGTERM)
        output, _ = process.communicate(timeout=PATIENCE)
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
    assert process.returncode == 0, f"{example} ended with {process.returncode}:\n{output}"
    assert "Traceback" not in output, f"{example}:\n{output}"


@pytest.mark.parametrize("example", of("py"), ids=str)
def test_a_python_example_runs(example: Example, folder: Path) -> None:
    for name in [example.how["with"]] if "with" in example.how else []:
        (folder / name).write_text(file_of(example, name).code, encoding="utf-8")
    program = folder / "example.py"
    program.write_text(example.code, encoding="utf-8")
    play([sys.executable, program.name], folder, example)


@pytest.mark.parametrize("example", of("py", ran=False), ids=str)
def test_a_python_example_compiles(example: Example) -> None:
    compile(example.code, str(example), "exec")


@pytest.mark.parametrize("example", of("ts"), ids=str)
def test_a_typescript_example_type_checks_and_runs(
    example: Example, compiled: dict[str, str], workshop: Path, folder: Path
) -> None:
    assert example.slug not in compiled, compiled[example.slug]
    play(["node", str(workshop / f"{example.slug}.mjs")], folder, example)


@pytest.mark.parametrize("example", of("ts", ran=False), ids=str)
def test_a_typescript_example_type_checks(example: Example, compiled: dict[str, str]) -> None:
    assert example.slug not in compiled, compiled[example.slug]


@pytest.mark.parametrize("example", of("js"), ids=str)
def test_a_javascript_example_runs(example: Example, workshop: Path, folder: Path) -> None:
    program = workshop / f"{example.slug}.mjs"
    program.write_text(example.code, encoding="utf-8")
    play(["node", str(program)], folder, example)


@pytest.mark.parametrize("example", of("sh"), ids=str)
def test_a_command_of_the_docs_exists(example: Example) -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    known = {"pip install dist/anarchon-*.whl", "npm install dist/anarchon-*.tgz"}
    for line in example.code.splitlines():
        command = line.partition("#")[0].strip()
        if command.startswith("make "):
            assert command.removeprefix("make ") in targets, f"{example}: {command}"
        else:
            assert command in known, f"{example}: nobody has tried {command!r}"


@pytest.mark.parametrize("module", modules(), ids=lambda path: path.name)
def test_the_docstrings_of_a_module_tell_the_truth(
    module: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    relative = module.relative_to(ROOT / "bindings-python" / "python").with_suffix("")
    name = ".".join(relative.parts).removesuffix(".__init__")
    outcome = doctest.testmod(importlib.import_module(name), optionflags=doctest.ELLIPSIS)
    assert outcome.failed == 0, f"{outcome.failed} of {outcome.attempted} failed, see above"


def test_every_page_is_reached_from_the_readme() -> None:
    seen, todo = set(), [ROOT / "README.md"]
    while todo:
        page = todo.pop()
        if page in seen:
            continue
        seen.add(page)
        for target in re.findall(r"\]\((?!https?:)([^)#]+)[^)]*\)", page.read_text("utf-8")):
            path = (page.parent / target).resolve()
            assert path.exists(), f"{page.relative_to(ROOT)} points to {target}, which is not there"
            if path.suffix == ".md":
                todo.append(path)
    lost = set((ROOT / "docs").rglob("*.md")) - seen
    assert not lost, f"no page points to {sorted(str(page) for page in lost)}"


def test_every_anchor_exists() -> None:
    for page in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]:
        for target, anchor in re.findall(r"\]\(([^)#:]*)#([^)]+)\)", page.read_text("utf-8")):
            path = (page.parent / target).resolve() if target else page
            titles = re.findall(r"^#+ (.+)$", path.read_text("utf-8"), re.MULTILINE)
            known = {re.sub(r"[^\w -]", "", title).lower().replace(" ", "-") for title in titles}
            assert anchor in known, f"{page.name}: no title {anchor} in {path.name}"
