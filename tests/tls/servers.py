"""Servers that let in only who comes encrypted, shows a certificate and knows the password.

Each kind says what programs it needs and how it is started on a port and a folder of its own.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from .authority import Authority

USER, PASSWORD = "replica", "tiger"
# How long a server may take to be ready, on a machine that is busy with tests.
PATIENCE = 120.0
ROOT = Path(__file__).resolve().parent.parent.parent
# Where Debian puts programs that are not for everybody's path.
PLACES = [
    # Elsewhere MariaDB may come under the name of MySQL.
    str(ROOT / ".build" / "mysql"),
    *sorted(map(str, Path("/usr/lib/postgresql").glob("*/bin")), reverse=True),
    "/usr/lib/rabbitmq/bin",
    *os.environ.get("PATH", "").split(os.pathsep),
    "/usr/sbin",
    str(ROOT / ".build" / "venv" / "bin"),
]


@dataclass(frozen=True)
class Ground:
    """What a server is started on."""

    port: int
    folder: Path
    made: Authority
    programs: dict[str, str]


@dataclass(frozen=True)
class Started:
    """How the process of a server is started."""

    command: list[str]
    environment: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Kind:
    """A kind of server. `url` lacks only the port."""

    programs: tuple[str, ...]
    prepare: Callable[[Ground], Started]
    url: str
    # The first words of its options for TLS.
    word: str = "tls"

    def missing(self) -> str | None:
        """A program that it needs and that is not there."""
        return next((name for name in self.programs if found(name) is None), None)


@dataclass(frozen=True)
class Server:
    """One that runs."""

    process: subprocess.Popen[bytes]
    port: int

    def end(self) -> None:
        """Kills it, and what it has started."""
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


def found(name: str) -> str | None:
    """A program, wherever distributions put it."""
    return shutil.which(name, path=os.pathsep.join(PLACES))


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def start(kind: Kind, folder: Path, made: Authority) -> Server:
    """Starts a server whose programs are there, and waits until it listens."""
    folder.mkdir()
    programs = {name: found(name) or name for name in kind.programs}
    ground = Ground(free_port(), folder, made, programs)
    started = kind.prepare(ground)
    with (folder / "out").open("wb") as out:
        process = subprocess.Popen(
            started.command,
            env={**os.environ, **started.environment},
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    server = Server(process, ground.port)
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end and process.poll() is None:
        try:
            socket.create_connection(("127.0.0.1", ground.port), timeout=1).close()
            return server
        except OSError:
            time.sleep(0.05)
    if process.poll() is None:
        server.end()
    said = (folder / "out").read_text(encoding="utf-8", errors="replace")
    raise AssertionError(f"{started.command[0]} does not listen: {said}")


def run(*command: str) -> None:
    """A step before the server, to its end."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{command[0]}: {done.stdout}{done.stderr}"


def postgres(ground: Ground) -> Started:
    """PostgreSQL, which refuses to run as root."""
    data, secret = ground.folder / "data", ground.folder / "secret"
    secret.write_text(PASSWORD, encoding="utf-8")
    key = ground.folder / "key.pem"
    shutil.copy(ground.made.key, key)
    other: list[str] = []
    if os.geteuid() == 0:
        other = ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"]
        run("chown", "-R", "postgres:postgres", str(ground.folder))
    words = ["--auth=scram-sha-256", f"--username={USER}", f"--pwfile={secret}", "--no-sync"]
    run(*other, ground.programs["initdb"], *words, "-D", str(data))
    rule = "hostssl all all 127.0.0.1/32 scram-sha-256 clientcert=verify-ca\n"
    (data / "pg_hba.conf").write_text(rule, encoding="utf-8")
    settings = {
        "ssl": "on",
        "ssl_ca_file": ground.made.ca,
        "ssl_cert_file": ground.made.cert,
        "ssl_key_file": key,
        "listen_addresses": "127.0.0.1",
        "port": ground.port,
        "unix_socket_directories": "",
    }
    given = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
    return Started([*other, ground.programs["postgres"], "-D", str(data), *given])


def mariadb(ground: Ground) -> Started:
    """MariaDB, with a database `jobs`."""
    data = f"--datadir={ground.folder / 'data'}"
    as_root = ["--user=root"] if os.geteuid() == 0 else []
    words = ["--no-defaults", "--auth-root-authentication-method=normal", "--skip-test-db"]
    run(ground.programs["mariadb-install-db"], *words, data, *as_root)
    program = ground.programs["mariadbd"]
    return Started([program, "--no-defaults", data, *settings_of_mysql(ground), *as_root])


def mysql(ground: Ground) -> Started:
    """MySQL, whose passwords are of its newer kind; with a database `jobs`."""
    words = [ground.programs["mysqld"], f"--datadir={ground.folder / 'data'}"]
    words += ["--user=root"] if os.geteuid() == 0 else []
    run(*words, "--initialize-insecure")
    other = ["--mysqlx=OFF", "--secure-file-priv=NULL"]
    return Started([*words, *settings_of_mysql(ground), *other])


def settings_of_mysql(ground: Ground) -> list[str]:
    """What both of them are told."""
    first = ground.folder / "first.sql"
    first.write_text(
        "CREATE DATABASE jobs;\n"
        f"CREATE USER {USER}@'%' IDENTIFIED BY '{PASSWORD}' REQUIRE X509;\n"
        f"GRANT ALL ON jobs.* TO {USER}@'%';\n",
        encoding="utf-8",
    )
    settings = {
        "bind-address": "127.0.0.1",
        "port": ground.port,
        "socket": ground.folder / "socket",
        "pid-file": ground.folder / "pid",
        "init-file": first,
        "ssl-ca": ground.made.ca,
        "ssl-cert": ground.made.cert,
        "ssl-key": ground.made.key,
    }
    given = [f"--{name}={value}" for name, value in settings.items()]
    return ["--skip-name-resolve", *given]


def redis(ground: Ground) -> Started:
    """Redis, whose user has no name."""
    settings = {
        "bind": "127.0.0.1",
        "port": 0,
        "dir": ground.folder,
        "requirepass": PASSWORD,
        "tls-port": ground.port,
        "tls-ca-cert-file": ground.made.ca,
        "tls-cert-file": ground.made.cert,
        "tls-key-file": ground.made.key,
        "tls-auth-clients": "yes",
    }
    given = [word for name, value in settings.items() for word in (f"--{name}", str(value))]
    return Started([ground.programs["redis-server"], *given])


def nats(ground: Ground) -> Started:
    """NATS, with JetStream."""
    files = ["--tlscacert", ground.made.ca, "--tlscert", ground.made.cert]
    known = ["--user", USER, "--pass", PASSWORD]
    place = ["-a", "127.0.0.1", "-p", str(ground.port), "-js", "-sd", str(ground.folder)]
    command = [ground.programs["nats-server"], "--tlsverify", *files, "--tlskey", ground.made.key]
    return Started([*command, *known, *place])


def rabbitmq(ground: Ground) -> Started:
    """RabbitMQ, a node of a name and files of its own."""
    settings = {
        "listeners.tcp": "none",
        "listeners.ssl.1": f"127.0.0.1:{ground.port}",
        "ssl_options.cacertfile": ground.made.ca,
        "ssl_options.certfile": ground.made.cert,
        "ssl_options.keyfile": ground.made.key,
        "ssl_options.verify": "verify_peer",
        "ssl_options.fail_if_no_peer_cert": "true",
        "default_user": USER,
        "default_pass": PASSWORD,
        "disk_free_limit.absolute": "1MB",
    }
    lines = "".join(f"{name} = {value}\n" for name, value in settings.items())
    (ground.folder / "rabbitmq.conf").write_text(lines, encoding="utf-8")
    environment = {
        "HOME": str(ground.folder),
        "RABBITMQ_NODENAME": f"anarchon{ground.port}@localhost",
        "RABBITMQ_DIST_PORT": str(free_port()),
        "RABBITMQ_CONFIG_FILE": str(ground.folder / "rabbitmq.conf"),
        "RABBITMQ_CONF_ENV_FILE": "/dev/null",
    }
    for name in ("MNESIA_BASE", "LOG_BASE", "PID_FILE", "ADVANCED_CONFIG_FILE"):
        environment[f"RABBITMQ_{name}"] = str(ground.folder / name.lower())
    environment["RABBITMQ_ENABLED_PLUGINS_FILE"] = str(ground.folder / "plugins")
    return Started([ground.programs["rabbitmq-server"]], environment)


LOGIN = f"{USER}:{PASSWORD}@127.0.0.1"
OF_MYSQL = f"mysql://{LOGIN}:PORT/jobs?sslMode=verify-full"
KINDS = {
    "postgres": Kind(
        ("initdb", "postgres"),
        postgres,
        f"postgres://{LOGIN}:PORT/postgres?sslMode=verify-full",
        "ssl",
    ),
    "mariadb": Kind(("mariadb-install-db", "mariadbd"), mariadb, OF_MYSQL, "ssl"),
    "mysql": Kind(("mysqld",), mysql, OF_MYSQL, "ssl"),
    "redis": Kind(("redis-server",), redis, f"rediss://:{PASSWORD}@127.0.0.1:PORT"),
    "nats": Kind(("nats-server",), nats, f"tls://{LOGIN}:PORT"),
    "rabbitmq": Kind(("rabbitmq-server",), rabbitmq, f"amqps://{LOGIN}:PORT"),
}
