"""Pause rules: managers of an endpoint stop operations there for a while, for one user or for all.

A rule affects its endpoint and the shares on it, from its `start_time` until it is deleted, and its author too.
Immediate operations are refused (`check`); tasks wait (`transferapi/tasks/managers/pauses.py`).

Raises NotFoundError, PAUSE_RULE_NOT_EDITABLE, TOO_MANY_PAUSE_RULES, OperationPausedError,
InvalidFieldError, and the errors of `registry.resolve`.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterable, Mapping
from datetime import datetime
from enum import StrEnum

from django.db import transaction
from django.db.models import Q, QuerySet

from identity import linked_identities as linked
from identity.clock import moment
from identity.database_rows import row_by_id
from identity.error_categories import InvalidFieldError, NotFoundError, RefusedError
from identity.models import User

from . import registry
from .errors import PAUSE_RULE_NOT_EDITABLE, TOO_MANY_PAUSE_RULES, OperationPausedError
from .models import Endpoint, PauseRule
from .permissions import Permission, endpoints_by_role, may, reachable
from .signals import pause_rules_changed

#: Rules of one endpoint.
MAX_RULES = 100
MAX_MESSAGE = 2000
#: Rows of one list.
MAX_LISTED = 1000


class PausableOperation(StrEnum):
    """Immediate operations, by the flag of a rule that pauses them."""

    LS = "pause_ls"  # and stat, which is a listing of one
    MKDIR = "pause_mkdir"
    RENAME = "pause_rename"
    SYMLINK = "pause_symlink"
    #: The flags of tasks that write or read hold for single files too.
    UPLOAD = "pause_task_transfer_write"
    DOWNLOAD = "pause_task_transfer_read"


FLAGS = (
    "pause_ls", "pause_mkdir", "pause_rename", "pause_symlink",
    "pause_task_delete", "pause_task_transfer_write", "pause_task_transfer_read",
)  # fmt: skip
#: Characters that PostgreSQL refuses.
_NOT_KEPT = re.compile(r"[\x00\ud800-\udfff]")
_WITH = ("endpoint__owner", "endpoint__host__owner")


# ---- rules in effect for a user


def effective(user: User, endpoint: Endpoint, now: datetime | None = None) -> list[PauseRule]:
    """The rules in effect for this user at this endpoint, including those of its host, the oldest first."""
    return list(_holding(user, endpoint, now).select_related(*_WITH))


def effective_by_ref(user: User, ref: str) -> tuple[Endpoint, list[PauseRule]]:
    """The same by reference, for users who may view the endpoint."""
    endpoint = registry.resolve(user, ref, Permission.VIEW)
    return endpoint, effective(user, endpoint)


def check(user: User, endpoint: Endpoint, operation: PausableOperation, now: datetime | None = None) -> None:
    """Raises OperationPausedError, with the messages of the rules."""
    found = _holding(user, endpoint, now).filter(**{operation: True})
    messages = list(found.values_list("message", flat=True))
    if messages:
        raise OperationPausedError(endpoint, operation, tuple(filter(None, messages)))


def _holding(user: User, endpoint: Endpoint, now: datetime | None) -> QuerySet[PauseRule]:
    whom = Q(identity__isnull=True) | Q(identity=user)
    where = [endpoint.pk, *([endpoint.host_id] if endpoint.host_id else [])]
    found = PauseRule.objects.filter(whom, endpoint__in=where, start_time__lte=moment(now))
    return found.filter(endpoint__deleted_at__isnull=True).order_by("start_time", "pk")


# ---- rules as managers see them


def listed(user: User, ref: str | None = None) -> list[PauseRule]:
    """The rules on endpoints whose tasks this user may see. ref: only those on this endpoint and on its shares."""
    found = PauseRule.objects.select_related(*_WITH, "modified_by")
    if ref is None:
        found = found.filter(endpoint__in=Endpoint.objects.filter(endpoints_by_role(user, Permission.OVERSEE)))
    else:
        endpoint = registry.resolve(user, ref, Permission.OVERSEE)
        places = (Q(endpoint=endpoint) | Q(endpoint__host=endpoint)) & reachable("endpoint")
        found = found.filter(places, endpoint__deleted_at__isnull=True)
    return list(found.order_by("-start_time", "pk")[:MAX_LISTED])


def get(user: User, ref: str) -> PauseRule:
    """Raises NotFoundError, also when the user may not see the endpoint's tasks."""
    return _find(user, ref, PauseRule.objects.select_related(*_WITH, "modified_by"))


def create(user: User, endpoint_ref: str, fields: Mapping[str, object], now: datetime | None = None) -> PauseRule:
    """fields: identity_id, message, start_time and the flags; a flag that is not given is true."""
    endpoint = registry.resolve(user, endpoint_ref, Permission.CONTROL)
    with transaction.atomic():
        registry.lock_existing(user, endpoint, Permission.CONTROL)
        if PauseRule.objects.filter(endpoint=endpoint).count() >= MAX_RULES:
            raise RefusedError(TOO_MANY_PAUSE_RULES, limit=MAX_RULES)
        now = moment(now)
        rule = PauseRule(endpoint=endpoint, created_by=user, start_time=now)
        rule.created_by_host_manager = endpoint.host is not None and may(user, Permission.CONTROL, endpoint.host)
        rule.identity_id = _identity(fields.get("identity_id"))
        for flag in FLAGS:
            setattr(rule, flag, True)
        _fill(rule, user, fields, now)
        rule.save(force_insert=True)
        _tell()
    return rule


def update(user: User, ref: str, fields: Mapping[str, object], now: datetime | None = None) -> PauseRule:
    """Change the message, the start time or the flags; endpoint and user of the rule stay."""
    with transaction.atomic():
        rule = _editable(user, ref)
        _fill(rule, user, fields, moment(now))
        rule.save()
        _tell()
    return rule


def delete(user: User, ref: str) -> PauseRule:
    """Delete a rule; paused tasks continue."""
    with transaction.atomic():
        rule = _editable(user, ref)
        PauseRule.objects.filter(pk=rule.pk).delete()
        _tell()
    return rule


def editable(user: User, rule: PauseRule) -> bool:
    """Whether this user may change the rule. The rule must be loaded with its endpoint, its host and their owners."""
    endpoint = rule.endpoint
    if rule.created_by_host_manager and endpoint.host is not None:
        return may(user, Permission.CONTROL, endpoint.host)
    return may(user, Permission.CONTROL, endpoint)


def editable_ones(user: User, rules: Iterable[PauseRule]) -> set[uuid.UUID]:
    """The ids of the rules that this user may change."""
    rules = list(rules)
    places = {rule.endpoint_id for rule in rules} | {rule.endpoint.host_id for rule in rules if rule.endpoint.host_id}
    mine = set(
        Endpoint.objects.filter(endpoints_by_role(user, Permission.CONTROL), pk__in=places).values_list("pk", flat=True)
    )
    return {
        rule.pk
        for rule in rules
        if (rule.endpoint.host_id if rule.created_by_host_manager else rule.endpoint_id) in mine
    }


def _editable(user: User, ref: str) -> PauseRule:
    rows = PauseRule.objects.select_related(*_WITH, "modified_by").select_for_update(of=("self",))
    rule = _find(user, ref, rows)
    if not editable(user, rule):
        raise RefusedError(PAUSE_RULE_NOT_EDITABLE)
    return rule


def _find(user: User, ref: str, rows: QuerySet[PauseRule]) -> PauseRule:
    unknown = NotFoundError(ref, "pause rule")
    rule = row_by_id(rows, ref, unknown)
    if not may(user, Permission.OVERSEE, rule.endpoint):
        raise unknown
    return rule


def _identity(value: object) -> uuid.UUID | None:
    """The user whom this id names. A rule stays when its user unlinks the identity: it would be evaded so."""
    if value is None:
        return None
    person = linked.people([value]).get(value) if isinstance(value, uuid.UUID) else None
    if person is None:
        raise InvalidFieldError("identity_id", "There is no user with this id.")
    return person.pk


def _fill(rule: PauseRule, user: User, fields: Mapping[str, object], now: datetime) -> None:
    message = fields.get("message")
    if message is not None:
        rule.message = _message(str(message))
    start = fields.get("start_time")
    if isinstance(start, datetime):
        rule.start_time = start
    for flag in FLAGS:
        value = fields.get(flag)
        if isinstance(value, bool):
            setattr(rule, flag, value)
    if not any(getattr(rule, flag) for flag in FLAGS):
        raise InvalidFieldError(FLAGS[0], "A rule pauses something: one of its flags is true.")
    rule.modified_by, rule.modified_time = user, now


def _message(text: str) -> str:
    if len(text) > MAX_MESSAGE or _NOT_KEPT.search(text):
        raise InvalidFieldError("message", f"A message is text of at most {MAX_MESSAGE} characters.")
    return text


def _tell() -> None:
    """Notify after the commit; if the signal is lost, the workers' periodic sweep finds the change."""
    transaction.on_commit(lambda: pause_rules_changed.send(sender=PauseRule), robust=True)
