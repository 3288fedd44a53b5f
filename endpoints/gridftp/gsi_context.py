"""GSI on a control channel (RFC 2228; GFD.20 section 3), the client's side. No socket, no clock.

`AUTH GSSAPI` begins a dialogue of `ADAT` tokens, which are plain TLS records in base64. Then the client sends an octet,
`D` to delegate (a signing request and a proxy certificate follow, RFC 3820), or `0`. After 235 every command travels as
`ENC`, every line of a reply as `632`: TLS records in base64 again.

`GsiInitiator` leads the dialogue; its result is a `MessageProtection`. A server that violates the protocol raises
FaultError: the client never goes on in clear text.
"""

from __future__ import annotations

import enum
import re
import ssl
from binascii import Error as Base64Error
from binascii import a2b_base64, b2a_base64
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from cryptography.hazmat.primitives.serialization import Encoding

from identity.gsi.errors import UntrustedError
from identity.gsi.printable import shown
from identity.gsi.trust import explain, peer_chain
from identity.gsi.x509 import UNREADABLE

from .faults import Fault, FaultError, Kind, classify, make_fault
from .replies import MAX_LINE, Reply

#: Octets of a protected line: base64 makes four octets of three, and TLS adds some to each record.
MAX_PROTECTED_LINE = 2 * MAX_LINE
#: Maximum of replies with a token in a dialogue. TLS with delegation needs five.
MAX_TOKENS = 12
#: Octets of a signing request; one for RSA 4096 has about 1100.
MAX_REQUEST = 16 * 1024
#: The largest plaintext of a TLS record (RFC 8446 section 5.1).
_RECORD = 16 * 1024
#: Bits of the server's RSA key: no proxy is signed for a weaker one.
_KEY_BITS = 2048
#: Replies to AUTH of a server without GSI (RFC 2228 section 3; 500 and 502 by RFC 959).
_UNKNOWN_COMMAND = frozenset({431, 500, 502, 503, 504, 534})
_TOO_OLD = re.compile(r"PROTOCOL|WRONG_VERSION|INSUFFICIENT_SECURITY|RENEGOTIATION|LEGACY")
_OUR_CREDENTIAL = re.compile(r"ALERT_(.*CERTIFICATE.*|UNKNOWN_CA|ACCESS_DENIED)")

Check = Callable[[Sequence[x509.Certificate]], None]
Delegate = Callable[[RSAPublicKey], x509.Certificate]


class ProtectedLine(NamedTuple):
    """A command line for the wire, with its verb."""

    verb: str
    octets: bytes


class MessageProtection:
    """The protected channel: command lines in, `ENC` lines out; `632` lines in, reply lines out."""

    def __init__(self, tls: ssl.SSLObject, incoming: ssl.MemoryBIO, outgoing: ssl.MemoryBIO) -> None:
        self._tls = tls
        self._incoming = incoming
        self._outgoing = outgoing
        self._rest = b""

    def wrap(self, line: bytes) -> bytes:
        """The protected form of a command line."""
        self._tls.write(line)
        return b"ENC " + b2a_base64(self._outgoing.read(), newline=False) + b"\r\n"

    def unwrap(self, data: bytes) -> bytes:
        """Take received octets, in pieces of any size; return those of the replies. A FaultError ends the channel."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        if len(self._rest) > MAX_PROTECTED_LINE:
            raise FaultError(make_fault(Kind.INSECURE_SERVER, "a protected line without end"))
        write = self._incoming.write
        for line in lines:
            # ENC is answered with 632: 631 and 633 lack encryption or integrity (RFC 2228 section 5).
            if line[:4] not in (b"632 ", b"632-") or len(line) > MAX_PROTECTED_LINE:
                raise FaultError(make_fault(Kind.INSECURE_SERVER, f"not a protected reply: {shown(line)}"))
            write(_decode(line[4:].rstrip(b"\r")))
        return self._read() if lines else b""

    def _read(self) -> bytes:
        """The plaintext of all complete records."""
        pieces: list[bytes] = []
        for piece in _plaintext(self._tls, self._incoming):
            if not piece:
                raise FaultError(make_fault(Kind.CONNECTION_BROKEN, "the server ended the protected channel"))
            pieces.append(piece)
        return b"".join(pieces)


class _Awaits(enum.Enum):
    """The purpose of the next reply."""

    AUTH = enum.auto()
    HANDSHAKE = enum.auto()
    SYNC = enum.auto()  # TLS 1.3: the server acknowledges our Finished
    REQUEST = enum.auto()  # the signing request for our proxy
    END = enum.auto()
    NOTHING = enum.auto()


class GsiInitiator:
    """The client's side of the dialogue: replies in, lines out. Every refusal raises FaultError.

    check: raises FaultError for a chain (leaf first) that is not the server's; called before delegation.
    delegate: signs a limited proxy for the server's key; None: no delegation.
    """

    def __init__(
        self, context: ssl.SSLContext, server_name: str, *, check: Check, delegate: Delegate | None = None
    ) -> None:
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_hostname=server_name)
        self._check = check
        self._delegate = delegate
        self._awaits = _Awaits.AUTH
        self._tokens = 0

    @property
    def done(self) -> bool:
        return self._awaits is _Awaits.NOTHING

    def begin(self) -> Sequence[ProtectedLine]:
        """The first two lines, sent at once: the first token does not depend on the answer to AUTH."""
        self._shake_hands(b"")
        return [ProtectedLine("AUTH", b"AUTH GSSAPI\r\n"), self._adat()]

    def receive(self, reply: Reply) -> Sequence[ProtectedLine]:
        """Take the reply to the oldest unanswered line; return the lines to send."""
        if self._awaits is _Awaits.AUTH:
            return self._answered_auth(reply)
        if reply.code == 235 and self._awaits is _Awaits.END:
            self._awaits = _Awaits.NOTHING
            return ()
        if reply.code != 335:
            raise FaultError(_refusal(reply))
        self._tokens += 1
        if self._tokens > MAX_TOKENS:
            raise FaultError(make_fault(Kind.INSECURE_SERVER, f"no end of the dialogue after {MAX_TOKENS} tokens"))
        return self._answered_token(_token(reply))

    def protection(self) -> MessageProtection:
        """The result, once `done`."""
        assert self.done
        return MessageProtection(self._tls, self._incoming, self._outgoing)

    def _answered_auth(self, reply: Reply) -> Sequence[ProtectedLine]:
        if reply.code != 334:
            if reply.code in _UNKNOWN_COMMAND or not reply.is_error:
                raise FaultError(make_fault(Kind.INSECURE_SERVER, f"AUTH GSSAPI: {reply}"))
            raise FaultError(classify(reply))
        self._awaits = _Awaits.HANDSHAKE
        return ()

    def _answered_token(self, token: bytes) -> Sequence[ProtectedLine]:
        match self._awaits:
            case _Awaits.HANDSHAKE:
                return self._continue_handshake(token)
            case _Awaits.SYNC:
                # One octet 0, or nothing; anything else violates the protocol.
                if self._open(token).strip(b"\0"):
                    raise FaultError(make_fault(Kind.INSECURE_SERVER, "data before the end of the handshake"))
                self._awaits = _Awaits.REQUEST if self._delegate else _Awaits.END
                return ()
            case _Awaits.REQUEST:
                return self._answer_request(self._open(token))
        raise FaultError(make_fault(Kind.INSECURE_SERVER, "the server asks for a delegation that was not agreed"))

    def _continue_handshake(self, token: bytes) -> Sequence[ProtectedLine]:
        done = self._shake_hands(token)
        if done:
            # In TLS 1.3 before our certificate is sent, in TLS 1.2 after it; in both before delegation and commands.
            self._check(_chain(self._tls))
            if not self._outgoing.pending:
                return self._say_whether_we_delegate()
            # TLS 1.3: our Finished; the server is authenticated already, so the flag need not wait for its reply.
            finished = self._adat()
            flag = self._say_whether_we_delegate()
            self._awaits = _Awaits.SYNC
            return [finished, *flag]
        if not self._outgoing.pending:
            raise FaultError(make_fault(Kind.INSECURE_SERVER, "a part of a token"))
        return [self._adat()]

    def _shake_hands(self, token: bytes) -> bool:
        """Whether the handshake is complete on our side."""
        self._incoming.write(token)
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            return False
        except ssl.SSLError as error:
            raise FaultError(_tls_fault(error)) from None
        return True

    def _say_whether_we_delegate(self) -> Sequence[ProtectedLine]:
        self._tls.write(b"D" if self._delegate else b"0")
        self._awaits = _Awaits.REQUEST if self._delegate else _Awaits.END
        return [self._adat()]

    def _answer_request(self, der: bytes) -> Sequence[ProtectedLine]:
        assert self._delegate
        certificate = self._delegate(_requested_key(der))
        self._tls.write(certificate.public_bytes(Encoding.DER))
        self._awaits = _Awaits.END
        return [self._adat()]

    def _open(self, token: bytes) -> bytes:
        """The plaintext of a token after the handshake."""
        self._incoming.write(token)
        pieces = b""
        for piece in _plaintext(self._tls, self._incoming):
            if not piece or len(pieces) > MAX_REQUEST:
                break
            pieces += piece
        return pieces

    def _adat(self) -> ProtectedLine:
        return ProtectedLine("ADAT", b"ADAT " + b2a_base64(self._outgoing.read(), newline=False) + b"\r\n")


def _plaintext(tls: ssl.SSLObject, incoming: ssl.MemoryBIO) -> Iterator[bytes]:
    """The plaintext of all complete records; b"" where the server ends TLS. Raises FaultError."""
    try:
        while incoming.pending or tls.pending():
            yield tls.read(_RECORD)
    except ssl.SSLWantReadError:
        pass
    except ssl.SSLError as error:
        raise FaultError(_tls_fault(error)) from None


def _token(reply: Reply) -> bytes:
    """`335 ADAT=...` (RFC 2228 section 3)."""
    text = reply.lines[0]
    if len(reply.lines) != 1 or not text.startswith(b"ADAT="):
        raise FaultError(make_fault(Kind.INSECURE_SERVER, f"no token: {reply.code} {shown(text)}"))
    return _decode(text[5:].strip())


def _decode(text: bytes) -> bytes:
    try:
        return a2b_base64(text, strict_mode=True)
    except (Base64Error, ValueError):
        raise FaultError(make_fault(Kind.INSECURE_SERVER, f"not base64: {shown(text)}")) from None


def _requested_key(der: bytes) -> RSAPublicKey:
    """The key of a signing request (PKCS #10), whose signature is verified."""
    try:
        request = x509.load_der_x509_csr(der)
        key = request.public_key()
        fit = request.is_signature_valid and isinstance(key, RSAPublicKey) and key.key_size >= _KEY_BITS
    except UNREADABLE as error:
        raise FaultError(make_fault(Kind.INSECURE_SERVER, f"no signing request: {type(error).__name__}")) from None
    if not fit:
        raise FaultError(make_fault(Kind.INSECURE_SERVER, "a signing request with an unsuitable key"))
    assert isinstance(key, RSAPublicKey)
    return key


def _chain(tls: ssl.SSLObject) -> Sequence[x509.Certificate]:
    try:
        return peer_chain(tls)
    except UntrustedError as error:
        raise FaultError(make_fault(Kind.INVALID_SERVICE_CREDENTIAL, str(error))) from None


def _refusal(reply: Reply) -> Fault:
    """The fault of a reply that ends the dialogue, also of one that is no error: it must not continue unprotected."""
    if reply.is_error:
        return classify(reply)
    return make_fault(Kind.INSECURE_SERVER, f"in the midst of the handshake: {reply.code}")


def _tls_fault(error: ssl.SSLError) -> Fault:
    reason = error.reason or ""
    raw = f"TLS: {reason or error}"
    if isinstance(error, ssl.SSLCertVerificationError):
        return make_fault(Kind.INVALID_SERVICE_CREDENTIAL, str(explain(error)))
    if _OUR_CREDENTIAL.search(reason):
        return make_fault(Kind.AUTH, raw)
    if _TOO_OLD.search(reason):
        return make_fault(Kind.INSECURE_SERVER, f"{raw}; TLS 1.2 is the least")
    return make_fault(Kind.INSECURE_SERVER, raw)
