"""Runs checks in threads of their own, so that neither a server that hangs nor a flood of requests stops the service.

A result counts for a second. A check that hangs keeps one thread, and is started again after `AGAIN` seconds, because a
connection may hang for ever while new ones work; it never has more than `MOST` threads.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field

from django.db import connections

#: Seconds for which a result counts.
FRESH = 1.0
#: Seconds that a request waits for all checks together.
TIMEOUT = 2.0
#: Seconds after which a check that has not ended is started again, and its most threads.
AGAIN, MOST = 10.0, 3


@dataclass(frozen=True, slots=True)
class ProbeResult:
    """The result of a check. reason: "" where it passed; seconds: how long it took, or has taken so far."""

    reason: str
    seconds: float

    @property
    def passed(self) -> bool:
        return not self.reason


@dataclass(slots=True)
class _Probe:
    """One check: its last finding, and the times (monotonic) at which its running threads began."""

    work: Callable[[], str]
    finding: ProbeResult | None = None
    ended_at: float = 0.0
    running: list[float] = field(default_factory=list)


class Prober:
    """The checks of one process, by their names."""

    def __init__(self, checks: Mapping[str, Callable[[], str]]) -> None:
        self._probes = {name: _Probe(work) for name, work in checks.items()}
        self._changed = threading.Condition()

    def findings(self, names: Collection[str], timeout: float = TIMEOUT) -> dict[str, ProbeResult]:
        """The findings of these checks, none older than a second; waits at most `timeout` seconds."""
        until = time.monotonic() + timeout
        with self._changed:
            for name in names:
                self._start_if_due(self._probes[name], name)
            # One that has been running for longer than that is not waited for: requests would queue up behind it.
            while (now := time.monotonic()) < until and any(self._is_awaited(one, now, timeout) for one in names):
                self._changed.wait(until - now)
            return {name: self._finding(self._probes[name]) for name in names}

    def _start_if_due(self, probe: _Probe, name: str) -> None:
        now = time.monotonic()
        if probe.finding is not None and now - probe.ended_at < FRESH:
            return
        if probe.running and (now - probe.running[-1] < AGAIN or len(probe.running) >= MOST):
            return
        probe.running.append(now)
        threading.Thread(target=self._run, args=(probe, now), name=f"check {name}", daemon=True).start()

    def _run(self, probe: _Probe, began: float) -> None:
        try:
            reason = probe.work()
        except Exception as error:
            # Its text may contain private data.
            reason = f"The check itself failed: {type(error).__name__}"
        finally:
            connections.close_all()
        with self._changed:
            probe.running.remove(began)
            # An older thread that ends late knows less than a newer one that has ended.
            if began >= probe.ended_at - (probe.finding.seconds if probe.finding else 0.0):
                probe.finding, probe.ended_at = ProbeResult(reason, time.monotonic() - began), time.monotonic()
            self._changed.notify_all()

    def _is_awaited(self, name: str, now: float, timeout: float) -> bool:
        probe = self._probes[name]
        is_fresh = probe.finding is not None and now - probe.ended_at < FRESH
        return not is_fresh and bool(probe.running) and now - probe.running[0] < timeout

    def _finding(self, probe: _Probe) -> ProbeResult:
        now = time.monotonic()
        if probe.finding is not None and now - probe.ended_at < FRESH + TIMEOUT:
            return probe.finding
        waited = now - probe.running[0] if probe.running else 0.0
        return ProbeResult(f"No answer for {waited:.0f} s", waited)
