from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from docs.blocks import ROOT, Example, examples


@pytest.fixture(scope="session")
def workshop() -> Path:
    """A folder inside the checkout, where `import 'anarchon'` finds the package of the checkout."""
    folder = ROOT / ".build" / "docs"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder


@pytest.fixture(scope="session")
def compiled(workshop: Path) -> dict[str, str]:
    """All TypeScript examples, compiled in one call: what the compiler says of each."""
    typed = [example for example in examples() if example.language == "ts"]
    for example in typed:
        (workshop / f"{example.slug}.mts").write_text(example.code, encoding="utf-8")
        if "file" in example.how:
            # Other blocks import it by its name.
            name = Path(example.how["file"]).with_suffix(".mts")
            (workshop / name).write_text(example.code, encoding="utf-8")
    settings = {
        "compilerOptions": {
            "strict": True,
            "target": "es2022",
            "module": "nodenext",
            "types": ["node"],
            "typeRoots": [str(ROOT / "bindings-node" / "node_modules" / "@types")],
            "noEmitOnError": False,
            "skipLibCheck": False,
        },
        "include": ["*.mts"],
    }
    (workshop / "tsconfig.json").write_text(json.dumps(settings), encoding="utf-8")
    compiler = ROOT / "bindings-node" / "node_modules" / "typescript" / "bin" / "tsc"
    answer = subprocess.run(
        ["node", str(compiler), "-p", str(workshop), "--pretty", "false"],
        cwd=workshop,
        capture_output=True,
        text=True,
        env={**os.environ, "NO_COLOR": "1"},
    )
    complaints: dict[str, str] = {}
    known = {example.slug for example in typed}
    for line in answer.stdout.splitlines():
        slug = line.split(".mts(")[0]
        # What is said of no example in particular is everybody's.
        for one in {slug} & known or known:
            complaints[one] = complaints.get(one, "") + line + "\n"
    return complaints


@pytest.fixture
def folder(workshop: Path, example: Example) -> Path:
    """The folder in which an example runs, with nothing in it but what it needs."""
    place = workshop / "run" / example.slug
    place.mkdir(parents=True)
    return place
