"""Delivery to webhooks: each message at least once, in no guaranteed order.

`claim` takes due messages from the table, `attempt` sends one without using the database, `settle` writes the result.
`workers/webhook_sender.py` sends many at a time. After a failure, nothing is sent to the receiver for a pause that
increases each time, so that a receiver that hangs costs others little.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import logging
import random
import uuid
from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db import transaction

from endpoints.addresses.gate import TargetRefusedError
from identity.clock import moment
from identity.database_rows import query_rows
from identity.http.https_client import (
    ConnectionFailedError,
    HttpClientError,
    InsecureConnectionError,
    InvalidResponseError,
    ResponseTimeoutError,
    Site,
    client_context,
)
from identity.vault.errors import VaultError
from transferapi.tasks.errors import RequestError
from transferapi.tasks.models import Delivery, Webhook

from . import webhooks
from .mails import task as task_mails

log = logging.getLogger(__name__)

#: Seconds for a whole request, without the five of the name look-up before it.
REQUEST_SECONDS = 10.0
#: Seconds for which a claim lasts; after that, another worker takes the message of a lost one.
CLAIM_SECONDS = 60.0
#: Seconds before the second attempt; each further one waits twice as long, up to the longest.
FIRST_PAUSE, LONGEST_PAUSE = 5.0, 3600.0
#: The longest pause of a webhook that fails, for its other messages.
LONGEST_SILENCE = 300.0
#: A message that was not accepted for this long is given up; a webhook that failed for this long is disabled.
GIVE_UP_AFTER = timedelta(hours=24)
DISABLE_AFTER = timedelta(days=3)
#: The most messages that one process sends to the webhooks of one user at one time.
MOST_OF_A_USER = 2

GONE = 410


@dataclass(frozen=True, slots=True)
class DeliveryJob:
    """A message to be sent. `body` is signed as it is."""

    id: uuid.UUID
    owner_id: uuid.UUID
    webhook: Webhook
    body: bytes
    attempts: int
    made_at: datetime
    #: None: a test message.
    task_id: uuid.UUID | None = None


@dataclass(frozen=True, slots=True)
class DeliveryResult:
    """The result of an attempt. status: None without a response. error: a sentence; "" where it was accepted."""

    status: int | None
    error: str = ""


def claim(limit: int, busy: Collection[uuid.UUID] = (), now: datetime | None = None) -> list[DeliveryJob]:
    """Claim the messages that have been due for longest: MOST_OF_A_USER of each owner, none of `busy` ones."""
    if limit <= 0:
        return []
    with transaction.atomic():
        now = moment(now)
        parameters: dict[str, Any] = {"now": now, "busy": list(busy), "each": MOST_OF_A_USER, "limit": limit}
        due = [id_ for (id_,) in query_rows(_DUE, parameters)]
        rows = (
            Delivery.objects.filter(pk__in=due, next_try_at__lte=now).select_related("webhook").order_by("next_try_at")
        )
        taken = list(rows.select_for_update(skip_locked=True, of=("self",)))
        for row in taken:
            row.attempts += 1
            row.next_try_at = now + timedelta(seconds=CLAIM_SECONDS)
        Delivery.objects.bulk_update(taken, ["attempts", "next_try_at"])
    return [_job(row) for row in taken]


_DUE = """
    SELECT id FROM (
        SELECT d.id, d.next_try_at, row_number() OVER (PARTITION BY w.owner_id ORDER BY d.next_try_at) AS number
        FROM tasks_delivery d JOIN tasks_webhook w ON w.id = d.webhook_id JOIN identity_user u ON u.id = w.owner_id
        WHERE d.next_try_at <= %(now)s AND w.disabled_at IS NULL AND coalesce(w.not_before <= %(now)s, true)
            AND u.is_active AND NOT w.owner_id = ANY(%(busy)s::uuid[])
    ) due WHERE number <= %(each)s ORDER BY next_try_at LIMIT %(limit)s"""


def _job(row: Delivery) -> DeliveryJob:
    # Sorted: the same bytes at each attempt, since the database does not keep the order.
    body = json.dumps(row.body, sort_keys=True, separators=(",", ":")).encode("ascii")
    return DeliveryJob(row.pk, row.webhook.owner_id, row.webhook, body, row.attempts, row.made_at, row.task_id)


def attempt(job: DeliveryJob, now: datetime) -> DeliveryResult:
    """Send a message once, within REQUEST_SECONDS and five more for the name look-up. Never raises."""
    try:
        target = webhooks.target_of(job.webhook.url)
        headers = {"Content-Type": "application/json", **_signature(job, now)}
        site = Site(target.url, target.addresses(), client_context(), REQUEST_SECONDS, plain=True)
        answer = site.ask("POST", target.path, headers, job.body)
    except InvalidResponseError as error:
        return DeliveryResult(
            error.status, f"It answered with a redirect ({error.status})." if error.status else NOT_HTTP
        )
    except HttpClientError as error:
        return DeliveryResult(None, _WORDS.get(type(error), NOT_HTTP))
    except (TargetRefusedError, RequestError) as error:
        return DeliveryResult(None, error.reason)
    except VaultError as error:
        return DeliveryResult(None, error.message)
    except Exception as error:
        log.exception("delivery %s failed within this service", job.id)
        return DeliveryResult(None, f"This service failed ({type(error).__name__}).")
    if 200 <= answer.status < 300:
        return DeliveryResult(answer.status)
    return DeliveryResult(answer.status, f"It answered with status {answer.status}.")


NOT_HTTP = "What it answered is not HTTP, was cut off, or is far too long."
_WORDS: dict[type[HttpClientError], str] = {
    ResponseTimeoutError: f"It did not answer within {REQUEST_SECONDS:g} s.",
    ConnectionFailedError: "It cannot be reached, or the connection broke.",
    InsecureConnectionError: "Its certificate is not accepted, or no secure connection could be made.",
}


def _signature(job: DeliveryJob, now: datetime) -> dict[str, str]:
    """The signature of Standard Webhooks: HMAC-SHA256 over id, time and body. Raises VaultError."""
    stamp = str(int(now.timestamp()))
    signed = b".".join((str(job.id).encode(), stamp.encode(), job.body))
    mac = hmac.digest(webhooks.signing_key(job.webhook).value, signed, hashlib.sha256)
    signature = base64.b64encode(mac).decode()
    return {"Webhook-Id": str(job.id), "Webhook-Timestamp": stamp, "Webhook-Signature": f"v1,{signature}"}


def settle(job: DeliveryJob, outcome: DeliveryResult, now: datetime | None = None) -> None:
    """Write the result of an attempt, and the time of the next one."""
    with transaction.atomic():
        now = moment(now)
        webhook = Webhook.objects.select_for_update(of=("self",)).select_related("owner").filter(pk=job.webhook.pk)
        if (row := webhook.first()) is None:
            return
        said = {"last_status": outcome.status, "last_error": outcome.error}
        mine = Delivery.objects.filter(pk=job.id)
        if not outcome.error:
            mine.update(delivered_at=now, next_try_at=None, **said)
            _recovered(row)
            return
        mine.update(next_try_at=_next_try(job, now), **said)
        if row.disabled_at is None:
            _failed(row, outcome, now)


def _next_try(job: DeliveryJob, now: datetime) -> datetime | None:
    """The time of the next attempt; None: the message is given up."""
    next_try = now + timedelta(seconds=pause(job.attempts) * random.uniform(0.8, 1.2))  # noqa: S311 - no secret
    return next_try if next_try < job.made_at + GIVE_UP_AFTER else None


def pause(failures: int, longest: float = LONGEST_PAUSE) -> float:
    """Seconds until the next attempt after so many failures."""
    return min(longest, FIRST_PAUSE * 2.0 ** min(failures - 1, 20))


def _recovered(row: Webhook) -> None:
    if row.failures:
        row.failures, row.failing_since, row.not_before, row.last_error = 0, None, None, ""
        row.save(update_fields=["failures", "failing_since", "not_before", "last_error"])


def _failed(row: Webhook, outcome: DeliveryResult, now: datetime) -> None:
    row.failures += 1
    row.failing_since = row.failing_since or now
    row.last_error = outcome.error
    row.not_before = now + timedelta(seconds=pause(row.failures, LONGEST_SILENCE))
    if outcome.status == GONE:
        webhooks.disable(row, "It answered that it is gone (410).", now)
    elif now - row.failing_since >= DISABLE_AFTER:
        webhooks.disable(row, outcome.error, now)
        task_mails.webhook_disabled(row, outcome.error, now)
    row.save()
