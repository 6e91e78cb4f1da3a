"""An authority of the tests' own, and a certificate of it that server and client both use."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

STEPS = (
    "req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN={name} -keyout ca.key -out ca.pem",
    "req -newkey rsa:2048 -nodes -subj /CN=server -keyout key.pem -out request",
    "x509 -req -in request -out cert.pem -CA ca.pem -CAkey ca.key -CAcreateserial -extfile san",
)


@dataclass(frozen=True)
class Authority:
    """A folder with `ca.pem`, `cert.pem` and `key.pem`."""

    folder: Path

    @staticmethod
    def make(folder: Path) -> Authority | None:
        """Makes one of the folder's name, for 127.0.0.1; `None` where there is no openssl."""
        if shutil.which("openssl") is None:
            return None
        folder.mkdir()
        (folder / "san").write_text("subjectAltName=IP:127.0.0.1\n", encoding="utf-8")
        for step in STEPS:
            words = step.format(name=folder.name).split()
            subprocess.run(["openssl", *words], cwd=folder, check=True, capture_output=True)
        (folder / "key.pem").chmod(0o600)
        return Authority(folder)

    @property
    def ca(self) -> str:
        """Whom a peer has to trust."""
        return str(self.folder / "ca.pem")

    @property
    def cert(self) -> str:
        """The certificate."""
        return str(self.folder / "cert.pem")

    @property
    def key(self) -> str:
        """Its key."""
        return str(self.folder / "key.pem")
