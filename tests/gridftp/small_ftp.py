"""A small FTP server over a real folder, in threads, whose subclasses lie: for what no real server does when asked.

Override `before` (a reply in place of the command's own, or HANG_UP), `sending`, `receiving`, or the attributes.
"""

from __future__ import annotations

import contextlib
import os
import socket
import socketserver
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import ClassVar, Self

HANG_UP = "hang up"
#: Seconds for a data connection, and for one octet on it.
DATA_TIMEOUT = 20.0


class SmallFtp:
    """most: sessions at one time; the others are refused by `full` at this command ("greeting": before any).

    log: every command of every session.
    """

    feat: ClassVar[tuple[str, ...]] = ("SIZE", "MDTM", "REST STREAM", "EPSV", "UTF8")
    most: int = 1000
    full_at = "greeting"
    full = "421 Too many connections (2) from this IP"
    #: Whether it connects to other hosts and ports when PORT says so.
    active = False

    def __init__(self, root: Path, address: str = "127.0.0.1") -> None:
        self.root = root
        self.address = address
        self.log: list[tuple[str, str]] = []
        self.sessions: set[FtpSession] = set()
        #: The most sessions that were open at one time, and those that were refused.
        self.peak = self.refused = 0
        self.lock = threading.Lock()
        family = socket.AF_INET6 if ":" in address else socket.AF_INET

        class Handler(socketserver.StreamRequestHandler):
            def handle(handler) -> None:  # noqa: N805 - the server is `self`
                self._serve(handler)

        class Server(socketserver.ThreadingTCPServer):
            address_family = family
            allow_reuse_address = daemon_threads = True
            request_queue_size = 64

        self._server = Server((address, 0), Handler)
        self.port = int(self._server.server_address[1])

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self._server.shutdown()
        self._server.server_close()

    def count(self, verb: str) -> int:
        return sum(one == verb for one, _ in self.log)

    def _serve(self, handler: socketserver.StreamRequestHandler) -> None:
        with self.lock:
            session = FtpSession(self, handler, len(self.sessions) + 1)
            self.sessions.add(session)
            self.peak = max(self.peak, min(self.most, len(self.sessions)))
        try:
            with contextlib.suppress(OSError, ValueError):
                session.run()
        finally:
            with self.lock:
                self.sessions.discard(session)

    # ---- for subclasses

    def before(self, verb: str, argument: str, session: FtpSession) -> str | None:
        """A reply in place of that of the command, HANG_UP, or None."""
        return None

    def sending(self, connection: socket.socket, path: Path, offset: int) -> None:
        with path.open("rb") as file:
            file.seek(offset)
            while data := file.read(65536):
                connection.sendall(data)

    def receiving(self, connection: socket.socket, path: Path, offset: int) -> None:
        with path.open("r+b" if offset else "wb", buffering=0) as file:
            file.seek(offset)
            file.truncate()
            while data := connection.recv(65536):
                file.write(data)


class FtpSession:
    """One control connection. number: of those that are open."""

    def __init__(self, server: SmallFtp, handler: socketserver.StreamRequestHandler, number: int) -> None:
        self.server = server
        self.number = number
        self.control: socket.socket = handler.request
        self._lines = handler.rfile
        self._offset = 0
        self._rename = Path()
        self._listener: socket.socket | None = None
        self._target: tuple[str, int] | None = None

    def say(self, text: str) -> None:
        self.control.sendall(text.encode("utf-8", "surrogateescape") + b"\r\n")

    def run(self) -> None:
        if self._is_refused("greeting"):
            self.say(self.server.full)
            return
        self.say("220 ready")
        for line in self._lines:
            verb, _, argument = line.decode("utf-8", "surrogateescape").rstrip("\r\n").partition(" ")
            self.server.log.append((verb, argument))
            reply = self.server.full if self._is_refused(verb) else self.server.before(verb, argument, self)
            if reply == HANG_UP:
                return
            self.say(reply or self._answer(verb, argument))
            if verb == "QUIT" or (reply or "").startswith("421"):
                return

    def _is_refused(self, at: str) -> bool:
        refused = at == self.server.full_at and self.number > self.server.most
        self.server.refused += refused
        return refused

    def _answer(self, verb: str, argument: str) -> str:
        known: Callable[[str], str] | None = getattr(self, f"_{verb.lower()}", None)
        if known is None:
            return "500 unknown command"
        try:
            return known(argument)
        except FileNotFoundError:
            return f"550 {argument}: No such file or directory"
        except TimeoutError:
            return "425 No data connection"
        except OSError as error:
            return f"550 {argument}: {error.strerror}"

    def _path(self, argument: str) -> Path:
        return self.server.root / argument.lstrip("/")

    def _data(self) -> socket.socket:
        if self._target:
            target, self._target = self._target, None
            return socket.create_connection(target, timeout=DATA_TIMEOUT)
        assert self._listener is not None
        listener, self._listener = self._listener, None
        with listener:
            connection, _ = listener.accept()
        connection.settimeout(DATA_TIMEOUT)
        return connection

    # ---- commands

    def _user(self, _: str) -> str:
        return "331 password"

    def _pass(self, _: str) -> str:
        return "230 in"

    def _feat(self, _: str) -> str:
        return "211-Features\r\n" + "".join(f" {one}\r\n" for one in self.server.feat) + "211 End"

    def _pwd(self, _: str) -> str:
        return '257 "/"'

    def _type(self, _: str) -> str:
        return "200 ok"

    def _noop(self, _: str) -> str:
        return "200 ok"

    def _mode(self, argument: str) -> str:
        return "200 ok" if argument == "S" else "504 no"

    def _listen(self) -> int:
        if self._listener is not None:
            self._listener.close()
        family = socket.AF_INET6 if ":" in self.server.address else socket.AF_INET
        self._listener = socket.create_server((self.server.address, 0), family=family)
        self._listener.settimeout(DATA_TIMEOUT)
        return int(self._listener.getsockname()[1])

    def _epsv(self, _: str) -> str:
        return f"229 ok (|||{self._listen()}|)"

    def _pasv(self, _: str) -> str:
        port = self._listen()
        return f"227 ok ({self.server.address.replace('.', ',')},{port // 256},{port % 256})"

    def _port(self, argument: str) -> str:
        if not self.server.active:
            return "500 Illegal PORT command."
        *host, high, low = argument.split(",")
        self._target = (".".join(host), int(high) * 256 + int(low))
        return "200 ok"

    def _cwd(self, argument: str) -> str:
        path = self._path(argument)
        return "250 ok" if path.is_dir() else f"550 {argument}: " + ("Not a directory" if path.exists() else "None")

    def _list(self, argument: str) -> str:
        path = self._path(argument.partition(" ")[2] if argument.startswith("-") else argument)
        names = sorted(path.iterdir())
        self.say("150 here")
        with self._data() as connection:
            for one in names:
                facts = one.stat()
                kind = "d" if one.is_dir() else "-"
                when = time.strftime("%b %d %H:%M", time.gmtime(facts.st_mtime))
                line = f"{kind}rw-r--r--   1 owner group {facts.st_size:12d} {when} {one.name}\r\n"
                connection.sendall(line.encode("utf-8", "surrogateescape"))
        return "226 done"

    def _size(self, argument: str) -> str:
        path = self._path(argument)
        return f"213 {path.stat().st_size}" if path.is_file() else f"550 {argument}: not a plain file"

    def _mdtm(self, argument: str) -> str:
        return "213 " + time.strftime("%Y%m%d%H%M%S", time.gmtime(self._path(argument).stat().st_mtime))

    def _rest(self, argument: str) -> str:
        self._offset = int(argument)
        return "350 ok"

    def _take_offset(self) -> int:
        offset, self._offset = self._offset, 0
        return offset

    def _retr(self, argument: str) -> str:
        path, offset = self._path(argument), self._take_offset()
        path.stat()
        self.say("150 here")
        with self._data() as connection:
            self.server.sending(connection, path, offset)
        return "226 done"

    def _stor(self, argument: str) -> str:
        path, offset = self._path(argument), self._take_offset()
        path.parent.stat()
        self.say("150 here")
        with self._data() as connection:
            self.server.receiving(connection, path, offset)
        return "226 done"

    def _mkd(self, argument: str) -> str:
        self._path(argument).mkdir()
        return f'257 "{argument}" made'

    def _dele(self, argument: str) -> str:
        self._path(argument).unlink()
        return "250 gone"

    def _rmd(self, argument: str) -> str:
        self._path(argument).rmdir()
        return "250 gone"

    def _rnfr(self, argument: str) -> str:
        self._rename = self._path(argument)
        os.lstat(self._rename)
        return "350 ok"

    def _rnto(self, argument: str) -> str:
        self._rename.rename(self._path(argument))
        return "250 ok"

    def _quit(self, _: str) -> str:
        return "221 bye"
