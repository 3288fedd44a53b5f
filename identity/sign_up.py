"""Sign-up: who may make an account, invitations, and the link by mail that proves an address.

Every way to sign up asks one rule, which also says what an account needs.

    with transaction.atomic():
        user = sign_up(Applicant("carol", "Carol Doe", "carol@example.org", is_proven=True), invitation)
        ...                                      # such as: link the identity with which the person came

The rule is the operator's (`policy`). An invitation admits in every case but CLOSED, once, and only the address to
which it is bound. An address counts only where it is proven: by a link of ours, or by a provider that says so.

Staff, or the operator on the command line, make invitations and take them back.

Sign-up by mail:

1. `ask` checks the rule for the address, which depends on no account, and writes a row. Its answer and its duration say
   nothing about accounts, and nothing that a stranger typed is in the mail.
2. A worker takes due rows (`claim_mail`) and sends a mail: a link (`new_code`), or, where the address has an account,
   the hint that it has one.
3. `find_address` finds the request of a link; `finish` makes the account, once.

No account exists before the link was used, so nobody can reserve a name or the address of somebody else. Bounds:
requests by network; one mail to an address in SPACING; requests that wait; mails in a day.
"""

from __future__ import annotations

import re
import uuid
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.conf import settings
from django.core.exceptions import ValidationError
from django.core.validators import EmailValidator
from django.db import IntegrityError, connection, transaction
from django.db.models import F, QuerySet

from identity.gsi.printable import translatable as _

from . import audit, link_codes
from .audit import What
from .clock import moment
from .database_rows import constraint_of, row_by_id, unless_taken
from .error_categories import (
    Category,
    InvalidFieldError,
    NotFoundError,
    Refusal,
    RefusedError,
)
from .hidden import Secret, digest_of, new_text
from .models import Invitation, SignUpRequest, User
from .password_sign_in import check_new_password, count_request
from .sign_up_policy import SignUp, SignUpPolicy
from .signals import signed_up
from .users import MAX_FULL_NAME, ONE_NAME, check_staff


class SignUpError(RefusedError):
    """Somebody cannot make an account, or invite somebody."""


SIGN_UP_CLOSED = Refusal(
    Category.PERMISSION_DENIED, _("The operator of this service makes the accounts. Ask there for one.")
)
INVITATION_REQUIRED = Refusal(Category.PERMISSION_DENIED, _("You need an invitation to make an account here."))


class InvitationRefusedError(SignUpError):
    refusal = Refusal(
        Category.PERMISSION_DENIED, _("This invitation was used, is too old, or is for another mail address.")
    )


#: domains: the mail domains that are admitted.
DOMAIN_REFUSED = Refusal(Category.PERMISSION_DENIED, "You need a mail address of {domains}, or an invitation.")


class AddressRefusedError(SignUpError):
    refusal = Refusal(Category.INVALID, _("This is no mail address."))


ADDRESS_NOT_PROVEN = Refusal(Category.PERMISSION_DENIED, "Nobody has proven that this mail address is yours.")


class AccountExistsError(SignUpError):
    """Only for a person who has proven the address: nobody else learns of accounts."""

    refusal = Refusal(
        Category.EXISTS,
        _("Your mail address has an account here. Sign in to it, and link this identity on your account page."),
    )


class NameRefusedError(SignUpError):
    refusal = Refusal(Category.INVALID, "{reason}")

    def __init__(self, reason: str) -> None:
        super().__init__(reason=reason)


class SignUpLinkLapsedError(SignUpError):
    refusal = Refusal(Category.NOT_FOUND, _("This link was used, or is too old. Ask for another one."))


TOO_MANY_SIGN_UPS = Refusal(Category.TOO_MANY_REQUESTS, _("Too many people sign up at present. Try again later."))
TOO_MANY_INVITATIONS = Refusal(Category.LIMIT_EXCEEDED, "There are {limit} open invitations already; take some back")
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
        raise SignUpError(SIGN_UP_CLOSED)
    if rule.kind in (SignUp.OPEN, SignUp.DOMAIN) and invitation is None:
        _check_address(rule, address, is_proven)
        return None
    if invitation is None:
        raise SignUpError(INVITATION_REQUIRED)
    if invitation.email and not (is_proven and address == invitation.email):
        raise InvitationRefusedError
    return invitation


def _check_address(rule: SignUpPolicy, address: str, is_proven: bool) -> None:
    if rule.kind is SignUp.DOMAIN and address.rpartition("@")[2] not in rule.domains:
        raise SignUpError(DOMAIN_REFUSED, domains=", ".join(rule.domains))
    if not is_proven:
        raise SignUpError(ADDRESS_NOT_PROVEN)


def _found(code: Secret | None, now: datetime) -> Invitation | None:
    """The invitation with this code; None without a code. Raises InvitationRefusedError."""
    return None if code is None else link_codes.row_of(usable(now), code, InvitationRefusedError())


def find_invitation(code: Secret, now: datetime | None = None) -> Invitation:
    """The invitation with this code, if it can be used. Raises InvitationRefusedError, SIGN_UP_CLOSED."""
    if not is_offered():
        raise SignUpError(SIGN_UP_CLOSED)
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
            _("A user name is 3 to 40 small letters, digits, '.', '_' and '-', beginning with a letter.")
        )
    if username in RESERVED or User.objects.filter(username__iexact=username).exists():
        raise NameRefusedError(_("This user name is taken. Choose another one."))
    return username


def _new_user(applicant: Applicant, address: str) -> User:
    """Raises NameRefusedError."""
    if len(applicant.full_name) > MAX_FULL_NAME or not applicant.full_name.isprintable():
        raise NameRefusedError(f"A full name is at most {MAX_FULL_NAME} characters that can be printed.")
    user = User(username=checked_name(applicant.username), first_name=applicant.full_name.strip(), email=address)
    user.set_unusable_password()
    with unless_taken(ONE_NAME, NameRefusedError(_("This user name is taken. Choose another one."))):
        user.save(force_insert=True)
    return user


#: Open invitations of all staff; days that one lasts; what is listed.
MAX_INVITATIONS, INVITATION_DAYS, MAX_INVITATION_DAYS, MAX_LISTED_INVITATIONS = 1000, 7, 90, 1000
INVITATION_LINK = "/signup/invitation?code="


def invite(
    actor: User | None, email: str = "", days: int = INVITATION_DAYS, now: datetime | None = None
) -> tuple[Invitation, Secret]:
    """An invitation, and its link, which is shown once. actor: None for the operator. email: "" for anybody.

    Raises NOT_STAFF, SignUpError.
    """
    check_staff(actor)
    if not is_offered():
        raise SignUpError(SIGN_UP_CLOSED)
    if not 1 <= days <= MAX_INVITATION_DAYS:
        raise InvalidFieldError("days", f"a number from 1 to {MAX_INVITATION_DAYS}")
    try:
        address = checked_address(email) if email else ""
    except AddressRefusedError as error:
        raise InvalidFieldError("email", error.message) from None
    code, time = new_text(), moment(now)
    # Staff are few: what concurrent requests add to the bound does not matter.
    if _open(time).count() >= MAX_INVITATIONS:
        raise SignUpError(TOO_MANY_INVITATIONS, limit=MAX_INVITATIONS)
    row = Invitation.objects.create(
        digest=digest_of(code),
        email=address,
        made_by=actor,
        made_at=time,
        expires_at=time + timedelta(days=days),
    )
    audit.record(What.INVITED, None, {"invitation": row.pk, "email": address}, actor=actor)
    return row, Secret(f"{settings.PUBLIC_URL}{INVITATION_LINK}{code}")


def list_invitations(actor: User | None, now: datetime | None = None) -> list[Invitation]:
    """The open invitations, the newest first. Raises NOT_STAFF."""
    check_staff(actor)
    return list(_open(moment(now)).select_related("made_by").order_by("-made_at", "pk")[:MAX_LISTED_INVITATIONS])


def take_back_invitation(actor: User | None, ref: uuid.UUID | str) -> None:
    """Its link serves no more. Raises NOT_STAFF, NotFoundError."""
    check_staff(actor)
    unknown = NotFoundError(str(ref)[:64], "invitation")
    with transaction.atomic():
        # One that is used at this moment is no longer there: staff learn that somebody has an account by it.
        row_by_id(Invitation.objects.select_for_update().filter(used_at__isnull=True), ref, unknown).delete()
        audit.record(What.INVITATION_TAKEN_BACK, None, {"invitation": ref}, actor=actor)


def delete_old_invitations(before: datetime) -> None:
    """Delete the invitations that ended, used or not, before this time."""
    Invitation.objects.filter(expires_at__lt=before).delete()


def _open(now: datetime) -> QuerySet[Invitation]:
    return Invitation.objects.filter(used_at__isnull=True, expires_at__gt=now)


#: How long a link serves, from the moment at which its mail is sent; the least time between two mails to an address.
LIFETIME, SPACING = timedelta(hours=24), timedelta(minutes=30)
#: Requests of one network in five minutes; requests without an invitation in the table, and of the last day; requests
#: with one invitation, whose holder may have mistyped an address.
MOST_OF_A_NETWORK, MOST_WAITING, MOST_A_DAY, MOST_OF_AN_INVITATION = 5, 5000, 2000, 5
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
    Raises SignUpError, TooManyAttemptsError, COUNTING_FAILED; never because of an account.
    """
    count_request("sign-up", network, MOST_OF_A_NETWORK)
    email, time = checked_address(address), moment(now)
    # The address counts as proven here: the link that is sent to it proves it.
    check(email, is_proven=True, invitation=invitation, now=time)
    found = None if invitation is None else find_invitation(invitation, time)
    _check_bounds(email, found, time)
    row = {"invitation": found, "asked_at": time, "expires_at": time + LIFETIME, "attempts": 0, "next_try_at": time}
    try:
        with transaction.atomic():
            SignUpRequest.objects.create(email=email, **row)
    except IntegrityError as error:
        if constraint_of(error) != "identity_signuprequest_email_key":
            raise
        known = SignUpRequest.objects.filter(email=email, asked_at__lte=time - SPACING)
        invited = known.filter(invitation__in=usable(time))
        if not invited.update(**{**row, "invitation": F("invitation")}):
            known.update(**row)


def _check_bounds(email: str, invitation: Invitation | None, now: datetime) -> None:
    """Strangers use up no bound of people who are invited. Raises TOO_MANY_SIGN_UPS."""
    if invitation is not None:
        is_full = (
            SignUpRequest.objects.filter(invitation=invitation).exclude(email=email).count() >= MOST_OF_AN_INVITATION
        )
    else:
        uninvited = SignUpRequest.objects.filter(invitation=None)
        recent = uninvited.filter(asked_at__gt=now - timedelta(days=1)).count()
        is_full = recent >= MOST_A_DAY or uninvited.count() >= MOST_WAITING
    if is_full:
        raise SignUpError(TOO_MANY_SIGN_UPS)


def claim_mail(now: datetime | None = None) -> DueMail | None:
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


def mail_sent(request_id: uuid.UUID) -> None:
    """The server has accepted the mail."""
    SignUpRequest.objects.filter(pk=request_id).update(next_try_at=None)


def mail_failed(request_id: uuid.UUID, now: datetime | None = None) -> bool:
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


def find_address(code: Secret, network: str, now: datetime | None = None) -> str:
    """The address that this link proves. Raises SignUpLinkLapsedError, TooManyAttemptsError, COUNTING_FAILED."""
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
            user = make_account(applicant, locked.invitation, time)
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
    delete_old_invitations(time - timedelta(days=30))


def _request(code: Secret, now: datetime) -> SignUpRequest:
    """Raises SignUpLinkLapsedError."""
    alive = SignUpRequest.objects.select_related("invitation").filter(expires_at__gt=now)
    return link_codes.row_of(alive, code, SignUpLinkLapsedError())
