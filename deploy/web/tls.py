"""The TLS context of our web server, renewed when its files change."""

from __future__ import annotations

import os
import ssl
import threading
import time
from pathlib import Path

from deploy.stack.errors import StackError
from identity.gsi import authority_files
from identity.gsi.trust import TrustFolder
from transferapi.config import load_or_exit

#: Seconds between two checks of the files.
LOOK = 10.0


class ServerContext:
    """The server's context, created again when the certificate is renewed or the authorities change."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._context: ssl.SSLContext | None = None
        self._stamp: object = None
        self._looked_at = 0.0

    def context(self) -> ssl.SSLContext:
        """Raises StackError where no usable certificate was there yet."""
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
                self._context = folder.web_context(config.tls_certificate, config.tls_key)
                self._stamp = stamp
        except (OSError, ssl.SSLError) as error:
            # In the middle of a renewal the files may not match: keep the old context.
            if self._context is None:
                raise StackError(f"{config.tls_certificate} and {config.tls_key} cannot be used: {error}") from None


def _stamp(path: Path) -> tuple[int, int, int]:
    found = os.stat(path)
    return found.st_mtime_ns, found.st_size, found.st_ino


def _stamps(folder: Path) -> object:
    try:
        return authority_files.stamps(folder)
    except OSError:
        return None
