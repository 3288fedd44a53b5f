"""Pause rules: what those who run an endpoint stop there for a while, for one user or for everybody.

A rule holds on its endpoint and on whatever is shared of it, from its `start_time` until it is taken back, and for its
makers too. What is done at once is refused then (`check`); tasks wait (`transferapi/tasks/pauses.py`).

-> PauseRuleNotFoundError, PauseRuleNotEditableError, TooManyPauseRulesError, OperationPausedError; EndpointInvalidError
and what `registry.resolve` says.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping
from datetime import datetime
from enum import StrEnum

from django.db import transaction
from django.db.models import Q, QuerySet

from identity.clock import moment
from identity.models import User

from . import registry
from .errors import (
    EndpointInvalidError,
    OperationPausedError,
    PauseRuleNotEditableError,
    PauseRuleNotFoundError,
    TooManyPauseRulesError,
)
from .models import Endpoint, PauseRule
from .permissions import Verb, may, running
from .signals import pause_rules_changed

#: Of one endpoint.
MAX_RULES = 100
MAX_MESSAGE = 2000
#: Of one list.
MAX_LISTED = 1000


class Operation(StrEnum):
    """What is done at once, by the flag of a rule that stops it."""

    LS = "pause_ls"  # and stat, which is a listing of one
    MKDIR = "pause_mkdir"
    RENAME = "pause_rename"
    SYMLINK = "pause_symlink"


FLAGS = (*Operation, "pause_task_delete", "pause_task_transfer_write", "pause_task_transfer_read")
_WITH = ("endpoint__owner", "endpoint__host__owner")


# ---- what holds for a user


def effective(user: User, endpoint: Endpoint, now: datetime | None = None) -> list[PauseRule]:
    """The rules that hold for this user at this endpoint, those of its host among them, the oldest first."""
    return list(_holding(user, endpoint, now).select_related(*_WITH))


def effective_by_ref(user: User, ref: str) -> tuple[Endpoint, list[PauseRule]]:
    """The same for whoever may view the endpoint."""
    endpoint = registry.resolve(user, ref, Verb.VIEW)
    return endpoint, effective(user, endpoint)


def check(user: User, endpoint: Endpoint, operation: Operation, now: datetime | None = None) -> None:
    """-> OperationPausedError, with what the rules say"""
    found = _holding(user, endpoint, now).filter(**{operation: True})
    messages = list(found.values_list("message", flat=True))
    if messages:
        raise OperationPausedError(endpoint, operation, tuple(filter(None, messages)))


def _holding(user: User, endpoint: Endpoint, now: datetime | None) -> QuerySet[PauseRule]:
    whom = Q(identity__isnull=True) | Q(identity=user)
    where = [endpoint.pk, *([endpoint.host_id] if endpoint.host_id else [])]
    found = PauseRule.objects.filter(whom, endpoint__in=where, start_time__lte=moment(now))
    return found.filter(endpoint__deleted_at__isnull=True).order_by("start_time", "pk")


# ---- what managers do with rules


def listed(user: User, ref: str | None = None) -> list[PauseRule]:
    """The rules on endpoints whose tasks this user may see. ref: on this one, and on what is shared of it."""
    found = PauseRule.objects.select_related(*_WITH, "modified_by")
    if ref is None:
        found = found.filter(endpoint__in=Endpoint.objects.filter(running(user, Verb.OVERSEE)))
    else:
        endpoint = registry.resolve(user, ref, Verb.OVERSEE)
        found = found.filter(Q(endpoint=endpoint) | Q(endpoint__host=endpoint), endpoint__deleted_at__isnull=True)
    return list(found.order_by("-start_time", "pk")[:MAX_LISTED])


def get(user: User, ref: str) -> PauseRule:
    """-> PauseRuleNotFoundError, too, where he may not see the endpoint's tasks"""
    return _find(user, ref, PauseRule.objects.select_related(*_WITH, "modified_by"))


def create(user: User, endpoint_ref: str, fields: Mapping[str, object], now: datetime | None = None) -> PauseRule:
    """fields: identity_id, message, start_time and the flags; a flag that is not given is true."""
    endpoint = registry.resolve(user, endpoint_ref, Verb.CONTROL)
    with transaction.atomic():
        registry.still(user, endpoint, Verb.CONTROL)
        if PauseRule.objects.filter(endpoint=endpoint).count() >= MAX_RULES:
            raise TooManyPauseRulesError(MAX_RULES)
        now = moment(now)
        rule = PauseRule(endpoint=endpoint, created_by=user, start_time=now)
        rule.created_by_host_manager = endpoint.host is not None and may(user, Verb.CONTROL, endpoint.host)
        rule.identity_id = _identity(fields.get("identity_id"))
        for flag in FLAGS:
            setattr(rule, flag, True)
        _fill(rule, user, fields, now)
        rule.save(force_insert=True)
        _tell()
    return rule


def update(user: User, ref: str, fields: Mapping[str, object], now: datetime | None = None) -> PauseRule:
    """Change the message, the time from which on it holds, or the flags; for whom and where it is stays."""
    with transaction.atomic():
        rule = _editable(user, ref)
        _fill(rule, user, fields, moment(now))
        rule.save()
        _tell()
    return rule


def delete(user: User, ref: str) -> PauseRule:
    """What it has stopped goes on."""
    with transaction.atomic():
        rule = _editable(user, ref)
        PauseRule.objects.filter(pk=rule.pk).delete()
        _tell()
    return rule


def editable(user: User, rule: PauseRule) -> bool:
    """Whether this user may change it. The rule comes with its endpoint, its host and their owners."""
    endpoint = rule.endpoint
    if rule.created_by_host_manager and endpoint.host is not None:
        return may(user, Verb.CONTROL, endpoint.host)
    return may(user, Verb.CONTROL, endpoint)


def editable_ones(user: User, rules: Iterable[PauseRule]) -> set[uuid.UUID]:
    """The ids of those that this user may change."""
    rules = list(rules)
    places = {rule.endpoint_id for rule in rules} | {rule.endpoint.host_id for rule in rules if rule.endpoint.host_id}
    mine = set(Endpoint.objects.filter(running(user, Verb.CONTROL), pk__in=places).values_list("pk", flat=True))
    return {
        rule.pk
        for rule in rules
        if (rule.endpoint.host_id if rule.created_by_host_manager else rule.endpoint_id) in mine
    }


def _editable(user: User, ref: str) -> PauseRule:
    rows = PauseRule.objects.select_related(*_WITH, "modified_by").select_for_update(of=("self",))
    rule = _find(user, ref, rows)
    if not editable(user, rule):
        raise PauseRuleNotEditableError(rule)
    return rule


def _find(user: User, ref: str, rows: QuerySet[PauseRule]) -> PauseRule:
    try:
        rule = rows.filter(pk=uuid.UUID(ref)).first()
    except ValueError:
        rule = None
    if rule is None or not may(user, Verb.OVERSEE, rule.endpoint):
        raise PauseRuleNotFoundError(ref)
    return rule


def _identity(value: object) -> uuid.UUID | None:
    if value is None:
        return None
    if not isinstance(value, uuid.UUID) or not User.objects.filter(pk=value).exists():
        raise EndpointInvalidError("identity_id", "There is no user with this id.")
    return value


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
        raise EndpointInvalidError(FLAGS[0], "A rule pauses something: one of its flags is true.")
    rule.modified_by, rule.modified_time = user, now


def _message(text: str) -> str:
    if len(text) > MAX_MESSAGE or "\0" in text or not _encodable(text):
        raise EndpointInvalidError("message", f"A message is text of at most {MAX_MESSAGE} characters.")
    return text


def _encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _tell() -> None:
    """Once it is committed; what fails there, the workers' sweep makes good."""
    transaction.on_commit(lambda: pause_rules_changed.send(sender=PauseRule), robust=True)
