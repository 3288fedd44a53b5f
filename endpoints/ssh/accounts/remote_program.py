"""A command in the account's shell: what it reports by marked lines, and its standard streams as a control channel."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar, cast

import asyncssh

from .remote_shell import SFTP_INIT, is_sftp

_P = TypeVar("_P", bound=asyncio.Protocol)
#: Octets that a shell may write before the first mark: greetings of profiles.
MAX_BANNER = 64 * 1024
#: Octets of the command's standard error that are kept.
MAX_STDERR = 1000
#: Octets that the remote side may send ahead of us. Control channels carry listings, too.
WINDOW = 1024 * 1024


@dataclass(eq=False)
class NoMarkError(Exception):
    """The script did not run, or ended too early (begun: after its first mark).

    sftp: a server of SFTP answered in its place. text: what came instead, for people.
    """

    text: str
    sftp: bool = False
    begun: bool = False


class RemoteProgram(asyncssh.SSHClientSession[bytes]):
    """One command. First its marked lines are read; `hand_over` gives all later octets to a protocol."""

    def __init__(self, mark: str) -> None:
        self._mark = mark.encode() + b" "
        self._head = bytearray()
        #: The octets of it in which there is no end of a line.
        self._looked_at = 0
        #: Octets of lines without the mark, with their ends: a server may send empty lines without an end, too.
        self._skipped = 0
        #: The last line without the mark that is not empty.
        self._last = b""
        self._begun = False
        self._news = asyncio.Event()
        self._ended = False
        self._protocol: asyncio.Protocol | None = None
        self.stderr = b""
        #: Seconds, measured when the command was started.
        self.round_trip = 0.0
        self.channel: asyncssh.SSHClientChannel[bytes]

    # ---- asyncssh.SSHClientSession

    def connection_made(self, chan: asyncssh.SSHClientChannel[bytes]) -> None:
        self.channel = chan
        # Behind the request for the command, which asyncssh sends after this call: the script waits for these octets,
        # and need not wait for another round trip.
        asyncio.get_running_loop().call_soon(self._say_first)

    def _say_first(self) -> None:
        with contextlib.suppress(OSError):  # a command that has ended already has said why
            self.channel.write(SFTP_INIT)

    def data_received(self, data: bytes, datatype: int | None) -> None:
        if datatype is not None:
            self.stderr = (self.stderr + data)[-MAX_STDERR:]
        elif self._protocol:
            self._protocol.data_received(data)
        else:
            self._head += data
            if len(self._head) > 2 * MAX_BANNER:
                self.channel.pause_reading()
            self._news.set()

    def eof_received(self) -> bool:
        self._end()
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self._end()
        if self._protocol:
            self._protocol.connection_lost(exc)

    def _end(self) -> None:
        self._ended = True
        self._news.set()

    # ---- use

    async def report(self) -> list[str]:
        """The words of the next marked line. Raises NoMarkError."""
        while True:
            found = self._next()
            if found is not None:
                self._begun = True
                return found
            self._check()
            self._news.clear()
            await self._news.wait()

    def _next(self) -> list[str] | None:
        """Skip other lines. A greeting without an end of line may stand before the mark.

        The time is linear in the octets: the lines that were read are removed together.
        """
        begin, found = 0, None
        while found is None and self._skipped <= MAX_BANNER:
            end = self._head.find(b"\n", max(begin, self._looked_at))
            if end < 0:
                self._looked_at = len(self._head)
                break
            line, begin = bytes(self._head[begin:end]), end + 1
            _, mark, report = line.partition(self._mark)
            if mark:
                found = report.decode("utf-8", "replace").split()
            else:
                self._skipped += len(line) + 1
                self._last = line or self._last
        del self._head[:begin]
        self._looked_at = max(0, self._looked_at - begin)
        return found

    def _check(self) -> None:
        if not self._begun and is_sftp(bytes(self._head[:5])):
            raise NoMarkError("an SFTP server answered", sftp=True)
        if self._skipped + len(self._head) > MAX_BANNER:
            raise NoMarkError("the account's shell writes without an end")
        if self._ended:
            text = (self.stderr or bytes(self._head) or self._last).decode("utf-8", "replace").strip()
            raise NoMarkError(text[:500], begun=self._begun)

    def hand_over(self, make: Callable[[], _P]) -> _P:
        """Give all further octets, and the end, to a protocol, which is returned."""
        protocol = make()
        protocol.connection_made(cast(asyncio.Transport, self.channel))
        self._protocol = protocol
        rest, self._head = bytes(self._head), bytearray()
        if rest:
            protocol.data_received(rest)
        if self._ended:
            protocol.connection_lost(None)
        return protocol
