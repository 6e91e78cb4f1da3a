"""Finds the examples: the fenced blocks of README.md and docs/, and those in comments of ts/*.ts.

An HTML comment right before a block says how it is run; without one it is a program that ends by
itself.

    <!-- example: until-stopped -->  runs until SIGTERM, and then ends with status 0
    <!-- example: check -->          is only compiled: it needs what a test does not have
    <!-- example: file=NAME -->      is a file of this name that other blocks of the page import
    <!-- example: with=NAME          a test of that file; the comment ends after the block, so that
                                     readers do not see it
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
LANGUAGES = {"python": "py", "ts": "ts", "js": "js", "sh": "sh"}
FENCE = re.compile(
    r"(?:^<!-- example: (?P<how>[^>\n]*?)(?: -->)?\n)?^```(?P<language>[a-z]+)\n(?P<code>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
IN_COMMENT = re.compile(
    r"^ *\* ```(?P<language>ts|js)\n(?P<code>(?:^ *\*.*\n)*?)^ *\* ```$", re.MULTILINE
)


@dataclass(frozen=True)
class Example:
    """One block."""

    page: str
    line: int
    language: str
    code: str
    how: dict[str, str] = field(default_factory=dict)

    @property
    def slug(self) -> str:
        """A name that is a file name too."""
        return re.sub(r"\W+", "-", f"{self.page}-{self.line}")

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


def _read_how(text: str | None) -> dict[str, str]:
    words = [word.strip().partition("=") for word in (text or "").split(",") if word.strip()]
    how = {name: value for name, _, value in words}
    unknown = set(how) - {"until-stopped", "check", "file", "with"}
    assert not unknown, f"unknown words in an example's comment: {unknown}"
    return how


def _of_page(page: Path) -> list[Example]:
    text = page.read_text(encoding="utf-8")
    name = page.relative_to(ROOT).as_posix()
    found = []
    for block in FENCE.finditer(text):
        language = block["language"]
        assert language in LANGUAGES or language in ("text", "json", "sql", "toml"), (
            f"{name}: a block in {language}, which nothing checks"
        )
        if language in LANGUAGES:
            line = text.count("\n", 0, block.start("code"))
            how = _read_how(block["how"])
            found.append(Example(name, line, LANGUAGES[language], block["code"], how))
    return found


def _of_source(source: Path) -> list[Example]:
    text = source.read_text(encoding="utf-8")
    found = []
    for block in IN_COMMENT.finditer(text):
        code = re.sub(r"^ *\* ?", "", block["code"], flags=re.MULTILINE)
        line = text.count("\n", 0, block.start("code"))
        page = source.relative_to(ROOT).as_posix()
        found.append(Example(page, line, block["language"], code, {"check": ""}))
    return found


@lru_cache
def examples() -> list[Example]:
    """All examples, in reading order."""
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    sources = sorted((ROOT / "bindings-node" / "ts").rglob("*.ts"))
    found = [example for page in pages for example in _of_page(page)]
    return found + [example for source in sources for example in _of_source(source)]


def modules() -> list[Path]:
    """The Python modules, whose docstrings hold examples too."""
    return sorted((ROOT / "bindings-python" / "python" / "anarchon").rglob("*.py"))


def file_of(example: Example, name: str) -> Example:
    """The block of the same page that is the file of this name."""
    found = [e for e in examples() if e.page == example.page and e.how.get("file") == name]
    assert len(found) == 1, f"{example}: {len(found)} blocks of {example.page} are {name}"
    return found[0]
