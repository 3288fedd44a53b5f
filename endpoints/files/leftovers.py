"""Removes the temporary files of uploads that were given up, and those of requests that ended before they could.

A periodic job of the workers. It has the access that the user has now: where the user may not write there any more, has
no credential, or the endpoint does not answer, it tries again each hour for three days. Then the file stays, and a line
of the log says so.
"""

from __future__ import annotations

import logging
import time

from endpoints import operations
from endpoints.concurrency_limits import OPERATIONS
from endpoints.errors import NotPermittedError
from endpoints.gridftp.faults import FaultError
from endpoints.models import UploadRecord
from endpoints.pause_rules import PausableOperation
from endpoints.permissions import Permission
from identity import sign_in_proof
from identity.error_categories import CategorizedError

from . import upload_records, uploads
from .sessions import FileSession

log = logging.getLogger(__name__)

#: Temporary files of one round, and the seconds after which none is begun.
MOST, SECONDS = 100, 30.0


def remove_due() -> int:
    """Return the number of removed ones."""
    upload_records.give_up_due()
    ends_at, removed = time.monotonic() + SECONDS, 0
    for _ in range(MOST):
        if time.monotonic() > ends_at or (record := upload_records.claim_removal()) is None:
            break
        removed += _remove(record)
    return removed


def _remove(record: UploadRecord) -> bool:
    try:
        if _removed(record):
            return True
        why = "refused"
    except (CategorizedError, FaultError) as error:
        why = type(error).__name__
    log.info("upload %s: its temporary file is not removed, try %d: %s", record.pk, record.removals, why)
    if record.removals >= upload_records.MOST_REMOVALS:
        text = "upload %s: its temporary file stays on the endpoint %s of the user %s: %s"
        log.warning(text, record.pk, record.endpoint_id, record.owner_id, why)
        upload_records.forget([record])
    return False


def _removed(record: UploadRecord) -> bool:
    user, folder = record.owner, bytes(record.folder).decode("utf-8", "surrogateescape")
    # The demands of the endpoint were met when the upload began.
    with sign_in_proof.proven_by(sign_in_proof.Background):
        granted = operations.access_for(user, str(record.endpoint_id), PausableOperation.UPLOAD)
        if not user.is_active:
            raise NotPermittedError(Permission.TRANSFER_TO, record.endpoint)
        granted.check(folder, write=True)
        with FileSession(user, granted, folder, write=True, limits=(OPERATIONS,)) as session:
            return uploads.remove(session, [record])
