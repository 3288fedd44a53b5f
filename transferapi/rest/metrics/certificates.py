"""When certificates end: of this web server, for `/metrics`; of the server in front, for `waybill doctor`, too."""

from __future__ import annotations

import os
import socket
import ssl
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from cryptography import x509

#: Octets of the file that are read.
MAX_FILE_OCTETS = 1 << 20
#: By the file's path: its time, and when its certificate ends, in seconds since 1970; None if it holds none.
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
                _known[path] = written, _end(file.read(MAX_FILE_OCTETS))
    except OSError:
        return None
    end = _known[path][1]
    return None if end is None else end - time.time()


def _end(pem: bytes) -> float | None:
    try:
        return x509.load_pem_x509_certificate(pem).not_valid_after_utc.timestamp()
    except ValueError:
        return None


#: Seconds for one look, between two looks, and for which a scrape waits for the first one.
TIMEOUT, INTERVAL, FIRST_LOOK = 5.0, 300.0, 1.0


class NoCertificateError(Exception):
    """The server does not answer, or not with TLS. `reason`: what happened, in words."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


def certificate_of(address: str, name: str, timeout: float = TIMEOUT) -> x509.Certificate:
    """The certificate that a server shows, whoever signed it. address: host:port. name: of the site (SNI, RFC 6066).

    Raises NoCertificateError, after at most `timeout` seconds for each of the connection and the handshake.
    """
    found = urlsplit(f"//{address}")
    assert found.hostname is not None
    assert found.port is not None
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    try:
        with (
            socket.create_connection((found.hostname, found.port), timeout) as connection,
            context.wrap_socket(connection, server_hostname=name) as shown,
        ):
            der = shown.getpeercert(binary_form=True)
    except (OSError, UnicodeError, ValueError) as failure:
        raise NoCertificateError(type(failure).__name__) from None
    if der is None:
        raise NoCertificateError("no certificate")
    return x509.load_der_x509_certificate(der)


@dataclass(frozen=True, slots=True)
class FrontCertificateLook:
    """`answers`: the server has shown a certificate; `ends_at`: of it, or of the last one, in seconds since 1970."""

    answers: bool
    ends_at: float | None


class FrontCertificateWatch:
    """Looks at most once in INTERVAL, in a thread: no scrape waits for a front server that hangs."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._newest: FrontCertificateLook | None = None
        self._looked_at = float("-inf")

    def look(self, address: str, name: str) -> FrontCertificateLook | None:
        """The newest finding; None: the first look has not ended within FIRST_LOOK."""
        with self._lock:
            is_due = time.monotonic() - self._looked_at >= INTERVAL
            if is_due and (self._thread is None or not self._thread.is_alive()):
                words = (address, name)
                self._thread = threading.Thread(target=self._run, args=words, name="front certificate", daemon=True)
                self._thread.start()
            thread = self._thread
        if self._newest is None and thread is not None:
            thread.join(FIRST_LOOK)
        return self._newest

    def _run(self, address: str, name: str) -> None:
        try:
            newest = FrontCertificateLook(True, certificate_of(address, name).not_valid_after_utc.timestamp())
        except (NoCertificateError, ValueError):
            newest = FrontCertificateLook(False, self._newest.ends_at if self._newest else None)
        self._newest, self._looked_at = newest, time.monotonic()
