"""Who a session is: how its control connection is made and authenticated, and what USER and PASS then say."""

from __future__ import annotations

import asyncio
import ssl
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import Protocol

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey

from .connection import CONNECT_TIMEOUT, ControlConnection, within
from .faults import FaultError, Kind, make_fault
from .proxies import sign_proxy
from .replies import Reply
from .security import Initiator, Line
from .trust import (
    HostMismatchError,
    RevokedError,
    StaleRevocationListError,
    TrustFolder,
    UntrustedError,
)
from .x509 import Credential, CredentialError

#: How long a proxy lives that a server is given: longer than a task's slices, shorter than most users' own.
DELEGATED_LIFETIME = timedelta(hours=12)
#: A credential that ends within this is as good as over: the server's clock is not ours.
LEAST_LIFE = timedelta(seconds=10)


#: Of a credential that held when it was given. Its name is in `raw`, for its user alone.
REVOKED = "The credential was revoked by its authority."
UNCERTAIN = (
    "Whether the credential was revoked is not known: the revocation list of its authority is out of date or "
    "cannot be read; this service's operator must see to it."
)


class Login(Protocol):
    """A way to log in to one server.

    key: whoever has the same one may use each other's warm sessions; holds no secret.
    protected: what is said on the control channel is read by the server alone.
    user, password: of USER and PASS, which follow in `GridFTPSession`.
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
        """A connection on which USER may be said. Raises FaultError; within `timeout` seconds."""


@dataclass(frozen=True)
class Anonymous:
    """Clear text, and nobody in particular (RFC 1635)."""

    key: str = "anonymous"
    protected: bool = False
    user: bytes = b"anonymous"
    password: bytes = b"waybill@"

    async def connect(self, host: str, port: int, *, timeout: float = CONNECT_TIMEOUT) -> ControlConnection:
        """Does not wait for the greeting: commands may go out at once."""
        return await ControlConnection.open(host, port, timeout=timeout)


ANONYMOUS = Anonymous()


@dataclass(frozen=True)
class GsiLogin:
    """GSI (RFC 2228) as the owner of a credential.

    host_name: what the endpoint is registered under, and its certificate must be for. subject: where it is not empty,
    the name in slash form that the certificate must have instead.
    delegate: give the server a limited proxy, with which it may be the user elsewhere; not of an elliptic key: servers
    make none that is fit for it.
    """

    credential: Credential
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
        """Connect and authenticate each to the other; from here on all is protected."""
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
        initiator = Initiator(
            self._context, self.host_name, check=self._check, delegate=self._sign if self.delegates else None
        )
        await converse(connection, initiator)
        connection.channel.protect(initiator.protection())

    @cached_property
    def _context(self) -> ssl.SSLContext:
        """TLS 1.2 at least, and no handshake but the first. Raises FaultError."""
        try:
            context = self.trust.client_context(self.credential)
        except UntrustedError as error:
            raise FaultError(make_fault(Kind.INVALID_SERVICE_CREDENTIAL, str(error))) from None
        except CredentialError as error:
            raise FaultError(make_fault(Kind.NO_CREDENTIALS, str(error))) from None
        context.options |= ssl.OP_NO_RENEGOTIATION
        return context

    def _check(self, chain: Sequence[x509.Certificate]) -> None:
        """OpenSSL knows neither signing policies nor what a host certificate of the Grid looks like."""
        try:
            certificate = self.trust.verify(chain, now=datetime.now(UTC))
            self.trust.check_host(certificate, self.host_name, self.subject)
        except HostMismatchError as error:
            raise FaultError(make_fault(Kind.GSI_DN_MISMATCH, str(error))) from None
        except UntrustedError as error:
            raise FaultError(make_fault(Kind.INVALID_SERVICE_CREDENTIAL, str(error))) from None
        self._check_own()

    def _check_own(self) -> None:
        """Whether we have been revoked since the credential was given; all else was judged then. Raises FaultError."""
        try:
            self.trust.verify((self.credential.certificate, *self.credential.chain), now=datetime.now(UTC))
        except RevokedError as error:
            raise FaultError(replace(make_fault(Kind.NO_CREDENTIALS, error.reason), advice=REVOKED)) from None
        except StaleRevocationListError as error:
            # The operator mends it, and another credential would be refused as well: it is tried again.
            raise FaultError(replace(make_fault(Kind.INTERNAL_ERROR, error.reason), advice=UNCERTAIN)) from None
        except UntrustedError:
            pass

    def _sign(self, public_key: RSAPublicKey) -> x509.Certificate:
        now = datetime.now(UTC)
        try:
            return sign_proxy(self.credential, public_key, lifetime=DELEGATED_LIFETIME, limited=True, now=now)
        except CredentialError as error:
            raise FaultError(make_fault(Kind.NO_CREDENTIALS, str(error))) from None


async def converse(connection: ControlConnection, initiator: Initiator) -> None:
    """Lead the dialog over this connection to its end. Raises FaultError."""
    replies: deque[asyncio.Task[Reply]] = deque()

    def send(lines: Sequence[Line]) -> None:
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
