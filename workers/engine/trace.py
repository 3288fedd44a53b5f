"""The interface by which a slice reports its work to a trace: the engine knows nothing of spans and their export."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Protocol


class Trace(Protocol):
    """Words are those of the code. Calls are cheap, never wait and raise nothing; all are made on the event loop."""

    def step(self, name: str, side: str = "") -> AbstractContextManager[None]:
        """One thing that happens a few times in a slice, such as a scan or a new connection. Its faults are noted."""

    def work(self, name: str, files: int = 0, octets: int = 0) -> AbstractContextManager[None]:
        """One of many small pieces, such as a checksum: the pieces of some seconds are one span."""

    def add(self, name: str, files: int = 0, octets: int = 0) -> None:
        """As `work`, where a piece began long ago: its time is that since the piece before."""


class NoTrace:
    """Traces are off, or the task has none."""

    def step(self, name: str, side: str = "") -> AbstractContextManager[None]:
        return nullcontext()

    def work(self, name: str, files: int = 0, octets: int = 0) -> AbstractContextManager[None]:
        return nullcontext()

    def add(self, name: str, files: int = 0, octets: int = 0) -> None:
        return


NO_TRACE = NoTrace()
