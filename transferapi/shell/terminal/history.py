"""The lines that were typed in one session."""

from __future__ import annotations

from collections import deque

_MOST_LINES = 500
_MOST_CHARACTERS = 256 << 10


class History:
    """Bounded by lines and by characters: the oldest lines go first. The line that is being typed is its last."""

    def __init__(self) -> None:
        self._lines: deque[str] = deque(maxlen=_MOST_LINES)
        self._at = 0
        self._unfinished = ""

    def add(self, line: str) -> None:
        """Keep a line, but no empty one, no repetition, and none that begins with a blank. Begin at the end again."""
        if line.strip() and not line[0].isspace() and (not self._lines or line != self._lines[-1]):
            self._lines.append(line)
            while sum(map(len, self._lines)) > _MOST_CHARACTERS:
                self._lines.popleft()
        self._at = len(self._lines)

    def move(self, line: str, to: int) -> str | None:
        """The line at `to` places from where we stand, or None; `line` is kept if it is the unfinished one."""
        at = max(0, min(self._at + to, len(self._lines)))
        if at == self._at:
            return None
        if self._at == len(self._lines):
            self._unfinished = line
        self._at = at
        return self._lines[at] if at < len(self._lines) else self._unfinished

    def rewind(self) -> None:
        """Stand behind the last line."""
        self._at = len(self._lines)

    def search(self, text: str, before: int | None = None) -> int | None:
        """The newest line that contains `text`, older than `before`."""
        places = range(len(self._lines) if before is None else before)
        return next((at for at in reversed(places) if text in self._lines[at]), None)

    def __getitem__(self, at: int) -> str:
        return self._lines[at]
