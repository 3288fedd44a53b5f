"""TLS contexts of our programs that connect to our own web server."""

from __future__ import annotations

import ssl
from pathlib import Path


def client_context(certificate: Path | None) -> ssl.SSLContext | None:
    """A context to connect to our own web server: it trusts exactly this certificate, for any name. None: no TLS."""
    if certificate is None:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    context.load_verify_locations(certificate)
    return context
