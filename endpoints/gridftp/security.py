"""GSI on a control channel (RFC 2228; GFD.20 section 3), the client's side. No socket, no clock.

`AUTH GSSAPI` begins a dialog of `ADAT` tokens, which are plain TLS records in base64. Then the client says in one octet
whether it delegates (`D`, and a signing request and a proxy certificate follow, RFC 3820) or not (`0`). After 235 every
command travels as `ENC`, every line of a reply as `632`: TLS records in base64 again.

`Initiator` leads the dialog, `Protection` is what remains of it. A server that does not keep to it is a FaultError,
and never a reason to go on in clear text.
"""

from __future__ import annotations

import enum
import re
import ssl
from binascii import Error as Base64Error
from binascii import a2b_base64, b2a_base64
from collections.abc import Callable, Sequence
from typing import NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from cryptography.hazmat.primitives.serialization import Encoding

from .faults import Fault, FaultError, Kind, classify, make_fault
from .replies import MAX_LINE, Reply
from .trust import UntrustedError, explain, peer_chain
from .words import shown
from .x509 import UNREADABLE

#: Octets of a protected line: base64 makes three octets four, and TLS adds some to each record.
MAX_PROTECTED_LINE = 2 * MAX_LINE
#: Replies with a token that a dialog may take. TLS with delegation takes five.
MAX_TOKENS = 12
#: Octets of a signing request; one for RSA 4096 has about 1100.
MAX_REQUEST = 16 * 1024
#: The largest piece that TLS hands out at once (RFC 8446 section 5.1).
_RECORD = 16 * 1024
#: A proxy of ours is not given to a key that others can break.
_KEY_BITS = 2048
#: Replies to AUTH of a server that knows no GSI (RFC 2228 section 3; 500 and 502 are those of RFC 959).
_UNKNOWN_COMMAND = frozenset({431, 500, 502, 503, 504, 534})
_TOO_OLD = re.compile(r"PROTOCOL|WRONG_VERSION|INSUFFICIENT_SECURITY|RENEGOTIATION|LEGACY")
_OUR_CREDENTIAL = re.compile(r"ALERT_(.*CERTIFICATE.*|UNKNOWN_CA|ACCESS_DENIED)")

Check = Callable[[Sequence[x509.Certificate]], None]
Delegate = Callable[[RSAPublicKey], x509.Certificate]


class Line(NamedTuple):
    """A command as it goes over the wire."""

    verb: str
    octets: bytes


class Protection:
    """The protected channel: command lines in, `ENC` lines out, and what was in `632` lines."""

    def __init__(self, tls: ssl.SSLObject, incoming: ssl.MemoryBIO, outgoing: ssl.MemoryBIO) -> None:
        self._tls = tls
        self._incoming = incoming
        self._outgoing = outgoing
        self._rest = b""

    def wrap(self, line: bytes) -> bytes:
        """A command line as the one line that may go over the wire."""
        self._tls.write(line)
        return b"ENC " + b2a_base64(self._outgoing.read(), newline=False) + b"\r\n"

    def unwrap(self, data: bytes) -> bytes:
        """Take what arrived, in any cut; the octets of replies in it. Raises FaultError, after which all is void."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        if len(self._rest) > MAX_PROTECTED_LINE:
            raise FaultError(make_fault(Kind.INSECURE_SERVER, "a protected line without end"))
        write = self._incoming.write
        for line in lines:
            # 632 is what ENC is answered with: 631 and 633 leave out the one or the other (RFC 2228 section 5).
            if line[:4] not in (b"632 ", b"632-") or len(line) > MAX_PROTECTED_LINE:
                raise FaultError(make_fault(Kind.INSECURE_SERVER, f"not a protected reply: {shown(line)}"))
            write(_decode(line[4:].rstrip(b"\r")))
        return self._read() if lines else b""

    def _read(self) -> bytes:
        """All whole records that are there."""
        pieces: list[bytes] = []
        try:
            while self._incoming.pending or self._tls.pending():
                piece = self._tls.read(_RECORD)
                if not piece:
                    raise FaultError(make_fault(Kind.CONNECTION_BROKEN, "the server ended the protected channel"))
                pieces.append(piece)
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLError as error:
            raise FaultError(_tls_fault(error)) from None
        return b"".join(pieces)


class _Awaits(enum.Enum):
    """What the next reply answers."""

    AUTH = enum.auto()
    HANDSHAKE = enum.auto()
    SYNC = enum.auto()  # TLS 1.3: the server's word that it has taken our Finished
    REQUEST = enum.auto()  # the signing request for our proxy
    END = enum.auto()
    NOTHING = enum.auto()


class Initiator:
    """The client's side of the dialog: replies in, lines out. Every refusal is a FaultError.

    check: raises FaultError for a chain (leaf first) that is not the server's; asked before anything is delegated.
    delegate: signs a limited proxy for the server's key; None: nothing is delegated.
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

    @property
    def version(self) -> str:
        """As ssl names it: "TLSv1.3"."""
        return self._tls.version() or ""

    def begin(self) -> Sequence[Line]:
        """The first lines, in one go: the first token asks nothing of the server's answer to AUTH."""
        self._shake_hands(b"")
        return [Line("AUTH", b"AUTH GSSAPI\r\n"), self._adat()]

    def receive(self, reply: Reply) -> Sequence[Line]:
        """Take the reply to the oldest line that is unanswered; what is to be sent now."""
        if self._awaits is _Awaits.AUTH:
            return self._answered_auth(reply)
        if reply.code == 235 and self._awaits is _Awaits.END:
            self._awaits = _Awaits.NOTHING
            return ()
        if reply.code != 335:
            raise FaultError(_refusal(reply))
        self._tokens += 1
        if self._tokens > MAX_TOKENS:
            raise FaultError(make_fault(Kind.INSECURE_SERVER, f"no end of the dialog after {MAX_TOKENS} tokens"))
        return self._answered_token(_token(reply))

    def protection(self) -> Protection:
        """What the dialog was for; once it is done."""
        assert self.done
        return Protection(self._tls, self._incoming, self._outgoing)

    def _answered_auth(self, reply: Reply) -> Sequence[Line]:
        if reply.code != 334:
            if reply.code in _UNKNOWN_COMMAND or not reply.is_error:
                raise FaultError(make_fault(Kind.INSECURE_SERVER, f"AUTH GSSAPI: {reply}"))
            raise FaultError(classify(reply))
        self._awaits = _Awaits.HANDSHAKE
        return ()

    def _answered_token(self, token: bytes) -> Sequence[Line]:
        match self._awaits:
            case _Awaits.HANDSHAKE:
                return self._continue_handshake(token)
            case _Awaits.SYNC:
                # One octet that is 0, or nothing: what else it says is not for this moment.
                if self._open(token).strip(b"\0"):
                    raise FaultError(make_fault(Kind.INSECURE_SERVER, "words before the end of the handshake"))
                self._awaits = _Awaits.REQUEST if self._delegate else _Awaits.END
                return ()
            case _Awaits.REQUEST:
                return self._answer_request(self._open(token))
        raise FaultError(make_fault(Kind.INSECURE_SERVER, "the server asks for a delegation that was not agreed"))

    def _continue_handshake(self, token: bytes) -> Sequence[Line]:
        done = self._shake_hands(token)
        if done:
            # In TLS 1.3 before our own certificate goes out, in TLS 1.2 after it; in both before all that matters.
            self._check(_chain(self._tls))
            if not self._outgoing.pending:
                return self._say_whether_we_delegate()
            # TLS 1.3: our Finished; the server is known already, so the flag need not wait for its word.
            finished = self._adat()
            flag = self._say_whether_we_delegate()
            self._awaits = _Awaits.SYNC
            return [finished, *flag]
        if not self._outgoing.pending:
            raise FaultError(make_fault(Kind.INSECURE_SERVER, "a part of a token"))
        return [self._adat()]

    def _shake_hands(self, token: bytes) -> bool:
        """Whether TLS is established, as far as this side is concerned."""
        self._incoming.write(token)
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            return False
        except ssl.SSLError as error:
            raise FaultError(_tls_fault(error)) from None
        return True

    def _say_whether_we_delegate(self) -> Sequence[Line]:
        self._tls.write(b"D" if self._delegate else b"0")
        self._awaits = _Awaits.REQUEST if self._delegate else _Awaits.END
        return [self._adat()]

    def _answer_request(self, der: bytes) -> Sequence[Line]:
        assert self._delegate
        certificate = self._delegate(_requested_key(der))
        self._tls.write(certificate.public_bytes(Encoding.DER))
        self._awaits = _Awaits.END
        return [self._adat()]

    def _open(self, token: bytes) -> bytes:
        """What is in a token once the handshake is over."""
        self._incoming.write(token)
        pieces = b""
        try:
            while self._incoming.pending or self._tls.pending():
                piece = self._tls.read(_RECORD)
                if not piece or len(pieces) > MAX_REQUEST:
                    break
                pieces += piece
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLError as error:
            raise FaultError(_tls_fault(error)) from None
        return pieces

    def _adat(self) -> Line:
        return Line("ADAT", b"ADAT " + b2a_base64(self._outgoing.read(), newline=False) + b"\r\n")


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
    """The key in a signing request (PKCS #10), which its owner has signed with it."""
    try:
        request = x509.load_der_x509_csr(der)
        key = request.public_key()
        fit = request.is_signature_valid and isinstance(key, RSAPublicKey) and key.key_size >= _KEY_BITS
    except UNREADABLE as error:
        raise FaultError(make_fault(Kind.INSECURE_SERVER, f"no signing request: {type(error).__name__}")) from None
    if not fit:
        raise FaultError(make_fault(Kind.INSECURE_SERVER, "a signing request with a key that is not fit"))
    assert isinstance(key, RSAPublicKey)
    return key


def _chain(tls: ssl.SSLObject) -> Sequence[x509.Certificate]:
    try:
        return peer_chain(tls)
    except UntrustedError as error:
        raise FaultError(make_fault(Kind.INVALID_SERVICE_CREDENTIAL, str(error))) from None


def _refusal(reply: Reply) -> Fault:
    """A reply that ends the dialog. One that is no error would let us go on unprotected."""
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
