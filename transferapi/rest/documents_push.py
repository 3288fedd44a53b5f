"""Documents out: webhooks, and what they were told."""

from __future__ import annotations

from typing import Any

from transferapi.tasks.models import Delivery, Webhook

from .documents import time


def webhook(row: Webhook) -> dict[str, Any]:
    """Never with its secret."""
    return {
        "DATA_TYPE": "webhook",
        "id": str(row.pk),
        "url": row.url,
        "statuses": row.statuses,
        "enabled": row.disabled_at is None,
        "created_at": time(row.created_at),
        "disabled_at": time(row.disabled_at),
        "failing_since": time(row.failing_since),
        "last_error": row.last_error or None,
    }


def delivery(row: Delivery) -> dict[str, Any]:
    """One word to a webhook; `status` says whether it was taken, waits for its next try, or was given up."""
    waiting = "WAITING" if row.next_try_at else "GIVEN_UP"
    return {
        "DATA_TYPE": "webhook_delivery",
        "id": str(row.pk),
        "type": row.body["type"],
        "task_id": row.task_id and str(row.task_id),
        "status": "DELIVERED" if row.delivered_at else waiting,
        "made_at": time(row.made_at),
        "attempts": row.attempts,
        "next_try_at": time(row.next_try_at),
        "delivered_at": time(row.delivered_at),
        "last_status": row.last_status,
        "last_error": row.last_error or None,
    }
