"""The commands of docs/operate that the rehearsal runs, taken out of the pages.

A comment of HTML, which no page shows, stands directly before the block: <!-- rehearsed: NAME on HOST, HOST -->
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "operate"
MARK = re.compile(r"<!-- rehearsed: (?P<name>[\w-]+) on (?P<hosts>\w+(?:, \w+)*) -->")
#: Stands in the commands of the pages for the version of the package.
VERSION = "VERSION"


class PageError(ValueError):
    """A mark is not before a block of commands, or two blocks of a page have one name."""


@dataclass(frozen=True)
class Block:
    """Commands of a page, for one host or several. line: of the mark, from 1."""

    page: str
    name: str
    hosts: tuple[str, ...]
    text: str
    line: int

    def commands(self, version: str) -> str:
        """With the version of the package."""
        return re.sub(rf"_{VERSION}_", f"_{version}_", self.text)


def blocks_of(page: str, text: str) -> dict[str, Block]:
    """By name, in the order of the page. Raises PageError."""
    found: dict[str, Block] = {}
    lines = text.splitlines()
    for number, line in enumerate(lines, 1):
        if "<!-- rehearsed" not in line:
            continue
        mark = MARK.fullmatch(line)
        rest = lines[number:]
        if mark is None or rest[:1] != ["```sh"] or "```" not in rest[1:]:
            raise PageError(f"{page}:{number}: a mark is a line of its own, and ```sh is the next one")
        name = mark["name"]
        if name in found:
            raise PageError(f"{page}:{number}: there are two blocks with the name {name}")
        body = "\n".join(rest[1 : rest.index("```", 1)]) + "\n"
        found[name] = Block(page, name, tuple(mark["hosts"].split(", ")), body, number)
    return found


def read(page: str) -> dict[str, Block]:
    """The blocks of docs/operate/PAGE.md. Raises PageError and OSError."""
    return blocks_of(f"{page}.md", (FOLDER / f"{page}.md").read_text())


def all_pages() -> dict[str, dict[str, Block]]:
    """The blocks of each page that has any. Raises PageError."""
    found = {path.stem: read(path.stem) for path in sorted(FOLDER.glob("*.md"))}
    return {page: blocks for page, blocks in found.items() if blocks}
