"""Sends what is in the outbox, by Django's mail settings. A mail server that is down or hangs holds up no task.

Each try is bounded by EMAIL_TIMEOUT; there are TRIES of them with growing pauses, and a mail that has none left is
given up with a line in the log. A worker that dies between the server's word and ours sends a mail twice, never none.
"""

from __future__ import annotations

import contextlib
import logging
import threading
from datetime import datetime, timedelta

from django.conf import settings
from django.core.mail import EmailMessage, get_connection
from django.db import transaction

from .clock import moment
from .models import Mail

log = logging.getLogger(__name__)

TRIES = 10
#: Seconds before the second try; each further one waits twice as long, up to the longest.
FIRST_PAUSE, LONGEST_PAUSE = 30.0, 3600.0
#: Days for which what was sent, or given up, is kept: a key that is gone could be told again.
KEEP = timedelta(days=90)

#: One at a time in each process: a server that hangs takes one thread, not all.
_busy = threading.Lock()


def send_due(limit: int = 50, now: datetime | None = None) -> int:
    """Send what is due; how many were taken by the server. Stops at the first failure: the next is like it."""
    if not _busy.acquire(blocking=False):
        return 0
    try:
        sent = 0
        while sent < limit and (mail := _claim(now)) is not None and _try(mail, now):
            sent += 1
        return sent
    finally:
        _busy.release()


def forget_old(now: datetime | None = None) -> int:
    """Remove what is of long ago; how many."""
    over = Mail.objects.filter(next_try_at=None, created_at__lt=moment(now) - KEEP)
    deleted, _ = over.delete()
    return deleted


def _claim(now: datetime | None) -> Mail | None:
    """The mail that has been due for longest, with its next try put off: nobody else takes it meanwhile."""
    with transaction.atomic():
        now = moment(now)
        due = Mail.objects.filter(next_try_at__lte=now).order_by("next_try_at")
        mail = due.select_for_update(skip_locked=True, of=("self",)).select_related("user").first()
        if mail is not None:
            mail.attempts += 1
            mail.next_try_at = now + timedelta(seconds=pause(mail.attempts))
            mail.save(update_fields=["attempts", "next_try_at"])
        return mail


def pause(attempts: int) -> float:
    """Seconds until the next try after so many."""
    return min(LONGEST_PAUSE, FIRST_PAUSE * 2.0 ** (attempts - 1))


def _try(mail: Mail, now: datetime | None) -> bool:
    """Whether it needs no further try."""
    if not mail.user.email:
        return _done(mail)
    message = EmailMessage(
        mail.subject,
        mail.body,
        settings.DEFAULT_FROM_EMAIL,
        [mail.user.email],
        headers={"Auto-Submitted": "auto-generated", "Message-ID": f"<waybill-{mail.pk}@{_domain()}>"},
    )
    server = get_connection()
    try:
        server.send_messages([message])
    except Exception as error:
        with contextlib.suppress(Exception):
            server.close()
        # Its text may hold what the server was told; the kind of it is enough to find out more.
        log.warning("mail %d was not sent, try %d of %d: %s", mail.pk, mail.attempts, TRIES, type(error).__name__)
        if mail.attempts >= TRIES:
            log.error("mail %d to the user %s is given up", mail.pk, mail.user.username)
            _done(mail)
        return False
    return _done(mail, sent_at=moment(now))


def _done(mail: Mail, sent_at: datetime | None = None) -> bool:
    Mail.objects.filter(pk=mail.pk).update(next_try_at=None, sent_at=sent_at)
    return True


def _domain() -> str:
    """Of the sender; what an address may not hold never comes here, Django would refuse it."""
    return settings.DEFAULT_FROM_EMAIL.rpartition("@")[2].strip("> ") or "localhost"
