"""The folder of trusted authorities, the checks against it, and TLS contexts with it."""

from __future__ import annotations

import hashlib
import logging
import os
import ssl
import threading
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import ExtendedKeyUsageOID

from identity.gsi.errors import CredentialError, Flaw

from . import authority_files
from .certificate_path import verify
from .errors import NoAuthoritiesError, UntrustedError
from .host_check import check_host
from .x509 import UNREADABLE, X509Credential, extension, has_limited_proxy

log = logging.getLogger(__name__)

_FOR_LOGINS = {ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.ANY_EXTENDED_KEY_USAGE}


class TrustFolder:
    """A folder of trusted authorities (X509_CERT_DIR). It is read at the first use, and again when a file in it has
    changed. Safe for threads."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.Lock()
        self._stamps: tuple[authority_files.Stamp, ...] | None = None
        self._store = authority_files.AuthorityFiles()

    @property
    def store(self) -> authority_files.AuthorityFiles:
        """The present content of the folder. Raises NoAuthoritiesError."""
        try:
            found = authority_files.stamps(self.path)
        except (FileNotFoundError, NotADirectoryError):
            reason = "This service trusts no authority: its operator must name a folder of them (WAYBILL_CERTIFICATES)."
            raise NoAuthoritiesError(reason) from None
        except OSError as error:
            log.warning("%s: the folder of trusted authorities cannot be read: %s", self.path, error.strerror)
            reason = "This service cannot read its folder of trusted authorities: its operator must correct that."
            raise NoAuthoritiesError(reason) from None
        with self._lock:
            if found != self._stamps:
                self._store, self._stamps = authority_files.read(self.path, found), found
                for problem in self._store.problems:
                    log.warning("%s: %s", self.path, problem)
            return self._store

    @property
    def stamp(self) -> str:
        """A text that changes with any file of the folder; "" where there is no folder."""
        try:
            found = authority_files.stamps(self.path)
        except OSError:
            return ""
        return hashlib.blake2b(repr(found).encode("utf-8", "surrogateescape"), digest_size=8).hexdigest()

    def verify(self, chain: Sequence[x509.Certificate], *, now: datetime) -> x509.Certificate:
        """`certificate_path.verify` with the authorities of the folder. Raises UntrustedError."""
        return verify(chain, self.store, now=now)

    def admit(self, credential: X509Credential, *, now: datetime) -> x509.Certificate:
        """`admit_chain` for a credential that a user gives to Waybill, or that an issuer gives for one."""
        return self.admit_chain((credential.certificate, *credential.chain), now=now)

    def admit_chain(self, chain: Sequence[x509.Certificate], *, now: datetime) -> x509.Certificate:
        """Check that a chain lets a user in: it is valid, for logins, and has no limited proxy.

        File servers get limited proxies of their users, to reach other file servers with: such a server must not
        become the user here. Returns the end entity. Raises UntrustedError.
        """
        end_entity = self.verify(chain, now=now)
        try:
            usage, limited = extension(end_entity, x509.ExtendedKeyUsage), has_limited_proxy(chain)
        except UNREADABLE:  # of a certificate that is not on the path
            raise UntrustedError("A certificate of the chain cannot be read.", Flaw.UNREADABLE_CERTIFICATE) from None
        if usage is not None and _FOR_LOGINS.isdisjoint(usage):
            raise UntrustedError(
                "The certificate is not one for logins (its extended key usage says so).", Flaw.NOT_AN_END_ENTITY
            )
        if limited:
            raise UntrustedError(
                "This is a limited proxy, which not every server accepts, and which lets nobody in here; give a full "
                "one.",
                Flaw.LIMITED_PROXY,
            )
        return end_entity

    def check_host(self, certificate: x509.Certificate, host: str, subject: str = "") -> None:
        """Raises HostMismatchError unless the certificate belongs to this host (or has this subject)."""
        check_host(certificate, host, subject)

    def client_context(self, credential: X509Credential | None) -> ssl.SSLContext:
        """TLS as a client, 1.2 or later; None: without a client certificate.

        Raises CredentialError, NoAuthoritiesError.

        OpenSSL checks signatures, dates and proxy rules during the handshake, but neither policies nor revocation lists
        nor the host name: the caller must call verify(peer_chain(...)) and check_host before it sends anything.
        """
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.check_hostname = False
        context.verify_mode = ssl.CERT_REQUIRED
        context.verify_flags |= ssl.VERIFY_ALLOW_PROXY_CERTS | ssl.VERIFY_X509_TRUSTED_FIRST
        self._load_authorities(context)
        if credential is not None:
            _load(context, credential)
        return context

    def web_context(self, certificate: Path, key: Path) -> ssl.SSLContext:
        """TLS of a web server with this certificate chain and key (PEM files); a client certificate is optional.

        The handshake fails with an invalid one; proxies are allowed. The caller's duties are those of `client_context`.
        Without trusted authorities no client certificate is requested. Raises OSError, ssl.SSLError: unusable files.
        """
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.load_cert_chain(certificate, key)
        # A session resumed from a ticket has the client's certificate, but not the chain that proxies need.
        context.num_tickets = 0
        context.options |= ssl.OP_NO_TICKET
        try:
            self._load_authorities(context)
        except NoAuthoritiesError as error:
            log.warning("No client certificates: %s", error.reason)
            return context
        context.verify_mode = ssl.CERT_OPTIONAL
        context.verify_flags |= ssl.VERIFY_ALLOW_PROXY_CERTS | ssl.VERIFY_X509_TRUSTED_FIRST
        return context

    def _load_authorities(self, context: ssl.SSLContext) -> None:
        """OpenSSL finds authorities by their hashes when it needs them: loading hundreds would take 0.1 s."""
        store = self.store
        by_itself = ":" not in str(self.path)  # OpenSSL would read two folders
        rest = store.misnamed() if by_itself else store.all_authorities()
        if by_itself:
            context.load_verify_locations(capath=str(self.path))
        if rest:
            context.load_verify_locations(cadata=b"".join(one.public_bytes(Encoding.DER) for one in rest))


def _load(context: ssl.SSLContext, credential: X509Credential) -> None:
    """Python loads keys from files only: this one is in memory, without a name, and ends with its descriptor."""
    descriptor = os.memfd_create("credential", os.MFD_CLOEXEC)
    try:
        with os.fdopen(os.dup(descriptor), "wb") as file:
            file.write(credential.to_pem())
        context.load_cert_chain(f"/proc/self/fd/{descriptor}")
    except ssl.SSLError:
        raise CredentialError(
            "The credential cannot be used for TLS: a key or signature in its chain is too weak.", Flaw.WEAK_KEY
        ) from None
    finally:
        os.close(descriptor)


def peer_chain(tls: ssl.SSLObject | ssl.SSLSocket) -> tuple[x509.Certificate, ...]:
    """The chain of the other side, leaf first; only the leaf where Python has no more. () when it sent none."""
    leaf = tls.getpeercert(binary_form=True)
    if not leaf:
        return ()
    # Public since Python 3.13; before, the same function is in a private object.
    source = tls if hasattr(tls, "get_unverified_chain") else getattr(tls, "_sslobj", None)
    get_chain = getattr(source, "get_unverified_chain", None)
    chain = [_der(one) for one in get_chain() or ()] if get_chain is not None else []
    try:
        return tuple(x509.load_der_x509_certificate(one) for one in chain or [leaf])
    except UNREADABLE:
        raise UntrustedError("A certificate of the other side cannot be read.", Flaw.UNREADABLE_CERTIFICATE) from None


def _der(certificate: object) -> bytes:
    if isinstance(certificate, bytes):
        return certificate
    encoded: bytes = certificate.public_bytes(2)  # type: ignore[attr-defined]  # _ssl.ENCODING_DER, before 3.13
    return encoded


#: OpenSSL's error codes (X509_V_ERR_..., x509_vfy.h), each with our flaw and text.
_VERDICTS: dict[int, tuple[Flaw, str]] = {
    2: (Flaw.UNKNOWN_AUTHORITY, "is signed by an authority that is not trusted here"),
    7: (Flaw.BAD_SIGNATURE, "is not signed by the one that it names"),
    9: (Flaw.NOT_YET_VALID, "is not valid yet"),
    10: (Flaw.EXPIRED, "has expired"),
    18: (Flaw.SELF_SIGNED, "is self-signed, not signed by an authority"),
    19: (Flaw.UNKNOWN_AUTHORITY, "is signed by an authority that is not trusted here"),
    20: (Flaw.UNKNOWN_AUTHORITY, "is signed by an authority that is not trusted here"),
    21: (Flaw.UNKNOWN_AUTHORITY, "is signed by an authority that is not trusted here"),
    22: (Flaw.PATH_TOO_LONG, "has too long a chain"),
    23: (Flaw.REVOKED, "has been revoked by its authority"),
    24: (Flaw.NOT_AN_AUTHORITY, "is signed by one who is no authority"),
    25: (Flaw.PATH_TOO_LONG, "has more authorities above it than allowed"),
    34: (Flaw.UNKNOWN_EXTENSION, "has a critical extension that is not known here"),
    38: (Flaw.PATH_TOO_LONG, "has more proxies above it than allowed"),
    47: (Flaw.NAME_CONSTRAINT, "has a name that its authority may not certify"),
    66: (Flaw.WEAK_SIGNATURE, "has a key that is too weak"),
    67: (Flaw.WEAK_SIGNATURE, "is signed with a key that is too weak"),
    68: (Flaw.WEAK_SIGNATURE, "is signed with an unsafe algorithm"),
}


def explain(error: ssl.SSLCertVerificationError) -> UntrustedError:
    """The UntrustedError for an error of OpenSSL during a handshake."""
    flaw, words = _VERDICTS.get(error.verify_code, (Flaw.UNTRUSTED, "is not accepted"))
    return UntrustedError(f"The certificate of the other side {words}.", flaw)
