"""The drawn parts of pages of docs/ (PARTS), between `<!-- draw: NAME -->` and `<!-- end -->`."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from . import configuration, floors, manual, metrics, probes, rooms, states
from .imports import ROOT

PAGE = ROOT / "docs" / "architecture.md"
SHELL = ROOT / "docs" / "shell.md"
METRICS = ROOT / "docs" / "operate" / "metrics.md"
DOCTOR = ROOT / "docs" / "operate" / "doctor.md"
HEALTH = ROOT / "docs" / "operate" / "health.md"
CONFIGURATION = ROOT / "docs" / "operate" / "configuration.md"
PICTURE = ROOT / "docs" / "floors.svg"

PARTS: dict[Path, dict[str, Callable[[], str]]] = {
    PAGE: {
        "rooms": rooms.table,
        "imports": rooms.imports_table,
        "engine": rooms.engine,
        "task": states.task,
        "task moves": states.task_moves,
        "control": states.control,
        "pair": states.pair,
        "listening": states.listening,
    },
    SHELL: {"commands": manual.commands},
    METRICS: {"metrics": metrics.table},
    DOCTOR: {"probes": probes.doctor},
    HEALTH: {"readiness": probes.readiness},
    CONFIGURATION: {"variables": configuration.tables},
}

_PART = re.compile(r"(<!-- draw: ([a-z ]+) -->\n)(.*?)(<!-- end -->\n)", re.DOTALL)


#: The files that are drawn, as a whole or in parts.
PATHS = (*PARTS, PICTURE)


def files() -> dict[Path, str]:
    """The expected contents of the map's files. Raises ValueError when a page lacks a part of `PARTS`."""
    return {**{page: _drawn(page) for page in PARTS}, PICTURE: floors.svg()}


def _drawn(page: Path) -> str:
    text, parts = page.read_text(), PARTS[page]
    names = [found[2] for found in _PART.finditer(text)]
    if sorted(names) != sorted(parts):
        raise ValueError(f"docs/{page.name} has the parts {names}, docs/draw/page.py {list(parts)}")
    return _PART.sub(lambda found: f"{found[1]}{parts[found[2]]()}\n{found[4]}", text)
