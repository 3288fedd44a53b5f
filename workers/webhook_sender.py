"""Sends webhook deliveries in parallel: a slow receiver blocks one thread, and no other delivery."""

from __future__ import annotations

import logging
import threading
import time
import uuid
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

from django.utils import timezone

from transferapi.tasks import task_spans
from transferapi.tasks.notify import deliveries
from transferapi.tasks.notify.deliveries import DeliveryJob

from .store import on_a_connection

log = logging.getLogger(__name__)

#: Deliveries of this process at one time.
PARALLEL = 16

_lock = threading.Lock()
#: These threads wait for sockets, and have no connection to the database ...
_pool = ThreadPoolExecutor(PARALLEL, thread_name_prefix="webhooks")
#: ... which this thread has for all of them.
_rounds = ThreadPoolExecutor(1, thread_name_prefix="webhook-rounds")
_round_waits = False
_under_way: Counter[uuid.UUID] = Counter()


def begin_round() -> None:
    """Start to send the deliveries that are due, as far as threads are free, without waiting for them."""
    global _round_waits
    with _lock:
        if _round_waits:
            return
        _round_waits = True
    _rounds.submit(_round)


def _round() -> None:
    global _round_waits
    with _lock:
        _round_waits = False
        free = PARALLEL - _under_way.total()
        busy = [owner for owner, count in _under_way.items() if count >= deliveries.MOST_OF_A_USER]
    try:
        jobs = on_a_connection(lambda: deliveries.claim(free, busy))
    except Exception as error:
        log.warning("webhook deliveries are delayed: %s", type(error).__name__)
        return
    for job in jobs:
        with _lock:
            _under_way[job.owner_id] += 1
        _pool.submit(_send, job)


def _send(job: DeliveryJob) -> None:
    try:
        begun = time.time_ns()
        outcome = deliveries.attempt(job, timezone.now())
        _rounds.submit(on_a_connection, lambda: deliveries.settle(job, outcome)).result()
        error = f"status {outcome.status}" if outcome.status else "no answer"
        _rounds.submit(
            on_a_connection,
            lambda: task_spans.notified(job.task_id, "webhook", begun, error if outcome.error else ""),
        ).result()
    except Exception as error:
        # The claim expires, and another worker tries again.
        log.warning("the outcome of delivery %s is unknown: %s", job.id, type(error).__name__)
    finally:
        with _lock:
            _under_way[job.owner_id] -= 1
            if not _under_way[job.owner_id]:
                del _under_way[job.owner_id]
    # Further deliveries of this user need not wait for the next round.
    begin_round()
