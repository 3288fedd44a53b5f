"""`/healthz`, `/readyz` and `/metrics`, for those who watch: they know neither our host names nor a token.

Checks run in threads of their own, so that neither a server that hangs nor a flood of requests stops the service. A
result counts for a second. A check that hangs keeps one thread, and is started again after `AGAIN` seconds, because a
connection may hang for ever while new ones work; it never has more than `MOST` threads.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from django.conf import settings
from django.db import connections
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.utils.crypto import constant_time_compare

from transferapi.version import service_version

from .health_checks import CHECKS
from .http.trusted_proxies import address_of, is_in
from .metrics import exposition
from .middleware import Middleware

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


HEALTH, READINESS, METRICS = "/healthz", "/readyz", "/metrics"
#: The answer of `/healthz`.
ALIVE = '{"status": "alive"}\n'

_prober = Prober({name: one.ask for name, one in CHECKS.items()})


class HealthPaths(Middleware):
    """Middleware, before the check of host names and all that needs the database.

    The middleware before it must be `TrustedProxies`, because monitors, by address or token, see more.
    """

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        if request.path == HEALTH:
            return _for_reading(request) or HttpResponse(ALIVE, content_type="application/json")
        if request.path == READINESS:
            return _for_reading(request) or _readiness(request)
        # To others this path is as unknown as any.
        if request.path == METRICS and is_monitor(request):
            return _for_reading(request) or HttpResponse(
                exposition.text(_redis_answers),
                content_type=exposition.CONTENT_TYPE,
                headers={"Cache-Control": "no-store"},
            )
        return self._get_response(request)


def _redis_answers(timeout: float) -> bool:
    return _prober.findings(["redis"], timeout)["redis"].passed


def _for_reading(request: HttpRequest) -> HttpResponse | None:
    """The refusal of a method that is not for reading."""
    return None if request.method in ("GET", "HEAD") else HttpResponse(status=405, headers={"Allow": "GET, HEAD"})


def _readiness(request: HttpRequest) -> HttpResponse:
    """200 or 503. `exclude=NAME`, as often as wanted, leaves out a check, as Kubernetes' own `/readyz` does."""
    left_out = set(request.GET.getlist("exclude"))
    if unknown := left_out - CHECKS.keys():
        known = ", ".join(CHECKS)
        return _answer(400, {"status": "bad_request", "reason": f"exclude={min(unknown)[:64]}: the checks are {known}"})
    findings = _prober.findings([name for name in CHECKS if name not in left_out])
    ready = all(one.passed for one in findings.values())
    document: dict[str, Any] = {"status": "ready" if ready else "not_ready"}
    if is_monitor(request):
        document |= {"version": service_version(), "checks": _documents(findings)}
    return _answer(200 if ready else 503, document)


def is_monitor(request: HttpRequest) -> bool:
    """Whether this client may see reasons: it has an address of WAYBILL_MONITORS, or sends WAYBILL_METRICS_TOKEN."""
    return is_in(address_of(request), settings.MONITORS) or _has_token(request)


def _has_token(request: HttpRequest) -> bool:
    scheme, _space, shown = request.headers.get("Authorization", "").partition(" ")
    token = settings.METRICS_TOKEN
    return token is not None and scheme.lower() == "bearer" and constant_time_compare(shown, token.value)


def _documents(findings: Mapping[str, ProbeResult]) -> dict[str, dict[str, Any]]:
    return {
        name: {"passed": one.passed, "seconds": round(one.seconds, 3)} | ({} if one.passed else {"reason": one.reason})
        for name, one in findings.items()
    }


def _answer(status: int, document: Mapping[str, Any]) -> HttpResponse:
    headers = {"Cache-Control": "no-store"} | ({"Retry-After": "2"} if status == 503 else {})
    text = json.dumps(document, indent=1) + "\n"
    answer = HttpResponse(text, status=status, content_type="application/json", headers=headers)
    # Monitors ask every few seconds: Django logs each answer of an outage that has not this mark.
    vars(answer)["_has_been_logged"] = True
    return answer
