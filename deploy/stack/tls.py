"""TLS of our own web server: its context, renewed when its files change, and one for programs of ours that call it."""

from __future__ import annotations

import os
import ssl
import threading
import time
from pathlib import Path

from endpoints.gridftp import trust_store
from endpoints.gridftp.trust import TrustFolder
from transferapi.config import load_or_exit

from .errors import StackError

#: Seconds between two looks at the files.
LOOK = 10.0


class Door:
    """The context for those who come in; made anew when the certificate is renewed or the authorities change."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._context: ssl.SSLContext | None = None
        self._stamp: object = None
        self._looked_at = 0.0

    def context(self) -> ssl.SSLContext:
        """Raises StackError when there was never one that could be used."""
        with self._lock:
            if self._context is None or time.monotonic() > self._looked_at + LOOK:
                self._looked_at = time.monotonic()
                self._look()
            assert self._context is not None
            return self._context

    def _look(self) -> None:
        config = load_or_exit()
        assert config.tls_certificate is not None
        assert config.tls_key is not None
        try:
            stamp = [*map(_stamp, (config.tls_certificate, config.tls_key)), _stamps(config.certificates)]
            if stamp != self._stamp:
                folder = TrustFolder(config.certificates)
                self._context = folder.door_context(config.tls_certificate, config.tls_key)
                self._stamp = stamp
        except (OSError, ssl.SSLError) as error:
            # Halfway through a renewal the files may not fit each other: go on with what was there.
            if self._context is None:
                raise StackError(f"{config.tls_certificate} and {config.tls_key} cannot be used: {error}") from None


def client_context(certificate: Path | None) -> ssl.SSLContext | None:
    """To call our own web server: exactly this certificate is believed, whatever name it has. None: it speaks http."""
    if certificate is None:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    context.load_verify_locations(certificate)
    return context


def _stamp(path: Path) -> tuple[int, int, int]:
    found = os.stat(path)
    return found.st_mtime_ns, found.st_size, found.st_ino


def _stamps(folder: Path) -> object:
    try:
        return trust_store.stamps(folder)
    except OSError:
        return None
