"""Packs the wheel from the native part that is already built.

usage: wheel.py FOLDER

`pip install bindings-python` builds one too, with maturin, but compiles every crate once more for
it: here the one cargo build of `make build` serves the wheel and the npm package alike.
"""

from __future__ import annotations

import base64
import hashlib
import re
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path
from typing import Any

from packaging.version import Version

if sys.version_info >= (3, 11):
    import tomllib
else:
    from pip._vendor import tomli as tomllib

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "bindings-python"
NATIVE = "anarchon/_anarchon.abi3.so"
# So that the same sources give the same bytes.
WHEN = (2026, 1, 1, 0, 0, 0)


def platform_tag(native: bytes) -> str:
    """Where the wheel runs: on Linux, from the newest symbol of glibc that it needs."""
    platform = re.sub(r"[-.]", "_", sysconfig.get_platform())
    symbols = [int(minor) for minor in re.findall(rb"GLIBC_2\.(\d+)", native)]
    if platform.startswith("linux_") and symbols:
        return f"manylinux_2_{max(symbols)}_{platform.removeprefix('linux_')}"
    return platform


def metadata(project: dict[str, Any], version: str) -> str:
    """The METADATA file."""
    lines = [
        "Metadata-Version: 2.4",
        f"Name: {project['name']}",
        f"Version: {version}",
        f"Summary: {project['description']}",
        f"Requires-Python: {project['requires-python']}",
        f"License-Expression: {project['license']}",
        "License-File: LICENSE-APACHE",
        "License-File: LICENSE-MIT",
        *(f"Classifier: {name}" for name in project.get("classifiers", [])),
        "Description-Content-Type: text/markdown",
    ]
    return "\n".join(lines) + "\n\n" + (ROOT / "README.md").read_text(encoding="utf-8")


def contents() -> dict[str, bytes]:
    """The package: what is under version control, and the native part."""
    listing = subprocess.run(
        ["git", "ls-files", "-z", "python/anarchon"],
        cwd=SOURCE,
        check=True,
        capture_output=True,
        text=True,
    )
    names = [name for name in listing.stdout.split("\0") if name]
    files = {name.removeprefix("python/"): (SOURCE / name).read_bytes() for name in names}
    files[NATIVE] = (SOURCE / "python" / NATIVE).read_bytes()
    return files


def main() -> int:
    """Writes the wheel."""
    folder = Path(sys.argv[1])
    with (SOURCE / "pyproject.toml").open("rb") as file:
        project = tomllib.load(file)["project"]
    with (ROOT / "Cargo.toml").open("rb") as file:
        version = str(Version(tomllib.load(file)["workspace"]["package"]["version"]))

    files = contents()
    tag = f"cp310-abi3-{platform_tag(files[NATIVE])}"
    info = f"anarchon-{version}.dist-info"
    files[f"{info}/METADATA"] = metadata(project, version).encode()
    files[f"{info}/WHEEL"] = (
        f"Wheel-Version: 1.0\nGenerator: anarchon\nRoot-Is-Purelib: false\nTag: {tag}\n".encode()
    )
    for licence in ("LICENSE-APACHE", "LICENSE-MIT"):
        files[f"{info}/licenses/{licence}"] = (ROOT / licence).read_bytes()
    record = ""
    for name, data in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        record += f"{name},sha256={digest},{len(data)}\n"
    files[f"{info}/RECORD"] = f"{record}{info}/RECORD,,\n".encode()

    wheel = folder / f"anarchon-{version}-{tag}.whl"
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            entry = zipfile.ZipInfo(name, WHEN)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = (0o755 if name == NATIVE else 0o644) << 16
            archive.writestr(entry, data)
    print(wheel.name)
    return 0


if __name__ == "__main__":
    sys.exit(main())
