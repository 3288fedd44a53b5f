"""How much a server may send by ssh: the lines before its version, and messages that nobody asked for.

Each message costs us about as much time as a kilobyte of data, and all sessions of a worker share one processor. RFC
4253 bounds neither. Nothing here opens or reads a connection.
"""

from __future__ import annotations

import time
from collections.abc import Callable

#: Octets and lines before the version (RFC 4253, 4.2). OpenSSH's client reads 1,024 lines of 8,192 octets.
MAX_GREETING, MAX_GREETING_LINES = 64 * 1024, 1024
#: Octets of the version line, with its end.
MAX_VERSION = 255
#: Messages until the login has ended. OpenSSH sends about twelve.
LOGIN_MESSAGES = 256
#: Messages after the login beyond those that are earned: at once, and in each second. asyncssh's servers send two
#: messages for one, and OpenSSH's a message every second at most where nothing happens (ClientAliveInterval).
SPARE_MESSAGES, MESSAGES_PER_SECOND = 4096, 50.0
#: Messages that a packet of ours earns, and one more for each so many octets, up to a limit: it holds several requests,
#: which have several answers, or data for which a server opens its window anew.
EARNED, OCTETS_OF_REQUEST, MOST_EARNED = 4, 8, 128
#: A message of so many octets is paid by the network that it takes.
LARGE = 1024
#: The cost of a key exchange, in messages: two operations with public keys.
KEY_EXCHANGE = 200


class TooManyMessagesError(Exception):
    """The server has sent more than its budget. reason: for people."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class VersionSearch:
    """Finds the version of a server in what it sends first. The time is linear in the octets, however they come."""

    def __init__(self) -> None:
        self._octets = self._lines = 0
        self._line = bytearray()

    def feed(self, data: bytes) -> bytes:
        """The octets from the line of the version on; empty until it is there.

        Raises TooManyMessagesError, also for a line that begins with "SSH-" and is too long.
        """
        begin = 0
        while (end := data.find(b"\n", begin)) >= 0:
            self._take(data[begin : end + 1])
            begin = end + 1
            if self._line.startswith(b"SSH-"):
                return bytes(self._line) + data[begin:]
            self._lines += 1
            self._line.clear()
            if self._lines > MAX_GREETING_LINES:
                raise TooManyMessagesError(f"no ssh version in its first {MAX_GREETING_LINES} lines")
        self._take(data[begin:])
        return b""

    def _take(self, piece: bytes) -> None:
        self._octets += len(piece)
        if self._octets > MAX_GREETING:
            raise TooManyMessagesError(f"no ssh version in its first {MAX_GREETING} octets")
        self._line += piece
        if len(self._line) > MAX_VERSION and self._line.startswith(b"SSH-"):
            raise TooManyMessagesError(f"an ssh version of more than {MAX_VERSION} octets")


class MessageBudget:
    """The messages that one connection, or a stream of small messages in one, may still receive.

    clock: seconds, monotonic.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._left = float(LOGIN_MESSAGES)
        #: None until the login has ended.
        self._at: float | None = None

    def logged_in(self) -> None:
        """From now on messages are earned."""
        if self._at is None:
            self._left, self._at = float(SPARE_MESSAGES), self._clock()

    def sent(self, octets: int) -> None:
        """A message of ours with data for a channel; no other message of ours is a request."""
        if self._at is not None:
            earned = min(MOST_EARNED, EARNED + octets // OCTETS_OF_REQUEST)
            self._left = min(float(SPARE_MESSAGES), self._left + earned)

    def received(self, octets: int) -> None:
        """A message of the server. Raises TooManyMessagesError."""
        if self._at is None or octets < LARGE:
            self.spend(1)

    def key_exchange(self) -> None:
        """The server begins a key exchange: the first one belongs to the login. Raises TooManyMessagesError."""
        self.spend(1 if self._at is None else KEY_EXCHANGE)

    def spend(self, messages: int) -> None:
        """Count messages of the server. Raises TooManyMessagesError."""
        if self._at is not None:
            now = self._clock()
            self._left = min(float(SPARE_MESSAGES), self._left + (now - self._at) * MESSAGES_PER_SECOND)
            self._at = now
        self._left -= messages
        if self._left < 0 and self._at is None:
            raise TooManyMessagesError(f"more than {LOGIN_MESSAGES} messages before the end of the login")
        if self._left < 0:
            raise TooManyMessagesError("many more messages than were asked for")
