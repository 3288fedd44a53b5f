"""Stands at an agent's end of its control channels: sees each command and each reply, and may change or drop them."""

from __future__ import annotations

import re
import socket
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress

#: The last line of a final reply (RFC 959 section 4.2).
_FINAL = re.compile(rb"[2-5]\d\d ")
_LONGEST = 2**20


class WatchedControl:
    """Passes lines on between the service and the agent's own server.

    on_command: called with each verb before the server gets the command.
    on_reply: called with each line of a reply and the verb that it answers, "" for the greeting; returns the line that
    the service gets, None for none.
    """

    def __init__(self, serve: Callable[[socket.socket], None]) -> None:
        self._serve = serve
        self.on_command: Callable[[str], None] = lambda verb: None
        self.on_reply: Callable[[str, bytes], bytes | None] = lambda verb, line: line

    def take(self, control: socket.socket) -> None:
        """Serve this control channel, in threads that end with it."""
        control.setblocking(True)
        ours, servers = socket.socketpair()
        expected: deque[str] = deque([""])
        self._serve(servers)
        for pump in (self._commands, self._replies):
            threading.Thread(target=pump, args=(control, ours, expected), daemon=True).start()

    def _commands(self, control: socket.socket, server: socket.socket, expected: deque[str]) -> None:
        with suppress(OSError), control.makefile("rb") as lines:
            while line := lines.readline(_LONGEST):
                verb = line.split(None, 1)[0].decode("ascii", "replace").upper()
                self.on_command(verb)
                expected.append(verb)
                server.sendall(line)
        _hang_up(control, server)

    def _replies(self, control: socket.socket, server: socket.socket, expected: deque[str]) -> None:
        with suppress(OSError), server.makefile("rb") as lines:
            while line := lines.readline(_LONGEST):
                verb = expected.popleft() if _FINAL.match(line) else expected[0] if expected else ""
                passed = self.on_reply(verb, line)
                if passed is not None:
                    control.sendall(passed)
        _hang_up(control, server)


def _hang_up(*sockets: socket.socket) -> None:
    """Also wakes the thread that reads the other one."""
    for one in sockets:
        with suppress(OSError):
            one.shutdown(socket.SHUT_RDWR)
        one.close()
