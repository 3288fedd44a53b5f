"""A plain FTP server (RFC 959) over a real folder, as odd as a test makes it.

Subclass it: `answer` is asked before each command, and `lines` makes a listing. With neither it is a plain server that
knows LIST, SIZE and MDTM.
"""

from __future__ import annotations

import os
import posixpath
import select
import socket
import threading
import time
from pathlib import Path
from types import TracebackType
from typing import Self

_WITH_DATA = frozenset({"LIST", "MLSD", "RETR", "STOR"})


class OddFtp:
    #: Lines of FEAT; None: FEAT is not known.
    features: tuple[str, ...] | None = ("SIZE", "MDTM", "REST STREAM", "EPSV", "UTF8")
    #: Commands that it does not know.
    unknown: frozenset[str] = frozenset()
    end_of_line = b"\r\n"
    end_of_listing = "226 Transfer complete"

    def __init__(self, root: Path) -> None:
        self.root = root
        #: All commands, with their arguments.
        self.log: list[tuple[str, bytes]] = []
        self._socket = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.port = int(self._socket.getsockname()[1])
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self._socket.close()

    # ---- to be overridden

    def answer(self, verb: str, argument: bytes, session: OddSession) -> str | None:
        """The reply in place of the usual one; "": none, and the session has said it itself."""
        return None

    def line(self, path: bytes, verb: str) -> bytes:
        """One line of a listing, without its end."""
        found = os.lstat(path)
        is_folder = os.path.isdir(path)
        name = os.path.basename(path)
        moment = time.gmtime(found.st_mtime)
        if verb == "MLSD":
            facts = f"type={'dir' if is_folder else 'file'};size={found.st_size};"
            return facts.encode() + time.strftime("modify=%Y%m%d%H%M%S; ", moment).encode() + name
        kind = "d" if is_folder else "-"
        date = time.strftime("%b %d %H:%M", moment)
        return f"{kind}rw-r--r--   1 owner    group    {found.st_size:12} {date} ".encode() + name

    def listing(self, folder: bytes, verb: str) -> bytes:
        """All that goes over the data connection."""
        names = sorted(os.listdir(folder))
        return b"".join(self.line(os.path.join(folder, name), verb) + self.end_of_line for name in names)

    def greet(self, session: OddSession) -> None:
        session.say("220 ready")

    def loses_input(self, verb: str) -> bool:
        """Whether what has arrived behind this command is thrown away, before it is answered."""
        return False

    # ---- inside

    def real(self, path: bytes) -> bytes:
        return os.path.join(os.fsencode(self.root), posixpath.normpath(b"/" + path.lstrip(b"/")).lstrip(b"/")).rstrip(
            b"/"
        )

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            threading.Thread(target=OddSession(self, connection).serve, daemon=True).start()


class OddSession:
    def __init__(self, server: OddFtp, control: socket.socket) -> None:
        self.server = server
        self.control = control
        self._input = b""
        self._folder = b"/"
        self._offset = 0
        self._renamed = b""
        self._listener: socket.socket | None = None

    def say(self, text: str) -> None:
        self.control.sendall(text.encode() + b"\r\n")

    def data(self) -> socket.socket:
        """The data connection."""
        listener, self._listener = self._listener, None
        assert listener is not None
        with listener:
            listener.settimeout(20)
            return listener.accept()[0]

    def serve(self) -> None:
        try:
            with self.control:
                self.server.greet(self)
                while line := self._line():
                    verb, _, argument = line.rstrip(b"\r\n").partition(b" ")
                    self._serve_one(verb.decode("latin-1").upper(), argument)
        except (OSError, ValueError):
            pass
        finally:
            self._close_listener()

    def _line(self) -> bytes:
        """The next command; b"" at the end of the connection."""
        while b"\n" not in self._input:
            data = self.control.recv(65536)
            if not data:
                return b""
            self._input += data
        line, _, self._input = self._input.partition(b"\n")
        if self.server.loses_input(line.split(b" ")[0].strip().decode("latin-1")):
            self.lose_input()
        return line + b"\n"

    def has_more(self) -> bool:
        """Whether more has arrived behind this command."""
        return bool(self._input) or bool(select.select([self.control], [], [], 0)[0])

    def lose_input(self) -> None:
        self._input = b""
        self.control.setblocking(False)
        try:
            while self.control.recv(65536):
                pass
        except BlockingIOError:
            pass
        finally:
            self.control.setblocking(True)

    def _close_listener(self) -> None:
        if self._listener:
            self._listener.close()

    def _serve_one(self, verb: str, argument: bytes) -> None:
        self.server.log.append((verb, argument))
        answer = self.server.answer(verb, argument, self)
        if answer is None and verb in _WITH_DATA and self._listener is None:
            answer = "425 no data connection"
        if answer is None:
            method = getattr(self, f"_{verb.lower()}", None)
            try:
                known = method is not None and verb not in self.server.unknown
                answer = method(argument) if method and known else "500 unknown command"
            except OSError as error:
                answer = f"550 {os.strerror(error.errno or 5)}"
        if answer:
            self.say(answer)

    def path(self, argument: bytes) -> bytes:
        return posixpath.join(self._folder, argument)

    def _real(self, argument: bytes) -> bytes:
        return self.server.real(self.path(argument))

    def _user(self, _: bytes) -> str:
        return "331 password"

    def _pass(self, _: bytes) -> str:
        return "230 in"

    def _type(self, _: bytes) -> str:
        return "200 ok"

    _noop = _type

    def _feat(self, _: bytes) -> str:
        if self.server.features is None:
            return "500 unknown command"
        self.say("211-Features")
        for one in self.server.features:
            self.say(f" {one}")
        return "211 End"

    def _pwd(self, _: bytes) -> str:
        return '257 "/"'

    def _mode(self, argument: bytes) -> str:
        return "200 ok" if argument.upper() == b"S" else "504 no"

    def _epsv(self, _: bytes) -> str:
        self._close_listener()
        self._listener = socket.create_server(("127.0.0.1", 0))
        return f"229 ok (|||{self._listener.getsockname()[1]}|)"

    def _pasv(self, argument: bytes) -> str:
        self._epsv(argument)
        assert self._listener is not None
        port = self._listener.getsockname()[1]
        return f"227 ok (127,0,0,1,{port // 256},{port % 256})"

    def _port(self, _: bytes) -> str:
        return "500 illegal PORT command"

    def _cwd(self, argument: bytes) -> str:
        path = self.path(argument)
        if not os.path.isdir(self.server.real(path)):
            os.stat(self.server.real(path))
            return "550 Not a directory"
        self._folder = path
        return "250 ok"

    def _list(self, argument: bytes, verb: str = "LIST") -> str:
        if verb == "LIST" and argument.startswith(b"-"):
            argument = argument.partition(b" ")[2]
        listing = self.server.listing(self._real(argument), verb)
        self.say("150 here")
        with self.data() as connection:
            connection.sendall(listing)
        return self.server.end_of_listing

    def _mlsd(self, argument: bytes) -> str:
        return self._list(argument, "MLSD") if self._lists_facts else "500 unknown command"

    def _mlst(self, argument: bytes) -> str:
        if not self._lists_facts:
            return "500 unknown command"
        facts = self.server.line(self._real(argument), "MLSD")
        self.control.sendall(b"250-facts\r\n " + facts + b"\r\n")
        return "250 End"

    @property
    def _lists_facts(self) -> bool:
        return any(one.startswith("MLST") for one in self.server.features or ())

    def _size(self, argument: bytes) -> str:
        path = self._real(argument)
        size = os.stat(path).st_size
        return "550 not a plain file" if os.path.isdir(path) else f"213 {size}"

    def _mdtm(self, argument: bytes) -> str:
        return time.strftime("213 %Y%m%d%H%M%S", time.gmtime(os.stat(self._real(argument)).st_mtime))

    def _rest(self, argument: bytes) -> str:
        self._offset = int(argument)
        return "350 ok"

    def _retr(self, argument: bytes) -> str:
        offset, self._offset = self._offset, 0
        with open(self._real(argument), "rb") as file:
            file.seek(offset)
            content = file.read()
        self.say("150 here")
        with self.data() as connection:
            connection.sendall(content)
        return "226 done"

    def _stor(self, argument: bytes) -> str:
        offset, self._offset = self._offset, 0
        with open(self._real(argument), "r+b" if offset else "wb") as file:
            file.seek(offset)
            self.say("150 here")
            with self.data() as connection:
                while data := connection.recv(65536):
                    file.write(data)
        return "226 done"

    def _mkd(self, argument: bytes) -> str:
        os.mkdir(self._real(argument))
        return '257 "made"'

    def _dele(self, argument: bytes) -> str:
        os.remove(self._real(argument))
        return "250 gone"

    def _rmd(self, argument: bytes) -> str:
        os.rmdir(self._real(argument))
        return "250 gone"

    def _rnfr(self, argument: bytes) -> str:
        os.lstat(self._real(argument))
        self._renamed = self._real(argument)
        return "350 ok"

    def _rnto(self, argument: bytes) -> str:
        os.rename(self._renamed, self._real(argument))
        return "250 ok"
