"""The keys: whether the vault opens what it holds, the keys of identity tokens, our certificates, and their ages."""

from __future__ import annotations

import ssl
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import urlsplit

from cryptography import x509
from django.db import DatabaseError, InterfaceError

from endpoints.connect import authority
from identity.gsi.errors import HostMismatchError
from identity.gsi.host_check import check_host
from identity.provider import signing_key_file
from identity.vault import store
from identity.vault.watched_file import is_given
from transferapi.config import Config
from transferapi.rest.metrics.certificates import NoCertificateError, certificate_of

from .findings import Finding, error, good, warning

#: A certificate that ends within this time is named.
SOON = timedelta(days=14)
#: Days after which a key should be replaced.
OIDC_DAYS, VAULT_DAYS = 400, 800


def check(config: Config) -> Iterator[Finding]:
    yield from _vault(config)
    yield from _oidc(config)
    yield from _agents()
    yield from _web(config)
    yield from _front(config)
    yield from _saml(config)


def _vault(config: Config) -> Iterator[Finding]:
    if config.vault_key is None:
        return
    yield from _age(config.vault_key_file, "vault", VAULT_DAYS, "the-keys-of-the-vault")
    try:
        found = store.status()
    except (DatabaseError, InterfaceError):
        yield warning("Whether the vault opens is not known: PostgreSQL does not answer.", "Mend PostgreSQL first.")
        return
    if found.missing:
        yield error(
            f"{found.missing} kept credentials are sealed by a key that is not configured.",
            "Add the older key to the file of WAYBILL_VAULT_KEY, below the newest; `waybill vault status` names it. "
            "Without it their users must give them anew.",
        )
    if found.broken:
        yield error(f"{found.broken} kept credentials were changed since they were sealed.", "Restore a backup.")
    old = sum(found.rows[name] for name in found.keys[1:])
    if old:
        yield warning(f"{old} kept credentials are sealed by an older key.", "Run `waybill vault rotate`.")
    if not (found.missing or found.broken or old):
        yield good(f"the newest vault key opens all {sum(found.rows.values())} kept credentials")


def _oidc(config: Config) -> Iterator[Finding]:
    if config.oidc_key is None:
        return
    now = datetime.now(UTC)
    keys = signing_key_file.parse(config.oidc_key.value)
    signer = signing_key_file.signer(keys, now)
    if signer.signs_from is None:
        yield from _age(config.oidc_key_file, "identity token", OIDC_DAYS, "the-key-of-openid-connect")
    elif now - signer.signs_from > timedelta(days=OIDC_DAYS):
        yield _old(config.oidc_key_file, "identity token", now - signer.signs_from, "the-key-of-openid-connect")
    yield good(f"{len(keys)} keys of identity tokens, one of which signs")


def _age(path: Path | None, name: str, days: int, section: str) -> Iterator[Finding]:
    """By the time of the file, for a key that does not say its age."""
    if path is None or not path.exists():
        return
    age = timedelta(seconds=time.time() - path.stat().st_mtime)
    if age > timedelta(days=days):
        yield _old(path, name, age, section)


def _old(path: Path | None, name: str, age: timedelta, section: str) -> Finding:
    """section: of the page about keys, with the commands for a file that this account may replace.

    A file that a container is given read-only is replaced where it comes from: no command works on it in there.
    """
    do = f"Replace it (docs/operate/keys.md#{section})."
    if path is not None and is_given(path):
        do = "Replace its file outside of the container (docs/operate/compose.md#keys; with the chart, the Secret)."
    return warning(f"The {name} key is {age.days} days old.", do)


def _agents() -> Iterator[Finding]:
    try:
        trusted = authority.trusted()
    except (DatabaseError, InterfaceError):
        return  # said above
    if trusted and trusted[0].not_valid_after_utc < datetime.now(UTC) + timedelta(days=400):
        yield warning(
            f"The authority of agents ends on {trusted[0].not_valid_after_utc:%Y-%m-%d}: certificates get shorter.",
            "Make a new one (`waybill agents rotate`).",
        )


def _web(config: Config) -> Iterator[Finding]:
    if config.tls_certificate is None or config.tls_key is None:
        return
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(config.tls_certificate, config.tls_key)
        certificate = x509.load_pem_x509_certificates(config.tls_certificate.read_bytes())[0]
    except (OSError, ValueError, ssl.SSLError):
        yield error(
            "WAYBILL_TLS_CERTIFICATE and WAYBILL_TLS_KEY do not belong together, or cannot be read.",
            "Give a chain in PEM, leaf first, and the key of the leaf.",
        )
        return
    yield ending("The certificate of the web server", certificate, "Renew it; the server reads the file again itself.")
    try:
        check_host(certificate, urlsplit(config.public_url).hostname or "")
    except HostMismatchError as mismatch:
        yield error(
            f"The certificate of the web server does not fit WAYBILL_PUBLIC_URL: {mismatch.reason}", "Renew it."
        )


def _front(config: Config) -> Iterator[Finding]:
    """The chain, and the way from outside, are tried by the check of the ports."""
    if not config.front_tls:
        return
    name = urlsplit(config.public_url).hostname or ""
    do = "Renew it, and let the front server read it (`nginx -s reload`)."
    try:
        certificate = certificate_of(config.front_tls, name)
        yield ending("The certificate of the front server", certificate, do)
        check_host(certificate, name)
    except HostMismatchError as mismatch:
        yield error(f"The certificate of the front server does not fit WAYBILL_PUBLIC_URL: {mismatch.reason}", do)
    except (NoCertificateError, ValueError):
        yield warning(
            f"The certificate of the front server is not known: {config.front_tls} does not answer with TLS.",
            "Start the front server, or name its address by WAYBILL_FRONT_ADDRESS.",
        )


def _saml(config: Config) -> Iterator[Finding]:
    if config.saml_certificate is None:
        return
    try:
        for one in x509.load_pem_x509_certificates(config.saml_certificate.read_bytes()):
            yield ending("A certificate of WAYBILL_SAML_CERTIFICATE", one, "Get the new one from the federation.")
    except (OSError, ValueError):
        yield error("WAYBILL_SAML_CERTIFICATE holds no certificate in PEM.", "Get it from the federation.")


def ending(name: str, certificate: x509.Certificate, do: str) -> Finding:
    """Whether a certificate has expired, or soon will."""
    end, now = certificate.not_valid_after_utc, datetime.now(UTC)
    if end < now:
        return error(f"{name} expired on {end:%Y-%m-%d}.", do)
    if certificate.not_valid_before_utc > now:
        return error(f"{name} is not valid before {certificate.not_valid_before_utc:%Y-%m-%d %H:%M} UTC.", do)
    return warning(f"{name} expires on {end:%Y-%m-%d}.", do) if end < now + SOON else good(f"{name} is valid")
