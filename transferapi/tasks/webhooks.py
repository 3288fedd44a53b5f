"""Webhooks: addresses of a user that are told of what becomes of his tasks.

`changed` writes the words (deliveries) in the transaction of the change that they tell; `deliveries.py` sends them.
What is told names tasks and endpoints, and holds no path and no secret. How to verify it: docs/push.md.
"""

from __future__ import annotations

import base64
import ipaddress
import json
import re
import secrets
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from django.conf import settings
from django.db import models, transaction

from endpoints import gate
from endpoints.openings import opened
from endpoints.registry import canonical_name
from identity.hidden import Hidden, Secret
from identity.models import User
from identity.oauth_errors import ServerAddressError
from identity.rotation import Sealed
from identity.rows import lock_user
from identity.web_address import Url, parse_url

from .clock import moment
from .errors import RequestError, TooManyWebhooksError, WebhookDisabledError, WebhookNotFoundError
from .models import Delivery, Task, Webhook
from .queries import Page
from .states import Status

MAX_WEBHOOKS = 10
MAX_URL = 2048
#: Deliveries of one webhook that wait to be sent: more than anybody's tasks make, unless he tries it again and again.
MAX_WAITING = 1000
SECRET_PREFIX = "whsec_"  # noqa: S105 - tells a reader of logs, and secret scanners, what kind of string leaked
SECRET_OCTETS = 32
#: Days for which deliveries are kept, and how many of the old ones one call forgets.
KEEP, FORGET_AT_ONCE = timedelta(days=30), 1000
TEST = "webhook.test"
NO_TLS = "http:// is for networks only that the operator of this service has allowed: use https://."
_QUERY = re.compile(r"[A-Za-z0-9._~!$&'()*+,;=:@/?%-]*")


@dataclass(frozen=True, slots=True)
class Target:
    """Where a webhook is: the server, and what is asked of it (path and query)."""

    url: Url
    path: str

    def addresses(self) -> list[str]:
        """Those that may be connected to. -> TargetRefusedError. Blocks for the look-up."""
        found = gate.resolve_target(self.url.host, self.url.port, allow=settings.ALLOW_WEBHOOKS)
        if self.url.scheme == "http" and not all(self._is_opened(address) for address in found):
            raise gate.TargetRefusedError(self.url.host, NO_TLS)
        return found

    def _is_opened(self, address: str) -> bool:
        """Whether the operator has named this address with this port."""
        return opened(ipaddress.ip_address(address), self.url.port, settings.ALLOW_WEBHOOKS)


def target_of(text: str) -> Target:
    """-> RequestError"""
    base, _, query = text.partition("?")
    if len(text) > MAX_URL or not _QUERY.fullmatch(query):
        raise RequestError("url", f"A web address of at most {MAX_URL} characters, percent-encoded, is wanted here.")
    try:
        url = parse_url(base, keep_slash=True)
    except ServerAddressError:
        raise RequestError("url", "A web address is wanted here: https://host/path, without user and #.") from None
    return Target(url, (url.path or "/") + (f"?{query}" if query else ""))


# ---- what users do with them


def create(
    user: User, url: str, statuses: Sequence[str] | None = None, now: datetime | None = None
) -> tuple[Webhook, Secret]:
    """A new webhook, and its secret, which is shown this once. statuses None: all of them.

    -> RequestError, TooManyWebhooksError, VaultKeyNotConfiguredError
    """
    _check_target(url)
    row = Webhook(owner=user, url=url, statuses=_statuses(statuses))
    secret = SECRET_PREFIX + base64.b64encode(secrets.token_bytes(SECRET_OCTETS)).decode()
    SEALED.seal(row, Hidden(secret.encode()))
    with transaction.atomic():
        lock_user(user.pk)
        if Webhook.objects.filter(owner=user).count() >= MAX_WEBHOOKS:
            raise TooManyWebhooksError(MAX_WEBHOOKS)
        row.save(force_insert=True)
    return row, Secret(secret)


def listing(user: User) -> list[Webhook]:
    """The oldest first."""
    return list(_mine(user).order_by("created_at", "pk"))


def get(user: User, ref: str) -> Webhook:
    """-> WebhookNotFoundError"""
    row = _mine(user).filter(pk=_id(ref)).first()
    if row is None:
        raise WebhookNotFoundError(ref)
    return row


def update(
    user: User,
    ref: str,
    *,
    url: str | None = None,
    statuses: Sequence[str] | None = None,
    enabled: bool | None = None,
    now: datetime | None = None,
) -> Webhook:
    """Change what is given. One that is enabled again is told of what happens from now on.

    -> WebhookNotFoundError, RequestError
    """
    if url is not None:
        _check_target(url)
    chosen = None if statuses is None else _statuses(statuses)
    with transaction.atomic():
        row = _mine(user).select_for_update().filter(pk=_id(ref)).first()
        if row is None:
            raise WebhookNotFoundError(ref)
        row.url = url or row.url
        row.statuses = row.statuses if chosen is None else chosen
        if enabled is False and row.disabled_at is None:
            disable(row, "", moment(now))
        if enabled is True or url is not None:
            row.failures, row.failing_since, row.not_before, row.last_error = 0, None, None, ""
        if enabled is True:
            row.disabled_at = None
        row.save()
    return row


def disable(row: Webhook, why: str, now: datetime) -> None:
    """Nothing more is sent, nor what still waits to be; the caller saves the row."""
    row.disabled_at, row.last_error = now, why
    Delivery.objects.filter(webhook=row, next_try_at__isnull=False).update(next_try_at=None)


def delete(user: User, ref: str) -> None:
    """With all its deliveries. -> WebhookNotFoundError"""
    get(user, ref).delete()


def send_test(user: User, ref: str, now: datetime | None = None) -> Delivery:
    """Send something at once that is about no task, however long a pause it makes. -> WebhookNotFoundError,
    WebhookDisabledError, RequestError"""
    row = get(user, ref)
    if row.disabled_at is not None:
        raise WebhookDisabledError(row.pk)
    if Delivery.objects.filter(webhook=row, next_try_at__isnull=False).count() >= MAX_WAITING:
        raise RequestError("webhook", "Too much waits to be sent to it already.", "ClientError.LimitExceeded")
    now = moment(now)
    Webhook.objects.filter(pk=row.pk).update(not_before=None)
    [made] = Delivery.objects.bulk_create([_delivery(row, TEST, None, now)])
    return made


def deliveries(user: User, ref: str, *, limit: int = 10, offset: int = 0) -> Page[Delivery]:
    """What was sent and what waits, the newest first. -> WebhookNotFoundError"""
    found = Delivery.objects.filter(webhook=get(user, ref))
    rows = list(found.order_by("-made_at", "-pk")[offset : offset + limit])
    whole = len(rows) < limit and (rows or offset == 0)
    return Page(rows, offset + len(rows) if whole else found.count())


def _mine(user: User) -> models.QuerySet[Webhook]:
    return Webhook.objects.filter(owner=user)


def _id(ref: str) -> uuid.UUID:
    try:
        return uuid.UUID(ref)
    except ValueError:
        raise WebhookNotFoundError(ref) from None


def _check_target(url: str) -> None:
    """-> RequestError, also where the service would not connect there. A name may come to have an address later."""
    try:
        target_of(url).addresses()
    except gate.LookupFailedError:
        return
    except gate.TargetRefusedError as error:
        raise RequestError("url", error.reason) from None


def _statuses(chosen: Sequence[str] | None) -> list[str]:
    if not chosen:
        return list(Status.values)
    for number, word in enumerate(chosen):
        if word not in Status.values:
            raise RequestError(f"statuses[{number}]", f"One of {', '.join(Status.values)} is wanted here.")
    return [status for status in Status.values if status in chosen]


# ---- what they are told


def changed(task_id: uuid.UUID, what: str, now: datetime) -> None:
    """The task has come to another state: call it in the transaction that moves it."""
    watching = list(Webhook.objects.filter(owner__tasks=task_id, disabled_at=None).defer("sealed_secret"))
    if not watching:
        return
    task = Task.objects.select_related("source__owner", "destination__owner").get(pk=task_id)
    kind, facts = f"task.{what}", facts_of(task)
    Delivery.objects.bulk_create(_delivery(row, kind, facts, now) for row in watching if task.status in row.statuses)


def _delivery(row: Webhook, kind: str, task: dict[str, Any] | None, now: datetime) -> Delivery:
    key = uuid.uuid4()
    body = {"id": str(key), "type": kind, "time": _time(now), "task": task}
    task_id = uuid.UUID(task["task_id"]) if task else None
    return Delivery(id=key, webhook=row, task_id=task_id, body=body, made_at=now, next_try_at=now)


def facts_of(task: Task) -> dict[str, Any]:
    """The short form of the task's document: names as there, and no path and no text of a server."""
    target = task.destination
    return {
        "task_id": str(task.pk),
        "type": task.type,
        "status": task.status,
        "label": task.label,
        "owner_id": str(task.owner_id),
        "request_time": _time(task.request_time),
        "deadline": _time(task.deadline),
        "completion_time": _time(task.completion_time),
        "source_endpoint": canonical_name(task.source),
        "source_endpoint_id": str(task.source_id),
        "destination_endpoint": canonical_name(target) if target else None,
        "destination_endpoint_id": str(target.pk) if target else None,
        "files": task.files,
        "directories": task.directories,
        "symlinks": task.symlinks,
        "files_transferred": task.files_transferred,
        "files_skipped": task.files_skipped,
        "files_failed": task.files_failed,
        "bytes_transferred": task.bytes_transferred,
        "faults": task.faults,
        "nice_status": task.nice_status,
        "fatal_error_code": task.fatal_error_code,
    }


def _time(moment: datetime | None) -> str | None:
    return None if moment is None else moment.astimezone(UTC).isoformat(timespec="seconds")


def forget_old(now: datetime | None = None) -> int:
    """Remove deliveries of long ago, so many at a time; how many."""
    over = Delivery.objects.filter(made_at__lt=moment(now) - KEEP).order_by("made_at")
    deleted, _ = Delivery.objects.filter(pk__in=list(over.values_list("pk", flat=True)[:FORGET_AT_ONCE])).delete()
    return deleted


# ---- the secret


def _associated(row: Webhook) -> bytes:
    """In any other row, or for anybody else, its secret does not open."""
    return json.dumps(["webhook", str(row.pk), str(row.owner_id)]).encode()


#: How secrets are kept; the vault's rotation goes through them too.
SEALED = Sealed(Webhook, "sealed_secret", _associated)


def signing_key(row: Webhook) -> Hidden:
    """What its words are signed with. -> VaultError"""
    text = SEALED.unseal(row).value.decode()
    return Hidden(base64.b64decode(text.removeprefix(SECRET_PREFIX)))
