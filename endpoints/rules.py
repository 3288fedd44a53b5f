"""Access rules: who may read, or read and write, below a path of a shared endpoint, until a date.

Rules add up. The owner, administrators and access managers need none. What they let somebody do with a path is
answered in `access.py`.
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

from identity.conflicts import unless_taken
from identity.models import Membership, User

from . import paths, principals, registry
from .errors import (
    EndpointInvalidError,
    NotSharedError,
    RuleExistsError,
    RuleNotFoundError,
    TooManyRulesError,
)
from .fields import CONTROL, CONTROL_BUT_LINES
from .models import AccessRule, Endpoint
from .paths import BadPathError
from .permissions import Verb
from .signals import access_given

MAX_RULES = 1000
MAX_MESSAGE = 2048
PERMISSIONS = ("r", "rw")


@dataclass(frozen=True, slots=True)
class RuleSpec:
    """What is asked for. principal: the id of a user or of a group; none where the type says it all."""

    principal_type: str
    principal: str | None
    path: str
    permissions: str
    expires_at: datetime | None = None
    notify_email: str = ""
    notify_message: str = ""


def create(user: User, ref: str, spec: RuleSpec, now: datetime | None = None) -> AccessRule:
    """-> as `registry.resolve`, NotSharedError, EndpointInvalidError, RuleExistsError, TooManyRulesError"""
    share = _share(user, ref)
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
        registry.still(user, share, Verb.GRANT)
        if AccessRule.objects.filter(endpoint=share).count() >= MAX_RULES:
            raise TooManyRulesError(MAX_RULES)
        _insert(rule)
        if rule.notify_email:
            access_given.send(sender=AccessRule, rule=rule, recipient=recipient, grantor=user)
    return rule


def of_share(user: User, ref: str) -> tuple[Endpoint, list[AccessRule]]:
    """All of them, expired ones too, as they were made. -> as `registry.resolve`, NotSharedError"""
    share = _share(user, ref)
    return share, list(AccessRule.objects.filter(endpoint=share).order_by("created_at", "id"))


def get(user: User, ref: str, rule_id: str) -> AccessRule:
    """-> as `registry.resolve`, RuleNotFoundError"""
    share = registry.resolve(user, ref, Verb.GRANT)
    try:
        found = AccessRule.objects.filter(endpoint=share, pk=uuid.UUID(rule_id)).first()
    except ValueError:
        found = None
    if found is None:
        raise RuleNotFoundError(rule_id)
    return found


def update(
    user: User, ref: str, rule_id: str, changes: Mapping[str, object], now: datetime | None = None
) -> AccessRule:
    """Change `permissions` and `expires_at`; None there: it does not expire. -> as `get`, EndpointInvalidError"""
    rule = get(user, ref, rule_id)
    values: dict[str, object] = {}
    if "permissions" in changes:
        values["permissions"] = _permissions(str(changes["permissions"]))
    if "expires_at" in changes:
        moment = changes["expires_at"]
        assert moment is None or isinstance(moment, datetime)
        # Written back as it was read, an expired rule stays what it is.
        values["expires_at"] = moment if moment == rule.expires_at else _future(moment, now)
    if values and not AccessRule.objects.filter(pk=rule.pk).update(**values):
        raise RuleNotFoundError(rule_id)
    for name, value in values.items():
        setattr(rule, name, value)
    return rule


def delete(user: User, ref: str, rule_id: str) -> None:
    """Take it back; a task that runs by it stops at its next file. -> as `get`"""
    rule = get(user, ref, rule_id)
    deleted, _ = AccessRule.objects.filter(pk=rule.pk).delete()
    if not deleted:
        raise RuleNotFoundError(rule_id)


def _share(user: User, ref: str) -> Endpoint:
    share = registry.resolve(user, ref, Verb.GRANT)
    if share.host_id is None:
        raise NotSharedError(share)
    return share


def _insert(rule: AccessRule) -> None:
    with unless_taken("access_rule_once", RuleExistsError(rule.path)):
        rule.save(force_insert=True)


def _principal(spec: RuleSpec) -> uuid.UUID | None:
    if spec.principal_type in principals.EVERYBODY:
        if spec.principal:
            raise EndpointInvalidError(
                "principal", f"With the type {spec.principal_type} there is none: leave it empty."
            )
        return None
    if spec.principal_type not in (principals.IDENTITY, principals.GROUP):
        words = ", ".join([principals.IDENTITY, principals.GROUP, *sorted(principals.EVERYBODY)])
        raise EndpointInvalidError("principal_type", f"One of {words} is wanted here.")
    return principals.known(spec.principal_type, spec.principal)


def _folder(text: str) -> str:
    """From the root of the share, which is also its home."""
    try:
        found = paths.folder(text)
    except BadPathError as error:
        raise EndpointInvalidError("path", str(error)) from None
    return found[2:] if found.startswith("/~/") else found


def _permissions(text: str) -> str:
    if text not in PERMISSIONS:
        raise EndpointInvalidError("permissions", "r or rw is wanted here.")
    return text


def _future(moment: datetime | None, now: datetime | None) -> datetime | None:
    if moment is not None and moment <= (now or timezone.now()):
        raise EndpointInvalidError("expiration_date", "This is in the past.")
    return moment


def _message(text: str) -> str:
    if len(text) > MAX_MESSAGE or CONTROL_BUT_LINES.search(text):
        raise EndpointInvalidError("notify_message", f"At most {MAX_MESSAGE} characters, and no control ones.")
    return text


def _recipient(rule: AccessRule) -> User | None:
    """Who is told by mail. Only somebody whom the rule is for, at the address that this user gave us: otherwise anybody
    could send mail to anybody in our name.

    None: nobody. The answer does not say which: addresses of users are hidden. Raises EndpointInvalidError.
    """
    address = rule.notify_email
    if not address:
        return None
    try:
        if len(address) > 256 or CONTROL.search(address):
            raise ValidationError("no address")
        validate_email(address)
    except ValidationError:
        raise EndpointInvalidError("notify_email", "This is not an address.") from None
    people = User.objects.filter(email__iexact=address, is_active=True)
    if rule.principal_type == principals.GROUP:
        people = people.filter(pk__in=Membership.objects.filter(group=rule.principal, status="active").values("user"))
    else:
        people = people.filter(pk__in=[rule.principal] if rule.principal else [])
    return people.order_by("pk").first()
