"""Logins: how a control connection is opened and authenticated, and the arguments of USER and PASS."""

from __future__ import annotations

import asyncio
import ssl
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import Protocol

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey

from identity.gsi.errors import (
    CredentialError,
    HostMismatchError,
    RevokedError,
    StaleRevocationListError,
    UntrustedError,
)
from identity.gsi.printable import translatable as _
from identity.gsi.proxies import sign_proxy
from identity.gsi.trust import TrustFolder
from identity.gsi.x509 import X509Credential

from .connection import CONNECT_TIMEOUT, ControlConnection, within
from .faults import FaultError, Kind, classify, make_fault
from .gsi_context import GsiInitiator, ProtectedLine
from .replies import Reply

#: Lifetime of a delegated proxy: longer than a slice of a task, shorter than most users' own proxies.
DELEGATED_LIFETIME = timedelta(hours=12)
#: A credential that expires within this time counts as expired: the server's clock may differ from ours.
LEAST_LIFE = timedelta(seconds=10)


#: Advice for a credential that was revoked after the activation. Its subject is in `raw`, which only its user sees.
REVOKED = _("The credential was revoked by its authority.")
UNCERTAIN = (
    "Whether the credential was revoked is not known: the revocation list of its authority is out of date or "
    "cannot be read. Contact the operator of this service."
)


class Login(Protocol):
    """A way to log in to one server.

    key: logins with the same key may share open sessions; contains no secret.
    protected: the control channel is encrypted and authenticated.
    user, password: the arguments of USER and PASS, which `GridFTPSession` sends.
    """

    @property
    def key(self) -> str: ...
    @property
    def protected(self) -> bool: ...
    @property
    def user(self) -> bytes: ...
    @property
    def password(self) -> bytes: ...

    async def connect(self, host: str, port: int, *, timeout: float = CONNECT_TIMEOUT) -> ControlConnection:
        """A connection that is ready for USER, within `timeout` seconds. Raises FaultError."""


class NameAndPassword:
    """The base of logins by the commands USER and PASS (RFC 959), in clear text unless a subclass protects them."""

    protected = False

    username: str
    secret: bytes

    @property
    def user(self) -> bytes:
        return self.username.encode()

    @property
    def password(self) -> bytes:
        return self.secret

    async def connect(self, host: str, port: int, *, timeout: float = CONNECT_TIMEOUT) -> ControlConnection:
        """Return without the greeting: commands may be sent at once. Raises FaultError."""
        return await ControlConnection.open(host, port, timeout=timeout)


class Anonymous(NameAndPassword):
    """Anonymous FTP (RFC 1635)."""

    key = username = "anonymous"
    secret = b"waybill@"


@dataclass(frozen=True)
class PasswordLogin(NameAndPassword):
    """Login to an FTP server with a name and a password (RFC 959), which anybody on the way can read."""

    username: str
    secret: bytes = field(repr=False)

    @property
    def key(self) -> str:
        return f"password:{self.username}"


ANONYMOUS = Anonymous()


@dataclass(frozen=True)
class GsiLogin:
    """GSI (RFC 2228) as the owner of a credential.

    host_name: the registered name of the server, for which its certificate must be. subject: where it is not empty, the
    name in slash form that the certificate must have instead.
    delegate: give the server a limited proxy, with which it acts as the user elsewhere. Not with an elliptic key:
    servers make no proxy key of a fitting size for it.
    """

    credential: X509Credential
    trust: TrustFolder
    host_name: str
    subject: str = ""
    delegate: bool = False

    protected = True
    user = b":globus-mapping:"
    password = b"dummy"

    @property
    def delegates(self) -> bool:
        return self.delegate and self.credential.can_delegate

    @cached_property
    def key(self) -> str:
        flag = "delegating" if self.delegate else "x509"
        return f"{flag}:{self.credential.fingerprint}:{self.host_name}:{self.subject}"

    async def connect(self, host: str, port: int, *, timeout: float = CONNECT_TIMEOUT) -> ControlConnection:
        """Connect, and authenticate both sides; the connection is protected then."""
        if self.credential.expires_at <= datetime.now(UTC) + LEAST_LIFE:
            raise FaultError(
                make_fault(Kind.NO_CREDENTIALS, f"expired at {self.credential.expires_at:%Y-%m-%d %H:%M} UTC")
            )
        until = asyncio.get_running_loop().time() + timeout
        connection = await ControlConnection.open(host, port, timeout=timeout)
        async with within(connection, until, f"no GSI login within {timeout:g} s"):
            await self._authenticate(connection)
        return connection

    async def _authenticate(self, connection: ControlConnection) -> None:
        initiator = GsiInitiator(
            self._context, self.host_name, check=self._check, delegate=self._sign if self.delegates else None
        )
        await run_dialogue(connection, initiator)
        connection.channel.protect(initiator.protection())

    @cached_property
    def _context(self) -> ssl.SSLContext:
        """TLS 1.2 or later, without renegotiation. Raises FaultError."""
        try:
            context = self.trust.client_context(self.credential)
        except UntrustedError as error:
            raise FaultError(make_fault(Kind.INVALID_SERVICE_CREDENTIAL, str(error))) from None
        except CredentialError as error:
            raise FaultError(make_fault(Kind.NO_CREDENTIALS, str(error))) from None
        context.options |= ssl.OP_NO_RENEGOTIATION
        return context

    def _check(self, chain: Sequence[x509.Certificate]) -> None:
        """The checks that OpenSSL does not do: signing policies, and the host names of Grid certificates."""
        try:
            certificate = self.trust.verify(chain, now=datetime.now(UTC))
            self.trust.check_host(certificate, self.host_name, self.subject)
        except HostMismatchError as error:
            raise FaultError(make_fault(Kind.GSI_DN_MISMATCH, str(error))) from None
        except UntrustedError as error:
            raise FaultError(make_fault(Kind.INVALID_SERVICE_CREDENTIAL, str(error))) from None
        self._check_own()

    def _check_own(self) -> None:
        """Raises FaultError where our own credential was revoked after the activation, which checked all else."""
        try:
            self.trust.verify((self.credential.certificate, *self.credential.chain), now=datetime.now(UTC))
        except RevokedError as error:
            raise FaultError(replace(make_fault(Kind.NO_CREDENTIALS, error.reason), advice=REVOKED)) from None
        except StaleRevocationListError as error:
            # The operator can renew the list, and another credential would be refused as well: the fault is retried.
            raise FaultError(replace(make_fault(Kind.INTERNAL_ERROR, error.reason), advice=UNCERTAIN)) from None
        except UntrustedError:
            pass

    def _sign(self, public_key: RSAPublicKey) -> x509.Certificate:
        now = datetime.now(UTC)
        try:
            return sign_proxy(self.credential, public_key, lifetime=DELEGATED_LIFETIME, limited=True, now=now)
        except CredentialError as error:
            raise FaultError(make_fault(Kind.NO_CREDENTIALS, str(error))) from None


async def run_dialogue(connection: ControlConnection, initiator: GsiInitiator) -> None:
    """Run the whole dialogue over this connection. Raises FaultError."""
    replies: deque[asyncio.Task[Reply]] = deque()

    def send(lines: Sequence[ProtectedLine]) -> None:
        for line in lines:
            replies.append(asyncio.ensure_future(connection.request_line(*line)))

    send(initiator.begin())
    try:
        while not initiator.done:
            send(initiator.receive(await replies[0]))
            replies.popleft()
    finally:
        for reply in replies:
            reply.cancel()
        await asyncio.gather(*replies, return_exceptions=True)


def answered(outcome: Reply | BaseException) -> Reply:
    """The reply to one of several commands that were sent together. Raises the exception in its place."""
    if isinstance(outcome, BaseException):
        raise outcome
    return outcome


def accepted(outcome: Reply | BaseException) -> Reply:
    """`answered`. Raises FaultError for an error reply, too."""
    reply = answered(outcome)
    if reply.is_error:
        raise FaultError(classify(reply))
    return reply
