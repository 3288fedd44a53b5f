"""The plot of a task's rate over time, with the changes of its plan, as lines of an SVG."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from transferapi.tasks.history.timeline import PlanChange, RatePoint

WIDTH, HEIGHT = 720, 120
#: Room above the highest point.
_TOP = 8


@dataclass(frozen=True)
class Mark:
    x: float
    number: int
    plan: PlanChange


@dataclass(frozen=True)
class Plot:
    line: str
    area: str
    highest: float
    start: datetime
    end: datetime
    marks: list[Mark]
    width: int = WIDTH
    height: int = HEIGHT


def plot(points: list[RatePoint], plans: list[PlanChange]) -> Plot | None:
    """None where there is nothing to draw."""
    highest = max((point.rate for point in points), default=0.0)
    if not highest:
        return None
    start, end = points[0].start, max(point.end for point in points)
    seconds = max((end - start).total_seconds(), 0.001)

    def x(time: datetime) -> float:
        return round(WIDTH * min(1.0, max(0.0, (time - start).total_seconds() / seconds)), 1)

    def y(rate: float) -> float:
        return round(HEIGHT - (HEIGHT - _TOP) * rate / highest, 1)

    corners = [(x(time), y(point.rate)) for point in points for time in (point.start, point.end)]
    line = "M" + "L".join(f"{across} {down}" for across, down in corners)
    area = f"{line}L{corners[-1][0]} {HEIGHT}L{corners[0][0]} {HEIGHT}Z"
    marks = [Mark(x(plan.time), number, plan) for number, plan in enumerate(plans, 1)]
    return Plot(line, area, highest, start, end, marks)
