"""Where the metadata of institutions come from: files, and addresses of federations."""

from __future__ import annotations

import base64
import logging
from collections.abc import Sequence
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, load_pem_private_key
from django.conf import settings

from identity.hidden import Secret
from identity.http.web_address import parse_url

from .errors import FederationError, ProviderAnswerError
from .requests import Reach, ask

log = logging.getLogger(__name__)
#: Seconds between two readings, and for one download.
EVERY, SECONDS = 3600.0, 120.0
MIN_BITS = 2048


def parse(text: str) -> tuple[str, ...]:
    """Files and addresses, separated by commas. Raises ValueError."""
    found = tuple(part.strip() for part in text.split(",") if part.strip())
    for one in found:
        if "://" in one:
            parse_url(one, keep_slash=True, server="metadata")
        elif not Path(one).is_absolute():
            raise ValueError(f"{one} is neither an address nor the absolute path of a file")
    return found


def key_of(pem: Secret) -> RSAPrivateKey:
    """Raises ValueError for a text that is no RSA key, or a short one."""
    try:
        key = load_pem_private_key(pem.value.encode(), None)
    except (ValueError, TypeError):
        key = None
    if not isinstance(key, RSAPrivateKey) or key.key_size < MIN_BITS:
        raise ValueError(f"this is not an RSA private key (PEM) of {MIN_BITS} bits or more")
    return key


def check_key(text: str) -> None:
    """Raises ValueError."""
    key_of(Secret(text))


def refresh_all(reach: Reach) -> dict[str, int | str]:
    """Read all sources, and forget those that are named no more; one that fails changes nothing.

    Returns the number of institutions, or the reason, of each.
    reach: with a limit of `directory.MAX_METADATA` octets.
    """
    from . import saml_directory  # The configuration imports this module, before there are models.

    # First: an institution that a removed source named may come from another one now.
    saml_directory.forget_others(settings.SAML_METADATA)
    done: dict[str, int | str] = {}
    trusted = certificates(settings.SAML_CERTIFICATE)
    for source in settings.SAML_METADATA:
        is_remote = "://" in source
        try:
            data = _download(source, reach) if is_remote else _file(source, saml_directory.MAX_METADATA)
            done[source] = saml_directory.refresh(source, data, trusted, must_be_signed=is_remote)
        except FederationError as error:
            log.warning("the metadata %s were not taken over: %s", source, error.reason)
            done[source] = error.reason
    return done


def certificates(path: Path | None) -> Sequence[str]:
    """DER in base64, of a PEM file."""
    found = x509.load_pem_x509_certificates(path.read_bytes()) if path is not None else []
    return [base64.b64encode(one.public_bytes(Encoding.DER)).decode() for one in found]


def _download(source: str, reach: Reach) -> bytes:
    answer = ask(reach, parse_url(source, keep_slash=True))
    if answer.status != 200:
        raise ProviderAnswerError(f"The server of the metadata answers with status {answer.status}.")
    return answer.body


def _file(source: str, most: int) -> bytes:
    try:
        with Path(source).open("rb") as file:
            return file.read(most + 1)
    except OSError as error:
        raise ProviderAnswerError(f"The file of the metadata cannot be read: {error.strerror}.") from None
