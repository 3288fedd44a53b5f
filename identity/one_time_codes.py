"""One-time codes (TOTP) that a user may require besides the password, and recovery codes.

The codes are those of RFC 6238 with SHA-1, six digits and steps of 30 seconds, as all authenticators have them. The
secret is encrypted like the vault's (`identity.vault.sealing`), and rotated with them. Attempts are limited by
`identity.password_sign_in`, which is the caller at sign-in.

No sentence of an error holds a code or a secret.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import re
import secrets
import struct
from dataclasses import dataclass, field
from datetime import datetime
from urllib.parse import quote, urlencode

from django.db import transaction

from identity.gsi.printable import translatable as _

from .clock import moment
from .database_rows import single_row
from .error_categories import Category, Refusal, RefusedError
from .hidden import Hidden, Secret
from .models import OneTimeCodeSecret, RecoveryCode, User
from .signals import account_changed
from .vault.errors import VaultError
from .vault.sealing import SealedTable


class OneTimeCodeError(RefusedError):
    """A code, or a change of the codes, is refused."""


CODES_ENABLED = Refusal(Category.CONFLICT, _("Your one-time codes are on already."))
CODES_NOT_ENABLED = Refusal(Category.CONFLICT, _("Your one-time codes are not on: begin with a new secret."))
CODE_WRONG = Refusal(
    Category.INVALID, _("This is not the present one-time code. Check the clock of the device that shows it.")
)
CODE_USED = Refusal(Category.INVALID, _("This one-time code was used already. Wait for the next one."))
CODES_UNREADABLE = Refusal(
    Category.NOT_CONFIGURED,
    "The service cannot read the secret of your one-time codes. Sign in with a recovery code, or ask the operator.",
)
STEP_SECONDS = 30
DIGITS = 6
#: Octets of a secret: the length of the hash (RFC 4226, 4, R6).
SECRET_OCTETS = 20
#: Steps before and after the present one whose codes are accepted (RFC 6238, 5.2): clocks differ, and users type.
WINDOW = 1


def new_secret() -> bytes:
    return secrets.token_bytes(SECRET_OCTETS)


def step_at(seconds: float) -> int:
    """The number of the time step. seconds: Unix time."""
    return int(seconds // STEP_SECONDS)


def code_at(secret: bytes, step: int, digits: int = DIGITS, digest: str = "sha1") -> str:
    """The code of one step (RFC 4226, 5.3)."""
    mac = hmac.digest(secret, struct.pack(">Q", step), getattr(hashlib, digest))
    offset = mac[-1] & 15
    number = struct.unpack(">I", mac[offset : offset + 4])[0] & 0x7FFFFFFF
    return f"{number % 10**digits:0{digits}d}"


def matching_step(secret: bytes, given: str, seconds: float) -> int | None:
    """The step whose code this is, among the present one and its neighbours. The duration reveals no digit."""
    now = step_at(seconds)
    steps = range(max(now - WINDOW, 0), now + WINDOW + 1)
    found = [step for step in steps if hmac.compare_digest(code_at(secret, step).encode(), given.encode())]
    return found[-1] if found else None


def written(secret: bytes) -> str:
    """The secret as users type it into an authenticator: base32."""
    return base64.b32encode(secret).decode()


def provisioning_uri(secret: bytes, user_name: str, issuer: str) -> str:
    """The otpauth:// address that authenticators read."""
    label = quote(f"{issuer}:{user_name}", safe="")
    query = {"secret": written(secret), "issuer": issuer, "algorithm": "SHA1", "digits": DIGITS, "period": STEP_SECONDS}
    return f"otpauth://totp/{label}?{urlencode(query, quote_via=quote)}"


#: The name that authenticators show beside the user's.
ISSUER = "Waybill"
RECOVERY_CODES = 10
#: Characters of a recovery code without its hyphens: 80 bits, so that a plain hash cannot be reversed.
RECOVERY_LENGTH = 16
RECOVERY_LETTERS = "abcdefghijkmnpqrstuvwxyz23456789"
#: Characters of a given code, with blanks and hyphens.
MAX_CODE = 64
_TOTP = re.compile(r"[0-9]{6}", re.ASCII)
_RECOVERY = re.compile(f"[{RECOVERY_LETTERS}]{{{RECOVERY_LENGTH}}}")


@dataclass(frozen=True, slots=True)
class Enrolment:
    """The new secret: as text to type, and as the address that authenticators read. Shown once."""

    secret: Secret
    uri: Secret = field(repr=False)


def enabled(user: User) -> bool:
    """Whether sign-in by password asks this user for a code."""
    return OneTimeCodeSecret.objects.filter(user=user, confirmed_at__isnull=False).exists()


def enrolling(user: User) -> bool:
    """Whether a secret waits for its first code."""
    return OneTimeCodeSecret.objects.filter(user=user, confirmed_at__isnull=True).exists()


def recovery_codes_left(user: User) -> int:
    return RecoveryCode.objects.filter(user=user).count()


def begin_enrolment(user: User) -> Enrolment:
    """Make a secret; codes are asked for after `confirm`. It replaces one that was not confirmed.

    Raises CODES_ENABLED, VaultKeyNotConfiguredError.
    """
    secret = Hidden(new_secret())
    with transaction.atomic():
        _lock(user)
        if enabled(user):
            raise OneTimeCodeError(CODES_ENABLED)
        OneTimeCodeSecret.objects.filter(user=user).delete()
        row = OneTimeCodeSecret(user=user)
        SEALED.seal(row, secret)
        row.save(force_insert=True)
    uri = Secret(provisioning_uri(secret.value, user.username, ISSUER))
    return Enrolment(Secret(written(secret.value)), uri)


def confirm(user: User, code: Secret, now: datetime | None = None) -> list[Secret]:
    """Turn the codes on by a first code. Returns the recovery codes, which cannot be read again.

    Raises CODES_ENABLED, CODES_NOT_ENABLED, CODE_WRONG, CODES_UNREADABLE.
    """
    time = moment(now)
    with transaction.atomic():
        _lock(user)
        row = single_row(OneTimeCodeSecret.objects.select_for_update().filter(user=user))
        if row is None:
            raise OneTimeCodeError(CODES_NOT_ENABLED)
        if row.confirmed_at is not None:
            raise OneTimeCodeError(CODES_ENABLED)
        row.last_step = _step(row, _plain(code), time)
        row.confirmed_at = time
        row.save(update_fields=["last_step", "confirmed_at"])
        codes = _replace_recovery_codes(user)
    account_changed.send(OneTimeCodeSecret, user=user, what="codes_on", name="")
    return codes


def verify(user: User, code: Secret, now: datetime | None = None) -> None:
    """Accept the present code, or a recovery code, once. Of concurrent calls with one code, one succeeds.

    The caller limits the number of attempts. Raises CODES_NOT_ENABLED, CODE_WRONG, CODE_USED,
    CODES_UNREADABLE.
    """
    row = single_row(OneTimeCodeSecret.objects.filter(user=user, confirmed_at__isnull=False))
    if row is None:
        raise OneTimeCodeError(CODES_NOT_ENABLED)
    plain = _plain(code)
    if _RECOVERY.fullmatch(plain.value):
        _use_recovery_code(user, plain)
        return
    step = _step(row, plain, moment(now))
    # One statement compares and writes: of two concurrent sign-ins with one code, the second changes no row.
    if not OneTimeCodeSecret.objects.filter(pk=row.pk, last_step__lt=step).update(last_step=step):
        raise OneTimeCodeError(CODE_USED)


def new_recovery_codes(user: User) -> list[Secret]:
    """Replace the recovery codes. Raises CODES_NOT_ENABLED."""
    with transaction.atomic():
        _lock(user)
        if not enabled(user):
            raise OneTimeCodeError(CODES_NOT_ENABLED)
        codes = _replace_recovery_codes(user)
    account_changed.send(OneTimeCodeSecret, user=user, what="recovery_codes_new", name="")
    return codes


def _replace_recovery_codes(user: User) -> list[Secret]:
    codes = [_random_code() for _ in range(RECOVERY_CODES)]
    RecoveryCode.objects.filter(user=user).delete()
    RecoveryCode.objects.bulk_create(RecoveryCode(user=user, digest=_digest(user, code)) for code in codes)
    return [Secret("-".join(code.value[at : at + 4] for at in range(0, RECOVERY_LENGTH, 4))) for code in codes]


def turn_off(user: User, actor: User | None = None) -> bool:
    """Delete the secret and the recovery codes; returns whether codes were on.

    The caller has checked a code, or is staff (actor) or the operator.
    """
    with transaction.atomic():
        _lock(user)
        RecoveryCode.objects.filter(user=user).delete()
        rows = OneTimeCodeSecret.objects.filter(user=user)
        were_on = rows.filter(confirmed_at__isnull=False).exists()
        rows.delete()
    if were_on:
        account_changed.send(OneTimeCodeSecret, user=user, what="codes_off", name="", actor=actor)
    return were_on


def _lock(user: User) -> None:
    """Changes to the codes of one user happen one after another: a new secret must not replace one just confirmed."""
    User.objects.select_for_update(no_key=True).get(pk=user.pk)


def _plain(code: Secret) -> Secret:
    """The code without the blanks and hyphens that make it easy to read. Raises CODE_WRONG when it is too long."""
    if len(code.value) > MAX_CODE:
        raise OneTimeCodeError(CODE_WRONG)
    return Secret("".join(code.value.split()).replace("-", "").lower())


def _step(row: OneTimeCodeSecret, code: Secret, now: datetime) -> int:
    """The step of a right code. Raises CODE_WRONG, CODES_UNREADABLE."""
    if not _TOTP.fullmatch(code.value):
        raise OneTimeCodeError(CODE_WRONG)
    try:
        secret = SEALED.unseal(row)
    except VaultError:
        raise OneTimeCodeError(CODES_UNREADABLE) from None
    step = matching_step(secret.value, code.value, now.timestamp())
    if step is None:
        raise OneTimeCodeError(CODE_WRONG)
    return step


def _use_recovery_code(user: User, code: Secret) -> None:
    """Raises CODE_WRONG."""
    deleted, _ = RecoveryCode.objects.filter(user=user, digest=_digest(user, code)).delete()
    if not deleted:
        raise OneTimeCodeError(CODE_WRONG)


def _random_code() -> Secret:
    return Secret("".join(secrets.choice(RECOVERY_LETTERS) for _ in range(RECOVERY_LENGTH)))


def _digest(user: User, code: Secret) -> bytes:
    return hashlib.sha256(f"{user.pk} {code.value}".encode()).digest()


def _associated(row: OneTimeCodeSecret) -> bytes:
    return json.dumps(["one-time-code", str(row.pk), str(row.user_id)]).encode()


SEALED = SealedTable(OneTimeCodeSecret, "sealed", _associated)
