"""Whether a server's certificate is the right one: of a trusted authority and for its name, or pinned by its key.

The fingerprint is that of the public key (SHA-256 of the SubjectPublicKeyInfo, RFC 7469 section 2.4), so that a renewed
certificate of the same key stays accepted. Its form is that of ssh host keys.
"""

from __future__ import annotations

import base64
import hashlib
import ssl
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

#: X509_V_ERR_HOSTNAME_MISMATCH, X509_V_ERR_IP_ADDRESS_MISMATCH (x509_vfy.h).
NAME_MISMATCHES = frozenset({62, 64})


def context(folder: Path | None, *, pinned: bool) -> ssl.SSLContext:
    """TLS 1.2 or later. pinned: the caller compares the key, and no authority counts.

    folder: certificate authorities beside those of the system.
    """
    made = ssl.create_default_context()
    made.minimum_version = ssl.TLSVersion.TLSv1_2
    made.options |= ssl.OP_NO_RENEGOTIATION
    if pinned:
        made.check_hostname = False
        made.verify_mode = ssl.CERT_NONE
    elif folder is not None and folder.is_dir():
        made.load_verify_locations(capath=str(folder))
    return made


def fingerprint(certificate: bytes) -> str:
    """`SHA256:...` of the public key of a certificate in DER. Raises ValueError."""
    key = x509.load_der_x509_certificate(certificate).public_key()
    digest = hashlib.sha256(key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)).digest()
    return "SHA256:" + base64.b64encode(digest).decode().rstrip("=")
