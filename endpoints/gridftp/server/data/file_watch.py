"""Watches the commands of a session for files that are moved, and reports them (`files_moved`)."""

from __future__ import annotations

import time

from endpoints.gridftp.server.errors import CommandRefusedError
from endpoints.gridftp.server.session import ServerSession

from .files_moved import FileMoved, FileUnderWay

#: The commands that move a file, with the number of words before its path.
_WORDS = {b"RETR": 0, b"ERET": 3, b"STOR": 0, b"APPE": 0, b"ESTO": 2}
_SENDS = (b"RETR", b"ERET")
#: Octets from which the begin of a file is reported.
LARGE = 100 * 10**6
#: Seconds between two reports of one file: more and more, so that a transfer of days fills no log.
FIRST_SECONDS, LONGEST_SECONDS, OF_ITS_TIME = 10.0, 60.0, 0.05


class FileWatch:
    """Reports the file that one command moves to the program, if that wants to know."""

    def __init__(self, session: ServerSession, verb: bytes, argument: bytes) -> None:
        self._session, self._verb, self._argument = session, verb, argument
        self._begun = time.monotonic()
        self._due = self._begun + FIRST_SECONDS
        self._told = False

    def under_way(self, octets: int, size: int | None) -> None:
        """Report the octets so far, if that is due (`TellOctets`)."""
        on_progress, now = self._session.service.on_progress, time.monotonic()
        begins = not self._told and max(octets, size or 0) >= LARGE
        if on_progress is None or not (begins or now >= self._due):
            return
        seconds, self._told = now - self._begun, True
        self._due = now + min(LONGEST_SECONDS, max(FIRST_SECONDS, seconds * OF_ITS_TIME))
        on_progress(FileUnderWay(self._path(), self._verb in _SENDS, octets, size, seconds))

    def ended(self, error: str = "") -> None:
        """Report the end of the file. error: the reply to the client; "" for success."""
        on_file = self._session.service.on_file
        if on_file is None or self._verb not in _WORDS:
            return
        path = self._path()
        on_file(FileMoved(path, self._verb in _SENDS, self._size(path), time.monotonic() - self._begun, error))

    def _path(self) -> bytes:
        words = self._argument.split(b" ", _WORDS[self._verb])
        try:
            return self._session.path(words[-1])
        except CommandRefusedError:
            return words[-1]

    def _size(self, path: bytes) -> int:
        try:
            return self._session.service.root.stat(path).st_size
        except OSError:
            return 0
