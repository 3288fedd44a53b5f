"""The rows of uploads: which beginning counts, how much of it has arrived, and which request writes it.

Each beginning has a row and a temporary file of its own, so no other one writes there. At one time one request writes:
it holds the row, and extends the hold while it lives (`renew`). Every change is one statement that names its writer,
and returns whether the writer still holds the row. Times are of the database's clock.
"""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Iterable, Sequence
from datetime import timedelta

from django.db import IntegrityError, transaction
from django.db.models import F, Q, QuerySet
from django.db.models.functions import Now

from endpoints.errors import TOO_MANY_UPLOADS, UploadBusyError, UploadLostError, UploadOffsetError
from endpoints.models import Endpoint, UploadRecord
from identity.error_categories import RefusedError
from identity.models import User

#: For so long a request holds its row without a renewal; seconds between two renewals.
HOLD, RENEW_SECONDS = timedelta(seconds=60), 15.0
#: For so long an upload that does not go on is kept, and it is known that one is complete.
KEPT, COMPLETE_KEPT = timedelta(hours=24), timedelta(minutes=10)
#: Between two attempts to remove a temporary file; attempts until it is left.
REMOVE_AGAIN, MOST_REMOVALS = timedelta(hours=1), 72
#: Unfinished uploads of one user, those included whose temporary file could not be removed. A whole file has room
#: beside those that came in parts.
MOST, MOST_WITH_WHOLE = 1000, 2000
#: Two beginnings at once: one has to look again.
_TRIES = 5

_FREE = Q(writer=None) | Q(held_until__lt=Now())


def digest(*words: str) -> str:
    return hashlib.sha256("\0".join(words).encode("utf-8", "surrogateescape")).hexdigest()


def current(key: str) -> UploadRecord | None:
    """The beginning that counts; also of an upload that is complete, for a while."""
    return UploadRecord.objects.filter(key=key).first()


def begin(
    user: User, endpoint: Endpoint, folder: str, key: str, total: int, *, in_parts: bool
) -> tuple[UploadRecord, Sequence[UploadRecord]]:
    """A new beginning, held by the caller, and those whose place it takes. in_parts: further parts are to come.

    Raises TOO_MANY_UPLOADS.
    """
    most = MOST if in_parts else MOST_WITH_WHOLE
    if UploadRecord.objects.filter(owner=user, is_complete=False).count() >= most:
        raise RefusedError(TOO_MANY_UPLOADS, limit=most)
    for number in range(_TRIES):
        try:
            with transaction.atomic():
                displaced = displace(key)
                record = UploadRecord.objects.create(
                    owner=user, endpoint=endpoint, folder=folder.encode("utf-8", "surrogateescape"), key=key,
                    total=total, writer=uuid.uuid4(), held_until=Now() + HOLD, due_at=Now() + KEPT,
                )  # fmt: skip
                return record, displaced
        except IntegrityError:
            if number == _TRIES - 1:
                raise UploadBusyError from None
    raise AssertionError


def displace(key: str) -> Sequence[UploadRecord]:
    """Give up what there is of this upload. A request that writes it finds out at its end, or at its next renewal."""
    with transaction.atomic():
        found = list(UploadRecord.objects.select_for_update().filter(key=key))
        UploadRecord.objects.filter(pk__in=[one.pk for one in found]).update(key=None, target=None, due_at=Now())
    return found


def claim(record: UploadRecord, start: int) -> UploadRecord:
    """The row, held for a part that begins where the others end.

    A request that holds it and has not renewed that is lost, or stands still: its part counts as broken off.
    Raises UploadBusyError, UploadOffsetError.
    """
    writer = uuid.uuid4()
    found = UploadRecord.objects.filter(pk=record.pk, key=record.key, received=start, is_complete=False)
    taken = {"writer": writer, "held_until": Now() + HOLD, "due_at": Now() + KEPT}
    if not found.filter(writer=None).update(**taken) and not found.filter(_FREE).update(
        **taken, is_torn=True, target=None
    ):
        now = current(str(record.key))
        if now is None or now.pk != record.pk:
            raise UploadLostError
        if now.received != start or now.is_complete:
            raise UploadOffsetError(0 if now.is_complete else now.received)
        raise UploadBusyError
    held = UploadRecord.objects.filter(pk=record.pk, key=record.key, writer=writer).first()
    if held is None:
        raise UploadLostError
    return held


def renew(record: UploadRecord) -> bool:
    return _held(record).update(held_until=Now() + HOLD) > 0


def move_on(record: UploadRecord) -> bool:
    """The temporary file of a part that was broken off has the name of the next attempt now."""
    moved = _held(record).update(attempt=record.attempt + 1, is_torn=False, held_until=Now() + HOLD) > 0
    if moved:
        record.attempt, record.is_torn = record.attempt + 1, False
    return moved


def acknowledge(record: UploadRecord, received: int) -> bool:
    """The part has arrived, and another request may write the next one."""
    end = {"writer": None, "held_until": None, "due_at": Now() + KEPT}
    return _held(record).update(received=received, **end) > 0


def release(record: UploadRecord) -> bool:
    """The part was broken off, and another request may write it again."""
    return _held(record).update(writer=None, held_until=None, target=None, is_torn=True, due_at=Now() + KEPT) > 0


def take_target(record: UploadRecord, target: str) -> bool:
    """From now on nobody takes this upload's place unnoticed, and no other file gets this name until `complete`.

    Raises UploadBusyError while another upload of this name does the same.
    """
    UploadRecord.objects.filter(target=target, held_until__lt=Now()).update(target=None, is_torn=True)
    try:
        with transaction.atomic():
            return _held(record).update(target=target, held_until=Now() + HOLD) > 0
    except IntegrityError:
        raise UploadBusyError from None


def complete(record: UploadRecord) -> None:
    """The file has its name. A request that is repeated finds this row for a while."""
    end = {"writer": None, "held_until": None, "target": None, "due_at": Now() + COMPLETE_KEPT}
    held = UploadRecord.objects.filter(pk=record.pk, writer=record.writer)
    if not held.filter(key__isnull=False).update(is_complete=True, received=F("total"), **end):
        held.delete()


def give_up(record: UploadRecord) -> None:
    """The caller does not go on. Nothing changes where another request holds the row."""
    UploadRecord.objects.filter(pk=record.pk, writer=record.writer).update(
        key=None, writer=None, held_until=None, target=None, due_at=Now()
    )


def forget(records: Iterable[UploadRecord]) -> None:
    """Delete the rows of beginnings that were given up and have no temporary file, unless a request still writes it."""
    _given_up().filter(pk__in=[one.pk for one in records]).delete()


def give_up_due() -> None:
    """Give up what has not gone on for a day, and forget what has been complete for a while."""
    due = UploadRecord.objects.filter(_FREE, due_at__lt=Now(), key__isnull=False)
    due.filter(is_complete=True).delete()
    due.filter(is_complete=False).update(key=None, writer=None, target=None)


def claim_removal() -> UploadRecord | None:
    """A beginning that was given up, whose temporary file the caller removes. Another attempt comes later.

    Those that were tried least come first: a server that never lets its files be removed delays no others.
    """
    with transaction.atomic():
        due = _given_up().filter(due_at__lte=Now()).order_by("removals", "due_at")
        due = due.select_for_update(skip_locked=True, of=("self",))
        record = due.select_related("owner", "endpoint").first()
        if record is not None:
            record.removals += 1
            UploadRecord.objects.filter(pk=record.pk).update(removals=record.removals, due_at=Now() + REMOVE_AGAIN)
        return record


def _held(record: UploadRecord) -> QuerySet[UploadRecord]:
    return UploadRecord.objects.filter(pk=record.pk, key=record.key, writer=record.writer)


def _given_up() -> QuerySet[UploadRecord]:
    return UploadRecord.objects.filter(_FREE, key=None)
