"""Reads one file of an endpoint, or a part of it, as long as its client takes it.

Raises the registry's errors, PathNotPermittedError, OperationPausedError, NO_FILE, FILE_TOO_LARGE, and the
errors of `sessions`.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack

from django.conf import settings

from endpoints import operations
from endpoints.errors import FILE_TOO_LARGE, NO_FILE
from endpoints.gridftp.connection import STALL_TIMEOUT
from endpoints.gridftp.facts import Entry
from endpoints.gridftp.faults import FaultError, Kind, make_fault
from endpoints.gridftp.streams.file_streams import FileReader, OctetBudget
from endpoints.pause_rules import PausableOperation
from endpoints.sessions.remote import open_reader
from identity.error_categories import RefusedError
from identity.models import User

from .sessions import Closable, FileSession

#: Octets of a file that are requested ahead of its client, or wait for it.
AHEAD = 2 * 2**20
#: Octets a second at which a file must move, and seconds that it may be late in addition.
SLOWEST, PAUSE = 50_000, 30.0


class Download(Closable):
    """An open file. `entry`: its facts, with the name that the user knows it by. `close` must be called."""

    def __init__(self, session: FileSession, entry: Entry) -> None:
        self.entry = entry
        self._session = session
        self._first = b""
        self._length = 0
        #: Only the end of the file is read.
        self._is_rest = False
        self._stream: FileReader | None = None
        self._share = OctetBudget(AHEAD).share()
        self._opened = ExitStack()
        self._opened.callback(session.close)

    def begin(self, offset: int, length: int) -> None:
        """Have the server send `length` octets from `offset` on; a refusal is raised here."""
        if length > settings.LIMITS.download:
            raise RefusedError(FILE_TOO_LARGE, limit=settings.LIMITS.download)
        session = self._session
        opening = open_reader(
            session.session, session.path, offset, self._share, expected=offset + length, encrypt=session.encrypt
        )
        self._stream = stream = session.run(opening)
        self._opened.callback(lambda: session.run(stream.close()))
        self._length = length
        self._is_rest = offset > 0 and offset + length == self.entry.size
        self._first = session.run(stream.read())

    def __iter__(self) -> Iterator[bytes]:
        """Exactly the octets asked for. Raises FaultError where the server sends less, or all goes too slowly."""
        assert self._stream is not None
        begun, left, data = time.monotonic(), self._length, self._first
        while left:
            if not data:
                raise FaultError(make_fault(Kind.ENDPOINT_ERROR, f"the file ended {left} octets too early"))
            self._share.give(len(data))
            if self._is_rest and len(data) >= left:
                self._check_end(len(data) - left)
            data = data[:left]
            left -= len(data)
            yield data
            if time.monotonic() - begun > PAUSE + (self._length - left) / SLOWEST:
                raise FaultError(make_fault(Kind.TIMEOUT, f"slower than {SLOWEST} octets a second"))
            data = self._session.run(self._stream.read(), STALL_TIMEOUT + 1) if left else b""

    def _check_end(self, beyond: int) -> None:
        """Raises FaultError where the rest of a file is longer than it was, before its last octets are given away.

        Some servers accept REST (RFC 3659 section 5), and send the file from its beginning.
        """
        assert self._stream is not None
        if beyond or self._session.run(self._stream.read(), STALL_TIMEOUT + 1):
            raise FaultError(make_fault(Kind.FILE_SIZE_CHANGED, "the rest of the file is longer than it was"))

    def __del__(self) -> None:
        """Release the slots of an answer that was never started, so that nobody closed it."""
        self.close()


def open_file(user: User, ref: str, path: str) -> Download:
    """The file at this path. Symbolic links are followed, on a share within its folder only."""
    granted = operations.access_for(user, ref, PausableOperation.DOWNLOAD)
    granted.check(path, write=False)
    if path.endswith("/"):
        raise RefusedError(NO_FILE, path=path)
    session = FileSession(user, granted, path, write=False)
    try:
        entry = session.run(session.session.stat(session.path))
        if entry.kind != "file":
            raise RefusedError(NO_FILE, path=path)
        return Download(session, entry._replace(name=path.rpartition("/")[2]))
    except BaseException:
        session.close()
        raise
