"""Set or change the mail address of a user, who has signed in just now.

1. `ask` writes the wish down, and sends `address_wanted`: a mail with a link goes to the new address.
2. `new_code` makes the code when the mail is sent, so that it is in the mail only; the table has its digest. Where
   another account has the address (`taken_by`), the mail is a hint without a link, and nothing changes.
3. `find` and `use` take the code from the user who asked, signed in: a stranger to whom a mistyped address belongs
   cannot confirm it, and get a link for a lost password later.

The former address gets a notice (`address_changed`). Bounds: requests by network, and by user in a day; the same
address gets one mail in SPACING. A second wish of a user ends the first.
"""

from __future__ import annotations

import uuid
from datetime import datetime, timedelta

from django.db import transaction

from identity.gsi.printable import translatable as _

from . import link_codes, password_recovery, sign_up
from .clock import moment
from .database_rows import single_row
from .error_categories import Category, Refusal, RefusedError
from .hidden import Secret
from .models import AddressChange, RecoveryLink, ScimUser, User
from .password_sign_in import count_request
from .signals import account_changed, address_changed, address_wanted

ADDRESS_PRESENT = Refusal(Category.INVALID, _("This is your mail address already."))
ADDRESS_MANAGED = Refusal(Category.PERMISSION_DENIED, _("A directory manages your account, and sets its mail address."))
NO_MAILS = Refusal(Category.CONFLICT, _("This service sends no mails: its operator sets your address."))
TOO_MANY_CHANGES = Refusal(
    Category.TOO_MANY_REQUESTS, _("You have asked for this too often today. Try again tomorrow.")
)


class AddressLinkLapsedError(RefusedError):
    refusal = Refusal(
        Category.NOT_FOUND, _("This link was used, is too old, or is for another account. Ask for another one.")
    )


#: How long a link serves, from the moment at which its mail is sent; the least time between two mails to an address.
LIFETIME, SPACING = timedelta(hours=24), timedelta(minutes=30)
#: Wishes of one network in five minutes, and of one user in a day.
MOST_OF_A_NETWORK, MOST_OF_A_USER = 20, 5
DAY = timedelta(days=1)


def ask(user: User, address: str, network: str, now: datetime | None = None) -> None:
    """Write a wish down. network: the address of the client. The same wish within SPACING sends no second mail.

    Raises ADDRESS_PRESENT, ADDRESS_MANAGED, NO_MAILS, TOO_MANY_CHANGES, AddressRefusedError, TooManyAttemptsError,
    COUNTING_FAILED; never because of an account of somebody else.
    """
    if not password_recovery.is_offered():
        raise RefusedError(NO_MAILS)
    if _is_managed(user):
        raise RefusedError(ADDRESS_MANAGED)
    count_request("mail-address", network, MOST_OF_A_NETWORK)
    email, time = sign_up.checked_address(address), moment(now)
    if email == user.email.lower():
        raise RefusedError(ADDRESS_PRESENT)
    with transaction.atomic():
        User.objects.select_for_update(no_key=True).get(pk=user.pk)
        known = AddressChange.objects.filter(user=user, asked_at__gt=time - DAY)
        if known.filter(email=email, asked_at__gt=time - SPACING, expires_at__gt=time).exists():
            return
        if known.count() >= MOST_OF_A_USER:
            raise RefusedError(TOO_MANY_CHANGES)
        AddressChange.objects.filter(user=user).update(digest=None, expires_at=time)
        row = AddressChange.objects.create(user=user, email=email, asked_at=time, expires_at=time + LIFETIME)
        address_wanted.send(AddressChange, user=user, change_id=row.pk)


def wanted(change_id: uuid.UUID, now: datetime | None = None) -> AddressChange | None:
    """The wish, if it still holds."""
    alive = AddressChange.objects.select_related("user").filter(expires_at__gt=moment(now), user__is_active=True)
    return single_row(alive.filter(pk=change_id))


def left(change_id: uuid.UUID) -> str:
    """The address that the user has left by this change; "": none."""
    row = single_row(AddressChange.objects.filter(pk=change_id))
    return row.former if row else ""


def taken_by(change: AddressChange) -> User | None:
    """Another account with the address of this wish; a deactivated one counts, too."""
    others = User.objects.filter(email__iexact=change.email).exclude(pk=change.user_id)
    return others.order_by("-is_active", "date_joined").first()


def new_code(change_id: uuid.UUID, now: datetime | None = None) -> Secret | None:
    """The code of a link, which serves from now on; None where the wish is over. An earlier code serves no more."""
    return link_codes.renew(AddressChange.objects.filter(pk=change_id), LIFETIME, moment(now))


def find(user: User, code: Secret, now: datetime | None = None) -> str:
    """The address that this link proves, for the user who asked for it. Raises AddressLinkLapsedError."""
    return _change(user, code, moment(now)).email


def use(user: User, code: Secret, now: datetime | None = None) -> User:
    """Set the address; links for a lost password that went to the former one end. Raises AddressLinkLapsedError."""
    time = moment(now)
    with transaction.atomic():
        row = User.objects.select_for_update(no_key=True).get(pk=user.pk)
        # Behind the lock: of two concurrent uses, the second finds nothing.
        change = _change(row, code, time)
        sign_up.hold_address(change.email)
        if taken_by(change) is not None:
            raise AddressLinkLapsedError
        change.former, row.email = row.email, change.email
        row.save(update_fields=["email"])
        change.digest, change.expires_at = None, time + DAY
        change.save(update_fields=["former", "digest", "expires_at"])
        RecoveryLink.objects.filter(user=row).delete()
        if change.former:
            address_changed.send(AddressChange, user=row, change_id=change.pk)
        account_changed.send(AddressChange, user=row, what="address_changed", name=change.email)
    return row


def delete_expired(now: datetime | None = None) -> None:
    """Wishes of the last day count (MOST_OF_A_USER), also those that are over."""
    time = moment(now)
    AddressChange.objects.filter(expires_at__lt=time, asked_at__lt=time - DAY).delete()


def _is_managed(user: User) -> bool:
    """Whether a directory sets the address."""
    return ScimUser.objects.filter(user=user, deleted_at=None).exists()


def _change(user: User, code: Secret, now: datetime) -> AddressChange:
    """Raises AddressLinkLapsedError."""
    if _is_managed(user):
        raise AddressLinkLapsedError
    alive = AddressChange.objects.filter(user=user, expires_at__gt=now)
    return link_codes.row_of(alive, code, AddressLinkLapsedError())
