"""Counts the answers that the web server gives without the application, and writes some lines about them.

A flood of refused requests has to stay cheap: it costs a count, and MOST lines in PERIOD seconds. The next line then
says how many were left out.
"""

from __future__ import annotations

import logging
import threading
import time
from typing import Any
from urllib.parse import unquote

from django.urls import Resolver404, resolve

from transferapi.logs import context
from transferapi.rest.access_log import route_of_match
from transferapi.rest.metrics.shared_counts import COUNTS

from .early_answer import EarlyAnswer

log = logging.getLogger("waybill.access")

MOST, PERIOD = 20, 60.0


class Refusals:
    """One for each process. The loop of the web server calls it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._began = float("-inf")
        self._count = 0

    def note(self, answer: EarlyAnswer, request: Any, client: str) -> None:
        """request: gunicorn's, or None where its head is no head. client: its address."""
        status = answer.status.partition(" ")[0]
        COUNTS.refused(status)
        if (left_out := self._left_out()) is None:
            return
        method, route = (request.method, _route(request.path)) if request is not None else ("-", "-")
        more = f" ({left_out} more refused by the head were left out)" if left_out else ""
        with context.bound(request=answer.request_id, client=client):
            log.info("%s %s %s by the head%s", method, route, status, more)

    def _left_out(self) -> int | None:
        """How many lines were left out before this one; None: this one is left out, too."""
        now = time.monotonic()
        with self._lock:
            if now - self._began < PERIOD:
                self._count += 1
                return 0 if self._count <= MOST else None
            left_out, self._began, self._count = max(0, self._count - MOST), now, 1
            return left_out


def _route(path: str) -> str:
    try:
        return route_of_match(resolve(unquote(path)))
    except Resolver404:
        return route_of_match(None)
