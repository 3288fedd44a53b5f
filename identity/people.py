"""What an operator says of a user: a mail address, a full name, and whether the user may come in.

PersonError
|- PersonExistsError(name)     the name is taken
|- PersonInvalidError(reason)  a name or an address that cannot be one
"""

from __future__ import annotations

from dataclasses import dataclass

from django.core.exceptions import ValidationError
from django.db import IntegrityError, transaction

from .models import User

#: Characters of a full name.
MAX_FULL_NAME = 150


class PersonError(Exception):
    """The root of this tree. `reason` is a sentence for people."""

    reason = ""

    def __str__(self) -> str:
        return self.reason


class PersonExistsError(PersonError):
    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.reason = f"there is a user {name} already"


class PersonInvalidError(PersonError):
    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Said:
    """None: nothing was said of it. An empty address or name takes away the one that was there."""

    email: str | None = None
    full_name: str | None = None
    active: bool | None = None


def add(username: str, said: Said) -> User:
    """A new user, without a password. Raises PersonError."""
    if User.objects.filter(username=username).exists():
        raise PersonExistsError(username)
    user = User(username=username)
    user.set_unusable_password()
    _fill(user, said)
    try:
        with transaction.atomic():
            user.save(force_insert=True)
    except IntegrityError:
        raise PersonExistsError(username) from None
    return user


def change(user: User, said: Said) -> None:
    """Raises PersonInvalidError. Who may not come in any more loses nothing: tokens and sessions rest until then."""
    _fill(user, said)
    user.save(update_fields=["email", "first_name", "last_name", "is_active"])


def _fill(user: User, said: Said) -> None:
    if said.email is not None:
        user.email = said.email
    if said.full_name is not None:
        if len(said.full_name) > MAX_FULL_NAME or not said.full_name.isprintable():
            raise PersonInvalidError(f"A name is at most {MAX_FULL_NAME} characters that can be printed.")
        user.first_name, user.last_name = said.full_name, ""
    if said.active is not None:
        user.is_active = said.active
    try:
        user.full_clean(exclude={"password"})
    except ValidationError as error:
        raise PersonInvalidError(" ".join(error.messages)) from None
