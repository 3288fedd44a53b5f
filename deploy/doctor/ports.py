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

from .findings import Finding, error, good, warning
from .programs import CHECKS, MOST

SECONDS = 5.0
#: The lack where a program does not run, and the remedy.
_FOR = {
    "web": ("Nothing serves requests on this machine", "Start the web server, unless it runs on another machine."),
    "worker": ("Nothing moves files on this machine", "Start a worker, unless they run on other machines."),
    "shell": (
        "Nobody can use the ssh shell",
        "Start `waybill shell`, unless it is not needed or runs on another host.",
    ),
    "relay": ("No agent can connect", "Start `waybill relay`, unless agents are not needed."),
    "events": (
        "Few streams of events are possible",
        "Start `waybill run events`, unless a few streams are enough or it runs on another host.",
    ),
}


def check(config: Config) -> Iterator[Finding]:
    yield _public(config)
    for name, ask in CHECKS.items():
        # Without a server in front, as with `make up`, the web server has the streams.
        if name == "events" and not config.front_servers:
            continue
        lack, do = _FOR[name]
        try:
            # The servers that the web server needs have findings of their own.
            ask(config, ["database", "schema", "redis", "sweep"])
        except StackError as failure:
            yield warning(f"{lack}: {failure}", do)
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
