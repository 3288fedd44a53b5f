"""DNS: the names by which this service is reached, and those of the servers that the settings name."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from urllib.parse import urlsplit

from identity.federation.providers import parse_providers
from identity.issuers.oauth_clients import clients_of
from transferapi.config import Config

from .findings import Finding, error, good
from .settings import is_loopback

#: Seconds for all names together; they are asked at the same time.
SECONDS = 8.0


def check(config: Config) -> Iterator[Finding]:
    wanted = dict(hosts(config))
    answers: dict[str, str] = {}
    threads = [threading.Thread(target=_ask, args=(host, answers), daemon=True) for host in wanted]
    for one in threads:
        one.start()
    until = time.monotonic() + SECONDS
    for one in threads:
        one.join(max(0.0, until - time.monotonic()))
    do = "Correct the name, or the resolver of this machine."
    found = [
        error(f"{host} ({setting}) has no address: {reason}.", do)
        for host, setting in wanted.items()
        if (reason := answers.get(host, f"no answer within {SECONDS:g} s"))
    ]
    yield from found or [good(f"{len(wanted)} names have addresses")]


def hosts(config: Config) -> Iterator[tuple[str, str]]:
    """Each host with the setting that names it; loopback ones are left out."""
    for host, setting in _named(config):
        if host and not is_loopback(host):
            yield host, setting


def _named(config: Config) -> list[tuple[str | None, str]]:
    named = [(urlsplit(config.public_url).hostname, "WAYBILL_PUBLIC_URL")]
    if config.mail:
        named.append((urlsplit(config.mail.value).hostname, "WAYBILL_MAIL"))
    if config.providers:
        parsed = parse_providers(config.providers.value).values()
        named += [(urlsplit(one.issuer).hostname, "WAYBILL_PROVIDERS") for one in parsed]
    named += [(one.host, "WAYBILL_MYPROXY_SIGN_IN") for one in config.myproxy_sign_in.values()]
    named += [(urlsplit(one).hostname, "WAYBILL_SAML_METADATA") for one in config.saml_metadata if "://" in one]
    if config.oauth_clients:
        named += [(urlsplit(one).hostname, "WAYBILL_OAUTH_CLIENTS") for one in clients_of(config.oauth_clients.value)]
    if not config.relay.path:
        named.append((config.relay.host, "WAYBILL_RELAY"))
    return named


def _ask(host: str, answers: dict[str, str]) -> None:
    try:
        socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
        answers[host] = ""
    except (OSError, UnicodeError) as failure:
        answers[host] = str(getattr(failure, "strerror", "") or "no name of DNS")
