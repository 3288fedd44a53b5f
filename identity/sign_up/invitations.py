"""Invitations: made and taken back by staff, or by the operator on the command line."""

from __future__ import annotations

import uuid
from datetime import datetime, timedelta

from django.conf import settings
from django.db.models import QuerySet

from identity.audit import log as audit
from identity.audit.log import What
from identity.clock import moment
from identity.hidden import Secret, digest_of, new_text
from identity.models import Invitation, User
from identity.users import check_staff

from . import rules
from .errors import (
    AddressRefusedError,
    InvitationInvalidError,
    InvitationNotFoundError,
    SignUpClosedError,
    TooManyInvitationsError,
)

#: Open invitations of all staff; days that one lasts; what is listed.
MOST, DAYS, MAX_DAYS, LISTED = 1000, 7, 90, 1000
LINK = "/signup/invitation?code="


def invite(
    actor: User | None, email: str = "", days: int = DAYS, now: datetime | None = None
) -> tuple[Invitation, Secret]:
    """An invitation, and its link, which is shown once. actor: None for the operator. email: "" for anybody.

    Raises NotStaffError, SignUpError.
    """
    check_staff(actor)
    if not rules.is_offered():
        raise SignUpClosedError
    if not 1 <= days <= MAX_DAYS:
        raise InvitationInvalidError("days", f"a number from 1 to {MAX_DAYS}")
    try:
        address = rules.checked_address(email) if email else ""
    except AddressRefusedError as error:
        raise InvitationInvalidError("email", error.reason) from None
    code, time = new_text(), moment(now)
    # Staff are few: what concurrent requests add to the bound does not matter.
    if _open(time).count() >= MOST:
        raise TooManyInvitationsError(MOST)
    row = Invitation.objects.create(
        digest=digest_of(code),
        email=address,
        made_by=actor,
        made_at=time,
        expires_at=time + timedelta(days=days),
    )
    audit.record(What.INVITED, None, {"invitation": row.pk, "email": address}, actor=actor)
    return row, Secret(f"{settings.PUBLIC_URL}{LINK}{code}")


def listed(actor: User | None, now: datetime | None = None) -> list[Invitation]:
    """The open invitations, the newest first. Raises NotStaffError."""
    check_staff(actor)
    return list(_open(moment(now)).select_related("made_by").order_by("-made_at", "pk")[:LISTED])


def take_back(actor: User | None, ref: uuid.UUID | str) -> None:
    """Its link serves no more. Raises NotStaffError, InvitationNotFoundError."""
    check_staff(actor)
    try:
        ended, _ = Invitation.objects.filter(pk=uuid.UUID(str(ref)), used_at__isnull=True).delete()
    except ValueError:
        ended = 0
    if not ended:
        raise InvitationNotFoundError(str(ref)[:64])
    audit.record(What.INVITATION_TAKEN_BACK, None, {"invitation": ref}, actor=actor)


def forget_old(before: datetime) -> None:
    """Delete the invitations that ended, used or not, before this time."""
    Invitation.objects.filter(expires_at__lt=before).delete()


def _open(now: datetime) -> QuerySet[Invitation]:
    return Invitation.objects.filter(used_at__isnull=True, expires_at__gt=now)
