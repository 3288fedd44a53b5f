"""Writes one file to an endpoint in parts, each by a request of its own.

The parts go to a temporary name in the folder of the file, which gets its own name when all of it has arrived. Only
parts that the server has acknowledged count: the size of an interrupted file says nothing about what is in it. How much
has been acknowledged is kept in the cache for a day. If the cache loses it, the upload begins anew.

Raises the registry's errors, PathNotPermittedError, OperationPausedError, FileTooLargeError, UploadOffsetError,
TargetExistsError, and the errors of `sessions`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass

from django.conf import settings
from django.core.cache import cache
from redis.exceptions import RedisError

from endpoints import operations
from endpoints.errors import FileTooLargeError, TargetExistsError, UploadOffsetError
from endpoints.gridftp.faults import FaultError, Kind, make_fault
from endpoints.gridftp.streams.file_streams import OctetBudget
from endpoints.pause_rules import PausableOperation
from endpoints.sessions.remote import open_writer
from identity.models import User

from .downloads import AHEAD, PAUSE, SLOWEST
from .sessions import FileSession

#: Uploads of one user that are remembered; a new one may displace another one by chance.
PLACES = 4096
#: Seconds for which an interrupted upload is remembered.
REMEMBERED = 24 * 3600
#: Seconds for which a discarded upload is remembered: longer than the last part of it may take.
DISCARDED = 600


@dataclass(frozen=True, slots=True)
class UploadPart:
    """Some octets of a file with `total` octets, from `start` on."""

    start: int
    length: int
    total: int

    @property
    def end(self) -> int:
        return self.start + self.length

    @property
    def is_whole(self) -> bool:
        return self.length == self.total


class Upload:
    """One upload of one user: what has arrived, and where it is written. upload_id: chosen by the client."""

    def __init__(self, user: User, ref: str, path: str, upload_id: str = "") -> None:
        self._user = user
        self._granted = operations.access_for(user, ref, PausableOperation.UPLOAD)
        folder, _, self._name = path.rpartition("/")
        self._folder = folder + "/"
        self._granted.check(self._folder, write=True)
        self.path = path
        words = "\0".join((str(user.pk), str(self._granted.endpoint.pk), path, upload_id))
        self._digest = hashlib.sha256(words.encode("utf-8", "surrogateescape")).hexdigest()[:32]
        self._place = f"upload:{user.pk}:{int(self._digest, 16) % PLACES}"
        self._mark = f"{self._place}:discarded"

    @property
    def received(self) -> int:
        """Octets that the server has acknowledged."""
        return self._known()[0]

    def check(self, part: UploadPart) -> None:
        """Whether this part may come now, before it is read."""
        if part.total > settings.LIMITS.upload:
            raise FileTooLargeError(settings.LIMITS.upload)
        if part.start and part.start > self._received_of(part.total):
            raise UploadOffsetError(self._received_of(part.total))

    def store(self, part: UploadPart, pieces: Iterable[bytes], *, replace: bool) -> bool:
        """Write a part; returns whether the file is complete, and has its name now."""
        self.check(part)
        if not part.start:
            with suppress(RedisError):
                cache.delete(self._mark)
        with self._session() as session:
            if not replace:
                self._must_be_free(session)
            self._remember(part, min(part.start, self.received) if part.start else 0)
            try:
                session.run(self._write(session, part, pieces), PAUSE + part.length / SLOWEST)
            finally:
                was_discarded = self._was_discarded()
                if was_discarded:
                    session.run(session.session.remove([(self._temporary(session), False)]))
                    self._forget()
            if was_discarded:
                raise UploadOffsetError(0)
            if part.end < part.total:
                self._remember(part, part.end)
                return False
            self._complete(session, part)
            return True

    async def _write(self, session: FileSession, part: UploadPart, pieces: Iterable[bytes]) -> None:
        share = OctetBudget(AHEAD).share()
        writer = await open_writer(
            session.session, self._temporary(session), part.start, share, expected=part.length, encrypt=session.encrypt
        )
        try:
            for piece in pieces:
                await share.take(len(piece))
                await writer.write(piece)
            await writer.finish()
        finally:
            await writer.close()

    def discard(self) -> None:
        """Remove what has arrived. A part that is being written at this time is removed when it is there."""
        with suppress(RedisError):
            cache.set(self._mark, self._digest, DISCARDED)
        with self._session() as session:
            session.run(session.session.remove([(self._temporary(session), False)]))
            self._forget()

    def _session(self) -> FileSession:
        return FileSession(self._user, self._granted, self._folder, write=True)

    def _temporary(self, session: FileSession) -> str:
        return f"{session.path.rstrip('/')}/.waybill-{self._digest}.part"

    def _target(self, session: FileSession) -> str:
        return f"{session.path.rstrip('/')}/{self._name}"

    def _must_be_free(self, session: FileSession) -> None:
        try:
            session.run(session.session.stat(self._target(session)))
        except FaultError as error:
            if error.fault.kind is not Kind.FILE_NOT_FOUND:
                raise
        else:
            raise TargetExistsError(self.path)

    def _complete(self, session: FileSession, part: UploadPart) -> None:
        """Give the file its name, if its size is right."""
        temporary = self._temporary(session)
        found = session.run(session.session.stat(temporary)).size
        if not part.is_whole:
            self._forget()
        if found != part.total:
            session.run(session.session.remove([(temporary, False)]))
            raise FaultError(make_fault(Kind.ENDPOINT_ERROR, f"{found} octets arrived in place of {part.total}"))
        session.run(session.session.rename(temporary, self._target(session)))

    def _received_of(self, total: int) -> int:
        """As `received`; 0 where the file had another size before."""
        octets, known = self._known()
        return octets if known == total else 0

    def _known(self) -> tuple[int, int]:
        """Octets that have arrived, of how many."""
        try:
            digest, octets, total = cache.get(self._place) or ("", 0, 0)
        except RedisError:
            return 0, 0
        return (int(octets), int(total)) if digest == self._digest else (0, 0)

    def _remember(self, part: UploadPart, octets: int) -> None:
        if not part.is_whole:
            cache.set(self._place, [self._digest, octets, part.total], REMEMBERED)

    def _was_discarded(self) -> bool:
        try:
            return bool(cache.get(self._mark) == self._digest)
        except RedisError:
            return False

    def _forget(self) -> None:
        cache.delete(self._place)
