"""Write to the audit log, in the transaction of the act that is recorded: both happen, or neither.

    audit.record(What.ROLE_GIVEN, user, {"endpoint": name, "role": role}, actor=manager)

No secret is passed here, and no text that somebody typed as a user name: people type passwords at the wrong place. An
act that a program can repeat without end is recorded once in REPEATED (`record_once`), or refused beyond MOST_ACTS
(`record_act`); refusals of sign-ins are recorded up to MOST_REFUSALS in WINDOW, and MOST_OF_A_NETWORK in a DAY: nobody
fills the disk, and no network uses up the rows by which another one would be seen.

`listen` records sign-ins, refused sign-ins, sign-outs and changes of ways to sign in, also in the log (ASVS 16.3.1).
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import uuid
from collections.abc import Mapping
from enum import StrEnum
from typing import Any
from urllib.parse import quote

from django.contrib.auth.signals import user_logged_in, user_logged_out, user_login_failed
from django.core.cache import cache
from redis.exceptions import RedisError

from . import call_origin, counters
from .error_categories import Category, Refusal, RefusedError
from .gsi.printable import readable
from .models import AuditEvent, User
from .networks import network_of
from .signals import account_changed, signed_up

#: Characters of one detail, and details of one row.
MAX_DETAIL, MAX_DETAILS = 300, 12
#: Seconds in which the same use of a program is recorded once.
REPEATED = 3600
#: Refused sign-ins that are recorded in WINDOW seconds; and of one network in DAY seconds.
MOST_REFUSALS, WINDOW, MOST_OF_A_NETWORK = 1000, 300, 1000
#: Acts of one user in DAY seconds that a program can repeat: grants, and changes of ways to sign in.
MOST_ACTS, DAY = 5000, 24 * 3600

#: Details of an act, by name; None and "" are left out.
Facts = Mapping[str, object]


#: A user has done more than the log holds for one user and day: the act itself is refused.
TOO_MANY_ACTS = Refusal(
    Category.TOO_MANY_REQUESTS, "You have changed access or ways to sign in too often today; go on tomorrow"
)


class What(StrEnum):
    """The acts. The changes of ways to sign in have the names of `identity.signals.account_changed`."""

    SIGNED_IN = "signed_in"
    SIGN_IN_REFUSED = "sign_in_refused"
    SIGNED_OUT = "signed_out"
    CONSENT_GIVEN = "consent_given"
    CONSENT_WITHDRAWN = "consent_withdrawn"
    TOKENS_GIVEN = "tokens_given"
    TOKEN_TAKEN_BACK = "token_taken_back"  # noqa: S105 - the name of an act
    CODE_USED_AGAIN = "code_used_again"
    SIGNED_UP = "signed_up"
    INVITED = "invited"
    INVITATION_TAKEN_BACK = "invitation_taken_back"
    USER_ADDED = "user_added"
    USER_CHANGED = "user_changed"
    USER_DEACTIVATED = "user_deactivated"
    USER_ACTIVATED = "user_activated"
    USER_DELETED = "user_deleted"
    USER_TAKEN_OVER = "user_taken_over"
    GROUP_ADDED = "group_added"
    GROUP_DELETED = "group_deleted"
    MEMBERS_CHANGED = "members_changed"
    SCIM_TOKEN_MADE = "scim_token_made"  # noqa: S105 - the name of an act
    SCIM_TOKEN_REVOKED = "scim_token_revoked"  # noqa: S105 - the name of an act
    SESSION_ENDED = "session_ended"
    RECOVERY_SENT = "recovery_sent"
    CLIENT_ADMITTED = "client_admitted"
    CLIENT_REMOVED = "client_removed"
    ROLE_GIVEN = "role_given"
    ROLE_TAKEN_BACK = "role_taken_back"
    ACCESS_GIVEN = "access_given"
    ACCESS_CHANGED = "access_changed"
    ACCESS_TAKEN_BACK = "access_taken_back"
    AUDIT_EXPORTED = "audit_exported"
    RESTORED = "restored"


def record(
    what: str,
    user: User | None = None,
    details: Facts | None = None,
    *,
    actor: User | None = None,
    way: str = "",
    address: str = "",
) -> None:
    """Append a row. user: whom it is about. actor: who did it; None: the user, or the present origin."""
    here = call_origin.present()
    by_other = actor if actor is not None and actor != user else None
    AuditEvent.objects.create(
        what=what,
        user_id=user.pk if user else None,
        username=user.username if user else "",
        actor_id=by_other.pk if by_other else None,
        actor=by_other.username if by_other else here.actor,
        way=way[:16],
        address=(address or here.address)[:64],
        details=_given(details or {}),
    )


def record_once(what: str, user: User, key: str, details: Facts | None = None, *, way: str = "") -> None:
    """Append a row unless this one was appended within REPEATED. Without Redis it is appended."""
    with contextlib.suppress(RedisError):
        name = hashlib.sha256(f"{what} {user.pk} {key}".encode()).hexdigest()
        if not cache.add(f"audit:{name}", 1, REPEATED):
            return
    record(what, user, details, way=way)


def record_act(what: str, user: User | None, details: Facts | None = None, *, actor: User) -> None:
    """Append a row for an act that its actor can repeat. Raises TOO_MANY_ACTS; call it in the act's transaction."""
    with contextlib.suppress(RedisError):
        if counters.count(f"audit:acts:{actor.pk}", DAY) > MOST_ACTS:
            raise RefusedError(TOO_MANY_ACTS)
    record(what, user, details, actor=actor)


def record_refusal(user: User | None, way: str, address: str = "", reason: str = "", *, provider: str = "") -> None:
    """A refused sign-in. user: None where the name is unknown. provider: who was asked to vouch, by our settings."""
    network = hashlib.sha256(network_of(address or call_origin.present().address).encode()).hexdigest()
    with contextlib.suppress(RedisError):
        if counters.count(f"audit:refusals:{network}", DAY) > MOST_OF_A_NETWORK:
            return
        if counters.count("audit:refusals", WINDOW) > MOST_REFUSALS:
            return
    record(What.SIGN_IN_REFUSED, user, {"reason": reason, "provider": provider}, way=way, address=address)


def _given(details: Facts) -> dict[str, str]:
    """The details that have a value, as text."""
    given = [(name, value) for name, value in details.items() if value not in (None, "")]
    return {name: _shown(value) for name, value in given[:MAX_DETAILS]}


def _shown(value: object) -> str:
    """Text that JSON and PostgreSQL accept, without control characters."""
    return readable(str(value).encode("utf-8", "backslashreplace").decode()[:MAX_DETAIL])


log = logging.getLogger(__name__)


def listen() -> None:
    user_logged_in.connect(_signed_in, dispatch_uid="sign-ins are logged")
    user_login_failed.connect(_refused, dispatch_uid="refused sign-ins are logged")
    user_logged_out.connect(_signed_out, dispatch_uid="sign-outs are logged")
    account_changed.connect(_changed, dispatch_uid="changes of ways to sign in are logged")
    signed_up.connect(_signed_up, dispatch_uid="sign-ups are logged")


def _signed_in(user: User, **_: Any) -> None:
    way = getattr(user, "signed_in_by", "password")
    record(What.SIGNED_IN, user, getattr(user, "signed_in_with", None), way=way)
    log.info("signed in by %s: %s", way, quote(user.username))


def _refused(credentials: dict[str, Any], **_: Any) -> None:
    """An unknown name is not logged: users sometimes type their password into the name field."""
    name = str(credentials.get("username", ""))
    user = None if "\0" in name else User.objects.filter(username=name).first()
    record_refusal(user, "password")
    log.warning("a password was refused: %s", quote(user.username) if user else "no such user")


def _signed_out(user: User | None, **_: Any) -> None:
    if user is not None:
        record(What.SIGNED_OUT, user)
        log.info("signed out: %s", quote(user.username))


def _changed(user: User, what: str, name: str, actor: User | None = None, **_: Any) -> None:
    """actor: staff. The operator and directories act on behalf of no user: their present origin says who they are."""
    if actor is None and call_origin.present().actor:
        record(what, user, {"name": name})
    else:
        record_act(what, user, {"name": name}, actor=actor or user)


def _signed_up(user: User, invitation: uuid.UUID | None, **_: Any) -> None:
    record(What.SIGNED_UP, user, {"invitation": invitation})
