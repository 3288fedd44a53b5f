"""Signs users in by identities that providers have proven; links them to users, and unlinks them.

    proven = ...                     # `identity.federation.openid`, `.saml` or `.myproxy` checks what the provider said
    user = sign_in(proven)           # None if nobody has linked this identity; `sign_up` makes a user for it
    link(user, proven)               # a second identity of a user who has signed in just now

A user is found by provider and subject alone, never by an e-mail address, whether or not it is verified: addresses
are given to other people, and a provider could say any. Therefore nobody's account is taken over by an address, and
two accounts of one person are not joined without a proof of both.

Errors: `identity.proven_identities`.
"""

from __future__ import annotations

import hashlib
import time
import uuid
from collections.abc import Collection, Iterable

from django.db import transaction
from django.db.models.functions import Lower
from django.utils import timezone

from identity.proven_identities import LinkedIdentityError

from . import sessions, user_names, users
from . import sign_up as sign_up_rules
from .database_rows import row_by_id, single_row, unless_taken
from .hidden import Secret
from .models import LinkedIdentity, User
from .proven_identities import (
    LAST_WAY_IN,
    IdentityInactiveError,
    IdentityNotFoundError,
    IdentityTakenError,
    ProofTooOldError,
    Proven,
    TooManyIdentitiesError,
)
from .sign_up import Applicant
from .signals import account_changed, identity_removed, identity_renamed

#: Identities of one user.
MOST = 20
#: Seconds between the answer of a provider and its use here.
MOST_AGE = 600.0


def sign_in(proven: Proven, now: float | None = None) -> User | None:
    """The user of this identity, whose facts are brought up to date; None if nobody has linked it.

    Raises ProofTooOldError, IdentityInactiveError.
    """
    _check_age(proven, now)
    with transaction.atomic():
        row = _row_of(proven)
        if row is None:
            return None
        if not row.user.is_active:
            raise IdentityInactiveError(row.user)
        _update(row, proven)
    return row.user


def sign_up(proven: Proven, username: str, invitation: Secret | None = None, now: float | None = None) -> User:
    """Make a user who signs in by this identity, and has no password, if the rule of sign-up admits this person.

    The address is taken over if the provider has verified it. Raises LinkedIdentityError, SignUpError.
    """
    _check_age(proven, now)
    with transaction.atomic():
        if _row_of(proven) is not None:
            raise IdentityTakenError()
        full_name = proven.name[: users.MAX_FULL_NAME]
        person = Applicant(username, full_name, proven.email, is_proven=proven.email_verified)
        user = sign_up_rules.sign_up(person, invitation)
        _insert(user, proven, primary=True)
    return user


def link(user: User, proven: Proven, signed_in_at: float, now: float | None = None) -> LinkedIdentity:
    """Link an identity to a user. The user's session began at `signed_in_at` (Unix time), at most `MOST_AGE` ago.

    A second time the identity is only brought up to date. Raises LinkedIdentityError.
    """
    _check_age(proven, now)
    check_fresh(signed_in_at, now)
    with transaction.atomic():
        row = _row_of(proven)
        if row is None:
            return _insert(user, proven)
        if row.user_id != user.pk:
            raise IdentityTakenError()
        _update(row, proven)
    return row


def unlink(
    user: User, ref: uuid.UUID | str, keep: str = "", *, actor: User | None = None, may_be_last: bool = False
) -> None:
    """Remove an identity; rules that name it hold no more. Raises IdentityNotFoundError, LAST_WAY_IN.

    All sessions end but `keep` (a session key), for whoever has the identity may have begun one of them; and all
    consents that were given in a sign-in with it, with their tokens. actor: staff who do it; they and the operator may
    remove the last way to sign in.
    """
    with transaction.atomic():
        _lock(user)
        row = _own(user, ref)
        if not may_be_last and not users.can_sign_in_without(user, row):
            raise LinkedIdentityError(LAST_WAY_IN)
        row.delete()
        sessions.end_all(user, keep)
        identity_removed.send(LinkedIdentity, user=user, username=row.username)
    account_changed.send(LinkedIdentity, user=user, what="identity_unlinked", name=row.username, actor=actor)


def set_primary(user: User, ref: uuid.UUID | str) -> None:
    """Show this identity for the user (`shown`). ref: its id; or the id of the user: the user's own name is shown.

    Raises IdentityNotFoundError.
    """
    with transaction.atomic():
        _lock(user)
        row = None if str(ref) == str(user.pk) else _own(user, ref)
        LinkedIdentity.objects.filter(user=user, primary=True).update(primary=False)
        if row is not None:
            LinkedIdentity.objects.filter(pk=row.pk).update(primary=True)


def of(user: User) -> list[LinkedIdentity]:
    """All linked identities of a user, the primary one first."""
    return list(LinkedIdentity.objects.filter(user=user).order_by("-primary", "linked_at", "id"))


def is_held(user: User, username: str) -> bool:
    """Whether the user is proven to have this name: the own one in our domain, or one that is linked at present."""
    if user_names.is_of_this_service(user) and username.lower() == user_names.identity_name(user).lower():
        return True
    return LinkedIdentity.objects.filter(user=user, username__iexact=username).exists()


def by_id(ids: Iterable[uuid.UUID]) -> dict[uuid.UUID, LinkedIdentity]:
    """Identities with their users."""
    return LinkedIdentity.objects.select_related("user").in_bulk(list(ids))


def people(ids: Iterable[uuid.UUID]) -> dict[uuid.UUID, User]:
    """The users whom these ids name: each by the user's own id, or by the id of a linked identity."""
    wanted = set(ids)
    users: dict[uuid.UUID, User] = User.objects.in_bulk(list(wanted))
    rest = wanted - users.keys()
    return users | {pk: row.user for pk, row in (by_id(rest) if rest else {}).items()}


def by_username(names: Collection[str]) -> dict[str, LinkedIdentity]:
    """Identities of active users by name, in lower case. A name that two of them have names neither."""
    wanted = {name.lower() for name in names if "\0" not in name}
    rows = LinkedIdentity.objects.select_related("user").filter(user__is_active=True)
    rows = rows.annotate(lower=Lower("username")).filter(lower__in=wanted)
    found: dict[str, list[LinkedIdentity]] = {}
    for row in rows:
        found.setdefault(row.username.lower(), []).append(row)
    return {name: same[0] for name, same in found.items() if len(same) == 1}


def user_of_name(provider: str, username: str) -> User | None:
    """The user who has linked an identity of this name. It proves nothing: names change hands."""
    row = LinkedIdentity.objects.select_related("user").filter(provider=provider, username=username).first()
    return None if row is None else row.user


def _check_age(proven: Proven, now: float | None) -> None:
    if not -60 <= (time.time() if now is None else now) - proven.proven_at <= MOST_AGE:
        raise ProofTooOldError


def check_fresh(signed_in_at: float, now: float | None = None) -> None:
    """A session that was left open, or taken, does not change how its user signs in. Raises ProofTooOldError."""
    if (time.time() if now is None else now) - signed_in_at > MOST_AGE:
        raise ProofTooOldError


def digest_of(proven: Proven) -> bytes:
    """The key of an identity: provider and subject, which have no line breaks."""
    return hashlib.sha256(f"{proven.provider}\n{proven.subject}".encode()).digest()


def _row_of(proven: Proven) -> LinkedIdentity | None:
    found = LinkedIdentity.objects.select_related("user").select_for_update(of=("self",))
    return single_row(found.filter(digest=digest_of(proven)))


def _own(user: User, ref: uuid.UUID | str) -> LinkedIdentity:
    return row_by_id(LinkedIdentity.objects.filter(user=user), ref, IdentityNotFoundError(ref))


def _lock(user: User) -> None:
    """Changes to the identities of one user happen one after another: two could remove the last two."""
    User.objects.select_for_update(no_key=True).get(pk=user.pk)


def _insert(user: User, proven: Proven, *, primary: bool = False) -> LinkedIdentity:
    with unless_taken("identity_linkedidentity_digest_key", IdentityTakenError()):
        _lock(user)
        if LinkedIdentity.objects.filter(user=user).count() >= MOST:
            raise TooManyIdentitiesError(limit=MOST)
        row = LinkedIdentity(user=user, provider=proven.provider, subject=proven.subject, primary=primary)
        row.digest = digest_of(proven)
        _fill(row, proven)
        row.save(force_insert=True)
    account_changed.send(LinkedIdentity, user=user, what="identity_linked", name=row.username)
    return row


def _update(row: LinkedIdentity, proven: Proven) -> None:
    _fill(row, proven)
    row.save(update_fields=["username", "email", "email_verified", "name", "organization", "last_used_at"])


def _fill(row: LinkedIdentity, proven: Proven) -> None:
    """The facts of the provider. A name that it has given to another person before is this person's from now on.

    Not so a mail address, which people choose themselves, and a name that differs by its case only, which may be
    another one at the provider: it stays with the person who had it first.
    """
    same_name = LinkedIdentity.objects.filter(provider=proven.provider, username__iexact=proven.username)
    former = list(same_name.select_related("user").exclude(subject=proven.subject))
    stays = proven.name_is_address or any(one.username != proven.username for one in former)
    _rename(row, _nameless(row, proven.username) if former and stays else proven.username)
    for one in former if not stays else ():
        _rename(one, _nameless(one, one.username))
        LinkedIdentity.objects.filter(pk=one.pk).update(username=one.username)
    row.email, row.email_verified = proven.email, proven.email_verified
    row.name, row.organization = proven.name, proven.organization
    row.last_used_at = timezone.now()


def _nameless(row: LinkedIdentity, username: str) -> str:
    """A name of the same domain that nobody else has."""
    return f"{row.pk}@{username.rpartition('@')[2]}"


def _rename(row: LinkedIdentity, name: str) -> None:
    """The consents keep the name of the identity that gave them: `unlink` finds them by it."""
    if row.username and row.username != name:
        identity_renamed.send(LinkedIdentity, user=row.user, username=name, before=row.username)
    row.username = name
