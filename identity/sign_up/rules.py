"""The one rule of who may make an account, and what an account needs. Every way to sign up asks it.

    with transaction.atomic():
        user = sign_up(Applicant("carol", "Carol Doe", "carol@example.org", is_proven=True), invitation)
        ...                                      # such as: link the identity with which the person came

The rule is the operator's (`policy`). An invitation admits in every case but CLOSED, once, and only the address to
which it is bound. An address counts only where it is proven: by a link of ours, or by a provider that says so.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime

from django.conf import settings
from django.core.exceptions import ValidationError
from django.core.validators import EmailValidator
from django.db import connection, transaction
from django.db.models import QuerySet

from identity import link_codes
from identity.clock import moment
from identity.conflicts import unless_taken
from identity.hidden import Secret
from identity.models import Invitation, User
from identity.signals import signed_up
from identity.users import MAX_FULL_NAME, ONE_NAME

from .errors import (
    AccountExistsError,
    AddressNotProvenError,
    AddressRefusedError,
    DomainRefusedError,
    InvitationRefusedError,
    InvitationRequiredError,
    NameRefusedError,
    SignUpClosedError,
)
from .policy import SignUp, SignUpPolicy

MAX_EMAIL = 254
#: A name has no @, which separates a name from its domain, and no upper case, in which two names could look alike.
_NAME = re.compile(r"[a-z][a-z0-9._-]{1,38}[a-z0-9]\Z")
#: Names that readers take for the service or its operator.
_RESERVED = """
    admin administrator root system operator support security staff postmaster hostmaster webmaster abuse help info
    noreply no-reply waybill globus gridftp transfer anonymous nobody everyone public test sample go
"""
RESERVED = frozenset(_RESERVED.split())


@dataclass(frozen=True, slots=True)
class Applicant:
    """A person who wants an account. address: "" where the provider of an identity names none."""

    username: str
    full_name: str
    address: str
    #: Whether it is certain that the address is this person's.
    is_proven: bool


def policy() -> SignUpPolicy:
    found = settings.SIGN_UP
    assert isinstance(found, SignUpPolicy)
    return found


def is_offered() -> bool:
    return policy().kind is not SignUp.CLOSED


def check(address: str, *, is_proven: bool, invitation: Secret | None, now: datetime | None = None) -> None:
    """Whether a person with this address may make an account. Raises SignUpError. `sign_up` asks the same again."""
    _admitting(address.lower(), is_proven, _found(invitation, moment(now)))


def sign_up(applicant: Applicant, invitation: Secret | None = None, now: datetime | None = None) -> User:
    """Make the account, without a password, and use the invitation up. Raises SignUpError; nothing is changed then."""
    return make_account(applicant, _found(invitation, moment(now)), moment(now))


@transaction.atomic
def make_account(applicant: Applicant, invitation: Invitation | None, now: datetime) -> User:
    """As `sign_up`, with the row of an invitation, which may be used meanwhile.

    An address has one account, also a deactivated one: nobody comes back by a second one.
    """
    address = applicant.address.lower()
    if invitation is not None:
        # Behind the lock: of two concurrent uses, the second finds that it was used.
        invitation = usable(now).select_for_update(no_key=True).filter(pk=invitation.pk).first()
        if invitation is None:
            raise InvitationRefusedError
    admitting = _admitting(address, applicant.is_proven, invitation)
    if applicant.is_proven and address:
        _check_has_no_account(address)
    user = _new_user(applicant, address if applicant.is_proven else "")
    if admitting is not None:
        Invitation.objects.filter(pk=admitting.pk).update(used_at=now, used_by=user)
    signed_up.send(User, user=user, invitation=admitting and admitting.pk)
    return user


def hold_address(address: str) -> None:
    """Until the end of the transaction, nobody else gives this address to an account: of two, the second sees it."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", [f"sign-up of {address.lower()}"])


def _check_has_no_account(address: str) -> None:
    """Raises AccountExistsError."""
    hold_address(address)
    if User.objects.filter(email__iexact=address).exists():
        raise AccountExistsError


def _admitting(address: str, is_proven: bool, invitation: Invitation | None) -> Invitation | None:
    """The invitation that is used up; None: none is needed. Raises SignUpError."""
    rule = policy()
    if rule.kind is SignUp.CLOSED:
        raise SignUpClosedError
    if rule.kind in (SignUp.OPEN, SignUp.DOMAIN) and invitation is None:
        _check_address(rule, address, is_proven)
        return None
    if invitation is None:
        raise InvitationRequiredError
    if invitation.email and not (is_proven and address == invitation.email):
        raise InvitationRefusedError
    return invitation


def _check_address(rule: SignUpPolicy, address: str, is_proven: bool) -> None:
    if rule.kind is SignUp.DOMAIN and address.rpartition("@")[2] not in rule.domains:
        raise DomainRefusedError(rule.domains)
    if not is_proven:
        raise AddressNotProvenError


def _found(code: Secret | None, now: datetime) -> Invitation | None:
    """The invitation with this code; None without a code. Raises InvitationRefusedError."""
    return None if code is None else link_codes.row_of(usable(now), code, InvitationRefusedError())


def find_invitation(code: Secret, now: datetime | None = None) -> Invitation:
    """The invitation with this code, if it can be used. Raises InvitationRefusedError, SignUpClosedError."""
    if not is_offered():
        raise SignUpClosedError
    return link_codes.row_of(usable(moment(now)), code, InvitationRefusedError())


def usable(now: datetime) -> QuerySet[Invitation]:
    """The invitations that were neither used nor taken back, and have not ended."""
    return Invitation.objects.filter(used_at__isnull=True, expires_at__gt=now)


def checked_address(text: str) -> str:
    """The address in lower case. Raises AddressRefusedError."""
    address = text.strip().lower()
    try:
        EmailValidator()(address)
    except ValidationError:
        raise AddressRefusedError from None
    if len(address) > MAX_EMAIL or not address.isascii() or not address.isprintable():
        raise AddressRefusedError
    return address


def checked_name(username: str) -> str:
    """Raises NameRefusedError."""
    if not _NAME.match(username):
        raise NameRefusedError(
            "A user name is 3 to 40 small letters, digits, '.', '_' and '-', beginning with a letter."
        )
    if username in RESERVED or User.objects.filter(username__iexact=username).exists():
        raise NameRefusedError("This user name is taken. Choose another one.")
    return username


def _new_user(applicant: Applicant, address: str) -> User:
    """Raises NameRefusedError."""
    if len(applicant.full_name) > MAX_FULL_NAME or not applicant.full_name.isprintable():
        raise NameRefusedError(f"A full name is at most {MAX_FULL_NAME} characters that can be printed.")
    user = User(username=checked_name(applicant.username), first_name=applicant.full_name.strip(), email=address)
    user.set_unusable_password()
    with unless_taken(ONE_NAME, NameRefusedError("This user name is taken. Choose another one.")):
        user.save(force_insert=True)
    return user
