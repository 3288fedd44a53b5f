"""Brings what webhooks are told to where they are: each word at least once, in no promised order.

`claim` takes what is due from the table, `attempt` speaks to the receiver and touches no database, `settle` writes down
what came of it. Who calls them runs many at a time (`workers/courier.py`). A receiver that fails makes a pause, longer
each time, in which nothing is sent to it: one that hangs costs others nothing but the tries between its pauses.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import logging
import random
import ssl
import uuid
from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db import connection, transaction

from endpoints.gate import TargetRefusedError
from identity.errors import VaultError
from identity.https import Site
from identity.oauth_errors import (
    OAuthError,
    ServerAnswerError,
    ServerNotTrustedError,
    ServerTooSlowError,
    ServerUnreachableError,
)

from . import mails, webhooks
from .clock import moment
from .errors import RequestError
from .models import Delivery, Webhook

log = logging.getLogger(__name__)

#: Seconds for a whole request, with the look-up's own five before it.
REQUEST_SECONDS = 10.0
#: Seconds for which nobody else takes what was claimed: a worker that dies leaves it to the next one.
CLAIM_SECONDS = 60.0
#: Seconds before the second try; each further one waits twice as long, up to the longest.
FIRST_PAUSE, LONGEST_PAUSE = 5.0, 3600.0
#: Of a webhook that fails: what else is to be sent to it waits at most so long.
LONGEST_SILENCE = 300.0
#: A word that was not taken for so long is given up, and a webhook that failed for so long is disabled.
GIVE_UP_AFTER = timedelta(hours=24)
DISABLE_AFTER = timedelta(days=3)
#: At one time from one process to the webhooks of one user.
MOST_OF_A_USER = 2

GONE = 410


@dataclass(frozen=True, slots=True)
class Job:
    """Something to be sent. `body` is signed as it is."""

    id: uuid.UUID
    owner_id: uuid.UUID
    webhook: Webhook
    body: bytes
    attempts: int
    made_at: datetime


@dataclass(frozen=True, slots=True)
class Outcome:
    """What the receiver said: `status` None when nothing; `error` is a sentence, empty when it took it."""

    status: int | None
    error: str = ""


def claim(limit: int, busy: Collection[uuid.UUID] = (), now: datetime | None = None) -> list[Job]:
    """What has been due for longest, at most MOST_OF_A_USER of each owner, and nothing of those who are `busy`."""
    if limit <= 0:
        return []
    with transaction.atomic():
        now = moment(now)
        parameters: dict[str, Any] = {"now": now, "busy": list(busy), "each": MOST_OF_A_USER, "limit": limit}
        with connection.cursor() as cursor:
            cursor.execute(_DUE, parameters)
            due = [row[0] for row in cursor.fetchall()]
        rows = Delivery.objects.filter(pk__in=due, next_try_at__lte=now).select_related("webhook")
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


def _job(row: Delivery) -> Job:
    # Sorted: the same octets at each try, whatever the database has made of the document.
    body = json.dumps(row.body, sort_keys=True, separators=(",", ":")).encode("ascii")
    return Job(row.pk, row.webhook.owner_id, row.webhook, body, row.attempts, row.made_at)


def attempt(job: Job, now: datetime) -> Outcome:
    """Send it once; never raises. In at most REQUEST_SECONDS, and five more for the look-up of the name."""
    try:
        target = webhooks.target_of(job.webhook.url)
        headers = {"Content-Type": "application/json", **_signature(job, now)}
        site = Site(target.url, target.addresses(), _context(), REQUEST_SECONDS, plain=True)
        answer = site.ask("POST", target.path, headers, job.body)
    except ServerAnswerError as error:
        return Outcome(error.status, f"It answered with a redirect ({error.status})." if error.status else NOT_HTTP)
    except OAuthError as error:
        return Outcome(None, _WORDS.get(type(error), NOT_HTTP))
    except (TargetRefusedError, VaultError, RequestError) as error:
        return Outcome(None, error.reason)
    except Exception as error:
        log.exception("delivery %s failed within this service", job.id)
        return Outcome(None, f"This service failed ({type(error).__name__}).")
    if 200 <= answer.status < 300:
        return Outcome(answer.status)
    return Outcome(answer.status, f"It answered with status {answer.status}.")


NOT_HTTP = "What it answered is not HTTP, was cut off, or is far too long."
_WORDS: dict[type[OAuthError], str] = {
    ServerTooSlowError: f"It did not answer within {REQUEST_SECONDS:g} s.",
    ServerUnreachableError: "It cannot be reached, or the connection broke.",
    ServerNotTrustedError: "Its certificate is not accepted, or no secure connection could be made.",
}


def _context() -> ssl.SSLContext:
    """The authorities of the system."""
    context = ssl.create_default_context()
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context


def _signature(job: Job, now: datetime) -> dict[str, str]:
    """As Standard Webhooks has it: HMAC-SHA256 over id, time and body. -> VaultError"""
    stamp = str(int(now.timestamp()))
    signed = b".".join((str(job.id).encode(), stamp.encode(), job.body))
    mac = hmac.digest(webhooks.signing_key(job.webhook).value, signed, hashlib.sha256)
    signature = base64.b64encode(mac).decode()
    return {"Webhook-Id": str(job.id), "Webhook-Timestamp": stamp, "Webhook-Signature": f"v1,{signature}"}


def settle(job: Job, outcome: Outcome, now: datetime | None = None) -> None:
    """Write down what came of a try, and what is to follow."""
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


def _next_try(job: Job, now: datetime) -> datetime | None:
    """None: it is given up."""
    next_try = now + timedelta(seconds=pause(job.attempts) * random.uniform(0.8, 1.2))  # noqa: S311 - no secret
    return next_try if next_try < job.made_at + GIVE_UP_AFTER else None


def pause(failures: int, longest: float = LONGEST_PAUSE) -> float:
    """Seconds until the next try after so many."""
    return min(longest, FIRST_PAUSE * 2.0 ** min(failures - 1, 20))


def _recovered(row: Webhook) -> None:
    if row.failures:
        row.failures, row.failing_since, row.not_before, row.last_error = 0, None, None, ""
        row.save(update_fields=["failures", "failing_since", "not_before", "last_error"])


def _failed(row: Webhook, outcome: Outcome, now: datetime) -> None:
    row.failures += 1
    row.failing_since = row.failing_since or now
    row.last_error = outcome.error
    row.not_before = now + timedelta(seconds=pause(row.failures, LONGEST_SILENCE))
    if outcome.status == GONE:
        webhooks.disable(row, "It answered that it is gone (410).", now)
    elif now - row.failing_since >= DISABLE_AFTER:
        webhooks.disable(row, outcome.error, now)
        mails.webhook_disabled(row, outcome.error, now)
    row.save()
