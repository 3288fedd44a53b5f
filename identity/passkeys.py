"""Passkeys (WebAuthn): keys of a device, or of a password manager, by which a user signs in without a password.

A user's passkeys are added, listed, named and removed here, and proven at sign-in. A question is begun with `begin_new`
or `begin_proof`, which put a challenge into the session of the browser; the answer comes to `add`, `user_of_proof` or
`check_second_factor`.

A challenge is of one session and one purpose, lasts five minutes, and is taken once. The session keeps it. A marker in
Redis is deleted by the first who takes it: of two concurrent requests of one session, one succeeds. Without Redis there
is no sign-in, as with passwords.

The library fido2 has the two ceremonies of WebAuthn (level 2, 7.1 and 7.2). Each answer must have the challenge, the
origin and the id of this service, the presence of a person, and its verification by the device (PIN, finger, face).
Attestation is not asked for, and none is believed: any authenticator may be used. Answers are text of strangers:
whatever is wrong with one is PASSKEY_REFUSED.

No sentence of an error holds what a browser has sent.
"""

from __future__ import annotations

import hashlib
import json
import logging
import secrets
import time
import uuid
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, cast
from urllib.parse import urlsplit

from django.conf import settings
from django.core.cache import cache
from django.db import models, transaction
from django.db.models.functions import Now
from fido2.cbor import decode, encode
from fido2.cose import CoseKey
from fido2.server import Fido2Server
from fido2.webauthn import (
    AttestationConveyancePreference,
    AttestedCredentialData,
    AuthenticationResponse,
    AuthenticatorTransport,
    PublicKeyCredentialDescriptor,
    PublicKeyCredentialRpEntity,
    PublicKeyCredentialType,
    PublicKeyCredentialUserEntity,
    ResidentKeyRequirement,
    UserVerificationRequirement,
)
from redis.exceptions import RedisError

from identity.gsi.printable import translatable as _

from . import networks, users
from .database_rows import row_by_id, single_row, unless_taken
from .error_categories import Category, NotFoundError, Refusal, RefusedError
from .models import OneTimeCodeSecret, Passkey, User
from .signals import account_changed


class PasskeyError(RefusedError):
    """A passkey, or a change of the passkeys, is refused."""


class PasskeysUnavailableError(PasskeyError):
    refusal = Refusal(
        Category.NOT_CONFIGURED, _("Passkeys need https and a host name: the address of this service has none.")
    )


CHALLENGE_LAPSED = Refusal(Category.INVALID, _("This took too long, or was answered already. Try again."))
PASSKEY_REFUSED = Refusal(Category.INVALID, _("The answer of your browser or device was not accepted. Try again."))
PASSKEY_UNKNOWN = Refusal(
    Category.INVALID, _("This passkey is not known here. Sign in in another way, and remove it from your device.")
)
PASSKEY_COPIED = Refusal(
    Category.PERMISSION_DENIED,
    _("This passkey seems to have been copied, and signs in no more. Sign in in another way, and remove it."),
)
PASSKEY_EXISTS = Refusal(Category.EXISTS, _("This passkey is registered already."))
NO_PASSKEY = Refusal(Category.CONFLICT, _("You have no passkey that sign-in could ask for: add one first."))
#: The label of a passkey.
PASSKEY_LABEL = Refusal(Category.INVALID, _("A name is one line of 1 to 128 characters."))
LAST_SECOND_FACTOR = Refusal(
    Category.CONFLICT, _("Sign-in asks for a passkey after your password, and this is the last. Turn that off first.")
)
LAST_PASSKEY = Refusal(
    Category.CONFLICT, _("You could not sign in any more. Set a password, or add a passkey or another identity first.")
)
TOO_MANY_PASSKEYS = Refusal(Category.LIMIT_EXCEEDED, "A user has at most {limit} passkeys")
#: Seconds, and octets (WebAuthn level 2, 13.4.3, asks for 16 at least).
LIFETIME = 300
OCTETS = 32
_NAME = "passkey_challenge"

Session = MutableMapping[str, Any]


def new(session: Session, purpose: str) -> bytes:
    """A challenge, which replaces an earlier one of this session. Raises CHALLENGE_LAPSED without Redis."""
    challenge = secrets.token_bytes(OCTETS)
    try:
        cache.set(_marker(challenge), 1, LIFETIME)
    except RedisError:
        raise PasskeyError(CHALLENGE_LAPSED) from None
    session[_NAME] = [purpose, urlsafe_b64encode(challenge).decode(), time.time()]
    return challenge


def take(session: Session, purpose: str) -> bytes:
    """The challenge of this session, which is used up now. Raises CHALLENGE_LAPSED."""
    kept = session.pop(_NAME, None)
    if kept is None or kept[0] != purpose or not 0 <= time.time() - kept[2] <= LIFETIME:
        raise PasskeyError(CHALLENGE_LAPSED)
    challenge = urlsafe_b64decode(kept[1])
    try:
        is_first = cache.delete(_marker(challenge))
    except RedisError:
        raise PasskeyError(CHALLENGE_LAPSED) from None
    if not is_first:
        raise PasskeyError(CHALLENGE_LAPSED)
    return challenge


def _marker(challenge: bytes) -> str:
    return f"passkey:{hashlib.sha256(challenge).hexdigest()}"


#: Characters of an answer; one with an attestation of three certificates has 5,000.
MAX_ANSWER = 16 * 1024
MAX_CREDENTIAL_ID = 1023
_TRANSPORTS = frozenset(AuthenticatorTransport)
#: No authenticator has more; the database and JSON keep it exactly.
_MAX_COUNT = 2**32 - 1


@dataclass(frozen=True, slots=True)
class RelyingParty:
    """The relying party: its id, and the origin of its pages."""

    id: str
    origin: str


@dataclass(frozen=True, slots=True)
class PasskeyCredential:
    """A credential. public_key: COSE_Key. count: the value of the signature counter at this ceremony."""

    credential_id: bytes
    public_key: bytes
    count: int
    transports: tuple[str, ...] = ()


def site() -> RelyingParty:
    """The site by the address of this service; on the loopback interface it is `localhost`, the only name that needs no
    https. Raises PasskeysUnavailableError where browsers would refuse: http, or an address without a name.
    """
    parts = urlsplit(settings.PUBLIC_URL)
    host = parts.hostname or ""
    if networks.is_loopback(host):
        host = "localhost"
    elif parts.scheme != "https" or networks.numeric(host) is not None:
        raise PasskeysUnavailableError
    port = f":{parts.port}" if parts.port else ""
    return RelyingParty(host, f"{parts.scheme}://{host}{port}")


def ask_for_new(challenge: bytes, handle: bytes, name: str, known: Sequence[PasskeyCredential]) -> dict[str, Any]:
    """The options of `navigator.credentials.create`, as JSON. known: the keys that the user has already."""
    user = PublicKeyCredentialUserEntity(id=handle, name=name, display_name=name)
    options, _ = _server().register_begin(
        user,
        [_descriptor(key) for key in known],
        ResidentKeyRequirement.REQUIRED,
        UserVerificationRequirement.REQUIRED,
        challenge=challenge,
    )
    return dict(options.public_key)


def ask_for_proof(challenge: bytes, known: Sequence[PasskeyCredential] = ()) -> dict[str, Any]:
    """The options of `navigator.credentials.get`, as JSON. known: the keys of the user, if the user is known."""
    options, _ = _server().authenticate_begin(
        [_descriptor(key) for key in known] or None, UserVerificationRequirement.REQUIRED, challenge
    )
    return dict(options.public_key)


def check_new(challenge: bytes, answer: str) -> PasskeyCredential:
    """The new key in the answer of a browser. Raises PASSKEY_REFUSED."""
    try:
        given = _parsed(answer)
        data = _server().register_complete(_state(challenge), given)
        credential = data.credential_data
        if credential is None or not 0 < len(credential.credential_id) <= MAX_CREDENTIAL_ID:
            raise PasskeyError(PASSKEY_REFUSED)
        if credential.public_key.get(3) not in CoseKey.supported_algorithms():
            raise PasskeyError(PASSKEY_REFUSED)
        transports = given["response"].get("transports") or []
        known = tuple(sorted(_TRANSPORTS & {str(one) for one in transports}))
        return PasskeyCredential(
            credential.credential_id, encode(dict(credential.public_key)), _count(data.counter), known
        )
    except Exception:
        # The library reports by many types what is wrong with octets of strangers.
        raise PasskeyError(PASSKEY_REFUSED) from None


def credential_of(answer: str) -> tuple[bytes, bytes | None]:
    """The credential id and the user handle that an answer names, neither proven yet. Raises PASSKEY_REFUSED."""
    try:
        given = AuthenticationResponse.from_dict(_parsed(answer))
        return bytes(given.raw_id), given.response.user_handle
    except Exception:
        raise PasskeyError(PASSKEY_REFUSED) from None


def check_proof(challenge: bytes, answer: str, key: PasskeyCredential) -> int:
    """The counter in an answer that was signed by this key. Raises PASSKEY_REFUSED."""
    try:
        public_key = CoseKey.parse(cast("Mapping[int, Any]", decode(key.public_key)))
        data = AttestedCredentialData.create(b"\0" * 16, key.credential_id, public_key)
        given = _parsed(answer)
        _server().authenticate_complete(_state(challenge), [data], given)
        return _count(AuthenticationResponse.from_dict(given).response.authenticator_data.counter)
    except Exception:
        raise PasskeyError(PASSKEY_REFUSED) from None


def _server() -> Fido2Server:
    at = site()
    entity = PublicKeyCredentialRpEntity(id=at.id, name="Waybill")
    return Fido2Server(entity, AttestationConveyancePreference.NONE, verify_origin=lambda origin: origin == at.origin)


def _state(challenge: bytes) -> Any:
    """The state that the library wants back: the challenge, and that the person is verified."""
    return _server().authenticate_begin(None, UserVerificationRequirement.REQUIRED, challenge)[1]


def _descriptor(key: PasskeyCredential) -> PublicKeyCredentialDescriptor:
    return PublicKeyCredentialDescriptor(
        type=PublicKeyCredentialType.PUBLIC_KEY,
        id=key.credential_id,
        transports=[AuthenticatorTransport(one) for one in key.transports] or None,
    )


def _parsed(answer: str) -> dict[str, Any]:
    if len(answer) > MAX_ANSWER:
        raise PasskeyError(PASSKEY_REFUSED)
    found = json.loads(answer)
    if not isinstance(found, dict):
        raise PasskeyError(PASSKEY_REFUSED)
    return found


def _count(value: int) -> int:
    if not 0 <= value <= _MAX_COUNT:
        raise PasskeyError(PASSKEY_REFUSED)
    return value


#: Passkeys of one user.
MOST = 20
MAX_LABEL = 128
#: The purposes of challenges.
_NEW, _SIGN_IN, _SECOND = "new", "sign-in", "second-factor"
log = logging.getLogger(__name__)
# At INFO the library writes a line for each ceremony.
logging.getLogger("fido2").setLevel(logging.WARNING)


def of(user: User) -> list[Passkey]:
    """All passkeys of this user, the oldest first."""
    return list(Passkey.objects.filter(user=user).order_by("created_at", "pk"))


def begin_new(user: User, session: Session) -> dict[str, Any]:
    """The options for a new passkey. Raises TOO_MANY_PASSKEYS, PasskeysUnavailableError."""
    known = of(user)
    if len(known) >= MOST:
        raise PasskeyError(TOO_MANY_PASSKEYS, limit=MOST)
    site()
    challenge = new(session, f"{_NEW} {user.pk}")
    return ask_for_new(challenge, user.pk.bytes, user.username, [_key(row) for row in known])


def add(user: User, session: Session, answer: str, label: str) -> Passkey:
    """Add the passkey in the answer of the browser. The caller has made sure that the user signed in just now.

    Raises PASSKEY_LABEL, CHALLENGE_LAPSED, PASSKEY_REFUSED, PASSKEY_EXISTS, TOO_MANY_PASSKEYS.
    """
    label = _label(label)
    key = check_new(take(session, f"{_NEW} {user.pk}"), answer)
    with unless_taken("passkey_once", PasskeyError(PASSKEY_EXISTS)):
        User.objects.select_for_update(no_key=True).get(pk=user.pk)
        if Passkey.objects.filter(user=user).count() >= MOST:
            raise PasskeyError(TOO_MANY_PASSKEYS, limit=MOST)
        row = Passkey(user=user, label=label, credential_id=key.credential_id, public_key=key.public_key)
        row.sign_count, row.transports = key.count, list(key.transports)
        row.save(force_insert=True)
    account_changed.send(Passkey, user=user, what="passkey_added", name=label)
    return row


def rename(user: User, ref: uuid.UUID | str, label: str) -> None:
    """Raises PASSKEY_LABEL, NotFoundError."""
    row = _mine(user, ref)
    row.label = _label(label)
    row.save(update_fields=["label"])


def remove(user: User, ref: uuid.UUID | str) -> None:
    """Remove a passkey: it signs in no more. Raises NotFoundError, LAST_SECOND_FACTOR, LAST_PASSKEY."""
    with transaction.atomic():
        user = User.objects.select_for_update(no_key=True).get(pk=user.pk)
        row = _mine(user, ref)
        if user.passkey_after_password and not _has_another_factor(user, row):
            raise PasskeyError(LAST_SECOND_FACTOR)
        if row.copied_at is None and not users.can_sign_in_without(user, row):
            raise PasskeyError(LAST_PASSKEY)
        row.delete()
    account_changed.send(Passkey, user=user, what="passkey_removed", name=row.label)


def remove_all(user: User, actor: User | None = None) -> int:
    """Remove all passkeys, as staff and the operator do after the loss of a device; returns their number."""
    with transaction.atomic():
        User.objects.select_for_update(no_key=True).get(pk=user.pk)
        deleted, _ = Passkey.objects.filter(user=user).delete()
        User.objects.filter(pk=user.pk).update(passkey_after_password=False)
        if deleted:
            account_changed.send(Passkey, user=user, what="passkeys_removed", name="", actor=actor)
    return deleted


# ---- the second factor


def asked_after_password(user: User) -> bool:
    """Whether sign-in by password asks this user for a passkey (or a one-time code, where the user has codes)."""
    # Also where the only one was copied: who has the copy must not get rid of the question.
    return user.passkey_after_password and Passkey.objects.filter(user=user).exists()


def ask_after_password(user: User, *, wanted: bool) -> None:
    """Choose whether sign-in by password asks for a passkey too. Raises NO_PASSKEY."""
    with transaction.atomic():
        row = User.objects.select_for_update(no_key=True).get(pk=user.pk)
        if wanted and not usable(user):
            raise PasskeyError(NO_PASSKEY)
        row.passkey_after_password = wanted
        row.save(update_fields=["passkey_after_password"])
    account_changed.send(Passkey, user=user, what="second_factor_on" if wanted else "second_factor_off", name="")


def usable(user: User) -> bool:
    """Whether the user has a passkey that can answer."""
    return Passkey.objects.filter(user=user, copied_at=None).exists()


def _has_another_factor(user: User, row: Passkey) -> bool:
    others = Passkey.objects.filter(user=user, copied_at=None).exclude(pk=row.pk)
    return others.exists() or OneTimeCodeSecret.objects.filter(user=user, confirmed_at__isnull=False).exists()


# ---- sign-in


def begin_proof(session: Session) -> dict[str, Any]:
    """The options for somebody who has given no name. Raises PasskeysUnavailableError."""
    site()
    return ask_for_proof(new(session, _SIGN_IN))


def user_of_proof(session: Session, answer: str) -> User:
    """The user whose passkey has signed the answer.

    Raises CHALLENGE_LAPSED, PASSKEY_UNKNOWN, PASSKEY_REFUSED, PASSKEY_COPIED.
    """
    challenge = take(session, _SIGN_IN)
    credential_id, handle = credential_of(answer)
    row = _with_id(credential_id)
    # A discoverable credential names its user (WebAuthn level 2, 7.2, step 6).
    if row is None or handle != row.user.pk.bytes or not row.user.is_active:
        raise PasskeyError(PASSKEY_UNKNOWN)
    _check(row, challenge, answer)
    return row.user


def begin_second_factor(user: User, session: Session) -> dict[str, Any]:
    """The options for a user whose password was right. Raises PASSKEY_UNKNOWN, PasskeysUnavailableError."""
    site()
    known = [_key(row) for row in of(user) if row.copied_at is None]
    if not known:
        raise PasskeyError(PASSKEY_UNKNOWN)
    return ask_for_proof(new(session, f"{_SECOND} {user.pk}"), known)


def check_second_factor(user: User, session: Session, answer: str) -> None:
    """Accept the answer of a passkey of this user.

    Raises CHALLENGE_LAPSED, PASSKEY_UNKNOWN, PASSKEY_REFUSED, PASSKEY_COPIED.
    """
    challenge = take(session, f"{_SECOND} {user.pk}")
    row = _with_id(credential_of(answer)[0])
    if row is None or row.user_id != user.pk:
        raise PasskeyError(PASSKEY_UNKNOWN)
    _check(row, challenge, answer)


def _check(row: Passkey, challenge: bytes, answer: str) -> None:
    """Check the answer of this passkey, and that its counter has grown (WebAuthn level 2, 7.2, step 21)."""
    count = check_proof(challenge, answer, _key(row))
    if row.copied_at is not None:
        raise PasskeyError(PASSKEY_COPIED)
    grown = models.Q(sign_count__lt=count) | (models.Q(sign_count=0) if count == 0 else models.Q(pk__in=[]))
    # One statement compares and writes: of two concurrent answers with one count, the second changes no row.
    known = Passkey.objects.filter(grown, pk=row.pk, copied_at=None)
    if not known.update(sign_count=count, last_used_at=Now()):
        Passkey.objects.filter(pk=row.pk).update(copied_at=datetime.now(UTC))
        log.warning("a passkey of %s was refused: its counter went back", row.user_id)
        account_changed.send(Passkey, user=row.user, what="passkey_copied", name=row.label)
        raise PasskeyError(PASSKEY_COPIED)


def _with_id(credential_id: bytes) -> Passkey | None:
    return single_row(Passkey.objects.select_related("user").filter(credential_id=credential_id))


def _mine(user: User, ref: uuid.UUID | str) -> Passkey:
    """Raises NotFoundError."""
    return row_by_id(Passkey.objects.filter(user=user), ref, NotFoundError(ref, "passkey"))


def _key(row: Passkey) -> PasskeyCredential:
    return PasskeyCredential(bytes(row.credential_id), bytes(row.public_key), row.sign_count, tuple(row.transports))


def _label(text: str) -> str:
    """Raises PASSKEY_LABEL."""
    text = text.strip()
    if not 0 < len(text) <= MAX_LABEL or not text.isprintable():
        raise PasskeyError(PASSKEY_LABEL)
    return text
