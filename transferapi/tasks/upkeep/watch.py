"""Each process of the service reports itself from time to time, and reads the maintenance mode.

A worker calls `Watch.look` between its periodic jobs; every other process has a thread for it, with a connection of its
own to the database. So no request asks the database for the maintenance mode.
"""

from __future__ import annotations

import contextlib
import logging
import os
import random
import socket
import threading
import time
from collections.abc import Callable, Mapping

from django.db import close_old_connections, connection

from transferapi.outages.log_filter import is_told
from transferapi.tasks import maintenance
from transferapi.traces import exporting

from . import service_processes, tallies
from .worker_processes import REPORT_SECONDS

log = logging.getLogger(__name__)

#: Seconds between two looks of a thread, and their variation.
LOOK_SECONDS, SPREAD = 1.0, 0.2


class Watch:
    """kind: "web", "worker", "shell" or "relay". gauges: numbers of the moment, called in any thread."""

    def __init__(self, kind: str, gauges: Callable[[], Mapping[str, int]] = dict) -> None:
        self._kind = kind
        self._gauges = gauges
        self._report_at = 0.0
        self._stop = threading.Event()

    def look(self) -> None:
        """Read the maintenance mode, and report where it is time. Raises django.db.Error."""
        maintenance.refresh()
        if time.monotonic() >= self._report_at:
            service_processes.report(_name(), self._kind, self._gauges())
            _tally()
            self._report_at = time.monotonic() + REPORT_SECONDS

    def leave(self) -> None:
        """The process ends. Raises django.db.Error."""
        service_processes.leave(_name())
        _tally()

    def start(self) -> None:
        """Look in a thread of its own, until `stop`."""
        maintenance.expect()
        threading.Thread(target=self._run, name="watch", daemon=True).start()

    def stop(self) -> None:
        self._stop.set()

    def _run(self) -> None:
        failed = False
        while not self._stop.is_set():
            try:
                close_old_connections()
                self.look()
                failed = False
            except Exception as error:
                if not is_told(error):
                    log.log(logging.DEBUG if failed else logging.WARNING, "watch: %s", type(error).__name__)
                failed = True
            self._stop.wait(LOOK_SECONDS * random.uniform(1 - SPREAD, 1 + SPREAD))  # noqa: S311 - no secret
        with contextlib.suppress(Exception):
            self.leave()
        connection.close()


def _tally() -> None:
    """Add what this process has counted to the table. Raises django.db.Error; nothing is lost then."""
    for name, number in exporting.take_counts().items():
        tallies.add(name, by=number)
    tallies.flush()


def _name() -> str:
    """As that of a worker in leases; made anew after a fork."""
    return f"{socket.gethostname()}:{os.getpid()}"
