"""The ports: the public address, and the programs of this machine (the checks of `waybill check`)."""

from __future__ import annotations

import http.client
import ssl
import urllib.error
import urllib.request
from collections.abc import Iterator

from deploy.stack.errors import StackError
from deploy.web.client_tls import client_context
from transferapi.config import Config
from transferapi.rest.health import ALIVE, HEALTH
from transferapi.rest.health_checks import CHECKS

from .findings import Finding, error, good, warning
from .programs import MOST, PROGRAMS

SECONDS = 5.0


def check(config: Config) -> Iterator[Finding]:
    yield _public(config)
    for name, program in PROGRAMS.items():
        if program.behind_front_server and not config.front_servers:
            continue
        try:
            # The servers that the web server needs have findings of their own.
            program.ask(config, list(CHECKS))
        except StackError as failure:
            yield warning(f"{program.lack}: {failure}", program.do)
        else:
            yield good(f"{name} works")


def _public(config: Config) -> Finding:
    """The way of users, through the front server."""
    address = config.public_url + HEALTH
    context = client_context(config.tls_certificate) or ssl.create_default_context()
    try:
        with urllib.request.urlopen(address, timeout=SECONDS, context=context) as answer:  # noqa: S310
            is_ours = answer.read(MOST) == ALIVE.encode()
    except urllib.error.HTTPError as failure:
        failure.close()
        return error(f"{address} answers with status {failure.code}.", "See the log of the front server.")
    except (OSError, http.client.HTTPException) as failure:
        reason = getattr(failure, "reason", failure)
        text = f"{address} does not answer from this machine ({type(reason).__name__})."
        return error(text, "Check the front server, its certificate, the firewall and WAYBILL_PUBLIC_URL.")
    if not is_ours:
        return error(f"{address} is answered by another program.", "Check WAYBILL_PUBLIC_URL and the front server.")
    return good(f"{config.public_url} reaches this service")
