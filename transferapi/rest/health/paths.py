"""`/healthz`, `/readyz` and `/metrics`, for those who watch: they know neither our host names nor a token."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.utils.crypto import constant_time_compare

from transferapi.rest.http.trusted_proxies import address_of, is_in
from transferapi.rest.metrics import exposition
from transferapi.rest.middleware import Middleware
from transferapi.version import service_version

from .checks import CHECKS
from .probes import Prober, ProbeResult

HEALTH, READINESS, METRICS = "/healthz", "/readyz", "/metrics"
#: The answer of `/healthz`: the web server gives it without a thread (`deploy/web/worker.py`).
ALIVE = '{"status": "alive"}\n'

_prober = Prober(CHECKS)


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
