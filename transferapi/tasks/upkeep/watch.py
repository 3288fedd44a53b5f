"""Each process of the service reports itself from time to time, and reads the maintenance mode.

A worker calls `Watch.report` between its periodic jobs; every other process has a thread for it. So no request asks the
database for the maintenance mode.
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

from . import database_connections, process_use, service_processes, tallies
from .worker_processes import REPORT_SECONDS

log = logging.getLogger(__name__)

#: Seconds between two looks of a thread while there are requests, and their variation.
LOOK_SECONDS, SPREAD = 1.0, 0.2
#: Milliseconds of the processor for which a process writes to the table of tallies: one without work uses few.
WORTH_WRITING = 500
#: Seconds between two comparisons of the connections that PostgreSQL allows with those that may be needed.
COMPARE_SECONDS = 60.0


class Watch:
    """kind: "web", "worker", "shell", "relay" or "events". gauges: numbers of the moment, called in any thread."""

    def __init__(self, kind: str, gauges: Callable[[], Mapping[str, int]] = dict) -> None:
        self._kind = kind
        self._gauges = gauges
        self._report_at = 0.0
        self._compare_at, self._is_short = 0.0, False
        self._stop = threading.Event()
        self._reader: maintenance.Reader | None = None

    def look(self) -> None:
        """Read the maintenance mode, and report where it is time. Raises django.db.Error."""
        maintenance.refresh()
        self.report()

    def report(self) -> None:
        """Report where it is time. Raises django.db.Error."""
        if time.monotonic() >= self._report_at:
            service_processes.report(_name(), self._kind, {**self._gauges(), **process_use.gauges()})
            _tally(self._kind, WORTH_WRITING)
            self._compare_connections()
            self._report_at = time.monotonic() + REPORT_SECONDS

    def _compare_connections(self) -> None:
        """Log whether PostgreSQL allows fewer than the processes may need: at the start, and where it changes."""
        if time.monotonic() < self._compare_at:
            return
        self._compare_at = time.monotonic() + COMPARE_SECONDS
        shortage = database_connections.read().shortage()
        if bool(shortage) != self._is_short:
            self._is_short = bool(shortage)
            log.warning("%s", shortage or "PostgreSQL allows as many connections again as the processes may need")

    def leave(self) -> None:
        """The process ends. Raises django.db.Error."""
        service_processes.leave(_name())
        _tally(self._kind)

    def start(self) -> None:
        """Look in a thread of its own, until `stop`."""
        self._reader = maintenance.expect()
        threading.Thread(target=self._run, args=(self._reader,), name="watch", daemon=True).start()

    def stop(self) -> None:
        self._stop.set()
        if self._reader is not None:
            self._reader.stop()

    def _run(self, reader: maintenance.Reader) -> None:
        failed = False
        while not self._stop.is_set():
            needed = reader.is_needed()
            try:
                self.look() if needed else self.report()
                failed = False
            except Exception as error:
                if not is_told(error):
                    log.log(logging.DEBUG if failed else logging.WARNING, "watch: %s", type(error).__name__)
                failed = True
            close_old_connections()
            pause = LOOK_SECONDS * random.uniform(1 - SPREAD, 1 + SPREAD)  # noqa: S311 - no secret
            reader.wait(pause if needed or failed else 0.0, max(pause, self._report_at - time.monotonic()))
        with contextlib.suppress(Exception):
            self.leave()
        connection.close()


def _tally(kind: str, least: int = 1) -> None:
    """Add what this process has counted to the table. Raises django.db.Error; nothing is lost then.

    least: milliseconds of the processor.
    """
    for name, number in exporting.take_counts().items():
        tallies.add(name, by=number)
    tallies.add("processor_milliseconds", kind, by=process_use.take_processor_milliseconds(least))
    tallies.flush()


def _name() -> str:
    """As that of a worker in leases; made anew after a fork."""
    return f"{socket.gethostname()}:{os.getpid()}"
