"""The pins that setup keys carry: digests of TLS keys that agents accept for this service, whoever vouches for them.

A laptop trusts the authorities of its system. Where one of these has signed the service's certificate, no pin is
needed, and a new certificate with a new key does no harm. Else the pin is the SHA-256 of the SubjectPublicKeyInfo of
the certificate with which the web server ends TLS itself. `WAYBILL_CONNECT_PINS` replaces this choice.
"""

from __future__ import annotations

import hashlib
import ssl
from functools import lru_cache
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from cryptography.x509.verification import PolicyBuilder, Store, VerificationError
from django.conf import settings

#: The word for "no pin" in the configuration.
NONE = "none"


def pins() -> list[str]:
    """Lower-case hexadecimal digits; empty: the agents trust what their systems trust."""
    chosen = tuple(settings.CONNECT_PINS)
    if chosen:
        return [pin for pin in chosen if pin != NONE]
    path: Path | None = settings.TLS_CERTIFICATE
    return [] if path is None else _of_file(path, path.stat().st_mtime_ns)


@lru_cache(maxsize=4)
def _of_file(path: Path, changed: int) -> list[str]:
    """changed: the time of the file, so that a new certificate is read."""
    chain = x509.load_pem_x509_certificates(path.read_bytes())
    if _publicly_trusted(chain):
        return []
    key = chain[0].public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    return [hashlib.sha256(key).hexdigest()]


def _publicly_trusted(chain: list[x509.Certificate]) -> bool:
    roots = ssl.create_default_context().get_ca_certs(binary_form=True)
    names = _names(chain[0])
    if not roots or not names:
        return False
    try:
        store = Store([x509.load_der_x509_certificate(root) for root in roots])
        verifier = PolicyBuilder().store(store).build_server_verifier(x509.DNSName(names[0]))
        verifier.verify(chain[0], chain[1:])
    except (VerificationError, ValueError):
        return False
    return True


def _names(certificate: x509.Certificate) -> list[str]:
    try:
        extension = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName)
    except x509.ExtensionNotFound:
        return []
    return extension.value.get_values_for_type(x509.DNSName)
