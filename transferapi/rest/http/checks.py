"""Checks our own settings in `manage.py check --deploy`."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.core import checks

from identity.networks import is_loopback

UNKNOWN_FRONT = checks.Warning(
    "WAYBILL_PUBLIC_URL is https, but TLS does not end here, and WAYBILL_FRONT_SERVERS names no server where it does.",
    hint="All clients count as one then: one who guesses passwords uses up what all others have. See docs/rest-api.md.",
    id="waybill.W001",
)

OPEN_PORT = checks.Warning(
    "The web server listens at an address for other machines (WAYBILL_WEB_HOST), and WAYBILL_FRONT_SERVERS names no "
    "server in front: a few slow clients can hold it.",
    hint="Put nginx or HAProxy in front: see docs/operate/front-servers.md.",
    id="waybill.W002",
)


@checks.register(checks.Tags.security, deploy=True)
def open_port(app_configs: Any, **kwargs: Any) -> list[checks.CheckMessage]:
    is_open = not is_loopback(settings.CONFIG.web_host)
    return [OPEN_PORT] if is_open and not settings.FRONT_SERVERS else []


@checks.register(checks.Tags.security, deploy=True)
def front_servers(app_configs: Any, **kwargs: Any) -> list[checks.CheckMessage]:
    has_front = bool(settings.FRONT_SERVERS) or settings.CONFIG.tls_certificate is not None
    return [] if has_front or not settings.PUBLIC_URL.startswith("https:") else [UNKNOWN_FRONT]
