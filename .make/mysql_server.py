"""A MySQL server for a command: so tests meet MySQL where the machine has MariaDB.

usage: mysql_server.py COMMAND…, which finds it by ANARCHON_TEST_MYSQL_URL, for example
       .build/venv/bin/python .make/mysql_server.py cargo nextest run --workspace --test mysql
"""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# Made by fetch-mysql.sh.
PROGRAM = ROOT / ".build" / "mysql" / "mysqld"
VARIABLE = "ANARCHON_TEST_MYSQL_URL"
# How long it may take to be ready, on a machine that is busy with tests.
PATIENCE = 120.0


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def command(folder: Path) -> list[str]:
    """The words that all calls of the program begin with."""
    as_root = ["--user=root"] if os.geteuid() == 0 else []
    return [str(PROGRAM), f"--datadir={folder / 'data'}", f"--log-error={folder / 'log'}", *as_root]


def make_data(folder: Path) -> None:
    """An empty database; root has no password."""
    subprocess.run([*command(folder), "--initialize-insecure"], check=True)


def started(folder: Path, port: int) -> subprocess.Popen[bytes]:
    """Starts the server, with a database `test`."""
    first = folder / "first.sql"
    first.write_text("CREATE DATABASE test;\n", encoding="utf-8")
    settings = {
        "bind-address": "127.0.0.1",
        "port": port,
        "socket": folder / "socket",
        "pid-file": folder / "pid",
        "init-file": first,
        "mysqlx": "OFF",
        "secure-file-priv": "NULL",
    }
    given = [f"--{name}={value}" for name, value in settings.items()]
    return subprocess.Popen([*command(folder), *given], stdin=subprocess.DEVNULL)


def wait_until_it_listens(server: subprocess.Popen[bytes], folder: Path, port: int) -> None:
    """Waits; a server that ends instead is an error with its last words."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end and server.poll() is None:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return
        except OSError:
            time.sleep(0.05)
    log = (folder / "log").read_text(encoding="utf-8", errors="replace")
    raise RuntimeError(f"MySQL does not listen: {log[-2000:]}")


@contextlib.contextmanager
def found_by(variable: str, value: str) -> Iterator[None]:
    """A variable of the environment, until the end of the block."""
    before = os.environ.get(variable)
    os.environ[variable] = value
    try:
        yield
    finally:
        os.environ.pop(variable)
        if before is not None:
            os.environ[variable] = before


@contextlib.contextmanager
def running() -> Iterator[None]:
    """A server, which whatever is started meanwhile finds by the variable."""
    with tempfile.TemporaryDirectory(prefix="anarchon-mysql-") as place:
        folder, port = Path(place), free_port()
        make_data(folder)
        server = started(folder, port)
        try:
            wait_until_it_listens(server, folder, port)
            with found_by(VARIABLE, f"mysql://root@127.0.0.1:{port}/test"):
                yield
        finally:
            server.kill()
            server.wait()


def main(words: list[str]) -> int:
    """Runs a command beside a server."""
    if not words or not PROGRAM.exists():
        print(__doc__ if not words else "run .make/fetch-mysql.sh first", file=sys.stderr)
        return 2
    with running():
        return subprocess.run(words, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
