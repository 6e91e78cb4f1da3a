"""An authority for all tests, a server of each kind, and what the languages say of each."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tls.authority import Authority
from tls.servers import KINDS, Server, start

HERE = Path(__file__).resolve().parent
PROGRAMS = {
    "python": [sys.executable, str(HERE / "smoke.py")],
    "node": ["node", str(HERE / "smoke.mjs")],
}
# Every kind of call, without the cases that wait for leases to end.
BRIEF = {
    "clients": 2,
    "rounds": 2,
    "histories": 1,
    "steps": 15,
    "only": ["race", "repeat", "rule 1", "heartbeat", "finish", "manual", "newest"],
}
PATIENCE = 120


def skip(why: str) -> None:
    """Skips a test that cannot run here; a failure in CI."""
    if os.environ.get("CI") == "true":
        pytest.fail(why)
    pytest.skip(why)


@pytest.fixture(scope="session")
def folder() -> Iterator[Path]:
    """Where all is; a server that runs as another user can look into it."""
    place = Path(tempfile.mkdtemp(prefix="anarchon-tls-"))
    place.chmod(0o755)
    yield place
    shutil.rmtree(place)


@pytest.fixture(scope="session")
def authorities(folder: Path) -> list[Authority]:
    """The one that the servers are of, and another one."""
    made = [Authority.make(folder / name) for name in ("authority", "another")]
    found = [one for one in made if one is not None]
    if len(found) < len(made):
        skip("no openssl to make certificates with")
    return found


@pytest.fixture(scope="session", params=KINDS)
def server(
    request: pytest.FixtureRequest, folder: Path, authorities: list[Authority]
) -> Iterator[tuple[str, Server]]:
    """A server of each kind, and its name."""
    name = request.param
    missing = KINDS[name].missing()
    if missing is not None:
        skip(f"no {missing} on this machine")
    running = start(KINDS[name], folder / name, authorities[0])
    yield name, running
    running.end()


@pytest.fixture(scope="session")
def played(
    server: tuple[str, Server], authorities: list[Authority]
) -> Callable[[str], dict[str, Any]]:
    """What the smoke of a language says of the server; it is played once."""
    name, running = server
    kind, (ours, theirs) = KINDS[name], authorities
    word = kind.word
    files = {f"{word}Ca": ours.ca, f"{word}Cert": ours.cert, f"{word}Key": ours.key}
    config = {
        "name": name,
        "url": kind.url.replace("PORT", str(running.port)),
        "ours": files,
        "theirs": {**files, f"{word}Ca": theirs.ca},
        "check": BRIEF,
    }
    told: dict[str, dict[str, Any]] = {}

    def play(language: str) -> dict[str, Any]:
        if language not in told:
            done = subprocess.run(
                [*PROGRAMS[language], json.dumps(config)],
                env={**os.environ, "PYTHONPATH": str(HERE.parent)},
                capture_output=True,
                text=True,
                timeout=PATIENCE,
                check=False,
            )
            assert done.returncode == 0, f"{done.stdout}{done.stderr}"
            told[language] = json.loads(done.stdout)
        return told[language]

    return play
