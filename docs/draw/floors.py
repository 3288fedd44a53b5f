"""The picture of the floors: a box for each room, and the arrows of the real imports between them, as SVG."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator
from html import escape
from typing import NamedTuple

from .imports import FLOORS, collapse, module_graph, packages, reduced, sentence

#: Rooms that are drawn by themselves, though their floor is that of the room around them.
INNER = ("workers.engine",)
#: Modules of `tasks` that the engine uses, too: they load neither Django nor anything else of ours but `gridftp`.
SHARED = ("transferapi.tasks.records", "transferapi.tasks.errors")

#: x and width of a column, pixels; between them is the gap that arrows from one to the other go through.
LEFT, RIGHT = (84, 520), (654, 520)
#: The thirds of the right one.
RIGHT_1, RIGHT_2, RIGHT_3 = (654, 154), (837, 154), (1020, 154)
BOTH = (84, 1090)
#: From top to bottom: the rooms of a row by column. Two rows may be of one floor.
ROWS: tuple[dict[str, tuple[int, int]], ...] = (
    {"webui": LEFT, "transferapi.shell": RIGHT},
    {"transferapi.rest": LEFT, "workers": RIGHT},
    {"transferapi.relay": LEFT, "workers.engine": RIGHT},
    {"transferapi.timers": LEFT},
    {"transferapi.tasks": LEFT, SHARED[0]: RIGHT},
    {"endpoints": LEFT},
    {"identity": LEFT, "endpoints.gridftp": RIGHT},
    {"identity.gsi": LEFT, "transferapi.logs": RIGHT_1, "transferapi.outages": RIGHT_2, "transferapi.traces": RIGHT_3},
)

WIDTH = 1200
PADDING, ROW_GAP, LINE, TITLE, CHIP = 14, 34, 18, 22, 26
#: Average widths of a character, pixels, at the sizes of the style below; a little more than the fonts have.
TEXT_WIDTH, CHIP_WIDTH = 6.9, 7.4

STYLE = """
    text { font-family: "DejaVu Sans", Verdana, sans-serif; font-size: 12.5px; fill: #24292f }
    .title { font-size: 15px; font-weight: bold }
    .chip { font-family: "DejaVu Sans Mono", Menlo, monospace; font-size: 12px }
    .floor { font-size: 20px; font-weight: bold; fill: #6e7781 }
    .note { font-size: 12px; fill: #57606a }
    .room { fill: #ffffff; stroke: #57606a }
    .folder { fill: #eef4fb; stroke: #9db7d5 }
    .arrow { fill: none; stroke: #0b5cad; stroke-width: 1.6 }
"""


class Box(NamedTuple):
    """A room, placed."""

    name: str
    title: str
    x: int
    y: int
    width: int
    height: int
    words: list[str]
    folders: list[list[str]]

    @property
    def right(self) -> int:
        return self.x + self.width

    @property
    def bottom(self) -> int:
        return self.y + self.height


def room(name: str) -> str | None:
    """The box that a module is drawn in."""
    if name in SHARED:
        return SHARED[0]
    found = [prefix for prefix in (*FLOORS, *INNER) if name == prefix or name.startswith(prefix + ".")]
    return max(found, key=len, default=None)


def title(name: str) -> str:
    """How a box is called: its folder, or its modules."""
    if name == SHARED[0]:
        folder, files = name.rpartition(".")[0], [one.rpartition(".")[2] for one in SHARED]
        return f"{folder.replace('.', '/')}/: {', '.join(f'{file}.py' for file in files)}"
    return f"{name.replace('.', '/')}/"


def arrows() -> list[tuple[str, str]]:
    """Which room imports from which; what a longer way implies is left out."""
    return reduced(collapse(module_graph(), room))


def svg() -> str:
    """The picture, the same for the same code."""
    boxes, height = _place()
    _check(boxes)
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" viewBox="0 0 {WIDTH} {height}">',
        "  <title>The rooms of Waybill on their floors, and the imports between them</title>",
        f"  <style>{STYLE}  </style>",
        '  <defs><marker id="head" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="8" markerHeight="8" orient="auto">'
        '<path d="M0 0 L8 4 L0 8 z" fill="#0b5cad"/></marker></defs>',
        f'  <rect width="{WIDTH}" height="{height}" fill="#f6f8fa" rx="8"/>',
        *_floors(boxes.values()),
        *(line for box in boxes.values() for line in _draw(box)),
        *(_arrow(boxes[start], boxes[end], taken) for (start, end), taken in _lanes(boxes)),
        *_note(height),
        "</svg>",
    ]
    return "\n".join(lines) + "\n"


def _place() -> tuple[dict[str, Box], int]:
    boxes: dict[str, Box] = {}
    y = 20
    for row in ROWS:
        made = [_box(name, x, width, y) for name, (x, width) in row.items()]
        boxes.update((box.name, box) for box in made)
        y = max(box.bottom for box in made) + ROW_GAP
    return boxes, y + 46


def _box(name: str, x: int, width: int, y: int) -> Box:
    words = textwrap.wrap(sentence(name), int((width - 2 * PADDING) / TEXT_WIDTH))
    inside = [one for one in packages() if one.rpartition(".")[0] == name and room(one) == name]
    folders = _wrap([one.rpartition(".")[2] + "/" for one in inside], width - 2 * PADDING)
    height = PADDING + TITLE + LINE * len(words) + (6 if folders else 0) + CHIP * len(folders) + PADDING - 4
    return Box(name, title(name), x, y, width, height, words, folders)


def _wrap(names: list[str], width: int) -> list[list[str]]:
    rows: list[list[str]] = []
    used = width + 1.0
    for name in names:
        need = _chip_width(name) + 8
        if used + need > width + 8:
            rows.append([])
            used = 0.0
        rows[-1].append(name)
        used += need
    return rows


def _chip_width(name: str) -> float:
    return round(len(name) * CHIP_WIDTH + 14, 1)


def _check(boxes: dict[str, Box]) -> None:
    """Raises ValueError where a room has no place in `ROWS`, or a place has no room."""
    rooms = {found for found in map(room, module_graph()) if found}
    if rooms != set(boxes):
        raise ValueError(f"docs/draw/floors.py, ROWS: {sorted(rooms ^ set(boxes))}")


def _floors(boxes: Iterable[Box]) -> Iterator[str]:
    """The number of each floor, at its left."""
    on_floor: dict[int, list[Box]] = {}
    for box in boxes:
        if box.name in FLOORS:
            on_floor.setdefault(FLOORS[box.name], []).append(box)
    for floor, found in sorted(on_floor.items(), reverse=True):
        y, bottom = min(box.y for box in found), max(box.bottom for box in found)
        yield f'  <text class="floor" x="34" y="{(y + bottom) // 2 + 7}">{floor}</text>'


def _draw(box: Box) -> Iterator[str]:
    yield f'  <rect class="room" x="{box.x}" y="{box.y}" width="{box.width}" height="{box.height}" rx="6"/>'
    x, y = box.x + PADDING, box.y + PADDING + 12
    yield f'  <text class="title" x="{x}" y="{y}">{escape(box.title)}</text>'
    for line in box.words:
        y += LINE
        yield f'  <text x="{x}" y="{y + 2}">{escape(line, quote=False)}</text>'
    y += 12
    for row in box.folders:
        at = float(x)
        for name in row:
            width = _chip_width(name)
            yield f'  <rect class="folder" x="{at:g}" y="{y}" width="{width:g}" height="21" rx="4"/>'
            yield f'  <text class="chip" x="{at + 7:g}" y="{y + 15}">{escape(name)}</text>'
            at = round(at + width + 8, 1)
        y += CHIP


def _lanes(boxes: dict[str, Box]) -> Iterator[tuple[tuple[str, str], int]]:
    """Each arrow, with the number of those before it that go along the gap between the columns."""
    used = 0
    for start, end in arrows():
        yield (start, end), used
        used += not _overlap(boxes[start], boxes[end]) and boxes[start].y != boxes[end].y


def _overlap(one: Box, other: Box) -> bool:
    """Whether one is above the other."""
    return max(one.x, other.x) < min(one.right, other.right)


def _arrow(start: Box, end: Box, taken: int) -> str:
    to_right = start.x < end.x
    out, into = (start.right, end.x) if to_right else (start.x, end.right)
    if _overlap(start, end):
        x = (max(start.x, end.x) + min(start.right, end.right)) // 2
        path = f"M{x} {start.bottom} V{end.y}"
    elif start.y == end.y:
        path = f"M{out} {start.y + start.height // 2} H{into}"
    else:
        gap = (LEFT[0] + LEFT[1] + RIGHT[0]) // 2 - 12 + 24 * (taken % 2)
        y = start.bottom - 16 if to_right else start.y + start.height // 2
        path = f"M{out} {y} H{gap} V{end.y + 16} H{into}"
    return f'  <path class="arrow" marker-end="url(#head)" d="{path}"/>'


def _note(height: int) -> Iterator[str]:
    words = (
        "An arrow: imports from. Arrows that a longer way implies are left out. Small boxes are the folders of a room.",
        "Outside: settings.py, urls.py and others directly in transferapi/ connect the rooms; deploy/, bench/, docs/ "
        "and tests/ may import all rooms, and no room imports them.",
    )
    for number, line in enumerate(words):
        yield f'  <text class="note" x="{LEFT[0]}" y="{height - 36 + LINE * number}">{escape(line)}</text>'
