"""The pin of a service's certificate, as a setup key names it."""

from __future__ import annotations

import hashlib
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat


def pins_of(path: Path) -> tuple[str, ...]:
    """The pin of the first certificate of a PEM file: that of its public key, which survives a renewal with one key."""
    key = x509.load_pem_x509_certificate(path.read_bytes()).public_key()
    return (hashlib.sha256(key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)).hexdigest(),)
