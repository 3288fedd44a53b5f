"""The settings: what is missing, what is dangerous, and Django's own checks of a deployment.

In a container, Docker's gateway may stand for clients whose address Docker does not pass on.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterator
from ipaddress import IPv4Address, IPv4Network
from pathlib import Path
from urllib.parse import urlsplit

from django.core import checks
from django.db import DatabaseError, InterfaceError

from identity import user_names
from identity.federation import saml_directory
from transferapi.config import LOOPBACK_HOSTS, Config
from transferapi.config.values import Network

from .findings import Finding, error, good, warning

#: Files that Docker and podman put into a container.
MARKS = (Path("/.dockerenv"), Path("/run/.containerenv"))
ROUTES = Path("/proc/net/route")
#: Octets of the table of routes that are read.
MOST = 1 << 20


def check_container(config: Config) -> Iterator[Finding]:
    if not any(mark.exists() for mark in MARKS):
        return
    try:
        with ROUTES.open() as file:
            routes = file.read(MOST)
    except OSError:
        return
    yield from shared(routes, config.front_servers, config.monitors)


def shared(routes: str, front_servers: Collection[Network], monitors: Collection[Network]) -> Iterator[Finding]:
    """Where a gateway of Docker is a monitor. routes: the text of /proc/net/route (proc(5))."""
    fronts = [one.network_address for one in front_servers if isinstance(one, IPv4Network)]
    for network in _connected(routes):
        gateway = network.network_address + 1
        if any(one in network for one in fronts) and any(gateway in one for one in monitors if one.version == 4):
            yield warning(
                f"WAYBILL_MONITORS has {gateway}, and docker-proxy gives this address to every client of whom it does "
                "not pass on the own one, as by IPv6: strangers may read /metrics.",
                "Take it out, and let Prometheus send WAYBILL_METRICS_TOKEN (docs/operate/compose.md#metrics).",
            )


def _connected(routes: str) -> Iterator[IPv4Network]:
    """The networks that this container is in: routes without a gateway."""
    for line in routes.splitlines()[1:]:
        _interface, destination, gateway, *_rest = words = line.split()
        if gateway == "00000000" and len(words) > 7:
            yield IPv4Network(f"{_address(destination)}/{_address(words[7])}")


def _address(digits: str) -> IPv4Address:
    """Of eight hexadecimal digits: a number of four octets as this processor orders them."""
    return IPv4Address(int(digits, 16).to_bytes(4, sys.byteorder))


def check(config: Config) -> Iterator[Finding]:
    found = [*_missing(config), *_dangerous(config), *check_container(config), *_institutions(config), *_of_django()]
    yield from found or [good("all are set")]


def _missing(config: Config) -> Iterator[Finding]:
    for value, name, do in (
        (config.database_url, "DATABASE_URL", "Name the PostgreSQL of this service."),
        (config.redis_url, "REDIS_URL", "Name the Redis of this service."),
        (config.secret_key, "WAYBILL_SECRET_KEY", "Give all programs of the service the same long random text."),
    ):
        if value is None:
            yield error(f"{name} is not set.", do)
    if config.vault_key is None:
        yield warning(
            "WAYBILL_VAULT_KEY is not set: no credential can be kept, and no agent set up.",
            "`waybill vault key` makes one; give it by WAYBILL_VAULT_KEY_FILE, and keep a copy elsewhere.",
        )
    if config.oidc_key is None:
        yield warning(
            "WAYBILL_OIDC_KEY is not set: programs that need identity tokens cannot sign users in.",
            "Give the file of an RSA key by WAYBILL_OIDC_KEY_FILE (openssl genpkey -algorithm RSA).",
        )


def _dangerous(config: Config) -> Iterator[Finding]:
    url = urlsplit(config.public_url)
    is_local = is_loopback(url.hostname or "")
    if config.debug:
        say = warning if is_local else error
        yield say("WAYBILL_DEBUG=1: answers show tracebacks, with settings and data.", "Unset it.")
    if url.scheme == "http" and not is_local:
        yield error(
            f"WAYBILL_PUBLIC_URL is {config.public_url}: passwords and tokens travel in clear.",
            "Put a server with TLS in front (docs/operate/front-servers.md).",
        )


def _institutions(config: Config) -> Iterator[Finding]:
    if not config.saml_metadata:
        return
    try:
        names = saml_directory.with_our_domain()
    except (DatabaseError, InterfaceError):
        yield warning("The domains of institutions are not known: PostgreSQL is not there.", "Mend PostgreSQL first.")
        return
    if names:
        yield warning(
            f"Institutions have the domain of this service ({user_names.domain()}): {', '.join(names)}. Names of their "
            "people end in another domain of them, or in their host.",
            "Set WAYBILL_DOMAIN to a name that is of this service alone, if you want the names of the institution.",
        )


def is_loopback(host: str) -> bool:
    return host in (*LOOPBACK_HOSTS, "::1")


def _of_django() -> Iterator[Finding]:
    for one in checks.run_checks(include_deployment_checks=True):
        if not one.is_silenced():
            say = error if one.is_serious() else warning
            yield say(f"{one.msg} ({one.id})", one.hint or "See the documentation of Django's system checks.")
