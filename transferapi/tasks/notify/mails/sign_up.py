"""Mails to people who sign up: a link that proves the address, or the hint that it has an account.

The requests themselves are the outbox (`identity.sign_up`): these people are no users yet. A mail holds
nothing that was typed into the form, so that nobody can send texts of their own to strangers.
"""

from __future__ import annotations

import logging

from django.conf import settings

from identity import sign_up
from identity.sign_up import DueMail
from transferapi.tasks.notify import mail_sender, mail_server
from transferapi.tasks.upkeep import tallies

from .task import body_of, subject_line

log = logging.getLogger(__name__)
LINK, SIGN_IN = "/signup/link?code=", "/signin"


def send_due(limit: int = 50) -> int:
    """Send the mails that are due, and return their number. Stops at the first failure of the server."""
    for count in range(limit):
        due = sign_up.claim_mail()
        if due is None or not _send(due):
            return count
    return limit


def _send(due: DueMail) -> bool:
    written = _hint(due) if due.username else _link(due)
    if written is None:
        return True
    subject, lines = written
    if reason := mail_sender.deliver(subject_line(subject), body_of(lines), due.address, str(due.request_id)):
        log.info("the mail of the sign-up %s was not sent (%s)", due.request_id, reason)
        if sign_up.mail_failed(due.request_id):
            log.error("the mail of the sign-up %s is given up: %s", due.request_id, reason)
            tallies.add("mails_given_up")
        return reason == mail_server.RECIPIENT
    sign_up.mail_sent(due.request_id)
    return True


def _link(due: DueMail) -> tuple[str, list[str]] | None:
    """None: the request is over."""
    code = sign_up.new_code(due.request_id)
    if code is None:
        return None
    hours = int(sign_up.LIFETIME.total_seconds() // 3600)
    lines = [f"Somebody, probably you, wants an account at {settings.PUBLIC_URL} with this mail address.", ""]
    lines += [f"Go on here, within {hours} hours:", "", f"{settings.PUBLIC_URL}{LINK}{code.value}", ""]
    lines += ["If it was not you, you need not do anything: there is no account."]
    return "make your account", lines


def _hint(due: DueMail) -> tuple[str, list[str]]:
    lines = [f"Somebody, probably you, wants an account at {settings.PUBLIC_URL} with this mail address.", ""]
    if due.is_active:
        lines += [f"You have one already: {due.username}. Sign in here, or set a new password:", ""]
        lines += [f"{settings.PUBLIC_URL}{SIGN_IN}", ""]
    else:
        lines += [f"Your account {due.username} is deactivated. The operator of the service can activate it again.", ""]
    lines += ["If it was not you, you need not do anything."]
    return "your account", lines
