"""Sends the mails of the outbox, with Django's mail settings. A mail server that is down or hangs delays no task.

EMAIL_TIMEOUT limits each reply, and `smtp.SENDING_SECONDS` each attempt. A mail is tried for GIVE_UP with increasing
pauses; then it is given up, with a line in the log and a count. A worker that is lost between the server's reply and
the write sends a mail twice, never not at all.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from datetime import datetime, timedelta

from django.conf import settings
from django.core.mail import EmailMessage, get_connection
from django.core.mail.backends.smtp import EmailBackend
from django.db import transaction

from identity.clock import moment
from transferapi.tasks import task_spans
from transferapi.tasks.models import Mail
from transferapi.tasks.upkeep import tallies

from . import mail_server
from .mails import account as account_mails
from .smtp import BoundedEmailBackend

log = logging.getLogger(__name__)

#: For so long a mail is tried: longer than a weekend. (RFC 5321 section 4.5.4.1 says 4 to 5 days at least, for mails
#: that others have sent; ours are about tasks, and old after that.)
GIVE_UP = timedelta(days=3)
#: A mail that waits for so long is given up without another attempt, and so many are in one call: where the server
#: hangs, there are fewer attempts than new mails.
TOO_OLD, AT_ONCE = 2 * GIVE_UP, 1000
#: For so long no other worker takes a mail that is being sent: longer than an attempt (`smtp.SENDING_SECONDS`, and the
#: look-up and connections before it).
CLAIM = timedelta(minutes=15)
#: Seconds before the second attempt; each further one waits twice as long, up to the longest.
FIRST_PAUSE, LONGEST_PAUSE = 30.0, 3600.0
#: Days for which mails that were sent or given up are kept: without its key, a fact could be reported again.
KEEP = timedelta(days=90)

#: One mail at a time in each process: a server that hangs blocks one thread, not all.
_busy = threading.Lock()


def send_due(limit: int = 50, now: datetime | None = None) -> int:
    """Send the due mails; return the number that the server accepted. Stops at the first failure of the server."""
    if not _busy.acquire(blocking=False):
        return 0
    try:
        sent = 0
        for _ in range(limit):
            if (mail := _claim(now)) is None:
                break
            reason = _try(mail, now)
            sent += not reason
            if reason not in ("", mail_server.RECIPIENT):
                break
        return sent
    finally:
        _busy.release()


def forget_old(now: datetime | None = None) -> int:
    """Delete old mails; return their number."""
    over = Mail.objects.filter(next_try_at=None, created_at__lt=moment(now) - KEEP)
    deleted, _ = over.delete()
    return deleted


def give_up_old(now: datetime | None = None) -> int:
    """Give up the mails that have waited for TOO_OLD; return their number."""
    now = moment(now)
    old = Mail.objects.filter(next_try_at__isnull=False, created_at__lt=now - TOO_OLD)
    with transaction.atomic():
        mails = list(old.select_for_update(skip_locked=True, of=("self",)).select_related("user")[:AT_ONCE])
        Mail.objects.filter(pk__in=[mail.pk for mail in mails]).update(next_try_at=None)
    for mail in mails:
        _report_given_up(mail, "waits", TOO_OLD)
    return len(mails)


def _report_given_up(mail: Mail, reason: str, after: timedelta) -> None:
    log.error("mail %d to the user %s is given up after %s: %s", mail.pk, mail.user.username, after, reason)
    tallies.add("mails_given_up")


def _claim(now: datetime | None) -> Mail | None:
    """The mail that has been due for longest. Its next attempt is postponed, so that no other worker takes it."""
    with transaction.atomic():
        now = moment(now)
        due = Mail.objects.filter(next_try_at__lte=now).order_by("next_try_at")
        mail = due.select_for_update(skip_locked=True, of=("self",)).select_related("user").first()
        if mail is not None:
            mail.attempts += 1
            mail.next_try_at = now + CLAIM
            mail.save(update_fields=["attempts", "next_try_at"])
        return mail


def pause(attempts: int) -> float:
    """Seconds until the next attempt after so many."""
    return min(LONGEST_PAUSE, FIRST_PAUSE * 2.0 ** min(attempts - 1, 10))


def _try(mail: Mail, now: datetime | None) -> str:
    """Send a mail; return "", or the reason for which it was not taken, as `deliver` does."""
    letter = account_mails.letter_of(mail)
    if letter is None:
        return _done(mail)
    begun = time.time_ns()
    reason = deliver(mail.subject, letter.body, letter.address, str(mail.pk))
    task_spans.notified(mail.task_id, "mail", begun, reason)
    if not reason:
        return _done(mail, sent_at=moment(now))
    line = "mail %d was not sent (%s), try %d"
    log.log(logging.WARNING if reason == mail_server.RECIPIENT else logging.INFO, line, mail.pk, reason, mail.attempts)
    if moment(now) >= mail.created_at + GIVE_UP:
        _report_given_up(mail, reason, GIVE_UP)
        _done(mail)
    else:
        again = moment(now) + timedelta(seconds=pause(mail.attempts))
        Mail.objects.filter(pk=mail.pk, attempts=mail.attempts).update(next_try_at=again)
    return reason


def deliver(subject: str, body: str, address: str, name: str) -> str:
    """Give a mail to the server; return "", or the reason (`mail_server`). name: for its Message-ID."""
    headers = {"Auto-Submitted": "auto-generated", "Message-ID": f"<waybill-{name}@{_domain()}>"}
    message = EmailMessage(subject, body, settings.DEFAULT_FROM_EMAIL, [address], headers=headers)
    server = get_connection()
    if type(server) is EmailBackend:
        server = BoundedEmailBackend()
    try:
        server.send_messages([message])
    except Exception as error:
        with contextlib.suppress(Exception):
            server.close()
        return mail_server.failed(server, error)
    mail_server.accepted(server)
    return ""


def _done(mail: Mail, sent_at: datetime | None = None) -> str:
    Mail.objects.filter(pk=mail.pk).update(next_try_at=None, sent_at=sent_at)
    return ""


def _domain() -> str:
    """The domain of the sender. Django refuses an invalid address before."""
    return settings.DEFAULT_FROM_EMAIL.rpartition("@")[2].strip("> ") or "localhost"
