"""The way to providers: through the address gate, and with TLS to the authorities that this service trusts."""

from __future__ import annotations

from django.conf import settings

from identity.federation.errors import ProviderUnreachableError
from identity.federation.requests import SECONDS
from identity.http.https_client import MAX_ANSWER, Site, client_context
from identity.http.web_address import Url

from . import gate


def reach(url: Url, *, timeout: float | None = None, max_answer: int = MAX_ANSWER) -> Site:
    """The site of a provider. timeout, max_answer: as in `Site`. Raises ProviderUnreachableError."""
    addresses = addresses_of(url.host, url.port)
    context = client_context(settings.CERTIFICATES)
    return Site(
        url, addresses, context, SECONDS if timeout is None else timeout, kind="provider", max_answer=max_answer
    )


def addresses_of(host: str, port: int) -> list[str]:
    """The addresses of a provider that have passed the address gate. Raises ProviderUnreachableError."""
    try:
        return gate.resolve_target(host, port, allow=settings.ALLOW_PROVIDERS)
    except gate.TargetRefusedError as error:
        raise ProviderUnreachableError(error.reason) from None
