"""How fast a task goes by now: what its counters have gained in the last minutes."""

from __future__ import annotations

from collections import deque
from datetime import datetime, timedelta

from .forecast import Work
from .models import Task

#: What is older says nothing of now.
WINDOW = timedelta(minutes=5)


class Pace:
    """Of one task, while one worker has it: give it the task's row now and then."""

    def __init__(self) -> None:
        self._seen: deque[tuple[datetime, Work]] = deque()

    def recent(self, task: Task, now: datetime) -> tuple[Work, float]:
        """What was done since the oldest look within the window, and in how many seconds."""
        seen = self._seen
        if not seen or now > seen[-1][0]:
            seen.append((now, Work(task.files_transferred, task.bytes_transferred)))
        while now - seen[0][0] > WINDOW:
            seen.popleft()
        began, then = seen[0]
        gained = (max(0, new - old) for new, old in zip(seen[-1][1], then, strict=True))
        return Work(*gained), (seen[-1][0] - began).total_seconds()
