"""Credentials, and the TLS contexts that present them."""

from __future__ import annotations

import contextlib
import os
import ssl
import tempfile
from collections.abc import Iterator
from typing import NamedTuple

from .certificates import Certificate, CertificateError, identity, split_pem

#: X509_V_FLAG_ALLOW_PROXY_CERTS and X509_V_FLAG_PARTIAL_CHAIN (x509_vfy.h); Python names the second from 3.10 on.
_ALLOW_PROXIES, _PARTIAL_CHAIN = 0x40, 0x80000


class CertificateWithKey(NamedTuple):
    """Certificates, leaf first, and the key of the leaf in PEM."""

    certificates: list[Certificate]
    key: bytes

    @classmethod
    def parse(cls, pem: bytes) -> CertificateWithKey:
        """From PEM in any order of key and certificates, the leaf first. Raises CertificateError."""
        return cls(*split_pem(pem))

    @property
    def leaf(self) -> Certificate:
        return self.certificates[0]

    @property
    def owner(self) -> Certificate | None:
        """The certificate of the person behind the proxies."""
        return next((one for one in self.certificates if not one.is_proxy), None)

    @property
    def identity(self) -> str:
        """The name of its owner. Raises CertificateError."""
        return identity(self.certificates)

    @property
    def pem(self) -> bytes:
        return b"".join([self.leaf.pem, self.key, *(one.pem for one in self.certificates[1:])])

    def __repr__(self) -> str:
        return f"Credential({self.leaf.subject!r})"


def tls_context(
    credential: CertificateWithKey, *, server_side: bool, trust: str = "", anchors: bytes = b"", verifies: bool = True
) -> ssl.SSLContext:
    """TLS 1.2 or later with certificates on both sides, also proxies. Names of hosts are not compared.

    verifies: False where the caller verifies the chain of the other side, which still proves that it has its key.
    trust: a folder of authorities, as OpenSSL hashes it. anchors: more of them, in PEM. Raises CertificateError.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER if server_side else ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.check_hostname = False
    context.verify_mode = ssl.CERT_REQUIRED if verifies else ssl.CERT_NONE
    context.verify_flags |= _ALLOW_PROXIES | _PARTIAL_CHAIN
    if server_side:
        # A ticket that the client does not read would reset the connection, and octets on their way with it.
        context.num_tickets = 0
        context.options |= ssl.OP_NO_TICKET
    try:
        if trust:
            context.load_verify_locations(capath=trust)
        if anchors:
            context.load_verify_locations(cadata=anchors.decode("ascii"))
        with as_file(credential.pem) as path:
            context.load_cert_chain(path, password=lambda: "")
    except (OSError, ValueError) as error:  # ssl.SSLError too
        raise CertificateError("its key does not belong to its certificate, or is too weak") from error
    return context


@contextlib.contextmanager
def as_file(pem: bytes) -> Iterator[str]:
    """A file with these octets, because Python loads keys from files only.

    It is in memory, without a name, where the system can do that.
    """
    if hasattr(os, "memfd_create") and os.path.isdir("/proc/self/fd"):
        descriptor = os.memfd_create("credential", os.MFD_CLOEXEC)
        try:
            os.write(descriptor, pem)
            yield f"/proc/self/fd/{descriptor}"
        finally:
            os.close(descriptor)
        return
    descriptor, path = tempfile.mkstemp(prefix="gridftp-")  # for its owner only
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(pem)
        yield path
    finally:
        os.unlink(path)
