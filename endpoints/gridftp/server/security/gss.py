"""GSI on a control channel (RFC 2228; GFD.20 section 3), the server's side. No socket, no clock.

Tokens of ADAT are TLS records. After the handshake the server sends, in TLS 1.3, one octet 0; then the client sends "D"
to delegate (our signing request and its proxy certificate follow) or "0". `endpoints/gridftp/gsi_context.py` is the
other side. All errors are CertificateErrors, and end the dialogue.
"""

from __future__ import annotations

import ssl
from typing import Callable, Sequence

from .certificates import Certificate, CertificateError, identity, peer_chain, read
from .contexts import CertificateWithKey
from .delegation import DelegationKey

CheckChain = Callable[[Sequence[Certificate]], None]
_RECORD = 16 * 1024
#: Tokens of a handshake in the smallest pieces that make sense; and octets of a proxy certificate.
_MOST_TOKENS, _MOST_OCTETS = 16, 32 * 1024


class TlsEnd:
    """The server's end of TLS in memory. check: judges the chain that OpenSSL has verified; raises CertificateError."""

    def __init__(self, context: ssl.SSLContext, check: CheckChain) -> None:
        self._check = check
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        self.complete = False

    def shake_hands(self, records: bytes) -> bytes:
        """Take records, return those to send. Raises CertificateError."""
        self._incoming.write(records)
        try:
            self._tls.do_handshake()
            self.complete = True
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLError as error:
            raise CertificateError(_words(error)) from None
        return self._outgoing.read()

    def open(self, records: bytes) -> bytes:
        """The octets in complete records. Raises CertificateError."""
        self._incoming.write(records)
        pieces = []
        try:
            while self._incoming.pending or self._tls.pending():
                piece = self._tls.read(_RECORD)
                if not piece:
                    raise CertificateError("the client has ended TLS")
                pieces.append(piece)
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLError as error:
            raise CertificateError(_words(error)) from None
        return b"".join(pieces)

    def seal(self, octets: bytes) -> bytes:
        """The octets in records."""
        self._tls.write(octets)
        return self._outgoing.read()

    @property
    def is_newest(self) -> bool:
        return self._tls.version() == "TLSv1.3"

    def credential(self, delegated: bytes, key: bytes) -> CertificateWithKey:
        """The proxy that the client has signed for our key. Raises CertificateError."""
        proxy, chain = read(delegated), peer_chain(self._tls)
        if not proxy.is_proxy or not chain or proxy.issuer != chain[0].subject:
            raise CertificateError("the delegated certificate is not a proxy of the client's own")
        return CertificateWithKey([proxy, *(one for one in chain if not one.signs_itself)], key)

    def identity(self) -> str:
        """The name of the client. Raises CertificateError."""
        chain = peer_chain(self._tls)
        self._check(chain)
        return identity(chain)


class GssAcceptor:
    """The dialogue of AUTH GSSAPI: tokens in, tokens out."""

    def __init__(self, context: ssl.SSLContext, key: DelegationKey, check: CheckChain) -> None:
        self.end = TlsEnd(context, check)
        self.identity = ""
        #: The proxy that the client has delegated.
        self.delegated: CertificateWithKey | None = None
        self.done = False
        self._key = key
        self._asked = False
        self._tokens = 0

    def take(self, token: bytes) -> bytes:
        """The next token of the client; returns the answer, b"" where there is none. Raises CertificateError."""
        self._tokens += 1
        if self._tokens > _MOST_TOKENS:
            raise CertificateError("too many tokens")
        if self.end.complete:
            return self._after_handshake(self.end.open(token))
        answer = self.end.shake_hands(token)
        if self.end.complete:
            self.identity = self.end.identity()
            return answer + (self.end.seal(b"\0") if self.end.is_newest else b"")
        return answer

    def _after_handshake(self, octets: bytes) -> bytes:
        if self._asked:
            if len(octets) > _MOST_OCTETS:
                raise CertificateError("a certificate that is too large")
            self.delegated = self.end.credential(octets, self._key.pem())
        elif octets == b"D":
            self._asked = True
            return self.end.seal(self._key.request())
        elif octets != b"0":
            raise CertificateError("neither a delegation nor none")
        self.done = True
        return b""


def _words(error: ssl.SSLError) -> str:
    """OpenSSL's reason, without the place in its source."""
    return str(getattr(error, "verify_message", "") or error.reason or "TLS failed")
