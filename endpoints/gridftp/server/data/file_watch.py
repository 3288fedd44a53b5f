"""Watches the commands of a session for files that are moved, and reports each (`files_moved`)."""

from __future__ import annotations

import time

from endpoints.gridftp.server.errors import RefusedError
from endpoints.gridftp.server.session import ServerSession

from .files_moved import FileMoved

#: The commands that move a file, with the number of words before its path.
_WORDS = {b"RETR": 0, b"ERET": 3, b"STOR": 0, b"APPE": 0, b"ESTO": 2}
_SENDS = (b"RETR", b"ERET")


class FileWatch:
    """One command, if it moves a file and the program wants to know."""

    def __init__(self, session: ServerSession, verb: bytes, argument: bytes) -> None:
        self._session, self._verb, self._argument = session, verb, argument
        self._begun = time.monotonic()

    def ended(self, error: str = "") -> None:
        """error: the reply to the client; "" for success."""
        on_file = self._session.service.on_file
        if on_file is None or self._verb not in _WORDS:
            return
        path = self._path()
        on_file(FileMoved(path, self._verb in _SENDS, self._size(path), time.monotonic() - self._begun, error))

    def _path(self) -> bytes:
        words = self._argument.split(b" ", _WORDS[self._verb])
        try:
            return self._session.path(words[-1])
        except RefusedError:
            return words[-1]

    def _size(self, path: bytes) -> int:
        try:
            return self._session.service.root.stat(path).st_size
        except OSError:
            return 0
