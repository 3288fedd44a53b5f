"""A GridFTP server whose folders have no end, on a port of its own.

`listing` yields the lines of a folder (facts, a blank, a name), for ever if it likes. By MLSC on the control channel,
or by MLSD on data connections where `by_data`.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterable, Iterator
from itertools import count, islice
from types import TracebackType
from typing import Self

Listing = Callable[[str], Iterable[str]]
FILE, FOLDER = "Type=file;Size=1;Modify=20260102030405;", "Type=dir;Modify=20260102030405;"
#: Lines that are sent at once.
BLOCK = 500


def files(_: str) -> Iterator[str]:
    return (f"{FILE} file{number}" for number in count())


def one_file(_: str) -> Iterator[str]:
    return (f"{FILE} same" for _ in count())


def folders(_: str) -> Iterator[str]:
    return (f"{FOLDER} folder{number}" for number in count())


def tree(_: str) -> Iterator[str]:
    """Each folder has some more in it."""
    return (f"{FOLDER} {number}" for number in range(8))


class EndlessServer:
    def __init__(self, listing: Listing, *, by_data: bool = False) -> None:
        self._listing = listing
        self._by_data = by_data
        self._socket = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.port = int(self._socket.getsockname()[1])
        #: Connections that are open, and lines that were sent.
        self.open: set[socket.socket] = set()
        self.lines = 0
        #: Control connection -> listener for its next data connection.
        self._data: dict[socket.socket, socket.socket] = {}
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        for one in (self._socket, *self.open, *self._data.values()):
            one.close()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            # Without it the kernel would take tens of megabytes that nobody has read, and `lines` would count them.
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 16)
            self.open.add(connection)
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        try:
            connection.sendall(b"220 Welcome.\r\n")
            for line in connection.makefile("rb"):
                verb, _, path = line.decode("utf-8", "surrogateescape").rstrip("\r\n").partition(" ")
                for part in self._answer(verb.upper(), path, connection):
                    connection.sendall(part)
        except OSError:
            pass
        finally:
            self.open.discard(connection)
            connection.close()

    def _answer(self, verb: str, path: str, control: socket.socket) -> Iterator[bytes]:
        features = "MLST Type*;Size*;Modify*;UNIX.slink*;\r\n UTF8" + ("" if self._by_data else "\r\n MLSC")
        known = {
            "USER": "331 Password.",
            "FEAT": f"211-Features\r\n {features}\r\n211 End",
            "PWD": '257 "/"',
            "MKD": "550 File exists.",
            "MLST": f"250-Facts\r\n {FOLDER} {path}\r\n250 End",
        }
        if verb == "MLSC":
            for lines in self._blocks(path):
                entries = "".join(f" {line}\r\n" for line in lines)
                yield f"150-Contents\r\n{entries}150 End.\r\n".encode()
            yield b"250-Contents\r\n250 End.\r\n"
        elif verb == "EPSV":
            data = self._data[control] = socket.create_server(("127.0.0.1", 0))
            data.settimeout(20)
            yield f"229 Entering (|||{data.getsockname()[1]}|)\r\n".encode()
        elif verb == "MLSD":
            yield b"150 Here.\r\n"
            with self._data.pop(control) as listener, listener.accept()[0] as data:
                data.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 16)
                for lines in self._blocks(path):
                    data.sendall("".join(f"{line}\r\n" for line in lines).encode())
            yield b"226 Done.\r\n"
        else:
            yield known.get(verb, "230 Done.").encode() + b"\r\n"

    def _blocks(self, path: str) -> Iterator[list[str]]:
        lines = iter(self._listing(path))
        while block := list(islice(lines, BLOCK)):
            self.lines += len(block)
            yield block
