"""The settings: what is missing, what is dangerous, and Django's own checks of a deployment."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import urlsplit

from django.core import checks
from django.db import DatabaseError, InterfaceError

from identity import user_names
from identity.federation.saml import directory
from transferapi.config import LOOPBACK_HOSTS, Config

from . import container
from .findings import Finding, error, good, warning


def check(config: Config) -> Iterator[Finding]:
    found = [*_missing(config), *_dangerous(config), *container.check(config), *_institutions(config), *_of_django()]
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
            "Put a front server with TLS before it, or set WAYBILL_TLS_CERTIFICATE and WAYBILL_TLS_KEY.",
        )


def _institutions(config: Config) -> Iterator[Finding]:
    if not config.saml_metadata:
        return
    try:
        names = directory.with_our_domain()
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
