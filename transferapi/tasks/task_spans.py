"""The spans of a task that are not of one process: the task itself, its slices, and the messages about it.

Their numbers are made from the ids of the task and of the lease, so that any worker can name the span above its own,
and record one that another process has begun.
"""

from __future__ import annotations

import time
import uuid
from datetime import datetime
from functools import partial

from django.db import DatabaseError, InterfaceError, transaction

from transferapi.traces import spans
from transferapi.traces.spans import SpanKind
from transferapi.traces.trace_context import SpanId, derived_span, parse

from .models import Task

_COUNTS = ("files", "files_transferred", "files_skipped", "files_failed", "bytes_transferred", "faults")
_COLUMNS = ("trace_context", "request_time", "type", "status", "fatal_error_code", "lease__epoch", *_COUNTS)


def span_of_task(task_id: uuid.UUID, context: str | None) -> str | None:
    """The `traceparent` of the task's span. context: of its row."""
    above = parse(context)
    return SpanId(above.trace, derived_span(task_id)).text if above else None


def number_of_slice(task_id: uuid.UUID, epoch: int) -> int:
    return derived_span(task_id, epoch)


def ended(task_id: uuid.UUID, now: datetime) -> None:
    """Record the task's span, from its submission to its end. Call it in the transaction that ends the task."""
    if not spans.is_on():
        return
    row = Task.objects.filter(pk=task_id, trace_context__isnull=False).values(*_COLUMNS).first()
    if row is None:
        return
    span = spans.below(
        row["trace_context"],
        "task",
        begun=nanoseconds(row["request_time"]),
        span=derived_span(task_id),
        attributes={
            "waybill.task": str(task_id),
            "waybill.type": row["type"],
            "waybill.status": row["status"],
            "waybill.slices": row["lease__epoch"] or 0,
            **{f"waybill.{name}": row[name] for name in _COUNTS},
        },
    )
    if span is not None:
        span.error = row["fatal_error_code"] or ""
        transaction.on_commit(partial(span.end, nanoseconds(now)))


def notified(task_id: uuid.UUID | None, name: str, begun: int, error: str = "") -> None:
    """Record the sending of a message about a task. begun: nanoseconds; error: a word of the code, "" for success.

    Raises nothing: whether a message counts as sent must not depend on it.
    """
    if task_id is None or not spans.is_on():
        return
    try:
        context = Task.objects.filter(pk=task_id).values_list("trace_context", flat=True).first()
    except (DatabaseError, InterfaceError):
        return
    facts = {"waybill.task": str(task_id)}
    span = spans.below(span_of_task(task_id, context), name, SpanKind.CLIENT, begun=begun, attributes=facts)
    if span is not None:
        span.error = error
        span.end(time.time_ns())


def nanoseconds(at: datetime) -> int:
    """Since 1970."""
    return int(at.timestamp() * 1_000_000) * 1000
