"""Writes one file to an endpoint in parts, each by a request of its own.

The parts go to a temporary file in the folder of the file, which gets its own name when all of it has arrived.

- A beginning (a part from octet 0) has a row and a temporary name of its own (`upload_records`): no other one, such as
  that of a second page or of a request that is executed late, writes there.
- Only parts that the server has acknowledged count, and they come in order. One request writes at a time. A part that
  has arrived already is not written again.
- Before a part is written, and before the file gets its name, its size at the server is compared.
- The last part takes the row before the file gets its name. A request whose beginning does not count any more removes
  what it has written.

A temporary file that is given up is removed by its request, or by a periodic job (`leftovers`).

Raises the registry's errors, PathNotPermittedError, OperationPausedError, FILE_TOO_LARGE, UploadOffsetError,
UploadBusyError, TOO_MANY_UPLOADS, TargetExistsError, and the errors of `sessions`.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from django.conf import settings
from django.db import Error, connection

from endpoints import operations
from endpoints.errors import FILE_TOO_LARGE, TargetExistsError, UploadBusyError, UploadLostError, UploadOffsetError
from endpoints.gridftp.faults import Fault, FaultError, Kind, make_fault
from endpoints.gridftp.streams.file_streams import OctetBudget
from endpoints.models import UploadRecord
from endpoints.pause_rules import PausableOperation
from endpoints.sessions.remote import open_writer
from identity.error_categories import RefusedError
from identity.models import User

from . import upload_records as records
from .downloads import AHEAD, PAUSE, SLOWEST
from .sessions import FileSession

#: Attempts, and seconds between two, to be the one upload that gives a file this name.
_TURNS, _TURN_SECONDS = 20, 0.1


NO_PARTS = "This endpoint takes no uploads in parts: transfer the file from another endpoint."


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
        endpoint = str(self._granted.endpoint.pk)
        self._key = records.digest(str(user.pk), endpoint, path, upload_id)
        self._place = records.digest(endpoint, path)
        self._record: UploadRecord

    @property
    def received(self) -> int:
        """Octets that the server has acknowledged; 0 where there is nothing to go on with."""
        record = records.current(self._key)
        return 0 if record is None or record.is_complete else record.received

    def check(self, part: UploadPart) -> None:
        """Whether this part may come now, before it is read."""
        if part.total > settings.LIMITS.upload:
            raise RefusedError(FILE_TOO_LARGE, limit=settings.LIMITS.upload)
        self._known(part)

    def store(self, part: UploadPart, pieces: Iterable[bytes], *, replace: bool) -> bool:
        """Write a part; returns whether the file is complete, and has its name now."""
        self.check(part)
        known = self._known(part)
        if known is not None and part.end <= known.received:
            return known.is_complete
        with self._session() as session:
            if not replace:
                self._must_be_free(session)
            with self._held(session, part, known), self._renewed(session):
                self._prepare(session, part)
                session.run(self._write(session, part, pieces), PAUSE + part.length / SLOWEST)
                if part.end == part.total:
                    self._complete(session, part, replace=replace)
                elif not records.acknowledge(self._record, part.end):
                    raise self._lost()
        return part.end == part.total

    def discard(self) -> None:
        """Remove what has arrived. A part that is being written at this time is removed by its own request."""
        displaced = records.displace(self._key)
        with self._session() as session:
            remove(session, displaced)

    # ---- the record

    def _known(self, part: UploadPart) -> UploadRecord | None:
        """The beginning to which this part belongs; None if it is a beginning. Raises UploadOffsetError."""
        if not part.start:
            return None
        record = records.current(self._key)
        if record is None or record.total != part.total:
            raise UploadOffsetError(0)
        if part.start != record.received and part.end > record.received:
            raise UploadOffsetError(record.received)
        return record

    @contextmanager
    def _held(self, session: FileSession, part: UploadPart, known: UploadRecord | None) -> Iterator[None]:
        """Hold the record of this part. If the block fails, and others have arrived, it may be written again."""
        if known is None:
            endpoint, in_parts = self._granted.endpoint, not part.is_whole
            made = records.begin(self._user, endpoint, self._folder, self._key, part.total, in_parts=in_parts)
            self._record, displaced = made
        else:
            self._record, displaced = records.claim(known, part.start), ()
        try:
            # Also the row of a request that has just taken the right to give its file this name: without its temporary
            # file it cannot do so later, when this one has its name.
            remove(session, displaced)
            yield
        except BaseException:
            # Where the database is away, the hold ends by itself.
            with suppress(Error):
                self._break_off(session, part)
            raise

    def _break_off(self, session: FileSession, part: UploadPart) -> None:
        if part.start and records.release(self._record):
            return
        records.give_up(self._record)
        if session.session.usable:
            with suppress(FaultError):
                remove(session, [self._record], attempts=1)

    def _lost(self) -> UploadOffsetError:
        """Another request has taken this one's place."""
        record = records.current(self._key)
        if record is None or record.pk == self._record.pk or record.is_complete:
            return UploadLostError()
        return UploadOffsetError(record.received)

    @contextmanager
    def _renewed(self, session: FileSession) -> Iterator[None]:
        """While the block runs the loop of the session, the record is held, however long the endpoint takes.

        Raises UploadOffsetError where it cannot be held, because the upload was discarded or has begun anew.
        """
        lost: list[bool] = []

        async def keep() -> None:
            while True:
                await asyncio.sleep(records.RENEW_SECONDS)
                with suppress(Error):
                    if not await asyncio.to_thread(_renew, self._record):
                        lost.append(True)
                        session.session.abort()
                        return

        async def begin() -> asyncio.Task[None]:
            return asyncio.create_task(keep())

        keeper = session.run(begin())
        try:
            yield
        except FaultError:
            if lost:
                raise self._lost() from None
            raise
        finally:
            keeper.cancel()

    # ---- the file

    def _session(self) -> FileSession:
        return FileSession(self._user, self._granted, self._folder, write=True)

    def _temporary(self, session: FileSession) -> str:
        return temporary(session, self._record, self._record.attempt)

    def _target(self, session: FileSession) -> str:
        return f"{session.path.rstrip('/')}/{self._name}"

    def _prepare(self, session: FileSession, part: UploadPart) -> None:
        """The temporary file has what the record says, and a name that no request before knows."""
        if session.session.appears_whole:
            raise FaultError(Fault(Kind.UNSUPPORTED, retryable=False, advice=NO_PARTS))
        if not part.start:
            return
        if self._record.is_torn:
            former = self._temporary(session)
            next_one = temporary(session, self._record, self._record.attempt + 1)
            with _absence_passed_over():
                session.run(session.session.rename(former, next_one))
            if not records.move_on(self._record):
                raise self._lost()
        size = 0
        with _absence_passed_over():
            size = session.run(session.session.stat(self._temporary(session))).size
        if size < part.start:
            records.give_up(self._record)
            raise UploadLostError

    async def _write(self, session: FileSession, part: UploadPart, pieces: Iterable[bytes]) -> None:
        share = OctetBudget(AHEAD).share()
        writer = await open_writer(
            session.session, self._temporary(session), part.start, share, expected=part.length, encrypt=session.encrypt
        )
        try:
            for piece in pieces:
                await share.take(len(piece))
                await writer.write(piece)
                # A server that takes all at once would leave no turn to the renewal.
                await asyncio.sleep(0)
            await writer.finish()
        finally:
            await writer.close()

    def _must_be_free(self, session: FileSession) -> None:
        with _absence_passed_over():
            session.run(session.session.stat(self._target(session)))
            raise TargetExistsError(self.path)

    def _complete(self, session: FileSession, part: UploadPart, *, replace: bool) -> None:
        """Give the file its name, if its size is right and its beginning still counts."""
        found = session.run(session.session.stat(self._temporary(session))).size
        if found != part.total:
            records.give_up(self._record)
            raise FaultError(make_fault(Kind.ENDPOINT_ERROR, f"{found} octets arrived in place of {part.total}"))
        self._take_target()
        if not replace:
            self._must_be_free(session)
        self._give_name(session, part.total, replace=replace)
        records.complete(self._record)

    def _give_name(self, session: FileSession, size: int, *, replace: bool) -> None:
        """At a server of ours a file that is replaced keeps its mode, owner and attributes.

        Not so one with several hard links. A symlink is replaced itself.
        """
        written, target = self._temporary(session), self._target(session)
        if replace and self._is_file(session, target):
            try:
                session.run(session.session.give_name(written, target, size))
            except FaultError as error:
                if error.fault.kind is not Kind.UNSUPPORTED:
                    raise
            else:
                return
        session.run(session.session.rename(written, target))

    @staticmethod
    def _is_file(session: FileSession, path: str) -> bool:
        with _absence_passed_over():
            there = session.run(session.session.stat(path))
            return there.kind == "file" and not there.is_link
        return False

    def _take_target(self) -> None:
        """Take the name of the file for this upload, after others that write it. Raises UploadOffsetError,
        UploadBusyError.
        """
        for number in range(_TURNS):
            try:
                if not records.take_target(self._record, self._place):
                    raise self._lost()
                return
            except UploadBusyError:
                if number == _TURNS - 1:
                    raise
                time.sleep(_TURN_SECONDS)


def temporary(session: FileSession, record: UploadRecord, attempt: int) -> str:
    """The temporary name of this attempt, on the host of the session."""
    return f"{session.path.rstrip('/')}/.waybill-{record.pk.hex}-{attempt}.part"


def remove(session: FileSession, given_up: Sequence[UploadRecord], attempts: int = 2) -> bool:
    """Remove the temporary files of beginnings that were given up, and forget these; whether all are gone.

    attempts: names for each, its own and the next one: a request may have ended between the renaming and the row.
    Raises FaultError.
    """
    for record in given_up:
        names = [temporary(session, record, record.attempt + number) for number in range(attempts)]
        faults = session.run(session.session.remove([(name, False) for name in names]))
        if any(fault is not None and fault.kind is not Kind.FILE_NOT_FOUND for fault in faults):
            return False
    records.forget(given_up)
    return True


@contextmanager
def _absence_passed_over() -> Iterator[None]:
    """Leave the block where there is no such file."""
    try:
        yield
    except FaultError as error:
        if error.fault.kind is not Kind.FILE_NOT_FOUND:
            raise


def _renew(record: UploadRecord) -> bool:
    """In a thread of its own, with a connection to the database of its own."""
    try:
        return records.renew(record)
    finally:
        connection.close()
