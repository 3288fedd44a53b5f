"""Sign-in with user name and password, and a one-time code where the user requires it.

    try:
        user = sign_in(name, password, address)
    except CodeRequiredError as error:
        user = finish(error.pending, code, address)   # after asking the user for the code

Django's hashers compare the password, and the number of guesses is limited.

Attempts are counted by address, by pair of name and address, and by name. A success takes itself off the counter of its
address: people behind one address do not use it up, and an attacker with an account gains no guess by it. An attacker
who knows only a name can exhaust the last counter from many addresses. Therefore a browser in which the user signed in
before has a counter of its own, and is not subject to the others: it presents a signed device token (`device_of`,
`new_device`; the OWASP page "Slow Down Guessing Attacks with Device Cookies" describes the method).
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import logging
import secrets
import time
import uuid
from dataclasses import dataclass, field
from urllib.parse import quote

from django.contrib.auth import authenticate
from django.contrib.auth.password_validation import validate_password
from django.core import signing
from django.core.cache import cache
from django.core.exceptions import ValidationError
from redis.exceptions import RedisError

from identity.gsi.printable import translatable as _

from . import audit, counters, link_codes, one_time_codes, passkeys, sessions, user_names
from .clock import moment
from .error_categories import Category, Refusal, RefusedError
from .hidden import Secret
from .models import RecoveryLink, User
from .networks import network_of
from .one_time_codes import OneTimeCodeError
from .passkeys import PasskeyError, Session
from .signals import account_changed

#: Seconds of one counting window, and the limits in it: of one name from one address (or from one device), of one
#: address for all names, of one name from all addresses.
WINDOW = 300
MOST_OF_A_PAIR = 10
MOST_OF_AN_ADDRESS = 50
MOST_OF_A_NAME = 100
#: One-time codes of one name, in one window and in a day. Three of a million codes are right at a time: an attacker who
#: has the password finds one in a day with a probability of 0.0003.
MOST_CODES, MOST_CODES_OF_A_DAY = 10, 100
DAY = 24 * 3600
#: Seconds between the password and its one-time code.
MOST_PENDING = 300
#: Seconds for which a device token is valid.
DEVICE_LIFETIME = 180 * 24 * 3600
_SALT = "waybill.device"
log = logging.getLogger(__name__)
#: Characters; Django has user names of at most 150, and hashes passwords of any length.
MAX_NAME, MAX_PASSWORD = 150, 1024


#: Redis is not reachable, so no attempt is counted, and nobody can sign in.
COUNTING_FAILED = Refusal(Category.UNAVAILABLE, _("The service is busy or restarts. Try again in a moment."))


class SignInError(RefusedError):
    """Somebody is not signed in."""


class WrongPasswordError(SignInError):
    """There is no such user, the user is inactive, or the password is wrong: the error does not say which."""

    refusal = Refusal(Category.INVALID, _("This user name and this password do not belong together."))


class TooManyAttemptsError(SignInError):
    """Too many attempts for this name or from this address; the password was not compared.

    seconds: the time until the next attempt is allowed.
    """

    def __init__(self, seconds: int) -> None:
        minutes = -(-seconds // 60)
        sentence = "Too many attempts. Try again in {minutes} minute{s}."
        super().__init__(Refusal(Category.TOO_MANY_REQUESTS, sentence), minutes=minutes, s="" if minutes == 1 else "s")
        self.seconds = seconds


@dataclass(frozen=True, slots=True)
class PendingSignIn:
    """A sign-in whose password was right, and whose code is missing. A page may keep its three values in a session.

    password: a digest of the stored hash, so that a changed password ends the sign-in. since: Unix time.
    """

    user_id: uuid.UUID
    password: str = field(repr=False)
    since: float


@dataclass(frozen=True, slots=True)
class Attempt:
    """The counters of an attempt. own: a complete sign-in resets it. address: a success is taken off it; "": none."""

    own: str
    address: str = ""


class CodeRequiredError(SignInError):
    """The password is right, and `finish` needs a one-time code (or `finish_by_passkey`)."""

    refusal = Refusal(Category.INVALID, "This user signs in with a one-time code besides the password.")

    def __init__(self, pending: PendingSignIn) -> None:
        super().__init__()
        self.pending = pending


class CodeRefusedError(SignInError):
    """The one-time code is wrong, or was used before."""


class SignInLapsedError(SignInError):
    """Too much time passed between password and code, or the password has changed."""

    refusal = Refusal(Category.INVALID, _("Too much time has passed. Begin again with your password."))


class PasswordRefusedError(SignInError):
    """The new password is too long, or too easy to guess."""

    refusal = Refusal(Category.INVALID, "{reason}")


def sign_in(username: str, password: Secret, address: str, device: str = "") -> User:
    """Authenticate a user. address: the source of the request, "" when unknown; device: see `device_of`.

    Each attempt is counted before the comparison, so that concurrent attempts are limited too. An unknown name takes
    the same work as a wrong password. Raises SignInError; CodeRequiredError for a user with one-time codes.
    """
    # Before anything is counted: both forms of a name are one.
    username = user_names.canonical(username[: MAX_NAME + user_names.MAX_DOMAIN])
    user, attempt = _with_password(username, password, address, device)
    if one_time_codes.enabled(user) or passkeys.asked_after_password(user):
        raise CodeRequiredError(PendingSignIn(user.pk, _digest(user.get_session_auth_hash()), time.time()))
    _reset(attempt)
    return user


def finish(pending: PendingSignIn, code: Secret, address: str, device: str = "") -> User:
    """Authenticate a user by a one-time code, or a recovery code, after the password. address, device: as `sign_in`.

    Counted like a password, and by name alone too. Raises SignInError.
    """
    user = user_of(pending)
    attempt = _count_code(user, address, device)
    try:
        one_time_codes.verify(user, code)
    except OneTimeCodeError as error:
        log.warning("a one-time code was refused: %s", quote(user.username))
        audit.record_refusal(user, "code", address, type(error).__name__)
        raise CodeRefusedError(error.refusal) from None
    forget_attempts(attempt)
    return user


def finish_by_passkey(pending: PendingSignIn, session: Session, answer: str, address: str, device: str = "") -> User:
    """Authenticate a user by a passkey after the password. Counted as `finish`. Raises SignInError, PasskeyError."""
    user = user_of(pending)
    attempt = _count_code(user, address, device)
    try:
        passkeys.check_second_factor(user, session, answer)
    except PasskeyError as error:
        audit.record_refusal(user, "second", address, type(error).__name__)
        raise
    forget_attempts(attempt)
    return user


def by_passkey(session: Session, answer: str) -> User:
    """Authenticate a user by a passkey alone: the device has verified its owner. Raises PasskeyError."""
    try:
        return passkeys.user_of_proof(session, answer)
    except PasskeyError as error:
        log.warning("a passkey was refused: %s", type(error).__name__)
        audit.record_refusal(None, "passkey", reason=type(error).__name__)
        raise


def count_request(kind: str, address: str, most: int) -> None:
    """Count a request of somebody who has not signed in, by its network. Raises SignInError."""
    _count(_counter(kind, network_of(address)), most)


def count_attempt(name: str, address: str, user: User | None = None, device: str = "") -> Attempt:
    """Count an attempt with a secret that another service compares, as `sign_in` counts passwords, before it is sent.

    name: of the identity, and of the service. user: who has linked it, whose `device` has a counter of its own.
    Returns what `forget_attempts` takes. Raises TooManyAttemptsError, COUNTING_FAILED.
    """
    return _count_attempt(name, address, device_of(device, user.username) if user is not None else "")


def forget_attempts(attempt: Attempt) -> None:
    """The secret was right, and the sign-in is complete. attempt: from `count_attempt`."""
    _give_back(attempt)
    _reset(attempt)


def confirm_codes(user: User, code: Secret) -> list[Secret]:
    """Turn one-time codes on by the first code; returns the recovery codes.

    Counted: whoever has a session of the user could else try all codes, and get the recovery codes. Raises SignInError,
    OneTimeCodeError.
    """
    _count(_counter("confirm", user.username), MOST_CODES)
    _count(_counter("confirm-day", user.username), MOST_CODES_OF_A_DAY, DAY)
    return one_time_codes.confirm(user, code)


def check(
    user: User, password: Secret, code: Secret, address: str, device: str = "", *, by_passkey: bool = False
) -> User:
    """Authenticate a user who is signed in anew: by password, and by a code where the user requires it.

    by_passkey: the session has just begun with a passkey, which counts for a user who has no codes yet. Raises
    SignInError.
    """
    try:
        return sign_in(user.username, password, address, device)
    except CodeRequiredError as error:
        if by_passkey and not one_time_codes.enabled(user):
            return user_of(error.pending)
        return finish(error.pending, code, address, device)


def _with_password(username: str, password: Secret, address: str, device: str) -> tuple[User, Attempt]:
    """The user of this password, and the attempt, which is given back to its address. Raises SignInError."""
    attempt = _count_attempt(username, address, device_of(device, username))
    if len(username) > MAX_NAME or len(password.value) > MAX_PASSWORD or "\0" in username:
        raise WrongPasswordError
    user = authenticate(username=username, password=password.value)
    if not isinstance(user, User):
        raise WrongPasswordError
    _give_back(attempt)
    return user, attempt


def user_of(pending: PendingSignIn) -> User:
    """The user of a sign-in that waits for its code or passkey. Raises SignInLapsedError."""
    user = User.objects.filter(pk=pending.user_id, is_active=True).first()
    if user is None or not 0 <= time.time() - pending.since <= MOST_PENDING:
        raise SignInLapsedError
    if not hmac.compare_digest(_digest(user.get_session_auth_hash()), pending.password):
        raise SignInLapsedError
    return user


def new_device(user: User) -> str:
    """A device token for a browser in which this user has just signed in."""
    return signing.dumps({"name": _digest(user.username), "device": secrets.token_urlsafe(16)}, salt=_SALT)


def device_of(token: str, username: str) -> str:
    """The device id in a token of this user; "" when the token is invalid or another user's."""
    try:
        known = signing.loads(token, salt=_SALT, max_age=DEVICE_LIFETIME)
    except signing.BadSignature:
        return ""
    return str(known["device"]) if known["name"] == _digest(username) else ""


def change_password(user: User, old: Secret, new: Secret, address: str, device: str = "", *, keep: str = "") -> User:
    """Set a new password after checking the old one. keep: the key of the session that goes on. Raises SignInError."""
    user, attempt = _with_password(user.username, old, address, device)
    _reset(attempt)
    set_password(user, new, keep)
    return user


def set_password(user: User, new: Secret, keep: str = "") -> None:
    """Set a new password; all sessions of the user end but the one with the key `keep`. Raises PasswordRefusedError.

    Links for a new password end, too: one that somebody else has would replace it. Where no session goes on, a link to
    another mail address ends with them: whoever had the old password may have asked for it.
    """
    check_new_password(user, new)
    user.set_password(new.value)
    user.save(update_fields=["password"])
    if keep:
        RecoveryLink.objects.filter(user=user).delete()
    else:
        link_codes.end_all(user, moment())
    sessions.end_all(user, keep)
    account_changed.send(User, user=user, what="password_changed", name="")


def check_new_password(user: User, new: Secret) -> None:
    """Raises PasswordRefusedError."""
    if len(new.value) > MAX_PASSWORD:
        raise PasswordRefusedError(reason=f"A password has at most {MAX_PASSWORD} characters.")
    try:
        validate_password(new.value, user)
    except ValidationError as error:
        raise PasswordRefusedError(reason=" ".join(error.messages)) from None


def random_password() -> Secret:
    """A random password of 100 bits, in groups that are easy to type."""
    letters = "abcdefghijkmnpqrstuvwxyz23456789"
    return Secret("-".join("".join(secrets.choice(letters) for _ in range(5)) for _ in range(4)))


def _count_attempt(username: str, address: str, device: str) -> Attempt:
    """Count the attempt. Raises TooManyAttemptsError, COUNTING_FAILED.

    The order matters: an address that is over its limit must not use up the limits of names, or add counters to Redis.
    """
    if device:
        _count(own := _counter("device", device), MOST_OF_A_PAIR)
        return Attempt(own)
    network = network_of(address)
    if of_address := _counter("address", network) if address else "":
        _count(of_address, MOST_OF_AN_ADDRESS)
    _count(own := _counter("pair", f"{network} {username}"), MOST_OF_A_PAIR)
    _count(_counter("name", username), MOST_OF_A_NAME)
    return Attempt(own, of_address)


def _count_code(user: User, address: str, device: str) -> Attempt:
    """Count the attempt with a code, as `_count_attempt`. An attacker who has the password changes address at will:
    therefore the codes of a name are limited for all addresses together. Raises TooManyAttemptsError.
    """
    attempt = _count_attempt(user.username, address, known := device_of(device, user.username))
    if known:
        # A browser that the user shares with others has the device token, and perhaps the password.
        _count(_counter("device-code-day", known), MOST_CODES_OF_A_DAY, DAY)
    else:
        _count(_counter("code", user.username), MOST_CODES)
        _count(_counter("code-day", user.username), MOST_CODES_OF_A_DAY, DAY)
    return attempt


def _reset(attempt: Attempt) -> None:
    with contextlib.suppress(RedisError):
        cache.delete(attempt.own)


def _give_back(attempt: Attempt) -> None:
    """Take one attempt off the counter of its address."""
    if not attempt.address:
        return
    with contextlib.suppress(RedisError):
        counters.give_back(attempt.address)


def _count(key: str, most: int, window: int = WINDOW) -> None:
    """Count one attempt. Raises TooManyAttemptsError, COUNTING_FAILED."""
    try:
        count = counters.count(key, window)
    except RedisError:
        raise SignInError(COUNTING_FAILED) from None
    if count > most:
        raise TooManyAttemptsError(window)


def _counter(kind: str, what: str) -> str:
    """A cache key. It holds a digest only: the name field may contain a password typed by mistake."""
    return f"sign-in:{kind}:{_digest(what)}"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
