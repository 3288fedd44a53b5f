"""The counts that web processes share: over forks, deaths and slots."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable

from django.http import HttpRequest, HttpResponse

from transferapi.rest.metrics.requests import RequestMetrics
from transferapi.rest.metrics.shared_counts import OTHER, SLOTS, SharedCounts


def forked(work: Callable[[], None], *, kill: bool = False) -> None:
    """Do it in a process of its own; kill: which then ends by SIGKILL."""
    pid = os.fork()
    if not pid:
        try:
            work()
            if kill:
                os.kill(os.getpid(), signal.SIGKILL)
        finally:
            os._exit(0)
    _, status = os.waitpid(pid, 0)
    assert status == (signal.SIGKILL if kill else 0)


def test_counts_of_processes_add_up_and_outlive_them() -> None:
    counts = SharedCounts()
    counts.name_routes(["/a", "/b"])

    def serve(slot: int) -> None:
        counts.take_slot(slot)
        counts.begin()
        counts.answered("/a", 200, 0.02)
        counts.answered("/b", 503, 7.0)
        counts.answered("/unknown", 404, 99.0)
        counts.statement(0.5)
        counts.redis()

    for slot in (0, 1):
        forked(lambda slot=slot: serve(slot), kill=True)  # type: ignore[misc]
    sums = counts.sums()
    assert (sums.processes, sums.in_progress, sums.statements, sums.statement_seconds, sums.redis) == (2, 2, 2, 1, 2)
    counts.leave(0)
    assert (counts.sums().processes, counts.sums().in_progress, counts.sums().statements) == (1, 1, 2)
    # The next process goes on in the slot of the dead one.
    forked(lambda: serve(0))
    found = counts.histograms()
    assert found.keys() == {("/a", "2xx"), ("/b", "5xx"), (OTHER, "4xx")}
    assert found["/a", "2xx"].buckets == [0, 3, 0, 0, 0, 0, 0]
    assert found["/b", "5xx"].seconds == 21.0
    assert found[OTHER, "4xx"].buckets[-1] == 3


def test_a_process_without_a_slot_changes_nothing_of_the_others() -> None:
    counts = SharedCounts()
    assert counts.free_slot({0, 1, 3}) == 2
    assert counts.free_slot(range(SLOTS)) == -1

    def serve() -> None:
        counts.take_slot(-1)
        counts.answered("/", 200, 0.0)

    forked(serve)
    assert counts.histograms() == {}
    counts.leave(-1)
    assert counts.sums().processes == 0


def test_routes_beyond_the_bound_count_as_other() -> None:
    counts = SharedCounts()
    counts.name_routes([f"/{number}" for number in range(5000)])
    counts.answered("/4999", 200, 0.0)
    assert list(counts.histograms()) == [(OTHER, "2xx")]


def test_a_request_costs_less_than_50_microseconds() -> None:
    def answer(_: HttpRequest) -> HttpResponse:
        return given

    given, request, counted = HttpResponse(), HttpRequest(), RequestMetrics(answer)
    best = float("inf")
    for _ in range(30):
        began = time.perf_counter()
        for _ in range(200):
            counted(request)
        best = min(best, (time.perf_counter() - began) / 200)
    assert best < 50e-6
