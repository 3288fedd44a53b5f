"""MyProxy servers that do not do what they should: each connection is given to a function of the test."""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.serialization import Encoding, load_pem_private_key
from cryptography.x509.oid import NameOID

from deploy.endpoint.authority import CertificateFiles
from tests.gridftp.authority import Authority

YES = b"VERSION=MYPROXYv2\nRESPONSE=0\n\0"


class Caller:
    """One client, seen from the server. The connection ends after 20 s of silence."""

    def __init__(self, connection: socket.socket, told: bytearray, over: threading.Event) -> None:
        self.connection = connection
        self.told = told
        self._over = over

    def send(self, *parts: bytes) -> None:
        for part in parts:
            self.connection.sendall(part)

    def hang(self) -> None:
        """Send nothing more, and keep the connection open until the test is over."""
        self._over.wait(60)

    @property
    def over(self) -> bool:
        return self._over.is_set()

    def request(self) -> str:
        """The octet for "no delegation" and the request."""
        while not self.told.endswith(b"\n\0"):
            self._more()
        assert self.told[:1] == b"0"
        return self.told[1:-1].decode()

    def key(self) -> Any:
        """The public key of the signing request, after the request was granted."""
        self.request()
        before = len(self.told)
        self.send(YES)
        while True:
            self._more()
            with contextlib.suppress(ValueError):
                return x509.load_der_x509_csr(bytes(self.told[before:])).public_key()

    def _more(self) -> None:
        got = self.connection.recv(65536)
        if not got:
            raise ConnectionAbortedError
        self.told += got


class LyingServer:
    """Listens on loopback; `behave` gets each client, inside TLS if there is a context. Collects what clients send."""

    def __init__(self, behave: Callable[[Caller], object], context: ssl.SSLContext | None) -> None:
        self.told = bytearray()
        self._behave = behave
        self._context = context
        self._over = threading.Event()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        while not self._over.is_set():
            with contextlib.suppress(OSError):
                connection, _ = self._listener.accept()
                with connection:
                    connection.settimeout(20)
                    self._meet(connection)

    def _meet(self, connection: socket.socket) -> None:
        if self._context is None:
            self._behave(Caller(connection, self.told, self._over))
            return
        with self._context.wrap_socket(connection, server_side=True) as tls:
            self._behave(Caller(tls, self.told, self._over))

    def close(self) -> None:
        self._over.set()
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join(30)


def server_context(identity: CertificateFiles) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(identity.certificate, identity.key)
    return context


def sign(authority: Authority, key: Any, *, days: float = 1) -> bytes:
    """DER of a certificate for this key by the authority; negative days: it has expired so long ago."""
    ca = x509.load_pem_x509_certificate(authority.ca_certificate.read_bytes())
    signer: Any = load_pem_private_key(authority.ca_key.read_bytes(), None)
    last = x509.RelativeDistinguishedName([x509.NameAttribute(NameOID.COMMON_NAME, "alice")])
    now = datetime.now(UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([*ca.subject.rdns[:-1], last]))
        .issuer_name(ca.subject)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=30))
        .not_valid_after(now + timedelta(days=days))
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
    )
    return builder.sign(signer, hashes.SHA256()).public_bytes(Encoding.DER)
