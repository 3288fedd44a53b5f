"""The answer to a scrape, in the text format of Prometheus (version 0.0.4).

The figures of the database are read by one thread at a time, and kept for some seconds: however often somebody scrapes,
the database is asked once in FRESH seconds. A database that hangs keeps one thread; it is asked again by another one
after AGAIN, because a connection may hang for ever while new ones work, and never by more than MOST.
"""

from __future__ import annotations

import platform
import threading
import time
from collections.abc import Callable, Iterator
from itertools import accumulate
from urllib.parse import urlsplit

from django.conf import settings
from django.db import connections
from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest
from prometheus_client.registry import Collector

from transferapi.tasks.upkeep import figures
from transferapi.tasks.upkeep.figures import Figures, Values
from transferapi.version import service_version

from . import certificates
from .families import FAMILIES, OF_DATABASE, Type
from .shared_counts import BUCKETS, COUNTS

#: Seconds for which figures count, and for which a scrape waits.
FRESH, SAMPLE_TIMEOUT = 5.0, 2.5
#: Seconds after which another thread asks, and the most threads.
AGAIN, MOST = 30.0, 3

#: Figures, and which questions were answered.
Sample = tuple[Figures, dict[str, bool]]


class Sampler:
    """One for each process."""

    def __init__(self, read: Callable[[], Sample]) -> None:
        self._read = read
        self._changed = threading.Condition()
        self._sample: Sample | None = None
        #: When its thread began and ended.
        self._began_at = self._ended_at = float("-inf")
        #: When its running threads began.
        self._running: list[float] = []

    def sample(self, timeout: float = SAMPLE_TIMEOUT) -> Sample | None:
        """The figures, not older than FRESH seconds; None where the database gave none in `timeout` seconds."""
        until = time.monotonic() + timeout
        with self._changed:
            self._start_if_due()
            while (
                not self._is_fresh()
                and self._running
                # One that has been running for longer is not waited for: the threads of the web server would be.
                and time.monotonic() - self._running[-1] < timeout
                and (left := until - time.monotonic()) > 0
            ):
                self._changed.wait(left)
            return self._sample if self._is_fresh() else None

    def _is_fresh(self) -> bool:
        return time.monotonic() - self._ended_at < FRESH

    def _start_if_due(self) -> None:
        now = time.monotonic()
        if self._is_fresh() or (self._running and (now - self._running[-1] < AGAIN or len(self._running) >= MOST)):
            return
        self._running.append(now)
        threading.Thread(target=self._run, args=(now,), name="metrics", daemon=True).start()

    def _run(self, began: float) -> None:
        sample = None
        try:
            sample = self._read()
        finally:
            connections.close_all()
            with self._changed:
                self._running.remove(began)
                # An older thread that ends late knows less. A failure counts for a while, too: a flood of scrapes
                # makes no flood of connections.
                if began > self._began_at:
                    self._sample, self._began_at, self._ended_at = sample, began, time.monotonic()
                self._changed.notify_all()


CONTENT_TYPE = CONTENT_TYPE_PLAIN_0_0_4
_sampler = Sampler(figures.read)
_front = certificates.FrontCertificateWatch()
#: Seconds for Redis, and for a scrape.
REDIS_TIMEOUT, TIMEOUT = 1.2, 2.8


class _Service(Collector):
    """redis_answers: waits for at most so many seconds."""

    def __init__(self, redis_answers: Callable[[float], bool]) -> None:
        self._redis_answers = redis_answers

    def collect(self) -> Iterator[Metric]:
        until = time.monotonic() + TIMEOUT
        self._redis_answers(0.0)
        yield from _of_web()
        sample = _sampler.sample()
        values, answered = sample if sample else ({}, {})
        yield _family("database_answers", {(): float(any(answered.values()))})
        yield _family("question_answered", {(name,): float(passed) for name, passed in answered.items()})
        # The check has run beside the questions to the database: where those took long, its result is there.
        left = max(0.0, min(REDIS_TIMEOUT, until - time.monotonic()))
        yield _family("redis_answers", {(): float(self._redis_answers(left))})
        for one in OF_DATABASE:
            if one.key in values:
                yield _family(one.key, values[one.key])


def _of_web() -> Iterator[Metric]:
    sums = COUNTS.sums()
    yield _family("web_processes", {(): sums.processes})
    yield _family("requests_in_progress", {(): sums.in_progress})
    yield _family("requests_refused_early", COUNTS.refusals())
    yield _family("database_statements", {(): sums.statements})
    yield _family("database_statement_seconds", {(): sums.statement_seconds})
    yield _family("redis_round_trips", {(): sums.redis})
    yield _family("database_disk_full", {(): sums.disk_full})
    yield _family("build_info", {(service_version(), platform.python_version()): 1.0})
    left = certificates.seconds_left(settings.TLS_CERTIFICATE)
    yield _family("certificate_expires_seconds", {} if left is None else {(): left})
    yield from _of_front()
    declared = FAMILIES["request_seconds"]
    family = HistogramMetricFamily(declared.name, declared.help, labels=declared.labels)
    for labels, one in sorted(COUNTS.histograms().items()):
        bounds = [*(str(bound) for bound in BUCKETS), "+Inf"]
        family.add_metric(labels, list(zip(bounds, accumulate(one.buckets), strict=True)), one.seconds)
    yield family


def _of_front() -> Iterator[Metric]:
    name = urlsplit(settings.PUBLIC_URL).hostname or ""
    found = _front.look(settings.FRONT_TLS, name) if settings.FRONT_TLS else None
    yield _family("front_tls_answers", {} if found is None else {(): float(found.answers)})
    end = None if found is None else found.ends_at
    yield _family("front_certificate_expires_seconds", {} if end is None else {(): end - time.time()})


def _family(key: str, values: Values) -> Metric:
    declared = FAMILIES[key]
    make = CounterMetricFamily if declared.type is Type.COUNTER else GaugeMetricFamily
    family = make(declared.name, declared.help, labels=declared.labels)
    for labels, value in sorted(values.items()):
        family.add_metric(labels, value)
    return family


def text(redis_answers: Callable[[float], bool]) -> bytes:
    """Waits at most TIMEOUT seconds, for the database and Redis. redis_answers: waits for at most so many seconds."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Service(redis_answers))
    return generate_latest(registry)
