"""How the data connections of a session are protected: DCAU, DCSC and PROT (GFD.20 section 3, GFD.47; RFC 2228)."""

from __future__ import annotations

import ssl
from dataclasses import dataclass

from endpoints.gridftp.server.errors import DataError

from .certificates import CertificateError, identity, peer_chain
from .contexts import CertificateWithKey, tls_context
from .proxy_chain import verify


@dataclass
class DataProtectionSettings:
    """The settings of one session; only its worker thread uses them.

    own: the credential that DCSC does not name: the user's delegated proxy, or None. trust: the folder of authorities.
    """

    own: CertificateWithKey | None = None
    trust: str = ""
    authenticates: bool = False
    encrypts: bool = False
    #: The name that the other side must have (DCAU S); "": our own (DCAU A).
    subject: str = ""
    #: Of DCSC P; None: `own`.
    given: CertificateWithKey | None = None

    def require(self) -> None:
        """Raises DataError when data connections cannot have the agreed protection: never less than that."""
        if self.encrypts and not self.authenticates:
            raise DataError.not_opened("PROT P needs DCAU A or S")
        if self.authenticates and self.credential is None:
            raise DataError.not_opened("DCAU needs a credential, delegated or given by DCSC")

    @property
    def credential(self) -> CertificateWithKey | None:
        return self.given or self.own

    def context(self, *, server_side: bool) -> ssl.SSLContext:
        """The context of TLS for one data connection. Raises CertificateError."""
        credential = self.credential
        if credential is None:
            raise CertificateError("data connections have no credential")
        # A credential of DCSC is its own authority: a self-signed certificate, or the chain of a proxy.
        anchors = b"".join(one.pem for one in self.given.certificates if one.signs_itself) if self.given else b""
        verifies = server_side or not self._verifies_proxies
        return tls_context(credential, server_side=server_side, trust=self.trust, anchors=anchors, verifies=verifies)

    def check(self, tls: ssl.SSLSocket) -> None:
        """Raises CertificateError unless the other side is the one that was agreed."""
        credential, by_openssl = self.credential, tls.server_side or not self._verifies_proxies
        chain = peer_chain(tls, verified=by_openssl)
        if credential is None or not chain:
            raise CertificateError("the other side of the data connection has no certificate")
        if not by_openssl:
            assert credential.owner is not None
            verify(chain, credential.owner)
        elif credential.leaf.signs_itself and not self.subject:
            # Nobody else vouches for it: exactly this certificate.
            if chain[0].octets != credential.leaf.octets:
                raise CertificateError(f"the other side has not the agreed certificate: {chain[0].subject}")
        elif identity(chain) != (self.subject or credential.identity):
            raise CertificateError(f"the other side is not the agreed one: {chain[0].subject}")

    @property
    def _verifies_proxies(self) -> bool:
        """Whether both sides show proxies of one person, which we then verify ourselves.

        OpenSSL may refuse the certificate of a person to us as the client of TLS.
        """
        credential = self.credential
        if credential is None or credential.leaf.signs_itself or credential.owner is None:
            return False
        return not self.subject or self.subject == credential.identity
