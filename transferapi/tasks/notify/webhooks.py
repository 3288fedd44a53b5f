"""Webhooks: URLs of a user that get the status changes of their tasks.

`changed` writes the messages (deliveries) in the transaction of the change that they report; `deliveries.py` sends
them. A message names tasks and endpoints, and holds no path and no secret. docs/push.md says how to verify it.
"""

from __future__ import annotations

import base64
import ipaddress
import json
import logging
import re
import secrets
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from django.conf import settings
from django.db import models, transaction

from endpoints.addresses import gate
from endpoints.addresses.openings import opened
from endpoints.registry import canonical_name
from identity.clock import moment
from identity.database_rows import query_rows, row_by_id
from identity.error_categories import NotFoundError, RefusedError
from identity.hidden import Hidden, Secret
from identity.http.web_address import Url, WebAddressError, parse_url
from identity.models import User
from identity.vault.sealing import SealedTable, lock_user
from transferapi.tasks.errors import TOO_MANY_WEBHOOKS, WEBHOOK_DISABLED, RequestError
from transferapi.tasks.models import WITH_ENDS, Delivery, Task, Webhook
from transferapi.tasks.queries import Page, page
from transferapi.tasks.states import Status

log = logging.getLogger(__name__)

MAX_WEBHOOKS = 10
MAX_URL = 2048
#: The most deliveries of one webhook that wait to be sent; only endless test messages reach it.
MAX_WAITING = 1000
#: The newest deliveries of one webhook that are kept, sent or not; a new one replaces the oldest.
MAX_KEPT = 2000
SECRET_PREFIX = "whsec_"  # noqa: S105 - names the kind of a leaked string to readers of logs and secret scanners
SECRET_OCTETS = 32
#: Days for which deliveries are kept, and the number of old ones that one call deletes.
KEEP, FORGET_AT_ONCE = timedelta(days=30), 1000
TEST = "webhook.test"
NO_TLS = "http:// is for networks only that the operator of this service has allowed: use https://."
_QUERY = re.compile(r"[A-Za-z0-9._~!$&'()*+,;=:@/?%-]*")


@dataclass(frozen=True, slots=True)
class Target:
    """The server of a webhook, and the request target (path and query)."""

    url: Url
    path: str

    def addresses(self) -> list[str]:
        """The addresses that the gate allows. Blocks for the name look-up. Raises TargetRefusedError."""
        found = gate.resolve_target(self.url.host, self.url.port, allow=settings.ALLOW_WEBHOOKS)
        numbers, port = map(ipaddress.ip_address, found), self.url.port
        if self.url.scheme == "http" and not all(opened(one, port, settings.ALLOW_WEBHOOKS) for one in numbers):
            raise gate.TargetRefusedError(self.url.host, NO_TLS)
        return found


def target_of(text: str) -> Target:
    """Read the URL of a webhook. Raises RequestError."""
    base, _, query = text.partition("?")
    if len(text) > MAX_URL or not _QUERY.fullmatch(query):
        raise RequestError("url", f"Expected a web address of at most {MAX_URL} characters, percent-encoded.")
    try:
        url = parse_url(base, keep_slash=True)
    except WebAddressError:
        raise RequestError("url", "Expected a web address: https://host/path, without user and #.") from None
    return Target(url, (url.path or "/") + (f"?{query}" if query else ""))


# ---- management by users


def create(user: User, url: str, statuses: Sequence[str] | None = None) -> tuple[Webhook, Secret]:
    """Create a webhook; return it with its secret, which is shown only this once. statuses None: all of them.

    Raises RequestError, TOO_MANY_WEBHOOKS, VaultKeyNotConfiguredError.
    """
    _check_target(url)
    row = Webhook(owner=user, url=url, statuses=_statuses(statuses))
    secret = SECRET_PREFIX + base64.b64encode(secrets.token_bytes(SECRET_OCTETS)).decode()
    SEALED.seal(row, Hidden(secret.encode()))
    with transaction.atomic():
        lock_user(user.pk)
        if Webhook.objects.filter(owner=user).count() >= MAX_WEBHOOKS:
            raise RefusedError(TOO_MANY_WEBHOOKS, limit=MAX_WEBHOOKS)
        row.save(force_insert=True)
    return row, Secret(secret)


def listing(user: User) -> list[Webhook]:
    """The user's webhooks, the oldest first."""
    return list(Webhook.objects.filter(owner=user).order_by("created_at", "pk"))


def get(user: User, ref: str) -> Webhook:
    """A webhook of the user. Raises NotFoundError."""
    return _found(Webhook.objects.filter(owner=user), ref)


def update(
    user: User,
    ref: str,
    *,
    url: str | None = None,
    statuses: Sequence[str] | None = None,
    enabled: bool | None = None,
    now: datetime | None = None,
) -> Webhook:
    """Change the given fields. A webhook that is enabled again gets the changes from then on.

    Raises NotFoundError, RequestError.
    """
    if url is not None:
        _check_target(url)
    chosen = None if statuses is None else _statuses(statuses)
    with transaction.atomic():
        row = _found(Webhook.objects.select_for_update().filter(owner=user), ref)
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
    """Send nothing more to it, not even waiting deliveries; the caller saves the row."""
    row.disabled_at, row.last_error = now, why
    Delivery.objects.filter(webhook=row, next_try_at__isnull=False).update(next_try_at=None)


def delete(user: User, ref: str) -> None:
    """Delete the webhook with its deliveries. Raises NotFoundError."""
    get(user, ref).delete()


def send_test(user: User, ref: str, now: datetime | None = None) -> Delivery:
    """Send a test message at once, also during a pause after failures.

    Raises NotFoundError, WEBHOOK_DISABLED, RequestError.
    """
    row = get(user, ref)
    if row.disabled_at is not None:
        raise RefusedError(WEBHOOK_DISABLED)
    if Delivery.objects.filter(webhook=row, next_try_at__isnull=False).count() >= MAX_WAITING:
        raise RequestError("webhook", "Too much waits to be sent to it already.", "ClientError.LimitExceeded")
    now = moment(now)
    Webhook.objects.filter(pk=row.pk).update(not_before=None)
    with transaction.atomic():
        [made] = Delivery.objects.bulk_create([_delivery(row, TEST, None, now)])
        _forget_beyond([row])
    return made


def deliveries(user: User, ref: str, *, limit: int = 10, offset: int = 0) -> Page[Delivery]:
    """Sent and waiting deliveries, the newest first. Raises NotFoundError."""
    return page(Delivery.objects.filter(webhook=get(user, ref)).order_by("-made_at", "-pk"), limit, offset)


def _found(among: models.QuerySet[Webhook], ref: str) -> Webhook:
    return row_by_id(among, ref, NotFoundError(ref, "webhook"))


def _check_target(url: str) -> None:
    """Raises RequestError for a URL that the service would not connect to. A name may get an address later."""
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
            raise RequestError(f"statuses[{number}]", f"Expected one of {', '.join(Status.values)}.")
    return [status for status in Status.values if status in chosen]


# ---- messages


def changed(task_id: uuid.UUID, what: str, now: datetime) -> None:
    """Write the messages about a new state of a task; call it in the transaction that moves the task."""
    watching = list(Webhook.objects.filter(owner__tasks=task_id, disabled_at=None).defer("sealed_secret"))
    if not watching:
        return
    task = Task.objects.select_related(*WITH_ENDS).get(pk=task_id)
    kind, facts = f"task.{what}", facts_of(task)
    wanting = [row for row in watching if task.status in row.statuses]
    if wanting:
        Delivery.objects.bulk_create(_delivery(row, kind, facts, now) for row in wanting)
        _forget_beyond(wanting)


def _forget_beyond(rows: Sequence[Webhook]) -> None:
    """Delete the oldest deliveries of each webhook beyond MAX_KEPT, also those that wait to be sent."""
    deleted = query_rows(_BEYOND, {"webhooks": [row.pk for row in rows], "kept": MAX_KEPT, "most": MAX_KEPT})
    if lost := sum(waited for (waited,) in deleted):
        log.warning("%d webhook messages were deleted unsent: a webhook has at most %d", lost, MAX_KEPT)


_BEYOND = """
    DELETE FROM tasks_delivery d USING unnest(%(webhooks)s::uuid[]) AS webhook(id) CROSS JOIN LATERAL (
        SELECT id FROM tasks_delivery WHERE webhook_id = webhook.id
        ORDER BY made_at DESC, id DESC OFFSET %(kept)s LIMIT %(most)s
    ) old WHERE d.id = old.id RETURNING d.next_try_at IS NOT NULL"""


def _delivery(row: Webhook, kind: str, task: dict[str, Any] | None, now: datetime) -> Delivery:
    key = uuid.uuid4()
    body = {"id": str(key), "type": kind, "time": _time(now), "task": task}
    task_id = uuid.UUID(task["task_id"]) if task else None
    return Delivery(id=key, webhook=row, task_id=task_id, body=body, made_at=now, next_try_at=now)


def facts_of(task: Task) -> dict[str, Any]:
    """The short form of the task's document, with the same names, without paths and texts of servers."""
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
    """Delete some old deliveries; return their number."""
    over = Delivery.objects.filter(made_at__lt=moment(now) - KEEP).order_by("made_at")
    deleted, _ = Delivery.objects.filter(pk__in=list(over.values_list("pk", flat=True)[:FORGET_AT_ONCE])).delete()
    return deleted


# ---- the secret


def _associated(row: Webhook) -> bytes:
    """The associated data of the encryption: the secret opens only in this row, for this owner."""
    return json.dumps(["webhook", str(row.pk), str(row.owner_id)]).encode()


#: The encrypted column, for the rotation of the vault's keys.
SEALED = SealedTable(Webhook, "sealed_secret", _associated)


def signing_key(row: Webhook) -> Hidden:
    """The key that signs its messages. Raises VaultError."""
    text = SEALED.unseal(row).value.decode()
    return Hidden(base64.b64decode(text.removeprefix(SECRET_PREFIX)))
