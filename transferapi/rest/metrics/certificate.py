"""When the certificate of this web server ends, for `/metrics`."""

from __future__ import annotations

import os
import time
from pathlib import Path

from cryptography import x509

#: Octets of the file that are read.
MOST = 1 << 20
#: By the file's path: its time, and when its certificate ends, in seconds since 1970; None: it holds none.
_known: dict[Path, tuple[int, float | None]] = {}


def seconds_left(path: Path | None) -> float | None:
    """Until its end; negative after it. None where there is no such file, or no certificate in it.

    A certificate is parsed once, and again when the file is another one.
    """
    if path is None:
        return None
    try:
        with path.open("rb") as file:
            written = os.fstat(file.fileno()).st_mtime_ns
            if _known.get(path, (None,))[0] != written:
                _known[path] = written, _end(file.read(MOST))
    except OSError:
        return None
    end = _known[path][1]
    return None if end is None else end - time.time()


def _end(pem: bytes) -> float | None:
    try:
        return x509.load_pem_x509_certificate(pem).not_valid_after_utc.timestamp()
    except ValueError:
        return None
