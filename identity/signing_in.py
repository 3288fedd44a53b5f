"""Signing in with a user name and a password: Django's hashers compare, and guessing is bounded.

Guesses are counted by address, by name and address together, and by name. Who only knows a name can use up the last
count, by many addresses. So a browser that its user signed in with before is counted by itself, and by nothing else:
it shows a signed token that says so (`device_of`, `new_device`; the OWASP page "Slow Down Guessing Attacks with Device
Cookies" describes the method).

SignInError
|- WrongPasswordError             no such user, not this password, or the user is not active: it is not told which
|- TooManyAttemptsError(seconds)  for this name or from this address; nothing was compared
|- CountingFailedError            Redis is away, and so nobody can sign in
|- PasswordRefusedError(reason)   a new password that is too easy to guess
"""

from __future__ import annotations

import contextlib
import hashlib
import secrets
from datetime import UTC, datetime

from django.contrib.auth import authenticate
from django.contrib.auth.password_validation import validate_password
from django.contrib.sessions.models import Session
from django.core import signing
from django.core.cache import cache
from django.core.exceptions import ValidationError
from redis.exceptions import RedisError

from .hidden import Secret
from .models import User
from .networks import network_of

#: Seconds over which attempts are counted, and how many are heard in that time: of a name from one address, and of one
#: device; of an address whatever the name; of a name wherever they come from.
WINDOW = 300
MOST_OF_A_PAIR = 10
MOST_OF_AN_ADDRESS = 50
MOST_OF_A_NAME = 100
#: Seconds for which a device is known.
DEVICE_LIFETIME = 180 * 24 * 3600
_SALT = "waybill.device"
#: Characters; Django has user names of at most 150, and hashes what it is given.
MAX_NAME, MAX_PASSWORD = 150, 1024


class SignInError(Exception):
    """The root of this tree. `reason` is a sentence for people."""

    reason = "You were not signed in."

    def __str__(self) -> str:
        return self.reason


class WrongPasswordError(SignInError):
    reason = "This user name and this password do not belong together."


class TooManyAttemptsError(SignInError):
    """seconds: after so many it may be tried again."""

    def __init__(self, seconds: int) -> None:
        super().__init__(seconds)
        self.seconds = seconds
        minutes = -(-seconds // 60)
        self.reason = f"Too many attempts. Try again in {minutes} minute{'' if minutes == 1 else 's'}."


class CountingFailedError(SignInError):
    reason = "The service is busy or restarts. Try again in a moment."


class PasswordRefusedError(SignInError):
    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


def sign_in(username: str, password: Secret, address: str, device: str = "") -> User:
    """Who this is. address: where the request comes from, "" where that is not known; device: see `device_of`.

    Each attempt counts before it is looked at, so that many at once are no more than many in a row. A name that nobody
    has costs the same work as one with another password. Raises SignInError.
    """
    own = _count_attempt(username, address, device_of(device, username))
    if len(username) > MAX_NAME or len(password.value) > MAX_PASSWORD or "\0" in username:
        raise WrongPasswordError
    user = authenticate(username=username, password=password.value)
    if not isinstance(user, User):
        raise WrongPasswordError
    with contextlib.suppress(RedisError):
        cache.delete(own)
    return user


def new_device(user: User) -> str:
    """A token for a browser that this user has just signed in with."""
    return signing.dumps({"name": _digest(user.username), "device": secrets.token_urlsafe(16)}, salt=_SALT)


def device_of(token: str, username: str) -> str:
    """Which device of this user the token is of; "": of none."""
    try:
        known = signing.loads(token, salt=_SALT, max_age=DEVICE_LIFETIME)
    except signing.BadSignature:
        return ""
    return str(known["device"]) if known["name"] == _digest(username) else ""


def change_password(user: User, old: Secret, new: Secret, address: str, device: str = "") -> User:
    """Who knows the old one may have a new one; all other sessions of the user end with it. Raises SignInError."""
    user = sign_in(user.username, old, address, device)
    set_password(user, new)
    return user


def set_password(user: User, new: Secret) -> None:
    """-> PasswordRefusedError"""
    if len(new.value) > MAX_PASSWORD:
        raise PasswordRefusedError(f"A password has at most {MAX_PASSWORD} characters.")
    try:
        validate_password(new.value, user)
    except ValidationError as error:
        raise PasswordRefusedError(" ".join(error.messages)) from None
    user.set_password(new.value)
    user.save(update_fields=["password"])


def forget_sessions() -> None:
    """Those that are over."""
    Session.objects.filter(expire_date__lt=datetime.now(UTC)).delete()


def generated() -> Secret:
    """A password that nobody guesses: 100 bits, in groups that can be typed."""
    letters = "abcdefghijkmnpqrstuvwxyz23456789"
    return Secret("-".join("".join(secrets.choice(letters) for _ in range(5)) for _ in range(4)))


def _count_attempt(username: str, address: str, device: str) -> str:
    """The counter that a right password forgets. Raises TooManyAttemptsError.

    In this order: an address that has no attempts left uses up nobody else's, and fills Redis with no more counters.
    """
    if device:
        _count(own := _counter("device", device), MOST_OF_A_PAIR)
        return own
    network = network_of(address)
    if address:
        _count(_counter("address", network), MOST_OF_AN_ADDRESS)
    _count(own := _counter("pair", f"{network} {username}"), MOST_OF_A_PAIR)
    _count(_counter("name", username), MOST_OF_A_NAME)
    return own


def _count(key: str, most: int) -> None:
    """One more in this window. Raises TooManyAttemptsError, CountingFailedError."""
    try:
        cache.add(key, 0, WINDOW)
        count = cache.incr(key)
    except ValueError:
        # It expired between the two lines.
        return
    except RedisError:
        raise CountingFailedError from None
    if count > most:
        raise TooManyAttemptsError(WINDOW)


def _counter(kind: str, what: str) -> str:
    """A key of the cache; what was typed into the field for the name may be a password, and is not kept there."""
    return f"sign-in:{kind}:{_digest(what)}"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
