"""The protocols that servers speak: one record for each scheme, which every other place reads.

A new protocol is a folder and a record in `PROTOCOLS`. The folder has a `gridftp.login.Login` that is also a
`sessions.remote.SessionOpener`, and opens sessions of `sessions.remote.StreamingSession`. The addresses of servers, the
activation, the registration of host keys, the scheduler, the documents of REST, the shell and the pages take the rest
from the record.
"""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol

from django.conf import settings
from django.views.decorators.debug import sensitive_variables

from identity.gsi.trust import TrustFolder
from identity.gsi.x509 import X509Credential
from identity.vault.store import CredentialKind

from .gridftp.connection import CONNECT_TIMEOUT
from .gridftp.faults import Fault, FaultError, FaultScope, Kind
from .gridftp.ftp_tls.login import FtpTlsLogin, shown_key
from .gridftp.login import ANONYMOUS, GsiLogin, Login, PasswordLogin

# The modules with logins by ssh, and to object stores, are loaded with the first such login: those of ssh need 0.25 s
# and 10 MB, in every process.
if TYPE_CHECKING:
    from .models import Endpoint
    from .ssh.connection import JumpHost


class Need(Enum):
    """The kind of credential that an endpoint requires."""

    NONE = None
    X509 = CredentialKind.X509
    SSH = CredentialKind.SSH
    #: A name and a password, or nothing: an anonymous user.
    PASSWORD = CredentialKind.PASSWORD
    #: An access key of an object store, or nothing: for public buckets.
    ACCESS_KEY = CredentialKind.ACCESS_KEY

    @property
    def required(self) -> bool:
        """Whether nobody can use the endpoint without one."""
        return self not in (Need.NONE, Need.PASSWORD, Need.ACCESS_KEY)


class LoginMaker(Protocol):
    """The login for one server, by its registered name (not an address), against which its certificate is checked.

    subject: `Server.subject`, the expected certificate subject if it differs from the name. Raises FaultError.
    """

    def __call__(self, hostname: str, port: int, subject: str) -> Login: ...


@dataclass(frozen=True, slots=True)
class LoginContext:
    """All that the logins of a user at an endpoint are made of.

    secret: of the vault; None: the user has stored no credential, and is an anonymous one (`Need.required`).
    """

    endpoint: Endpoint
    secret: bytes | None = field(repr=False)
    jump_host: JumpHost | None = None


class ServerAddress(NamedTuple):
    """A server whose key is read. host: where to connect to, an address that has passed the gate.

    Through a jump host it is the registered name, which is resolved behind it.
    """

    host: str
    port: int
    hostname: str
    jump_host: JumpHost | None


#: Reads the key of a server; an empty text: it needs none. Raises FaultError.
KeyReader = Callable[[ServerAddress], Awaitable[str]]


@dataclass(frozen=True, slots=True)
class StorageProtocol:
    """All that differs between the schemes of servers, beside their logins and sessions.

    port: where an address names none. logins: raises NotActivatedError, VaultError.
    """

    scheme: str
    port: int
    need: Need
    logins: Callable[[LoginContext], LoginMaker]
    #: `Server.subject` is the fingerprint of a key (`SHA256:...`), and not the subject of a certificate.
    pinned: bool = False
    #: For a new server whose owner gives no fingerprint; None: nothing is read.
    read_key: KeyReader | None = None
    #: Its server can be a jump host.
    can_be_jump_host: bool = False
    #: Its servers are reached through a jump host, where their endpoint names one. Others are connected to directly.
    uses_jump_host: bool = False
    #: This service may run its own server in the user's account.
    runs_program: bool = False
    #: All data go through this service: its servers open no data connections with servers of other endpoints.
    streamed: bool = False
    #: Passwords travel in clear: the operator may refuse them (`WAYBILL_CLEAR_PASSWORDS`).
    clear_password: bool = False


def trust() -> TrustFolder:
    """The certificate authorities that this service trusts."""
    return _trust_folder(Path(settings.CERTIFICATES))


@functools.lru_cache(maxsize=8)
def _trust_folder(path: Path) -> TrustFolder:
    return TrustFolder(path)


def may_delegate_to(hostname: str, subject: str) -> bool:
    """Whether the operator lets this server act as the user, with a limited proxy.

    The operator lists host names, so the server must prove its host name: with a `subject`, another service of that
    host could pass for it.
    """
    return not subject and hostname.lower() in {name.lower() for name in settings.DELEGATE_TO}


def pack_ssh(username: str, private_key: bytes) -> bytes:
    """An account, and its private key (PEM, without a passphrase) or its password, as one secret for the vault."""
    return username.encode() + b"\0" + private_key


def unpack_ssh(secret: bytes) -> tuple[str, bytes]:
    username, _, private_key = secret.partition(b"\0")
    return username.decode(), private_key


@sensitive_variables()
def _gsi(context: LoginContext) -> LoginMaker:
    assert context.secret is not None
    credential, folder = X509Credential.parse(context.secret), trust()

    def make(hostname: str, port: int, subject: str) -> Login:
        return GsiLogin(credential, folder, hostname, subject, delegate=may_delegate_to(hostname, subject))

    return make


@sensitive_variables()
def _password(context: LoginContext) -> LoginMaker:
    if context.secret is None:
        return lambda hostname, port, subject: ANONYMOUS
    username, password = unpack_ssh(context.secret)
    return lambda hostname, port, subject: PasswordLogin(username, password)


@sensitive_variables()
def _password_by_tls(context: LoginContext) -> LoginMaker:
    username, password = ANONYMOUS.user.decode(), ANONYMOUS.password
    if context.secret is not None:
        username, password = unpack_ssh(context.secret)

    def make(hostname: str, port: int, subject: str) -> Login:
        note = _note_key(context.endpoint, hostname, port)
        return FtpTlsLogin(hostname, subject, username, password, Path(settings.CERTIFICATES), note)

    return make


@sensitive_variables()
def _sshftp(context: LoginContext) -> LoginMaker:
    from .ssh.sshftp_login import SshLogin

    assert context.secret is not None
    username, private_key = unpack_ssh(context.secret)
    return lambda hostname, port, subject: SshLogin(username, private_key, subject)


@sensitive_variables()
def _account(context: LoginContext) -> LoginMaker:
    """By GridFTP or by SFTP: by what the account offers."""
    from .ssh.accounts.account_login import AccountLogin
    from .ssh.connection import SshAccount

    assert context.secret is not None
    username, private_key = unpack_ssh(context.secret)

    def make(hostname: str, port: int, subject: str) -> Login:
        account, note = SshAccount(username, private_key, subject), _note_key(context.endpoint, hostname, port)
        return AccountLogin(account, context.jump_host, context.endpoint.data_ports, note)

    return make


@sensitive_variables()
def _sftp(context: LoginContext) -> LoginMaker:
    from .ssh.connection import SshAccount
    from .ssh.sftp.login import SftpLogin

    assert context.secret is not None
    username, private_key = unpack_ssh(context.secret)

    def make(hostname: str, port: int, subject: str) -> Login:
        account = SshAccount(username, private_key, subject)
        return SftpLogin(account, _note_key(context.endpoint, hostname, port))

    return make


@sensitive_variables()
def _s3(context: LoginContext) -> LoginMaker:
    from .s3.login import S3Login
    from .s3.signature import AccessKey

    key = AccessKey.unpack(context.secret) if context.secret is not None else None

    def make(hostname: str, port: int, subject: str) -> Login:
        note = _note_key(context.endpoint, hostname, port)
        return S3Login(key, hostname, subject, Path(settings.CERTIFICATES), note)

    return make


def _note_key(endpoint: Endpoint, hostname: str, port: int) -> Callable[[str], None]:
    from .ssh.host_keys import note_host_key

    return functools.partial(note_host_key, endpoint.pk, hostname, port)


async def _read_ssh_key(server: ServerAddress) -> str:
    from .ssh.connection import shown_host_key

    return await shown_host_key(server.host, server.port, timeout=CONNECT_TIMEOUT, jump=server.jump_host)


async def _read_tls_key(server: ServerAddress) -> str:
    """The fingerprint; an empty text where its certificate is trusted, and for its name."""
    return await shown_key(server.host, server.port, server.hostname, settings.CERTIFICATES, timeout=CONNECT_TIMEOUT)


async def _read_store_key(server: ServerAddress) -> str:
    """The fingerprint; an empty text where its certificate is trusted, and for its name."""
    from .s3.http import StoreAddress
    from .s3.login import shown_key as shown_store_key

    address = StoreAddress(server.host, server.port, server.hostname, authorities=Path(settings.CERTIFICATES))
    return await shown_store_key(address, timeout=CONNECT_TIMEOUT)


def _no_login(context: LoginContext) -> LoginMaker:
    """For a scheme that only a newer version knows: its workers go on."""
    advice = "This version of the service does not know the protocol of the endpoint's servers."

    def make(hostname: str, port: int, subject: str) -> Login:
        raise FaultError(Fault(Kind.UNSUPPORTED, scope=FaultScope.ENDPOINT, advice=advice))

    return make


#: The scheme of a server whose address names none.
USUAL = "gsiftp"
#: A scheme that stands in a row of the database, and that this version does not have.
UNKNOWN = StorageProtocol("", 1, Need.NONE, _no_login)
PROTOCOLS: dict[str, StorageProtocol] = {
    row.scheme: row
    for row in (
        StorageProtocol("gsiftp", 2811, Need.X509, _gsi),
        StorageProtocol("ftp", 21, Need.PASSWORD, _password, clear_password=True),
        StorageProtocol(
            "ftpes", 21, Need.PASSWORD, _password_by_tls, pinned=True, read_key=_read_tls_key, streamed=True
        ),
        StorageProtocol("sshftp", 22, Need.SSH, _sshftp, pinned=True, can_be_jump_host=True),
        StorageProtocol(
            "ssh", 22, Need.SSH, _account, pinned=True, read_key=_read_ssh_key, can_be_jump_host=True,
            uses_jump_host=True, runs_program=True,
        ),
        StorageProtocol(
            "sftp", 22, Need.SSH, _sftp, pinned=True, read_key=_read_ssh_key, can_be_jump_host=True, streamed=True
        ),
        StorageProtocol("s3", 443, Need.ACCESS_KEY, _s3, pinned=True, read_key=_read_store_key, streamed=True),
    )
}  # fmt: skip


def of_scheme(scheme: str) -> StorageProtocol:
    """The record of a scheme as a row of the database has it; `UNKNOWN` where only a newer version knows it."""
    return PROTOCOLS.get(scheme, UNKNOWN)


def of_endpoint(endpoint: Endpoint) -> StorageProtocol | None:
    """The record of an endpoint's servers, which all have one scheme. None if it has no servers."""
    return next((of_scheme(server.scheme) for server in endpoint.servers.all()), None)


def schemes(such: Callable[[StorageProtocol], bool] = lambda _: True) -> list[str]:
    """The schemes of protocols with this property, in the order of `PROTOCOLS`."""
    return [row.scheme for row in PROTOCOLS.values() if such(row)]


def listed(names: Iterable[str], word: str = "or") -> str:
    """The names as a sentence has them: "gsiftp, ftp or sftp"."""
    *first, last = names
    return f"{', '.join(first)} {word} {last}" if first else last
