"""The way back for a user who has lost the password: a link by mail, which sets a new one.

1. `ask` writes what was typed into a table, whatever it is: its answer and its duration say nothing about users.
2. `answer_requests`, in a worker, finds the users of this name or address, and sends `recovery_wanted` for each.
3. `new_code` makes the code when the mail is sent, so that it is in the mail only; the table has its digest.
4. `find` finds the link of a code; `use` sets the password, once, and ends all sessions. The user then signs in, with
   the second factor where one is required: the link replaces the password and nothing else.

Floods: requests are counted by network. A user gets one mail in SPACING at most; a request within it sends none. As a
link lasts longer than SPACING, a link that works is then in the mailbox: strangers who ask lock nobody out.
"""

from __future__ import annotations

import uuid
from datetime import datetime, timedelta

from django.conf import settings
from django.db import transaction

from identity.gsi.printable import translatable as _

from . import link_codes, user_names
from .clock import moment
from .error_categories import Category, Refusal
from .hidden import Secret
from .models import RecoveryLink, RecoveryRequest, User
from .password_sign_in import SignInError, count_request, set_password
from .signals import recovery_wanted

#: How long a link serves, from the moment at which its mail is sent; and the least time between two mails to a user.
LIFETIME, SPACING = timedelta(minutes=60), timedelta(minutes=30)
#: A mail that could not be sent for so long is not sent any more.
MOST_DELAY = timedelta(hours=6)
#: Requests of one network in five minutes; requests that wait for a worker; users of one mail address.
MOST_OF_A_NETWORK, MOST_WAITING, MOST_OF_AN_ADDRESS = 5, 1000, 5
#: Requests that a worker answers in one call.
AT_ONCE = 100
MAX_NAME = 254


TOO_MANY_REQUESTS_WAIT = Refusal(Category.INVALID, _("The service is busy. Try again in a few minutes."))


class RecoveryLinkLapsedError(SignInError):
    """The link was used, is too old, or is for nobody."""

    refusal = Refusal(Category.INVALID, _("This link was used, or is too old. Ask for another one."))


def is_offered() -> bool:
    """Whether mails reach users: not where they are written to the log, which must not get such a link."""
    return not str(settings.EMAIL_BACKEND).endswith("console.EmailBackend")


def ask(name: str, address: str) -> None:
    """Write down a request. name: a user name or a mail address. address: of the client.

    Raises TooManyAttemptsError, COUNTING_FAILED, TOO_MANY_REQUESTS_WAIT; never because of the name.
    """
    count_request("recovery", address, MOST_OF_A_NETWORK)
    if RecoveryRequest.objects.count() >= MOST_WAITING:
        raise SignInError(TOO_MANY_REQUESTS_WAIT)
    RecoveryRequest.objects.create(name=name.replace("\0", "")[:MAX_NAME])


def answer_requests(now: datetime | None = None) -> int:
    """Ask for the mails of the oldest requests; returns the number of requests."""
    with transaction.atomic():
        rows = list(RecoveryRequest.objects.select_for_update(skip_locked=True).order_by("pk")[:AT_ONCE])
        for row in rows:
            for user in _users(row.name.strip()):
                begin(user, now)
        RecoveryRequest.objects.filter(pk__in=[row.pk for row in rows]).delete()
    return len(rows)


def _users(name: str) -> list[User]:
    """The active users with a mail address whose name or mail address this is."""
    if not name:
        return []
    active = User.objects.filter(is_active=True).exclude(email="")
    found = list(active.filter(username=name)) or list(active.filter(email__iexact=name)[:MOST_OF_AN_ADDRESS])
    return found or list(active.filter(username=user_names.local(name)))


def begin(user: User, now: datetime | None = None) -> bool:
    """Ask for the mail, in the transaction of the caller; returns whether none was asked for within SPACING."""
    time = moment(now)
    User.objects.select_for_update(no_key=True).get(pk=user.pk)
    if RecoveryLink.objects.filter(user=user, made_at__gt=time - SPACING).exists():
        return False
    link = RecoveryLink.objects.create(user=user, made_at=time, expires_at=time + MOST_DELAY)
    recovery_wanted.send(RecoveryLink, user=user, link_id=link.pk)
    return True


def new_code(link_id: uuid.UUID, now: datetime | None = None) -> Secret | None:
    """The code of a link, which serves from now on; None where the link is over. An earlier code serves no more."""
    time = moment(now)
    return link_codes.renew(RecoveryLink.objects.filter(pk=link_id), LIFETIME, time, made_at=time)


def find(code: Secret, now: datetime | None = None) -> User:
    """The user of a link that serves. Raises RecoveryLinkLapsedError."""
    return _link(code, moment(now)).user


def use(code: Secret, new: Secret, now: datetime | None = None) -> User:
    """Set the password; all links and sessions end. Raises RecoveryLinkLapsedError, PasswordRefusedError."""
    with transaction.atomic():
        user = User.objects.select_for_update(no_key=True).get(pk=_link(code, moment(now)).user_id)
        # Read again behind the lock: of two concurrent uses, the second finds nothing.
        _link(code, moment(now))
        set_password(user, new)
    return user


def delete_expired(now: datetime | None = None) -> None:
    RecoveryLink.objects.filter(expires_at__lt=moment(now)).delete()


def _link(code: Secret, now: datetime) -> RecoveryLink:
    """Raises RecoveryLinkLapsedError."""
    known = RecoveryLink.objects.select_related("user").filter(expires_at__gt=now, user__is_active=True)
    return link_codes.row_of(known, code, RecoveryLinkLapsedError())
