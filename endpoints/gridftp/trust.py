"""The folder of trusted authorities, what is accepted because of it, and TLS contexts that know it."""

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

from . import trust_store
from .certificate_path import (
    BadProxyError,
    BadSignatureError,
    ExpiredError,
    LegacyProxyError,
    LimitedProxyError,
    NameConstraintError,
    NotAnAuthorityError,
    NotAnEndEntityError,
    NotYetValidError,
    OverlongProxyError,
    PathTooLongError,
    RevokedError,
    SelfSignedError,
    SigningPolicyError,
    StaleRevocationListError,
    UnknownAuthorityError,
    UnknownExtensionError,
    UnreadableCertificateError,
    UntrustedError,
    WeakSignatureError,
    extension,
    verify,
)
from .host_names import HostMismatchError, check_host
from .x509 import UNREADABLE, Credential, WeakKeyError

__all__ = [
    "BadProxyError",
    "BadSignatureError",
    "ExpiredError",
    "HostMismatchError",
    "LegacyProxyError",
    "LimitedProxyError",
    "NameConstraintError",
    "NoAuthoritiesError",
    "NotAnAuthorityError",
    "NotAnEndEntityError",
    "NotYetValidError",
    "OverlongProxyError",
    "PathTooLongError",
    "RevokedError",
    "SelfSignedError",
    "SigningPolicyError",
    "StaleRevocationListError",
    "TrustFolder",
    "UnknownAuthorityError",
    "UnknownExtensionError",
    "UnreadableCertificateError",
    "UntrustedError",
    "WeakSignatureError",
    "explain",
    "peer_chain",
]


log = logging.getLogger(__name__)

_FOR_LOGINS = {ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.ANY_EXTENDED_KEY_USAGE}


class NoAuthoritiesError(UntrustedError):
    """The folder of authorities is not there: nobody can be trusted."""


class TrustFolder:
    """A folder with the authorities that are trusted (X509_CERT_DIR). Read when first asked, and again when a file in
    it has changed. May be used by several threads."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.Lock()
        self._stamps: tuple[trust_store.Stamp, ...] | None = None
        self._store = trust_store.Store()

    @property
    def store(self) -> trust_store.Store:
        """What is in the folder now. -> NoAuthoritiesError"""
        try:
            found = trust_store.stamps(self.path)
        except OSError:
            reason = "This service trusts no authority: its operator must name a folder of them (WAYBILL_CERTIFICATES)."
            raise NoAuthoritiesError(reason) from None
        with self._lock:
            if found != self._stamps:
                self._store, self._stamps = trust_store.read(self.path, found), found
                for problem in self._store.problems:
                    log.warning("%s: %s", self.path, problem)
            return self._store

    @property
    def stamp(self) -> str:
        """What differs when any file of the folder has changed; "" where there is no folder."""
        try:
            found = trust_store.stamps(self.path)
        except OSError:
            return ""
        return hashlib.blake2b(repr(found).encode("utf-8", "surrogateescape"), digest_size=8).hexdigest()

    def verify(self, chain: Sequence[x509.Certificate], *, now: datetime) -> x509.Certificate:
        """The end entity that this chain (leaf first, then issuers) proves, proxies stripped. -> UntrustedError"""
        return verify(chain, self.store, now=now)

    def admit(self, credential: Credential, *, now: datetime) -> x509.Certificate:
        """What a user may give to Waybill: a chain that holds, and no limited proxy. -> UntrustedError"""
        end_entity = self.verify((credential.certificate, *credential.chain), now=now)
        usage = extension(end_entity, x509.ExtendedKeyUsage)
        if usage is not None and _FOR_LOGINS.isdisjoint(usage):
            raise NotAnEndEntityError("The certificate is not one for logins (its extended key usage says so).")
        if credential.is_limited:
            raise LimitedProxyError("This is a limited proxy, which not every server accepts; give a full one.")
        return end_entity

    def check_host(self, certificate: x509.Certificate, host: str, subject: str = "") -> None:
        """Whether this is the certificate of this host (or has this subject). -> HostMismatchError"""
        check_host(certificate, host, subject)

    def client_context(self, credential: Credential | None) -> ssl.SSLContext:
        """TLS as a client, 1.2 or later; None: without a certificate of our own. -> WeakKeyError, NoAuthoritiesError

        OpenSSL checks signatures, dates and proxy rules during the handshake. Policies, revocation lists and the name
        of the host it does not check: whoever uses this calls verify(peer_chain(...)) and check_host afterwards, and
        says nothing to the other side before.
        """
        return self._context(ssl.PROTOCOL_TLS_CLIENT, credential)

    def server_context(self, credential: Credential) -> ssl.SSLContext:
        """TLS as the side that accepts; the other one must have a certificate. The same duties as with clients."""
        context = self._context(ssl.PROTOCOL_TLS_SERVER, credential)
        # GSI servers send no tickets: the other side reads exactly what the dialogue has.
        context.num_tickets = 0
        return context

    def door_context(self, certificate: Path, key: Path) -> ssl.SSLContext:
        """TLS of a web server with this certificate chain and key (PEM files); clients may show a certificate.

        One that is shown must hold here, or the handshake fails; proxies may. The same duties as with clients. Where no
        authority is trusted nobody is asked for one. -> OSError, ssl.SSLError: the files cannot be used
        """
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.load_cert_chain(certificate, key)
        # A session that is resumed from a ticket has the client's certificate, and not the chain that proxies need.
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

    def _context(self, protocol: int, credential: Credential | None) -> ssl.SSLContext:
        context = ssl.SSLContext(protocol)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.check_hostname = False
        context.verify_mode = ssl.CERT_REQUIRED
        context.verify_flags |= ssl.VERIFY_ALLOW_PROXY_CERTS | ssl.VERIFY_X509_TRUSTED_FIRST
        self._load_authorities(context)
        if credential is not None:
            _load(context, credential)
        return context

    def _load_authorities(self, context: ssl.SSLContext) -> None:
        """OpenSSL finds them by their hashes when it needs them: to hand it hundreds takes a tenth of a second."""
        store = self.store
        by_itself = ":" not in str(self.path)  # to OpenSSL that would be two folders
        rest = store.misnamed() if by_itself else store.all_authorities()
        if by_itself:
            context.load_verify_locations(capath=str(self.path))
        if rest:
            context.load_verify_locations(cadata=b"".join(one.public_bytes(Encoding.DER) for one in rest))


def _load(context: ssl.SSLContext, credential: Credential) -> None:
    """Python reads keys from files only: so from one in memory, which has no name and ends with its descriptor."""
    descriptor = os.memfd_create("credential", os.MFD_CLOEXEC)
    try:
        with os.fdopen(os.dup(descriptor), "wb") as file:
            file.write(credential.to_pem())
        context.load_cert_chain(f"/proc/self/fd/{descriptor}")
    except ssl.SSLError:
        raise WeakKeyError(
            "The credential cannot be used for TLS: a key or signature in its chain is too weak."
        ) from None
    finally:
        os.close(descriptor)


def peer_chain(tls: ssl.SSLObject | ssl.SSLSocket) -> tuple[x509.Certificate, ...]:
    """What the other side sent, leaf first; the leaf alone where Python does not tell more. () when it sent none."""
    leaf = tls.getpeercert(binary_form=True)
    if not leaf:
        return ()
    # Public since Python 3.13; the same function is there before, one object further in.
    source = tls if hasattr(tls, "get_unverified_chain") else getattr(tls, "_sslobj", None)
    tell = getattr(source, "get_unverified_chain", None)
    chain = [_der(one) for one in tell() or ()] if tell is not None else []
    try:
        return tuple(x509.load_der_x509_certificate(one) for one in chain or [leaf])
    except UNREADABLE:
        raise UnreadableCertificateError("A certificate of the other side cannot be read.") from None


def _der(certificate: object) -> bytes:
    if isinstance(certificate, bytes):
        return certificate
    encoded: bytes = certificate.public_bytes(2)  # type: ignore[attr-defined]  # _ssl.ENCODING_DER, before 3.13
    return encoded


#: OpenSSL's verdicts (X509_V_ERR_..., x509_vfy.h) in our words.
_VERDICTS: dict[int, tuple[type[UntrustedError], str]] = {
    2: (UnknownAuthorityError, "is signed by an authority that is not trusted here"),
    7: (BadSignatureError, "is not signed by the one that it names"),
    9: (NotYetValidError, "is not valid yet"),
    10: (ExpiredError, "has expired"),
    18: (SelfSignedError, "is signed by itself, by no authority"),
    19: (UnknownAuthorityError, "is signed by an authority that is not trusted here"),
    20: (UnknownAuthorityError, "is signed by an authority that is not trusted here"),
    21: (UnknownAuthorityError, "is signed by an authority that is not trusted here"),
    22: (PathTooLongError, "has too long a chain"),
    23: (RevokedError, "has been revoked by its authority"),
    24: (NotAnAuthorityError, "is signed by one who is no authority"),
    25: (PathTooLongError, "has more authorities above it than allowed"),
    34: (UnknownExtensionError, "has a critical extension that is not known here"),
    38: (PathTooLongError, "has more proxies above it than allowed"),
    47: (NameConstraintError, "has a name that its authority may not certify"),
    66: (WeakSignatureError, "has a key that is too weak"),
    67: (WeakSignatureError, "is signed with a key that is too weak"),
    68: (WeakSignatureError, "is signed in a way that is not safe any more"),
}


def explain(error: ssl.SSLCertVerificationError) -> UntrustedError:
    """What OpenSSL disliked during a handshake, as an error of ours."""
    kind, words = _VERDICTS.get(error.verify_code, (UntrustedError, "is not accepted"))
    return kind(f"The certificate of the other side {words}.")
