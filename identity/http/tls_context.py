"""The TLS context of requests to servers that users and operators name."""

from __future__ import annotations

import functools
import ssl
import time
from pathlib import Path

#: Seconds after which the authorities are read anew: reading those of the system takes 16 ms of processor.
FRESH_SECONDS = 60


def client_context(folder: Path | None = None) -> ssl.SSLContext:
    """TLS 1.2 or later, with the authorities of the system, and those in `folder` (as X509_CERT_DIR) if it exists.

    Callers share it and must not change it. An authority that was removed counts for FRESH_SECONDS more at most.
    """
    extra = str(folder) if folder is not None and folder.is_dir() else None
    return _made(extra, ssl.get_default_verify_paths(), int(time.monotonic() // FRESH_SECONDS))


@functools.lru_cache(maxsize=4)
def _made(folder: str | None, _paths: ssl.DefaultVerifyPaths, _period: int) -> ssl.SSLContext:
    """_paths: of the system; _period: number of the present FRESH_SECONDS. Another one makes another context."""
    context = ssl.create_default_context()
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if folder:
        context.load_verify_locations(capath=folder)
    return context
