"""Access rules: permission to read, or to read and write, below a path of a shared endpoint, until a date.

Rules add up. The owner, administrators and access managers need none. `access.py` evaluates the rules.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from django.core.exceptions import ValidationError
from django.core.validators import validate_email
from django.db import transaction
from django.utils import timezone

from endpoints import paths, registry
from endpoints.errors import RULE_EXISTS, TOO_MANY_RULES, NotSharedError
from endpoints.models import AccessRule, Endpoint
from endpoints.paths import BadPathError
from endpoints.permissions import Permission
from endpoints.signals import access_given
from identity.audit import What
from identity.database_rows import row_by_id, unless_taken
from identity.error_categories import InvalidFieldError, NotFoundError, RefusedError
from identity.gsi.printable import FORBIDDEN, FORBIDDEN_IN_LINES
from identity.models import Membership, User

from . import principals
from .access import from_root

MAX_RULES = 1000
MAX_MESSAGE = 2048
PERMISSIONS = ("r", "rw")


@dataclass(frozen=True, slots=True)
class RuleSpec:
    """A requested rule. principal: the id of a user or of a group; None for the other types."""

    principal_type: str
    principal: str | None
    path: str
    permissions: str
    expires_at: datetime | None = None
    notify_email: str = ""
    notify_message: str = ""


def create(user: User, ref: str, spec: RuleSpec, now: datetime | None = None) -> AccessRule:
    """Create a rule, and inform its user by mail if asked to.

    Raises the errors of `registry.resolve`, NotSharedError, InvalidFieldError, RULE_EXISTS, TOO_MANY_RULES.
    """
    share = _share(user, ref, Permission.GRANT)
    rule = AccessRule(
        endpoint=share,
        principal_type=spec.principal_type,
        principal=_principal(spec),
        path=_folder(spec.path),
        permissions=_permissions(spec.permissions),
        notify_email=spec.notify_email,
        notify_message=_message(spec.notify_message),
        created_by=user,
        expires_at=_future(spec.expires_at, now),
    )
    recipient = _recipient(rule)
    with transaction.atomic():
        registry.lock_existing(user, share, Permission.GRANT)
        if AccessRule.objects.filter(endpoint=share).count() >= MAX_RULES:
            raise RefusedError(TOO_MANY_RULES, limit=MAX_RULES)
        with unless_taken("access_rule_once", RefusedError(RULE_EXISTS, path=rule.path)):
            rule.save(force_insert=True)
        _record(What.ACCESS_GIVEN, user, rule)
        if rule.notify_email:
            access_given.send(sender=AccessRule, rule=rule, recipient=recipient, grantor=user)
    return rule


def of_share(user: User, ref: str, verb: Permission = Permission.GRANT) -> tuple[Endpoint, list[AccessRule]]:
    """All rules, also expired ones, in order of creation. Raises the errors of `registry.resolve`, NotSharedError.

    verb: the permission by which the user sees them.
    """
    share = _share(user, ref, verb)
    return share, list(AccessRule.objects.filter(endpoint=share).order_by("created_at", "id"))


def get(user: User, ref: str, rule_id: str) -> AccessRule:
    """Raises the errors of `registry.resolve`, NotFoundError."""
    share = registry.resolve(user, ref, Permission.GRANT)
    return row_by_id(AccessRule.objects.filter(endpoint=share), rule_id, NotFoundError(rule_id, "access rule"))


def update(
    user: User, ref: str, rule_id: str, changes: Mapping[str, object], now: datetime | None = None
) -> AccessRule:
    """Change `permissions` and `expires_at` (None: never). Raises the errors of `get`, InvalidFieldError."""
    rule = get(user, ref, rule_id)
    values: dict[str, object] = {}
    if "permissions" in changes:
        values["permissions"] = _permissions(str(changes["permissions"]))
    if "expires_at" in changes:
        moment = changes["expires_at"]
        assert moment is None or isinstance(moment, datetime)
        # An expired rule that is written back as it was read is not an error.
        values["expires_at"] = moment if moment == rule.expires_at else _future(moment, now)
    for name, value in values.items():
        setattr(rule, name, value)
    with transaction.atomic():
        if values and not AccessRule.objects.filter(pk=rule.pk).update(**values):
            raise NotFoundError(rule_id, "access rule")
        if values:
            _record(What.ACCESS_CHANGED, user, rule)
    return rule


def delete(user: User, ref: str, rule_id: str) -> None:
    """Delete a rule; a task that relies on it stops at its next file. Raises the errors of `get`."""
    rule = get(user, ref, rule_id)
    with transaction.atomic():
        deleted, _ = AccessRule.objects.filter(pk=rule.pk).delete()
        if not deleted:
            raise NotFoundError(rule_id, "access rule")
        _record(What.ACCESS_TAKEN_BACK, user, rule)


def _record(what: What, actor: User, rule: AccessRule) -> None:
    facts = {
        "endpoint": rule.endpoint_id,
        "path": rule.path,
        "permissions": rule.permissions,
        "expires": rule.expires_at,
    }
    principals.record(what, actor, rule.principal_type, rule.principal, facts)


def _share(user: User, ref: str, verb: Permission) -> Endpoint:
    share = registry.resolve(user, ref, verb)
    if share.host_id is None:
        raise NotSharedError(share)
    return share


def _principal(spec: RuleSpec) -> uuid.UUID | None:
    if spec.principal_type in principals.EVERYBODY:
        if spec.principal:
            raise InvalidFieldError("principal", f"With the type {spec.principal_type} there is none: leave it empty.")
        return None
    if spec.principal_type not in (principals.IDENTITY, principals.GROUP):
        words = ", ".join([principals.IDENTITY, principals.GROUP, *sorted(principals.EVERYBODY)])
        raise InvalidFieldError("principal_type", f"Expected one of {words}.")
    return principals.known(spec.principal_type, spec.principal)


def _folder(text: str) -> str:
    """The path from the root of the share, which is also its home."""
    try:
        return from_root(paths.folder(text))
    except BadPathError as error:
        raise InvalidFieldError("path", str(error)) from None


def _permissions(text: str) -> str:
    if text not in PERMISSIONS:
        raise InvalidFieldError("permissions", "Expected r or rw.")
    return text


def _future(moment: datetime | None, now: datetime | None) -> datetime | None:
    if moment is not None and moment <= (now or timezone.now()):
        raise InvalidFieldError("expiration_date", "This is in the past.")
    return moment


def _message(text: str) -> str:
    if len(text) > MAX_MESSAGE or FORBIDDEN_IN_LINES.search(text):
        raise InvalidFieldError("notify_message", f"At most {MAX_MESSAGE} characters, and no control ones.")
    return text


def _recipient(rule: AccessRule) -> User | None:
    """The user who is informed by mail: only one to whom the rule applies, at the address that this user has set.
    Otherwise users could send mail to arbitrary addresses in the name of this service.

    None for nobody. The response does not reveal which, because addresses are private. Raises InvalidFieldError.
    """
    address = rule.notify_email
    if not address:
        return None
    try:
        if len(address) > 256 or FORBIDDEN.search(address):
            raise ValidationError("no address")
        validate_email(address)
    except ValidationError:
        raise InvalidFieldError("notify_email", "This is not an address.") from None
    people = User.objects.filter(email__iexact=address, is_active=True)
    if rule.principal_type == principals.GROUP:
        people = people.filter(pk__in=Membership.objects.filter(group=rule.principal, status="active").values("user"))
    else:
        people = people.filter(pk__in=principals.users_of(rule.principal))
    return people.order_by("pk").first()
