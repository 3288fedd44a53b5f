"""A raw FTP client for tests: lines out, replies in, nothing in between that could hide a server's fault."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterable, Sequence
from types import TracebackType
from typing import NamedTuple, Self

from endpoints.gridftp.commands import format_host_port, parse_host_port
from endpoints.gridftp.markers import RangeMarker, parse_marker
from endpoints.gridftp.ranges import RangeSet
from endpoints.gridftp.replies import Reply, ReplyParser
from endpoints.gridftp.server.data.mode_e import EOD, HEADER_SIZE, Header, decode, end_of_data

#: Seconds for any one answer; only a hung server ever takes them.
TIMEOUT = 20.0


class Outcome(NamedTuple):
    """All that a server said to one command."""

    reply: Reply
    preliminary: Sequence[Reply]

    @property
    def code(self) -> int:
        return self.reply.code

    @property
    def text(self) -> str:
        return self.reply.text

    @property
    def ranges(self) -> RangeSet:
        """The union of its 111 markers."""
        union = RangeSet()
        for reply in self.preliminary:
            if reply.code == 111:
                marker = parse_marker(111, reply.lines)
                assert isinstance(marker, RangeMarker)
                union = union.union(marker.ranges)
        return union


class Dialogue:
    """One control channel: a new one to a port of this machine, or a socket that is one already."""

    def __init__(self, port: int | socket.socket | None, *, login: bool = True) -> None:
        assert port is not None
        if isinstance(port, int):
            port = socket.create_connection(("127.0.0.1", port), timeout=TIMEOUT)
        self.sock = port
        self._parser = ReplyParser()
        self._replies: list[Reply] = []
        assert self.next_reply().code == 220
        if login:
            assert self.ask("USER anonymous").code == 331
            assert self.ask("PASS test@").code == 230

    def send(self, *lines: str | bytes) -> None:
        octets = (line if isinstance(line, bytes) else line.encode("utf-8", "surrogateescape") for line in lines)
        self.sock.sendall(b"".join(line + b"\r\n" for line in octets))

    def next_reply(self) -> Reply:
        while not self._replies:
            data = self.sock.recv(65536)
            if not data:
                raise EOFError
            self._replies += self._parser.feed(data)
        return self._replies.pop(0)

    def outcome(self) -> Outcome:
        """Replies up to the final one of a command that was sent before."""
        preliminary: list[Reply] = []
        while (reply := self.next_reply()).is_preliminary:
            preliminary.append(reply)
        return Outcome(reply, preliminary)

    def ask(self, line: str | bytes) -> Outcome:
        self.send(line)
        return self.outcome()

    def ask_all(self, *lines: str | bytes) -> list[Outcome]:
        """All in one go."""
        self.send(*lines)
        return [self.outcome() for _ in lines]

    def demand(self, *lines: str | bytes) -> None:
        """Each of them must succeed."""
        for line, outcome in zip(lines, self.ask_all(*lines), strict=True):
            assert not outcome.reply.is_error, (line, str(outcome.reply))

    def passive(self) -> tuple[str, int]:
        outcome = self.ask("PASV")
        assert outcome.code == 227, outcome.text
        return parse_host_port(b" ".join(outcome.reply.lines))

    def port(self, address: tuple[str, int]) -> None:
        self.demand(b"PORT " + format_host_port(*address))

    def is_closed(self) -> bool:
        """Whether the server hangs up now, possibly after some last words."""
        try:
            while self.sock.recv(65536):
                pass
        except ConnectionError:
            pass
        except TimeoutError:
            return False
        return True

    def close(self) -> None:
        self.sock.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self.close()


def connect(address: tuple[str, int]) -> socket.socket:
    return socket.create_connection(address, timeout=TIMEOUT)


def listen() -> socket.socket:
    listener = socket.create_server(("127.0.0.1", 0))
    listener.settimeout(TIMEOUT)
    return listener


def accept(listener: socket.socket) -> socket.socket:
    sock, _ = listener.accept()
    sock.settimeout(TIMEOUT)
    return sock


def read_all(sock: socket.socket) -> bytes:
    pieces = []
    while piece := sock.recv(65536):
        pieces.append(piece)
    return b"".join(pieces)


def read_exactly(sock: socket.socket, length: int) -> bytes:
    data = b""
    while len(data) < length:
        piece = sock.recv(length - len(data))
        if not piece:
            raise EOFError
        data += piece
    return data


def read_blocks(sock: socket.socket) -> tuple[dict[int, bytes], Header]:
    """One file's blocks on one MODE E stream, by offset, and the header that ended them."""
    blocks: dict[int, bytes] = {}
    while True:
        header = decode(read_exactly(sock, HEADER_SIZE))
        if header.length:
            blocks[header.offset] = read_exactly(sock, header.length)
        if header.descriptor & EOD:
            return blocks, header


def blocks(pieces: Iterable[tuple[int, bytes]], streams: int | None = 1) -> bytes:
    """A file, or a stream's part of one, as MODE E sends it."""
    return b"".join(Header(0, len(data), offset).encode() + data for offset, data in pieces) + end_of_data(streams)


def reset(sock: socket.socket) -> None:
    """Close so that the other side sees a reset."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    sock.close()


class ThirdParty:
    """Two control channels in MODE E with a cached data channel between them, as a client makes one."""

    def __init__(self, source: Dialogue, destination: Dialogue, parallelism: int = 1) -> None:
        self.source, self.destination = source, destination
        self.source.demand("TYPE I", "MODE E", f"OPTS RETR Parallelism={parallelism},{parallelism},{parallelism};")
        self.destination.demand("TYPE I", "MODE E")
        self.connect()

    def connect(self) -> None:
        """A new data channel; what was left of the old one is closed on both sides."""
        self.source.ask("PASV")
        self.source.port(self.destination.passive())

    def move(self, pairs: Sequence[tuple[str, str]]) -> list[tuple[Outcome, Outcome]]:
        """Pipeline these (source path, destination path); what each side said to each."""
        self.destination.send(*(f"STOR {path}" for _, path in pairs))
        self.source.send(*(f"RETR {path}" for path, _ in pairs))
        return [(self.source.outcome(), self.destination.outcome()) for _ in pairs]
