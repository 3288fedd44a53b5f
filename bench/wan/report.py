"""Results as JSON lines, a table in Markdown, and a plot as SVG."""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from html import escape
from pathlib import Path

from bench.table import machine

from .network import GIGABIT

LINE_RATE = GIGABIT / 8 / 1e6
#: Columns of the table; the expert's best is the fastest of the search.
NAMES = {
    "guc": "guc as installed",
    "guc-paper": "guc paper",
    "guc-cc32": "guc cc 32 p 4 pp",
    "guc-best": "expert's best",
    "scp": "scp -r",
    "rsync": "rsync",
    "rclone": "rclone sftp",
    "ours-paper": "ours paper",
    "ours-adaptive": "ours adaptive",
}
EXPERT = "guc-best"
#: Beside a figure that says more about the machine than about the line, and where that begins.
BUSY = "†"
LEAST_IDLE, MOST_LATE = 0.05, 0.01
COLOURS = ("#999999", "#4e79a7", "#76b7b2", "#e15759", "#bab0ac", "#9c755f", "#edc948", "#b07aa1", "#59a14f")


@dataclass(frozen=True)
class Result:
    """One run. `round` 0 is the first of ours between two endpoints: no open session, no history.

    `search`: only to find the expert's best. `mb_per_s` of one that was not done in time: what had arrived by then.
    `idle`: the share of the machine's processors, and `late`: of the packets by more than 1 ms.
    """

    when: str
    set: str
    files: int
    total: int
    rtt_ms: float
    loss: float
    tool: str
    options: str
    round: int
    search: bool
    outcome: str
    seconds: float
    mb_per_s: float
    dropped: int
    lost: int
    idle: float
    late: float

    @property
    def cell(self) -> tuple[int, str, float, float]:
        return self.total, self.set, self.loss, self.rtt_ms


def append(path: Path, result: Result) -> None:
    with path.open("a") as file:
        file.write(json.dumps(asdict(result)) + "\n")


def read(path: Path) -> list[Result]:
    return [Result(**json.loads(line)) for line in path.read_text().splitlines()]


@dataclass(frozen=True)
class Figure:
    """One tool in one cell: the median of its rounds in MB/s (None if it failed), how it was used, and the first run.

    busy: in one of the rounds the machine was the limit.
    """

    speed: float | None
    options: str
    limit: float | None = None
    cold: float | None = None
    busy: bool = False

    def __str__(self) -> str:
        if self.speed is None:
            return "failed"
        text = f"{self.speed:.1f} ({self.speed / LINE_RATE:.2f}){BUSY if self.busy else ''}"
        return f"{text}, > {self.limit:.0f} s" if self.limit else text


def figure(results: Sequence[Result], tool: str) -> Figure | None:
    """None when the tool was not run. Of all that was tried with globus-url-copy the expert has the best."""
    if not any(one.tool == tool for one in results):
        return None
    tools = [name for name in NAMES if name.startswith("guc")] if tool == EXPERT else [tool]
    mine = [one for one in results if one.tool in tools and not one.search]
    counted = [one for one in mine if one.round > 0]
    if not counted:
        return None
    choices = {one.options for one in counted}
    figures = [_of_options([one for one in mine if one.options == options]) for options in choices]
    return max(figures, key=lambda one: one.speed or 0)


def _of_options(runs: Sequence[Result]) -> Figure:
    options = runs[0].options
    if any(one.outcome not in ("done", "slow") for one in runs):
        return Figure(None, options)
    counted = [one for one in runs if one.round > 0]
    limit = max((one.seconds for one in counted if one.outcome == "slow"), default=None)
    cold = next((one.mb_per_s for one in runs if one.round == 0), None)
    return Figure(statistics.median(one.mb_per_s for one in counted), options, limit, cold, any(map(_busy, counted)))


def _busy(one: Result) -> bool:
    return one.idle < LEAST_IDLE or one.late > MOST_LATE


def cells(results: Iterable[Result]) -> dict[tuple[int, str, float, float], list[Result]]:
    found: dict[tuple[int, str, float, float], list[Result]] = {}
    for one in results:
        found.setdefault(one.cell, []).append(one)
    return dict(sorted(found.items()))


# ---- the table


def table(results: Sequence[Result]) -> str:
    """A row for each data set and line, a column for each tool that was run."""
    tools = [name for name in NAMES if any(one.tool == name for one in results)]
    head = ["data", "RTT ms", "loss %", *(NAMES[name] for name in tools)]
    head += ["cold adaptive", "adaptive / best", "paper / paper", "the best was"]
    lines = [f"MB/s (fraction of {LINE_RATE:g}). {machine()}", "", _row(head), _row(["---"] * len(head))]
    for (total, name, loss, rtt_ms), runs in cells(results).items():
        figures = {tool: figure(runs, tool) for tool in tools}
        words = [f"{name}, {runs[0].files} x {total / runs[0].files / 1e6:g} MB", f"{rtt_ms:g}", f"{loss * 100:g}"]
        words += [str(figures[tool] or "") for tool in tools]
        lines.append(_row([*words, *_verdict(figures)]))
    notes = [f"{BUSY} the machine was the limit: under {LEAST_IDLE:.0%} idle or over {MOST_LATE:.0%} of packets late"]
    return "\n".join([*lines, "", *(notes if BUSY in "".join(lines) else [])]) + "\n"


def _verdict(figures: dict[str, Figure | None]) -> list[str]:
    adaptive, best = figures.get("ours-adaptive"), figures.get(EXPERT)
    cold = f"{adaptive.cold:.1f}" if adaptive and adaptive.cold else ""
    paper = _ratio(figures.get("ours-paper"), figures.get("guc-paper"))
    return [cold, _ratio(adaptive, best), paper, best.options if best else ""]


def _ratio(one: Figure | None, other: Figure | None) -> str:
    return f"{one.speed / other.speed:.2f}" if one and other and one.speed and other.speed else ""


def _row(words: Sequence[str]) -> str:
    return f"| {' | '.join(words)} |"


# ---- the plot

PANEL_WIDTH, PANEL_HEIGHT, MARGIN = 360, 240, 50


def plot(results: Sequence[Result]) -> str:
    """An SVG: a panel for each data set, MB/s over the lines, a curve for each tool."""
    panels: dict[tuple[int, str], list[Result]] = {}
    for one in results:
        panels.setdefault((one.total, one.set), []).append(one)
    parts = [_panel(number, *key, runs) for number, (key, runs) in enumerate(sorted(panels.items()))]
    rows = (len(panels) + 2) // 3
    width, height = 3 * PANEL_WIDTH, rows * PANEL_HEIGHT + 40
    parts += [_legend(number, name, rows * PANEL_HEIGHT + 20) for number, name in enumerate(NAMES.values())]
    style = "<style>text{font:11px sans-serif}</style><rect width='100%' height='100%' fill='white'/>"
    return f"<svg xmlns='http://www.w3.org/2000/svg' width='{width}' height='{height}'>{style}{''.join(parts)}</svg>\n"


def _panel(number: int, key_total: int, name: str, runs: list[Result]) -> str:
    lines = sorted({(one.loss, one.rtt_ms) for one in runs})
    left, top = number % 3 * PANEL_WIDTH + MARGIN, number // 3 * PANEL_HEIGHT + 30
    inner_width, inner_height = PANEL_WIDTH - MARGIN - 20, PANEL_HEIGHT - 70

    def x(index: int) -> float:
        return inner_width * (index + 0.5) / len(lines)

    def y(speed: float) -> float:
        return inner_height * (1 - speed / LINE_RATE)

    parts = [f"<text x='0' y='-10'>{escape(name)}: {runs[0].files} files, {key_total / 1e6:g} MB (MB/s)</text>"]
    for speed in (0, 25, 50, 75, 100, 125):
        parts.append(f"<path d='M0 {y(speed):.1f}H{inner_width}' stroke='#ddd'/>")
        parts.append(f"<text x='-6' y='{y(speed) + 4:.1f}' text-anchor='end'>{speed}</text>")
    for index, (loss, rtt_ms) in enumerate(lines):
        label = f"{rtt_ms:g} ms" + (f", {loss * 100:g} %" if loss else "")
        parts.append(f"<text x='{x(index):.1f}' y='{inner_height + 16}' text-anchor='middle'>{label}</text>")
    for tool, colour in zip(NAMES, COLOURS, strict=True):
        figures = [figure([one for one in runs if (one.loss, one.rtt_ms) == line], tool) for line in lines]
        points = [(x(at), y(one.speed)) for at, one in enumerate(figures) if one and one.speed is not None]
        parts.append(_curve(points, colour))
    return f"<g transform='translate({left} {top})'>{''.join(parts)}</g>"


def _curve(points: Sequence[tuple[float, float]], colour: str) -> str:
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    dots = "".join(f"<circle cx='{x:.1f}' cy='{y:.1f}' r='2.5' fill='{colour}'/>" for x, y in points)
    return f"<polyline points='{path}' fill='none' stroke='{colour}' stroke-width='1.5'/>{dots}"


def _legend(number: int, name: str, y: int) -> str:
    x = 20 + number * 118
    square = f"<rect x='{x}' y='{y - 9}' width='10' height='10' fill='{COLOURS[number]}'/>"
    return f"{square}<text x='{x + 14}' y='{y}'>{escape(name)}</text>"
