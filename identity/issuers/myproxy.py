"""Logs on to a MyProxy server: sends a user name and a passphrase once, and gets a credential for a new key.

The dialogue, as myproxy-server 6.2 has it: TLS; the octet `0`; a request, an answer; our signing request (PKCS #10),
the number of certificates (one octet), the certificates (DER), an answer. Everything that is read has a bound in
octets, and the whole a bound in time.

No sentence of an error holds a part of the passphrase.
"""

from __future__ import annotations

import base64
import contextlib
import os
import re
import socket
import ssl
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TypeVar
from urllib.parse import quote

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding

from identity.error_categories import Category, Refusal, RefusedError
from identity.gsi import proxies
from identity.gsi.errors import CredentialError, HostMismatchError, KeyMismatchError, UntrustedError
from identity.gsi.printable import quoted
from identity.gsi.trust import TrustFolder, explain, peer_chain
from identity.gsi.x509 import MAX_CERTIFICATES, X509Credential, read_certificate
from identity.hidden import Hidden, Secret

_CODE = "ExternalError.MyProxy"
_NOT_TRUSTED = "The MyProxy server is not trusted, and nothing was sent to it. {refused.reason}"
#: refused: the UntrustedError. WRONG_SERVER: the certificate is that of another server.
UNTRUSTED_SERVER = Refusal(Category.EXTERNAL, _NOT_TRUSTED, f"{_CODE}.UntrustedServer")
WRONG_SERVER = Refusal(Category.EXTERNAL, _NOT_TRUSTED, f"{_CODE}.WrongServer")
#: text: of the server, sent without TLS, so that anybody on the network path may have written it.
SERVER_FAILED = Refusal(
    Category.EXTERNAL,
    'The MyProxy server gives up before TLS begins, and nothing was sent to it. It says: "{text}". So does a server '
    "whose own certificate has expired or cannot be read: its administrator must look there.",
    f"{_CODE}.ServerFailed",
)
BAD_PASSPHRASE = Refusal(
    Category.INVALID, "The MyProxy server does not accept this passphrase.", f"{_CODE}.BadPassphrase"
)
UNKNOWN_USER = Refusal(
    Category.INVALID, "The MyProxy server has no credential for the user {user}.", f"{_CODE}.UnknownUser"
)
#: The octets of the server are not MyProxy: malformed, truncated, or without end.
PROTOCOL_BROKEN = Refusal(Category.EXTERNAL, "{reason}", f"{_CODE}.Protocol")
BAD_CREDENTIAL = Refusal(
    Category.EXTERNAL, "The MyProxy server gave a credential that {problem}. {refused.reason}", f"{_CODE}.BadCredential"
)
FOREIGN_KEY = Refusal(
    Category.EXTERNAL,
    "The MyProxy server gave a certificate for another key than the one it was sent.",
    f"{_CODE}.ForeignKey",
)


class MyProxyError(RefusedError):
    """The logon has failed."""


class MyProxyInputError(MyProxyError):
    """The user name, the passphrase or the host name cannot be sent."""

    refusal = Refusal(Category.INVALID, "{reason}", f"{_CODE}.Input")


class MyProxyUnreachableError(MyProxyError):
    """No address of the server accepts a connection."""

    refusal = Refusal(
        Category.EXTERNAL, "Nobody accepts connections at port {port} of {server}.", f"{_CODE}.Unreachable"
    )


class MyProxyTimeoutError(MyProxyError):
    """step: of the dialogue, as a verb phrase."""

    refusal = Refusal(
        Category.EXTERNAL,
        "The MyProxy server did not {step} within {seconds:g} s; try again later.",
        f"{_CODE}.Timeout",
    )


class LogonRefusedError(MyProxyError):
    """The server refuses the logon."""

    refusal = Refusal(Category.INVALID, "{reason}", f"{_CODE}.LogonRefused")


_COUNT = f"The MyProxy server promised {{}} certificates; 1 to {MAX_CERTIFICATES} can be."
T = TypeVar("T")

MAX_USER_NAME = 256
#: Octets, the server's own limit.
MAX_PASSPHRASE = 1024
#: Seconds that a logon may take, unless the operator says otherwise.
SECONDS = 20.0
#: Octets of an answer, and of one certificate.
MAX_ANSWER = 16 * 1024
MAX_CERTIFICATE = 16 * 1024
MAX_QUOTED = 200
_CHUNK = 4096
_VERSION = "MYPROXYv2"


def logon(
    addresses: Sequence[str],
    port: int,
    *,
    server_name: str,
    username: str,
    passphrase: str,
    lifetime: timedelta,
    trust: TrustFolder,
    subject: str = "",
    timeout: float = SECONDS,
) -> X509Credential:
    """Get a credential of this user that is valid for about `lifetime`, from the server at one of these addresses.

    The server must prove to be `server_name`, or to have the certificate with this `subject` (slash form), before it
    gets any secret. The logon takes `timeout` seconds at most. Blocks: call it in a thread. Raises MyProxyError.
    """
    # Not Django's `sensitive_variables`: only Django's pages respect it, and its own frame holds the arguments.
    secret = Secret(passphrase)
    del passphrase
    failure: MyProxyError
    try:
        request = _Request.made(username, secret, lifetime)
        with contextlib.closing(_Line(server_name, timeout)) as line:
            line.connect(addresses, port)
            line.protect(trust, subject)
            return _credential(*_dialogue(line, request), trust)
    except MyProxyError as error:
        # Raised without its traceback: frames of `ssl` and below hold the octets that were sent.
        failure = error.with_traceback(None)
        failure.__cause__ = failure.__context__ = None
    raise failure


def _dialogue(line: _Line, request: _Request) -> tuple[rsa.RSAPrivateKey, list[x509.Certificate]]:
    """The new key, and the certificates that the server sent for it."""
    line.send("take the request", Hidden(b"0"))
    line.send("take the request", request.octets())
    _check_answer(line.answer("answer the request"), request)
    key = proxies.new_key()
    line.send("take the key", Hidden(proxies.make_request(key).public_bytes(Encoding.DER)))
    certificates = _certificates(line, request)
    _check_answer(line.answer("say that it is done"), request)
    return key, certificates


@dataclass(frozen=True, slots=True)
class _Request:
    """The request COMMAND=0 (get) of a user. No field can hold a line end."""

    username: str
    passphrase: Secret
    seconds: int

    @classmethod
    def made(cls, username: str, passphrase: Secret, lifetime: timedelta) -> _Request:
        """Raises MyProxyInputError."""
        if not username or len(username) > MAX_USER_NAME or not username.isprintable():
            raise MyProxyInputError(
                reason=f"A user name has 1 to {MAX_USER_NAME} characters, and no control characters."
            )
        if not passphrase.value:
            raise MyProxyInputError(reason="The passphrase is missing.")
        encoded = Hidden(passphrase.value.encode("utf-8", "replace"))
        lossless = encoded.value.decode() == passphrase.value
        if not lossless or len(encoded) > MAX_PASSPHRASE or {10, 13, 0} & set(encoded.value):
            raise MyProxyInputError(reason=f"A passphrase has at most {MAX_PASSPHRASE} octets, and is one line.")
        return cls(username, passphrase, max(1, int(lifetime.total_seconds())))

    def octets(self) -> Hidden:
        head = f"VERSION={_VERSION}\nCOMMAND=0\nUSERNAME={self.username}\nPASSPHRASE=".encode()
        return Hidden(head + self.passphrase.value.encode() + f"\nLIFETIME={self.seconds}\n\0".encode())

    def quoted(self, text: str) -> str:
        """The text of the server, or nothing where it may hold a part of the passphrase."""
        words = " ".join("".join(letter if letter.isprintable() else " " for letter in text).split())
        told, plain = _squeezed(words), self.passphrase.value
        secret = plain.encode()
        forms = (plain, plain[::-1], secret.hex(), base64.b64encode(secret).decode().rstrip("="), quote(plain, safe=""))
        if not words or any(len(_squeezed(form)) < 3 or _squeezed(form) in told for form in forms):
            return ""
        return f' It says: "{words[:MAX_QUOTED]}".'


def _squeezed(text: str) -> str:
    return re.sub(r"\W", "", text).casefold()


class _Line:
    """A connection. Each method takes the name of the step that it is for, and ends before the time limit."""

    def __init__(self, server_name: str, timeout: float) -> None:
        self._server_name = server_name
        self._timeout = timeout
        self._until = time.monotonic() + timeout
        self._socket: socket.socket | None = None
        self._tls: ssl.SSLSocket | None = None
        self._read = bytearray()

    def connect(self, addresses: Sequence[str], port: int) -> None:
        """Connect to the first address that accepts; each gets a share of the time. Raises MyProxyUnreachableError."""
        for place, address in enumerate(addresses):
            share = self._left("accept a connection") / (len(addresses) - place)
            try:
                self._socket = socket.create_connection((address, port), timeout=share)
            except OSError:
                continue
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return
        raise MyProxyUnreachableError(port=port, server=self._server_name)

    def protect(self, trust: TrustFolder, subject: str) -> None:
        """Begin TLS, and check that the server is the expected one. Raises UNTRUSTED_SERVER, WRONG_SERVER."""
        try:
            self._handshake(trust.client_context(None))
            # Not the leaf: the holder of any certificate can make a proxy of it whose name is that of any host.
            certificate = trust.verify(self._chain(), now=datetime.now(UTC))
            trust.check_host(certificate, self._server_name, subject)
        except HostMismatchError as error:
            raise MyProxyError(WRONG_SERVER, refused=error) from None
        except UntrustedError as error:
            raise MyProxyError(UNTRUSTED_SERVER, refused=error) from None

    def _handshake(self, context: ssl.SSLContext) -> None:
        assert self._socket is not None
        try:
            tls = context.wrap_socket(self._socket, server_hostname=self._server_name, do_handshake_on_connect=False)
        except ValueError:
            raise MyProxyInputError(reason=f"{quoted(self._server_name)} is not the name of a host.") from None
        self._socket = self._tls = tls
        self._do("begin TLS", tls.do_handshake)

    def _chain(self) -> tuple[x509.Certificate, ...]:
        assert self._tls is not None
        chain = peer_chain(self._tls)
        if not chain:
            raise MyProxyError(PROTOCOL_BROKEN, reason="The MyProxy server showed no certificate.")
        return chain

    def send(self, step: str, octets: Hidden) -> None:
        tls = self._tls
        assert tls is not None
        self._do(step, lambda: tls.sendall(octets.value))

    def answer(self, step: str) -> dict[str, str]:
        """The fields of an answer (several ERROR lines become one). Raises PROTOCOL_BROKEN."""
        self._skip_nuls(step)
        while (end := self._read.find(b"\0")) < 0:
            if len(self._read) > MAX_ANSWER:
                raise MyProxyError(PROTOCOL_BROKEN, reason="The MyProxy server sent an answer without end.")
            self._more(step)
        text = self._take(end).decode("utf-8", "replace")
        self._take(1)
        return _fields(text)

    def _skip_nuls(self, step: str) -> None:
        """Skip NULs. With TLS 1.3 the toolkit sends one before the first answer, to end the handshake."""
        skipped = 0
        while True:
            while self._read[:1] == b"\0":
                self._take(1)
                skipped += 1
            if skipped > MAX_ANSWER:
                raise MyProxyError(PROTOCOL_BROKEN, reason="The MyProxy server sent nothing but zeros.")
            if self._read:
                return
            self._more(step)

    def peek(self, step: str) -> int:
        """The next octet, without consuming it."""
        while not self._read:
            self._more(step)
        return self._read[0]

    def exactly(self, step: str, count: int) -> bytes:
        while len(self._read) < count:
            self._more(step)
        return self._take(count)

    def _take(self, count: int) -> bytes:
        taken = bytes(self._read[:count])
        del self._read[:count]
        return taken

    def _more(self, step: str) -> None:
        tls = self._tls
        assert tls is not None
        got = self._do(step, lambda: tls.recv(_CHUNK))
        if not got:
            raise _closed_early(step)
        self._read += got

    def _do(self, step: str, call: Callable[[], T]) -> T:
        """Raises UntrustedError, MyProxyTimeoutError, PROTOCOL_BROKEN."""
        assert self._socket is not None
        self._socket.settimeout(self._left(step))
        try:
            return call()
        except ssl.SSLCertVerificationError as error:
            raise explain(error) from None
        except TimeoutError:
            raise MyProxyTimeoutError(step=step, seconds=self._timeout) from None
        except ssl.SSLEOFError:
            raise _closed_early(step) from None
        except ssl.SSLError:
            if said := self._said_in_clear():
                raise MyProxyError(SERVER_FAILED, text=said) from None
            reason = "The MyProxy server does not speak TLS 1.2 or later as it should."
            raise MyProxyError(PROTOCOL_BROKEN, reason=reason) from None
        except OSError:
            raise _closed_early(step) from None

    def _said_in_clear(self) -> str:
        """The error that the server sent in place of TLS. OpenSSL has read its first octets, and not the rest."""
        assert self._socket is not None
        with contextlib.suppress(OSError), socket.socket(fileno=os.dup(self._socket.fileno())) as plain:
            plain.settimeout(min(self._left("begin TLS"), 1.0))
            found = re.search(rb"\nRESPONSE=1\nERROR=([ -~]{1,%d})" % MAX_QUOTED, plain.recv(_CHUNK))
            return found[1].decode("ascii") if found else ""
        return ""

    def _left(self, step: str) -> float:
        left = self._until - time.monotonic()
        if left <= 0:
            raise MyProxyTimeoutError(step=step, seconds=self._timeout)
        return left

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()


def _closed_early(step: str) -> MyProxyError:
    return MyProxyError(PROTOCOL_BROKEN, reason=f"The MyProxy server closed the connection when it should {step}.")


def _fields(text: str) -> dict[str, str]:
    fields: dict[str, str] = {}
    for line in text.split("\n"):
        name, equals, value = line.partition("=")
        if equals:
            fields[name] = f"{fields[name]} {value}" if name in fields else value
    if fields.get("VERSION") != _VERSION or fields.get("RESPONSE") not in ("0", "1", "2"):
        raise MyProxyError(PROTOCOL_BROKEN, reason="The MyProxy server's answer is not one of MyProxy version 2.")
    return fields


def _check_answer(fields: dict[str, str], request: _Request) -> None:
    """Raises LogonRefusedError."""
    if fields["RESPONSE"] == "0":
        return
    if fields["RESPONSE"] == "2":
        raise LogonRefusedError(
            reason="The MyProxy server requires more than a passphrase, which Waybill cannot give it."
        )
    said = fields.get("ERROR", "")
    if re.search(r"invalid (credential )?pass|bad password|no passphrase|authentication fail", said, re.IGNORECASE):
        raise LogonRefusedError(BAD_PASSPHRASE)
    if re.search(r"unknown user|no credentials? (exists?|found)|do not exist|unable to retrieve", said, re.IGNORECASE):
        raise LogonRefusedError(UNKNOWN_USER, user=quoted(request.username))
    raise LogonRefusedError(reason=f"The MyProxy server refused.{request.quoted(said)}")


def _certificates(line: _Line, request: _Request) -> list[x509.Certificate]:
    """The certificates that the server sends, in its order. Raises PROTOCOL_BROKEN, LogonRefusedError."""
    step = "send the certificates"
    if line.peek(step) == ord("V"):
        # An answer has begun in place of the number: the server could not sign.
        _check_answer(line.answer(step), request)
    [count] = line.exactly(step, 1)
    if not 1 <= count <= MAX_CERTIFICATES:
        raise MyProxyError(PROTOCOL_BROKEN, reason=_COUNT.format(count))
    return [_certificate(line, step) for _ in range(count)]


def _certificate(line: _Line, step: str) -> x509.Certificate:
    """One DER element (X.690, 8.1): a SEQUENCE of definite length."""
    head = line.exactly(step, 2)
    size = head[1]
    if size > 0x80:
        more = line.exactly(step, min(size & 0x7F, 5))
        head, size = head + more, int.from_bytes(more, "big")
    if head[0] != 0x30 or head[1] == 0x80 or head[1] > 0x84 or size > MAX_CERTIFICATE:
        raise _no_certificate()
    try:
        return read_certificate(head + line.exactly(step, size))
    except CredentialError:
        raise _no_certificate() from None


def _no_certificate() -> MyProxyError:
    return MyProxyError(PROTOCOL_BROKEN, reason="The MyProxy server sent something that is no certificate.")


def _credential(
    key: rsa.RSAPrivateKey, certificates: Sequence[x509.Certificate], trusted: TrustFolder
) -> X509Credential:
    """Raises BAD_CREDENTIAL."""
    try:
        credential = X509Credential.assemble(key, certificates)
        trusted.admit(credential, now=datetime.now(UTC))
    except KeyMismatchError:
        raise MyProxyError(FOREIGN_KEY) from None
    except CredentialError as error:
        raise MyProxyError(BAD_CREDENTIAL, problem="cannot be used", refused=error) from None
    except UntrustedError as error:
        raise MyProxyError(BAD_CREDENTIAL, problem="is not accepted here", refused=error) from None
    return credential
