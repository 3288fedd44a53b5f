"""Waiting for sockets: poll(2), or select(2) where a system has only that (Windows)."""

from __future__ import annotations

import select

POLLIN: int = getattr(select, "POLLIN", 1)
POLLOUT: int = getattr(select, "POLLOUT", 4)


class _Poll:
    def __init__(self) -> None:
        self._poll = select.poll()
        self.register = self._poll.register

    def poll(self, seconds: float) -> set[int]:
        """The descriptors that are ready, after at most this time."""
        return {fd for fd, _ in self._poll.poll(seconds * 1000 + 1)}


class _Select:
    def __init__(self) -> None:
        self._reading: list[int] = []
        self._writing: list[int] = []

    def register(self, fd: int, event: int) -> None:
        (self._reading if event == POLLIN else self._writing).append(fd)

    def poll(self, seconds: float) -> set[int]:
        # Windows reports a refused connection as exceptional.
        return {fd for found in select.select(self._reading, self._writing, self._writing, seconds) for fd in found}


Poller = _Poll if hasattr(select, "poll") else _Select
