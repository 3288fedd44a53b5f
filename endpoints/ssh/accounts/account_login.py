"""Login to a host on which nothing need be installed: the scheme `ssh`.

The login finds the toolkit's server (as sshftp does), or runs our own server by the account's `python3`, or finds that
the account can do neither: then it has SFTP, which `endpoints.ssh.sftp` speaks on the same account.

Data connections of a GridFTP server are channels of the ssh connection (RFC 4254 section 7.2, direct-tcpip).
"""

from __future__ import annotations

import asyncio
import ipaddress
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial

import asyncssh

from endpoints.gridftp.client import SCAN_FACTS, GridFTPSession
from endpoints.gridftp.connection import CONNECT_TIMEOUT, ControlConnection, session_fault
from endpoints.gridftp.control import Lost
from endpoints.gridftp.faults import Fault, FaultError, FaultScope, Kind
from endpoints.gridftp.streams.tls_streams import PIECE, ClientDataConnection
from endpoints.ssh.bounded_connection import BoundedConnection
from endpoints.ssh.connection import JumpHost, NoteHostKey, SshAccount, connect, wire_of
from endpoints.ssh.sftp.login import begin_session
from endpoints.ssh.sftp.session import SftpSession
from identity.gsi.printable import readable

from .offer import OWN, SFTP, TOOLKIT, AccountOffer
from .packed_server import ServerBlob, program
from .remote_program import WINDOW, NoMarkError, RemoteProgram
from .remote_shell import cleaning, command
from .server_link import ServerLink, shared_links

#: Octets of a file that may be on their way to us in one channel of ssh: 60 ms at 1 Gbit/s, twice.
FORWARDED_WINDOW = 16 * 1024 * 1024


class ForwardedData(ClientDataConnection):
    """A data connection in a channel of ssh."""

    def __init__(self, reader: asyncssh.SSHReader[bytes], writer: asyncssh.SSHWriter[bytes]) -> None:
        self._ssh_reader, self._ssh_writer = reader, writer

    async def read(self) -> bytes:
        try:
            data = await self._ssh_reader.read(PIECE)
        except asyncssh.Error as error:
            raise ConnectionResetError(str(error)) from None
        self.received += len(data)
        return data

    async def write(self, data: bytes) -> None:
        try:
            self._ssh_writer.write(data)
            self.sent += len(data)
            await self._ssh_writer.drain()
        except asyncssh.Error as error:
            raise ConnectionResetError(str(error)) from None

    async def end(self) -> None:
        self._ssh_writer.write_eof()

    def _buffered(self) -> int:
        return int(self._ssh_writer.channel.get_write_buffer_size())

    def abort(self) -> None:
        self._ssh_writer.channel.abort()


#: Seconds to log in and start the server: as long as another login, and the time to send 60 KB over a slow line.
TIMEOUT = 2 * CONNECT_TIMEOUT

#: An account whose ssh server forwards no connections: a worker reads and writes its files by SFTP.
NO_FORWARDING = AccountOffer(SFTP, "Its ssh server forwards no data connections.")
#: Accounts of this process for which that is known: the keys of their logins, and the hosts.
_unforwarded: set[tuple[str, str]] = set()
_MOST_UNFORWARDED = 1000


class OnlySftpError(FaultError):
    """The account runs neither the toolkit's server nor ours: it has SFTP, if anything."""

    def __init__(self, found: AccountOffer, raw: str) -> None:
        advice = f"{found.words} A GridFTP server cannot run there."
        super().__init__(Fault(Kind.UNSUPPORTED, scope=FaultScope.ENDPOINT, advice=advice, raw=raw))
        self.found = found


@dataclass(frozen=True)
class AccountLogin:
    """A `Login` (see `gridftp.login`) to an account by an ssh key, through a jump host where there is one.

    data_ports: "LOW-HIGH", the ports at which our server awaits data connections; "": any.
    """

    account: SshAccount
    jump: JumpHost | None = None
    data_ports: str = ""
    note_host_key: NoteHostKey | None = field(default=None, repr=False, compare=False)

    protected = True
    #: Both servers expect these commands and ignore their values: they run as the account already.
    user = b"anonymous"
    password = b"dummy"

    @cached_property
    def key(self) -> str:
        jump = f":{self.jump.account.key}:{self.jump.port}" if self.jump else ""
        return f"account:{self.account.key}:{self.data_ports}{jump}"

    async def connect(self, host: str, port: int, *, timeout: float = CONNECT_TIMEOUT) -> ControlConnection:
        """A control connection to a server that the account runs. Raises OnlySftpError, FaultError."""
        timeout = max(timeout, TIMEOUT)
        links = shared_links(self.key, host, port)
        taken = await links.take(lambda: self._start_server(host, port, timeout))
        if isinstance(taken, AccountConnection):
            return taken
        connection = self._connection(host, taken.ssh, taken.running, taken.found, own_ssh=False)
        try:
            taken.open(connection)
        except ConnectionResetError as error:
            text = readable(taken.running.stderr.decode("utf-8", "replace").strip())
            raise FaultError(session_fault(Kind.CONNECTION_RESET, f"{error} {text}".strip())) from None
        return connection

    async def _start_server(self, host: str, port: int, timeout: float) -> ServerLink | AccountConnection:
        """A server of ours for several sessions, or one session of the toolkit's. Raises OnlySftpError, FaultError."""
        loop = asyncio.get_running_loop()
        until = loop.time() + timeout
        making = loop.run_in_executor(None, program)  # a tenth of a second, once in a process, while the login waits
        ssh = await self.log_in(host, port, timeout=timeout)
        try:
            async with asyncio.timeout_at(until):
                running, found = await self._start(ssh, await making)
                if found.kind == OWN:
                    return running.hand_over(lambda: ServerLink(ssh, running, found))
                return running.hand_over(lambda: self._connection(host, ssh, running, found, own_ssh=True))
        except TimeoutError:
            ssh.abort()
            late = f"the account's shell started no server within {timeout:g} s"
            raise FaultError(session_fault(Kind.TIMEOUT, late)) from None
        except (asyncssh.Error, OSError):
            ssh.abort()
            raise FaultError(session_fault(Kind.CONNECTION_RESET, "the ssh connection ended too early")) from None
        except BaseException:
            ssh.abort()
            raise

    async def log_in(self, host: str, port: int, *, timeout: float) -> BoundedConnection:
        """The account's connection, for a command or for SFTP. Raises FaultError."""
        return await connect(
            host, port, self.account, timeout=timeout, jump=self.jump, note_host_key=self.note_host_key
        )

    def _connection(
        self,
        host: str,
        ssh: BoundedConnection,
        running: RemoteProgram,
        found: AccountOffer,
        *,
        own_ssh: bool,
    ) -> AccountConnection:
        refuse_forwarding = partial(_remember_unforwarded, self._place(host))
        return AccountConnection(host, ssh, running, found, refuse_forwarding, own_ssh=own_ssh)

    def _place(self, host: str) -> tuple[str, str]:
        return self.key, host

    async def open_session(
        self, host: str, port: int, *, timeout: float = CONNECT_TIMEOUT, facts: str = SCAN_FACTS
    ) -> GridFTPSession | SftpSession:
        """A session of GridFTP where the account has it, else of SFTP. Raises FaultError."""
        if self._place(host) in _unforwarded:
            return await self._open_sftp(host, port, timeout, NO_FORWARDING)
        try:
            return await GridFTPSession.open(host, port, login=self, timeout=max(timeout, TIMEOUT), facts=facts)
        except OnlySftpError as error:
            return await self._open_sftp(host, port, timeout, error.found)

    async def _open_sftp(self, host: str, port: int, timeout: float, found: AccountOffer) -> SftpSession:
        ssh = await self.log_in(host, port, timeout=timeout)
        try:
            session = await begin_session(ssh, timeout)
        except FaultError as error:
            raise FaultError(_without_sftp(error.fault, found)) from None
        session.offer = found.words
        return session

    async def _start(self, ssh: BoundedConnection, sent: ServerBlob) -> tuple[RemoteProgram, AccountOffer]:
        mark = _new_mark()
        arguments = (self.data_ports,) if self.data_ports else ()
        try:
            running = await run(ssh, mark, command(mark, sent, arguments))
            return running, await _begin(running, sent)
        except NoMarkError as error:
            raise OnlySftpError(AccountOffer(SFTP, _why_only(error)), readable(error.text)) from None
        except asyncssh.ChannelOpenError as error:
            raise OnlySftpError(AccountOffer(SFTP, "The account may run no commands."), str(error)[:500]) from None


def _without_sftp(fault: Fault, found: AccountOffer) -> Fault:
    """The fault of an account that opens no SFTP session either. An administrator can change that, so it is retried."""
    if fault.kind not in (Kind.ENDPOINT_ERROR, Kind.CONNECTION_BROKEN):
        return fault
    advice = f"{found.words} Its ssh server starts no SFTP session either: the account needs one of the two."
    return replace(fault, kind=Kind.UNSUPPORTED, scope=FaultScope.ENDPOINT, advice=advice)


def _why_only(error: NoMarkError) -> str:
    if error.sftp:
        return "The account may use SFTP only."
    return "Its python3 did not start our server." if error.begun else "The account's shell runs no commands of ours."


def offer_of(session: object) -> str:
    """The offer of an ssh account, a sentence for people; "" for a session of another kind."""
    if isinstance(session, GridFTPSession) and isinstance(session.connection, AccountConnection):
        return session.connection.found.words
    return session.offer if isinstance(session, SftpSession) else ""


def _remember_unforwarded(place: tuple[str, str]) -> None:
    if len(_unforwarded) >= _MOST_UNFORWARDED:
        _unforwarded.clear()
    _unforwarded.add(place)


async def run(ssh: BoundedConnection, mark: str, script: str) -> RemoteProgram:
    """Start a script of `remote_shell`."""
    loop = asyncio.get_running_loop()
    begun = loop.time()
    _, running = await ssh.create_session(
        lambda: RemoteProgram(mark), script, encoding=None, window=WINDOW, request_pty=False
    )
    assert isinstance(running, RemoteProgram)
    # One for the channel, and one for the command.
    running.round_trip = (loop.time() - begun) / 2
    return running


async def _begin(running: RemoteProgram, sent: ServerBlob) -> AccountOffer:
    """Follow the script's reports until a server has taken over. Raises NoMarkError, OnlySftpError."""
    kind, *words = await running.report()
    if kind == "toolkit":
        return AccountOffer(TOOLKIT, "The toolkit's server was found, set up for ssh.", _address(words))
    if kind != "python":
        found = ", ".join(words).replace("=", " ").replace("-", "") or "none"
        raise OnlySftpError(AccountOffer(SFTP, f"There is no python3 of 3.8 or later (found: {readable(found)})."), "")
    version = readable(" ".join(words[2:]).lstrip("+"))
    stored, *why = await running.report()
    note = stored
    if stored == "send":
        running.channel.write(sent.blob)
        stored, *why = await running.report()
        note = "sent"
    if stored not in ("cached", "kept", "unkept"):
        raise FaultError(session_fault(Kind.ENDPOINT_ERROR, f"our server did not start: {readable(' '.join(why))}"))
    await _await_ready(running, version)
    unkept = f", which it cannot keep in its cache folder ({readable(' '.join(why))})" if stored == "unkept" else ""
    return AccountOffer(OWN, f"The account's python3 is {version}, and runs our server{unkept}.", _address(words), note)


async def _await_ready(running: RemoteProgram, version: str) -> None:
    """Raises NoMarkError, and OnlySftpError where this python3 lacks what our server needs."""
    state, *why = await running.report()
    if state != "ready":
        words = f"Its python3 ({version}) cannot run our server: {readable(' '.join(why)) or state}."
        raise OnlySftpError(AccountOffer(SFTP, words), "")


def _address(words: Sequence[str]) -> str:
    """The IP address in a report; "" for anything else."""
    try:
        return str(ipaddress.ip_address(words[0]))
    except (IndexError, ValueError):
        return ""


async def remove_program(login: AccountLogin, host: str, port: int) -> bool:
    """Remove our program from the account's cache folder. Returns whether all of it is gone. Raises FaultError."""
    ssh = await login.log_in(host, port, timeout=CONNECT_TIMEOUT)
    try:
        async with asyncio.timeout(CONNECT_TIMEOUT):
            mark = _new_mark()
            running = await run(ssh, mark, cleaning(mark))
            return (await running.report())[:1] == ["gone"]
    except NoMarkError:
        return True  # without a shell nothing was ever kept
    except TimeoutError:
        raise FaultError(session_fault(Kind.TIMEOUT, "the account's shell did not answer")) from None
    except asyncssh.Error:
        raise FaultError(session_fault(Kind.CONNECTION_RESET, "the ssh connection ended too early")) from None
    finally:
        ssh.abort()


def _new_mark() -> str:
    return f"waybill-{secrets.token_hex(8)}"


class AccountConnection(ControlConnection):
    """A control connection over ssh. found: what the account offered. own_ssh: no other session uses the same ssh."""

    def __init__(
        self,
        host: str,
        ssh: BoundedConnection,
        running: RemoteProgram,
        found: AccountOffer,
        refuse_forwarding: Callable[[], object],
        *,
        own_ssh: bool,
    ) -> None:
        super().__init__()
        self._refuse_forwarding = refuse_forwarding
        self.found = found
        self.forward_data = self._forward
        self._host = host
        self._ssh = ssh
        self._own_ssh = own_ssh
        self.wire = wire_of(ssh)
        self._running = running
        # There is no connection of its own to measure it by, and the first plan needs it.
        self._note_round_trip(running.round_trip)

    @property
    def peer_host(self) -> str:
        return self._host

    @property
    def server_address(self) -> tuple[str, int]:
        return self._ssh.server_address

    async def _forward(self, port: int) -> ClientDataConnection:
        """`ControlConnection.forward_data`: to the address at which the ssh server was reached, where both servers
        listen. Raises FaultError."""
        try:
            reader, writer = await self._ssh.open_connection(
                self.found.address or "127.0.0.1", port, encoding=None, window=FORWARDED_WINDOW
            )
        except asyncssh.ChannelOpenError as error:
            self._refuse_forwarding()
            fault = session_fault(Kind.CONNECT_FAILED, f"the ssh server forwards no data connections: {error.reason}")
            raise FaultError(fault) from None
        except asyncssh.Error as error:
            raise OSError(str(error)) from None
        return ForwardedData(reader, writer)

    def abort(self, fault: Fault | None = None) -> None:
        super().abort(fault)
        self._end_ssh()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._end_ssh()
        # Its ssh connection may be in use by sessions of other slices.
        self.set_fence(None)

    def _end_ssh(self) -> None:
        if self._own_ssh:
            self._ssh.abort()

    def _lose(self, event: Lost) -> None:
        """Add what the server wrote to its standard error."""
        text = readable(self._running.stderr.decode("utf-8", "replace").strip())
        fault = event.fault
        super()._lose(event._replace(fault=replace(fault, raw=f"{fault.raw}: {text}") if text else fault))
