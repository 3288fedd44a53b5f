"""Find, list, create and change users, as staff and the operator do: mail address, full name, staff or not.

`identity.deactivation` deactivates users.
"""

from __future__ import annotations

from dataclasses import dataclass

from django.core.exceptions import ValidationError
from django.db import transaction
from django.db.models import Q

from . import audit, link_codes, user_names
from .audit import What
from .clock import moment
from .database_rows import unless_taken
from .error_categories import Category, Refusal, RefusedError
from .models import CertificateSubject, LinkedIdentity, Passkey, User

#: The beginning of the name of a deleted user.
DELETED = "deleted-"
#: Characters of a full name.
MAX_FULL_NAME = 150
#: The constraint on user names.
ONE_NAME = "identity_user_username_key"


class UserExistsError(RefusedError):
    refusal = Refusal(Category.EXISTS, "there is a user {name} already")


USER_INVALID = Refusal(Category.INVALID, "{reason}")
NOT_STAFF = Refusal(Category.PERMISSION_DENIED, "Only those who run this service may do this.")
OWN_ACCOUNT = Refusal(Category.CONFLICT, "You cannot deactivate yourself.")


@dataclass(frozen=True, slots=True)
class UserDetails:
    """Changes to a user. None: leave as it is. An empty address or name removes the present one."""

    email: str | None = None
    full_name: str | None = None
    staff: bool | None = None


def add(username: str, details: UserDetails, actor: User | None = None) -> User:
    """Create a user without a password. A name in our own domain is the name before the @.

    actor: staff, or None for the operator. Raises NOT_STAFF, UserExistsError, USER_INVALID.
    """
    check_staff(actor)
    username = user_names.local(username)
    if User.objects.filter(username=username).exists():
        raise UserExistsError(name=username)
    user = User(username=username)
    user.set_unusable_password()
    _fill(user, details)
    with unless_taken(ONE_NAME, UserExistsError(name=username)):
        user.save(force_insert=True)
        audit.record(What.USER_ADDED, user, _facts(details), actor=actor)
    return user


def change(user: User, details: UserDetails, actor: User | None = None) -> None:
    """Change a user. actor: staff, or None for the operator. Raises NOT_STAFF, USER_INVALID.

    With the address end the links by mail: the old mailbox may be in other hands, and who wanted another address, too.
    """
    check_staff(actor)
    with transaction.atomic():
        # Changes that others have made meanwhile stay: a request under way does not give the right of staff back.
        user.refresh_from_db(from_queryset=User.objects.select_for_update(no_key=True))
        check_staff(actor and User.objects.get(pk=actor.pk))
        former = user.email
        _fill(user, details)
        if user.email != former:
            link_codes.end_all(user, moment())
        user.save(update_fields=_columns(details))
        audit.record(What.USER_CHANGED, user, _facts(details), actor=actor)


def named(username: str) -> User | None:
    """The user with this name, in either form, also one who is not active."""
    return User.objects.filter(username=user_names.canonical(username)).first() if "\0" not in username else None


# ---- for staff


def listed(
    reader: User | None, text: str = "", *, active: bool | None = None, offset: int = 0, limit: int = 50
) -> tuple[list[User], int]:
    """Users by name, and the number of all that match. text: a part of the name, the full name or the address.

    Raises NOT_STAFF.
    """
    check_staff(reader)
    text = text.replace("\0", "")
    matches = Q(username__icontains=text) | Q(first_name__icontains=text) | Q(email__icontains=text)
    found = User.objects.filter(matches) if text else User.objects.all()
    found = found.exclude(username__startswith=DELETED)
    found = found if active is None else found.filter(is_active=active)
    return list(found.order_by("username")[offset : offset + limit]), found.count()


def check_staff(user: User | None) -> None:
    """None: the operator, on the machine of the service. Raises NOT_STAFF."""
    if user is not None and not (user.is_staff and user.is_active):
        raise RefusedError(NOT_STAFF)


def _facts(details: UserDetails) -> audit.Facts:
    """The names of what was changed, and the value of the right that was given or taken."""
    changed = [name for name in ("email", "full_name") if getattr(details, name) is not None]
    return {"changed": " ".join(changed), "staff": details.staff}


def _columns(details: UserDetails) -> list[str]:
    columns = {"email": ["email"], "full_name": ["first_name", "last_name"], "staff": ["is_staff"]}
    return [one for name, ours in columns.items() if getattr(details, name) is not None for one in ours]


def _fill(user: User, details: UserDetails) -> None:
    if details.email is not None:
        user.email = details.email
    if details.full_name is not None:
        if len(details.full_name) > MAX_FULL_NAME or not details.full_name.isprintable():
            raise RefusedError(
                USER_INVALID, reason=f"A name is at most {MAX_FULL_NAME} characters that can be printed."
            )
        user.first_name, user.last_name = details.full_name, ""
    if details.staff is not None:
        user.is_staff = details.staff
    try:
        user.full_clean(exclude={"password"})
    except ValidationError as error:
        raise RefusedError(USER_INVALID, reason=" ".join(error.messages)) from None


def can_sign_in_without(user: User, without: Passkey | LinkedIdentity | CertificateSubject) -> bool:
    """Whether the user could sign in to the pages without this row. A copied passkey signs nobody in.

    Call it with the row of the user locked: two requests could remove the last two ways.
    """
    rows = (
        *Passkey.objects.filter(user=user, copied_at=None),
        *LinkedIdentity.objects.filter(user=user),
        *CertificateSubject.objects.filter(user=user),
    )
    return user.has_usable_password() or any(row != without for row in rows)
