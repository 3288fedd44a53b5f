"""The mail server as this process sees it: a line of log when it begins to fail and when it takes mails again.

The reasons are counted for `/metrics` (`mail_failures`). The text of an error may hold what was sent, or a password:
its type and the place of the server are enough.
"""

from __future__ import annotations

import logging
import smtplib
import ssl
import threading
import time

from django.core.mail.backends.base import BaseEmailBackend

from transferapi.tasks.upkeep import tallies

log = logging.getLogger(__name__)

#: Reasons for which a mail is not taken; the recipient is refused by a server that works.
RECIPIENT, SIGN_IN, TLS, REFUSED, CONNECTION, OTHER = "recipient", "sign_in", "tls", "refused", "connection", "other"

_lock = threading.Lock()
_fails_since: float | None = None


def reason_of(error: Exception) -> str:
    """One of the reasons. Django's errors about an address or a header count as the recipient's."""
    if isinstance(error, smtplib.SMTPRecipientsRefused | ValueError):
        return RECIPIENT
    if isinstance(error, smtplib.SMTPAuthenticationError):
        return SIGN_IN
    if isinstance(error, ssl.SSLError | smtplib.SMTPNotSupportedError):
        return TLS
    if isinstance(error, smtplib.SMTPServerDisconnected | smtplib.SMTPConnectError | OSError) and not isinstance(
        error, smtplib.SMTPResponseException
    ):
        return CONNECTION
    return REFUSED if isinstance(error, smtplib.SMTPException) else OTHER


def failed(server: BaseEmailBackend, error: Exception) -> str:
    """Count the failure of one mail; the first one of the server itself is a line of log. Returns the reason."""
    global _fails_since
    reason = reason_of(error)
    tallies.add("mail_failures", reason)
    if reason == RECIPIENT:
        return reason
    with _lock:
        begins, _fails_since = _fails_since is None, _fails_since or time.monotonic()
    if begins:
        line = "%s takes no mails (%s: %s): they are tried again for days; `waybill doctor mail` looks at it"
        log.warning(line, place_of(server), reason, type(error).__name__)
    return reason


def accepted(server: BaseEmailBackend) -> None:
    """It has taken a mail."""
    global _fails_since
    with _lock:
        since, _fails_since = _fails_since, None
    if since is not None:
        log.warning("%s takes mails again after %.0f s", place_of(server), time.monotonic() - since)


def place_of(server: BaseEmailBackend) -> str:
    """The server in words; other backends than SMTP have no address."""
    host, port = getattr(server, "host", None), getattr(server, "port", None)
    return f"the mail server {host} port {port}" if host else "the mail backend"
