"""The present pace of a task, from the changes of its counters in the last minutes."""

from __future__ import annotations

from collections import deque
from datetime import datetime, timedelta

from transferapi.tasks.models import Task

from .model import ForecastWork

#: Seconds of the window.
WINDOW = timedelta(minutes=5)


class Pace:
    """The pace of one task while one worker holds it. Call `recent` with the task's row from time to time."""

    def __init__(self) -> None:
        self._seen: deque[tuple[datetime, ForecastWork]] = deque()

    def recent(self, task: Task, now: datetime) -> tuple[ForecastWork, float]:
        """The work since the oldest call within the window, and its seconds."""
        seen = self._seen
        if not seen or now > seen[-1][0]:
            seen.append((now, ForecastWork(task.files_transferred, task.bytes_transferred)))
        while now - seen[0][0] > WINDOW:
            seen.popleft()
        began, then = seen[0]
        gained = (max(0, new - old) for new, old in zip(seen[-1][1], then, strict=True))
        return ForecastWork(*gained), (seen[-1][0] - began).total_seconds()
