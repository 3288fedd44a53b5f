"""Sign-up by mail: a request with an address, a link that proves it, and the account.

1. `ask` checks the rule for the address, which depends on no account, and writes a row. Its answer and its duration say
   nothing about accounts, and nothing that a stranger typed is in the mail.
2. A worker takes due rows (`claim`) and sends a mail: a link (`new_code`), or, where the address has an account, the
   hint that it has one.
3. `find` finds the request of a link; `finish` makes the account, once.

No account exists before the link was used, so nobody can reserve a name or the address of somebody else. Bounds:
requests by network; one mail to an address in SPACING; requests that wait; mails in a day.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db import IntegrityError, transaction
from django.db.models import F

from identity import link_codes
from identity.clock import moment
from identity.conflicts import constraint_of
from identity.hidden import Secret
from identity.models import SignUpRequest, User
from identity.password_sign_in import check_new_password, count_request

from . import invitations, rules
from .errors import AccountExistsError, SignUpLinkLapsedError, TooManySignUpsError
from .rules import Applicant

#: How long a link serves, from the moment at which its mail is sent; the least time between two mails to an address.
LIFETIME, SPACING = timedelta(hours=24), timedelta(minutes=30)
#: Requests of one network in five minutes; requests in the table; requests of the last day.
MOST_OF_A_NETWORK, MOST_WAITING, MOST_A_DAY = 5, 5000, 2000
#: Guesses of links or invitations of one network in five minutes.
MOST_LOOKS = 50
#: For so long after the request its mail is tried; for so long no other worker takes it, longer than an attempt takes;
#: and the time to the next attempt after one that has failed, twice as long after each, up to the longest.
GIVE_UP, PAUSE = timedelta(days=3), timedelta(minutes=15)
RETRY, LONGEST_RETRY = timedelta(minutes=2), timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class DueMail:
    """A mail that a worker sends now. username: of the account that the address has already; "": none.

    is_active: whether that account may sign in.
    """

    request_id: uuid.UUID
    address: str
    username: str
    is_active: bool


def ask(address: str, network: str, invitation: Secret | None = None, now: datetime | None = None) -> None:
    """Write a request down. network: the address of the client. A second request within SPACING changes nothing.

    One that comes later, which may be of somebody else, leaves an invitation that can still be used in its place.
    Raises SignUpError, TooManyAttemptsError, CountingFailedError; never because of an account.
    """
    count_request("sign-up", network, MOST_OF_A_NETWORK)
    email, time = rules.checked_address(address), moment(now)
    # The address counts as proven here: the link that is sent to it proves it.
    rules.check(email, is_proven=True, invitation=invitation, now=time)
    found = None if invitation is None else rules.find_invitation(invitation, time)
    recent = SignUpRequest.objects.filter(asked_at__gt=time - timedelta(days=1)).count()
    if recent >= MOST_A_DAY or SignUpRequest.objects.count() >= MOST_WAITING:
        raise TooManySignUpsError
    row = {"invitation": found, "asked_at": time, "expires_at": time + LIFETIME, "attempts": 0, "next_try_at": time}
    try:
        with transaction.atomic():
            SignUpRequest.objects.create(email=email, **row)
    except IntegrityError as error:
        if constraint_of(error) != "identity_signuprequest_email_key":
            raise
        known = SignUpRequest.objects.filter(email=email, asked_at__lte=time - SPACING)
        invited = known.filter(invitation__in=rules.usable(time))
        if not invited.update(**{**row, "invitation": F("invitation")}):
            known.update(**row)


def claim(now: datetime | None = None) -> DueMail | None:
    """The mail that has been due for longest. Its next attempt is postponed, so that no other worker takes it."""
    time = moment(now)
    with transaction.atomic():
        due = SignUpRequest.objects.select_for_update(skip_locked=True).filter(next_try_at__lte=time)
        row = due.order_by("next_try_at").first()
        if row is None:
            return None
        row.attempts += 1
        # The last attempt is made, whatever becomes of its worker.
        row.next_try_at = None if time >= row.asked_at + GIVE_UP else time + PAUSE
        row.save(update_fields=["attempts", "next_try_at"])
    user = User.objects.filter(email__iexact=row.email).order_by("-is_active", "date_joined").first()
    return DueMail(row.pk, row.email, user.username if user else "", user is not None and user.is_active)


def new_code(request_id: uuid.UUID, now: datetime | None = None) -> Secret | None:
    """The code of a link, which serves from now on; None where the request is over. An earlier code serves no more."""
    return link_codes.renew(SignUpRequest.objects.filter(pk=request_id), LIFETIME, moment(now))


def sent(request_id: uuid.UUID) -> None:
    """The server has accepted the mail."""
    SignUpRequest.objects.filter(pk=request_id).update(next_try_at=None)


def failed(request_id: uuid.UUID, now: datetime | None = None) -> bool:
    """The server has not accepted the mail: the next attempt need not wait for the end of the claim.

    Returns whether it is given up.
    """
    row = SignUpRequest.objects.filter(pk=request_id).first()
    if row is None or row.next_try_at is None:
        return row is not None
    again = moment(now) + min(LONGEST_RETRY, RETRY * 2 ** min(row.attempts - 1, 10))
    # The request stays for as long as its mail is tried.
    ours = SignUpRequest.objects.filter(pk=request_id, attempts=row.attempts)
    ours.update(next_try_at=again, expires_at=again + LIFETIME)
    return False


def find(code: Secret, network: str, now: datetime | None = None) -> str:
    """The address that this link proves. Raises SignUpLinkLapsedError, TooManyAttemptsError, CountingFailedError."""
    count_request("sign-up-link", network, MOST_LOOKS)
    return _request(code, moment(now)).email


def finish(code: Secret, username: str, full_name: str, password: Secret, now: datetime | None = None) -> User:
    """Make the account. All of it happens, or nothing. Raises SignUpError, PasswordRefusedError."""
    time = moment(now)
    with transaction.atomic():
        # Behind the lock: of two concurrent uses, the second finds nothing.
        locked = SignUpRequest.objects.select_for_update().filter(pk=_request(code, time).pk).first()
        if locked is None:
            raise SignUpLinkLapsedError
        applicant = Applicant(username, full_name, locked.email, is_proven=True)
        try:
            user = rules.make_account(applicant, locked.invitation, time)
        except AccountExistsError:
            # Made since the mail was sent.
            raise SignUpLinkLapsedError from None
        check_new_password(user, password)
        user.set_password(password.value)
        user.save(update_fields=["password"])
        locked.delete()
    return user


def delete_expired(now: datetime | None = None) -> None:
    """Requests whose link was never used, and invitations that ended a month ago."""
    time = moment(now)
    SignUpRequest.objects.filter(expires_at__lt=time).delete()
    invitations.forget_old(time - timedelta(days=30))


def _request(code: Secret, now: datetime) -> SignUpRequest:
    """Raises SignUpLinkLapsedError."""
    alive = SignUpRequest.objects.select_related("invitation").filter(expires_at__gt=now)
    return link_codes.row_of(alive, code, SignUpLinkLapsedError())
