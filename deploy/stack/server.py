"""A server of the embedded stack: one child process, with its data and its log in a home."""

from __future__ import annotations

import signal
import subprocess
from abc import ABC, abstractmethod
from pathlib import Path
from typing import ClassVar

from .child import spawn, stop, wait_ready


class EmbeddedServer(ABC):
    """It listens on a unix socket only. Its data are in `home/NAME`."""

    name: ClassVar[str]
    start_seconds: ClassVar[float]
    #: The signal that ends it without loss.
    end: ClassVar[signal.Signals]

    def __init__(self, home: Path) -> None:
        self.home = home
        self.data = home / self.name
        self.log = home / "logs" / f"{self.name}.log"
        self.process: subprocess.Popen[bytes] | None = None

    @abstractmethod
    def prepare(self) -> object:
        """Create missing folders."""

    @abstractmethod
    def command(self) -> list[str]: ...

    @abstractmethod
    def ready(self) -> bool:
        """Whether it accepts our connections."""

    def start(self, *, timeout: float | None = None) -> None:
        """Start, and wait until it answers. Raises StackError."""
        self.prepare()
        self.process = spawn(self.command(), log=self.log)
        wait_ready(self.name, self.process, self.ready, timeout=timeout or self.start_seconds, log=self.log)

    def stop(self, *, timeout: float = 10.0) -> None:
        if self.process is not None:
            stop(self.process, self.end, timeout=timeout)
            self.process = None
