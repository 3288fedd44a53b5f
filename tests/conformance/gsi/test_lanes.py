"""Transfers between servers with GSI: whose data channels are protected how, and what travels over them."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

import pytest

from deploy.endpoint.authority import CertificateFiles
from endpoints.gridftp.client import GridFTPSession
from endpoints.gridftp.faults import Fault, FaultError, Kind, Side
from endpoints.gridftp.login import ANONYMOUS, GsiLogin, Login
from endpoints.gridftp.third_party import lane as lanes
from endpoints.gridftp.third_party.data_path import DataAddress, DataPath
from endpoints.gridftp.third_party.data_security import DataSecurity, agree, network_stack, secure
from endpoints.gridftp.third_party.lane import ThirdPartyLane
from endpoints.gridftp.third_party.slots import FileProgress, FileRefused, FileReturned, FileSettled, Transfer
from tests.conformance.gridftp.test_striped_servers import DataNode
from tests.gridftp.authority import Authority, write_gridmap
from tests.gridftp.data_proxy import DataProxy
from tests.gridftp.features import without
from tests.gridftp.grid import TIMEOUT, login_of
from tests.gridftp.toolkit import GsiFiles, ToolkitServer, session_account

pytestmark = pytest.mark.toolkit

Servers = Callable[..., ToolkitServer]
PLAIN = b"all of this is plain to see. "
CONTENT = PLAIN * 20_000


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Both servers' files."""
    served = tmp_path / "served"
    served.mkdir()
    for number in range(40):
        (served / f"source-{number}").write_bytes(CONTENT[number:])
    (served / "out").mkdir()
    return served


@dataclass(frozen=True, slots=True)
class ProxiedPath(DataPath):
    """Give the source the address of a proxy instead of the destination."""

    proxy: DataProxy | None = None

    def connect(self, addresses: tuple[DataAddress, ...]) -> tuple[str, bytes]:
        assert self.proxy
        doors = tuple(("127.0.0.1", self.proxy.open_door(*address)) for address in addresses)
        return DataPath.connect(self, doors)


@pytest.fixture
async def wire(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[DataProxy]:
    """All data goes through it, and it remembers."""
    async with DataProxy(keep=True) as proxy:
        monkeypatch.setattr(lanes, "_data_path", lambda *_, **__: ProxiedPath(proxy=proxy))
        yield proxy


class HasPort(Protocol):
    """A server on loopback."""

    port: int


@asynccontextmanager
async def sessions(*pairs: tuple[HasPort, Login]) -> AsyncIterator[list[GridFTPSession]]:
    async with AsyncExitStack() as stack:
        opened = []
        for server, login in pairs:
            session = await GridFTPSession.open("127.0.0.1", server.port, login=login, timeout=TIMEOUT)
            stack.push_async_callback(session.close)
            opened.append(session)
        yield opened


async def move(
    source: GridFTPSession, destination: GridFTPSession, files: Sequence[tuple[str, str]], *, streams: int = 2
) -> dict[int, object]:
    """Move the files, and return the outcome of each by its number. A file is (source, destination)."""
    lane = ThirdPartyLane(
        source, destination, parallelism=streams, accept_address=lambda _: True, stall_timeout=TIMEOUT
    )
    for number, (old, new) in enumerate(files):
        lane.feed(Transfer(number, old.encode(), new.encode(), len(CONTENT)))
    outcome: dict[int, Any] = {}
    while len(outcome) < len(files):
        for event in await lane.events():
            if isinstance(event, FileSettled | FileRefused | FileReturned):
                outcome[event.tag] = event  # type: ignore[index]
            else:
                assert isinstance(event, FileProgress), event
    assert lane.release(), outcome
    return outcome


async def move_all(source: GridFTPSession, destination: GridFTPSession, folder: Path, *, count: int = 3) -> None:
    """Some files, which must arrive as they are."""
    for path in (folder / "out").iterdir():
        path.unlink()
    outcome = await move(source, destination, [(f"{folder}/source-{n}", f"{folder}/out/{n}") for n in range(count)])
    assert all(isinstance(event, FileSettled) for event in outcome.values()), outcome
    for number in range(count):
        assert (folder / "out" / str(number)).read_bytes() == CONTENT[number:]


class Cast:
    """Servers and logins of two authorities, neither of which the other's servers trust."""

    def __init__(
        self,
        start: Servers,
        folder: Path,
        identity_of: Callable[..., CertificateFiles],
        one: Authority,
        other: Authority,
    ) -> None:
        self._start = start
        self.folder = folder
        self._identity_of = identity_of
        self.one, self.other = one, other

    def server(self, issuer: Authority | None = None, *extra: str) -> ToolkitServer:
        return self._start(self.folder, *extra, issuer=issuer or self.one)

    def login(self, name: str = "alice", issuer: Authority | None = None, *, delegate: bool = False) -> GsiLogin:
        issuer = issuer or self.one
        return login_of(self._identity_of(name, issuer), issuer, delegate=delegate)


@pytest.fixture
def cast(
    gsi_server_factory: Servers,
    folder: Path,
    identity_of: Callable[..., CertificateFiles],
    authority: Authority,
    other_authority: Authority,
) -> Cast:
    return Cast(gsi_server_factory, folder, identity_of, authority, other_authority)


async def secured(source: GridFTPSession, destination: GridFTPSession, *, encrypt: bool = False) -> DataSecurity:
    return await secure(source, destination, agree(source, destination, encrypt=encrypt))


# ---- servers of different authorities, users with different credentials


@pytest.mark.parametrize("encrypt", [False, True])
async def test_servers_that_do_not_know_each_other_move_files_and_encrypt_them_when_asked(
    cast: Cast, folder: Path, wire: DataProxy, encrypt: bool
) -> None:
    alice = cast.server(cast.one), cast.login("alice", cast.one)
    bob = cast.server(cast.other), cast.login("bob", cast.other)

    async with sessions(alice, bob) as (source, destination):
        held = await secured(source, destination, encrypt=encrypt)
        await move_all(source, destination, folder)

    assert held is (DataSecurity.PRIVATE if encrypt else DataSecurity.AUTHENTICATED)
    assert wire.passed > 3 * len(PLAIN) * 19_000
    assert wire.seen.startswith(b"\x16\x03"), "no TLS on the data channel"
    assert (PLAIN in wire.seen) is not encrypt


VERSIONS = [
    ("TLS1_2_VERSION", "TLS1_2_VERSION"),
    ("TLS1_3_VERSION", "TLS1_3_VERSION"),
    ("TLS1_2_VERSION", None),
    (None, "TLS1_2_VERSION"),
]


@pytest.mark.parametrize("encrypt", [False, True])
@pytest.mark.parametrize("versions", VERSIONS)
async def test_servers_with_one_version_of_tls_are_served(
    cast: Cast, folder: Path, monkeypatch: pytest.MonkeyPatch, versions: tuple[str | None, str | None], encrypt: bool
) -> None:
    ends = []
    for version, issuer in zip(versions, (cast.one, cast.other), strict=True):
        with monkeypatch.context() as patch:
            if version:
                patch.setenv("GLOBUS_GSSAPI_MIN_TLS_PROTOCOL", version)
                patch.setenv("GLOBUS_GSSAPI_MAX_TLS_PROTOCOL", version)
            ends.append((cast.server(issuer), cast.login("alice", issuer)))

    async with sessions(*ends) as (source, destination):
        await secured(source, destination, encrypt=encrypt)
        await move_all(source, destination, folder)


async def test_names_beyond_ascii_go_through_a_protected_lane(cast: Cast, folder: Path) -> None:
    (folder / "źródło ü").write_bytes(b"content")
    os.chmod(folder / "źródło ü", 0o644)

    async with sessions((cast.server(), cast.login()), (cast.server(), cast.login())) as (source, destination):
        await secured(source, destination, encrypt=True)
        outcome = await move(source, destination, [(f"{folder}/źródło ü", f"{folder}/out/目的地")])

    assert isinstance(outcome[0], FileSettled)
    assert (folder / "out" / "目的地").read_bytes() == b"content"


@pytest.mark.parametrize("encrypt", [False, True])
async def test_files_that_fail_leave_no_octet_under_another_name(cast: Cast, folder: Path, encrypt: bool) -> None:
    files = [
        (
            f"{folder}/{'none' if number % 7 == 2 else 'source'}-{number}",
            f"{folder}/{'nowhere' if number % 11 == 3 else 'out'}/{number}",
        )
        for number in range(40)
    ]
    good = {n for n, (old, new) in enumerate(files) if "none" not in old and "nowhere" not in new}
    settled: set[int] = set()
    waiting = set(range(40))

    async with sessions(
        (cast.server(cast.one), cast.login("alice", cast.one)), (cast.server(cast.other), cast.login("bob", cast.other))
    ) as (source, destination):
        await secured(source, destination, encrypt=encrypt)
        for _ in range(40):
            turn = sorted(waiting)
            outcome = await move(source, destination, [files[n] for n in turn])
            settled |= {turn[n] for n, event in outcome.items() if isinstance(event, FileSettled)}
            refused = {turn[n] for n, event in outcome.items() if isinstance(event, FileRefused)}
            waiting -= settled | refused
            if not waiting:
                break

    assert settled == good
    assert {path.name for path in (folder / "out").iterdir()} == {str(n) for n in good}
    for number in good:
        assert (folder / "out" / str(number)).read_bytes() == CONTENT[number:]


# ---- what a session remembers


async def test_warm_sessions_get_no_command_twice(cast: Cast, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with sessions((cast.server(), cast.login()), (cast.server(), cast.login("bob"))) as (source, destination):
        await secured(source, destination, encrypt=True)
        await move_all(source, destination, folder)
        with monkeypatch.context() as patch:
            for session in (source, destination):
                patch.setattr(session.connection, "request", None)
            assert await secured(source, destination, encrypt=True) is DataSecurity.PRIVATE
        await move_all(source, destination, folder)


async def test_a_session_goes_from_one_protection_to_another(
    cast: Cast, folder: Path, toolkit_server_factory: Servers, wire: DataProxy
) -> None:
    anonymous = toolkit_server_factory(folder)
    ends = (cast.server(), cast.login()), (cast.server(), cast.login("bob")), (anonymous, ANONYMOUS)

    async with sessions(*ends) as (source, bob, nobody):
        for destination, encrypt, held, shown in [
            (bob, True, DataSecurity.PRIVATE, False),
            (nobody, False, DataSecurity.UNAUTHENTICATED, True),
            (bob, False, DataSecurity.AUTHENTICATED, True),
            (bob, True, DataSecurity.PRIVATE, False),
        ]:
            wire.seen.clear()
            assert await secured(source, destination, encrypt=encrypt) is held
            await move_all(source, destination, folder)
            assert (PLAIN in wire.seen) is shown


async def test_a_listing_on_a_data_connection_does_not_leave_a_lane_bare(
    cast: Cast, folder: Path, wire: DataProxy
) -> None:
    async with sessions((cast.server(), cast.login()), (cast.server(), cast.login())) as (source, destination):
        source.features = without(source.features, "MLSC")
        for _ in range(2):
            await secured(source, destination, encrypt=True)
            await move_all(source, destination, folder)
            assert len([entry async for batch in source.listing(str(folder)) for entry in batch]) == 41

    assert PLAIN not in wire.seen


# ---- other transports


@pytest.mark.parametrize("encrypt", [False, True])
async def test_another_transport_does_not_take_the_protection_away(
    cast: Cast, folder: Path, wire: DataProxy, encrypt: bool
) -> None:
    """For "tcp" alone, the server would reply 250, and send in clear although PROT P holds."""
    extra = ("-dc-whitelist", "udt,tcp,gsi", "-threads", "1")
    ends = [(cast.server(issuer, *extra), cast.login("alice", issuer)) for issuer in (cast.one, cast.other)]

    async with sessions(*ends) as (source, destination):
        held = await secured(source, destination, encrypt=encrypt)
        for session in (source, destination):
            await session.connection.ask("SITE", network_stack("tcp", held))
        await move_all(source, destination, folder)

    assert wire.seen.startswith(b"\x16\x03")
    assert (PLAIN in wire.seen) is not encrypt


@pytest.mark.parametrize("encrypt", [False, True])
async def test_udt_goes_with_protected_data_channels(cast: Cast, folder: Path, encrypt: bool) -> None:
    extra = ("-dc-whitelist", "udt,tcp,gsi", "-threads", "1")
    ends = [(cast.server(issuer, *extra), cast.login("alice", issuer)) for issuer in (cast.one, cast.other)]

    async with sessions(*ends) as (source, destination):
        held = await secured(source, destination, encrypt=encrypt)
        for session in (source, destination):
            await session.connection.ask("SITE", network_stack("udt", held))
        await move_all(source, destination, folder)

    assert network_stack("udt", DataSecurity.UNAUTHENTICATED) == b"SETNETSTACK udt"


@pytest.mark.parametrize("side", [Side.SOURCE, Side.DESTINATION])
async def test_data_nodes_of_a_striped_server_keep_to_the_protection(
    cast: Cast, folder: Path, wire: DataProxy, host_of: Callable[[Authority], CertificateFiles], side: Side
) -> None:
    """Between front end and data nodes, a site's own network: without GSI, as the anonymous ones have it."""
    accounts = {cast.one.user_subject("alice"): session_account()}
    gridmap = write_gridmap(cast.one.folder / "gridmap-of-nodes", accounts)
    security = GsiFiles(cast.one.certificates, host_of(cast.one), gridmap)
    with ExitStack() as stack:
        nodes = [stack.enter_context(DataNode(folder, "-dn", "-no-si", security=security)) for _ in range(2)]
        contacts = ",".join(f"127.0.0.1:{node.port}" for node in nodes)
        ends = [(cast.server(cast.other), cast.login("bob", cast.other))]
        ends.insert(side is Side.DESTINATION, (cast.server(None, "-no-si", "-r", contacts), cast.login()))
        async with sessions(*ends) as (source, destination):
            await secured(source, destination, encrypt=True)
            await move_all(source, destination, folder)

    assert wire.seen.startswith(b"\x16\x03")
    assert PLAIN not in wire.seen


# ---- delegated proxies, and none


def without_dcsc(*of: GridFTPSession) -> None:
    for session in of:
        session.features = without(session.features, "DCSC")


@pytest.mark.parametrize("encrypt", [False, True])
@pytest.mark.parametrize("other", ["alice", "bob"])
async def test_delegated_proxies_protect_data_where_servers_take_no_key(
    cast: Cast, folder: Path, wire: DataProxy, encrypt: bool, other: str
) -> None:
    """DCAU A for one user's two proxies, DCAU S for two users'."""
    ends = (cast.server(), cast.login("alice", delegate=True)), (cast.server(), cast.login(other, delegate=True))

    async with sessions(*ends) as (source, destination):
        without_dcsc(source, destination)
        held = await secured(source, destination, encrypt=encrypt)
        assert source.data_security.dcau is not None
        assert source.data_security.dcau.startswith(b"A" if other == "alice" else b"S /O=Grid/")
        await move_all(source, destination, folder)

    assert held is (DataSecurity.PRIVATE if encrypt else DataSecurity.AUTHENTICATED)
    assert wire.seen.startswith(b"\x16\x03")
    assert (PLAIN in wire.seen) is not encrypt


async def test_a_peer_with_another_subject_than_announced_gets_no_data(cast: Cast, folder: Path) -> None:
    ends = (cast.server(), cast.login("alice", delegate=True)), (cast.server(), cast.login("bob", delegate=True))

    async with sessions(*ends) as (source, destination):
        without_dcsc(source, destination)
        await secured(source, destination)
        await destination.connection.ask("DCAU", b"S /O=Grid/OU=Waybill Test/CN=carol")
        lane = ThirdPartyLane(source, destination, parallelism=1, accept_address=lambda _: True)
        lane.feed(Transfer(0, f"{folder}/source-0".encode(), f"{folder}/out/0".encode(), len(CONTENT)))
        event = (await lane.events())[0]
        lane.release()

    assert isinstance(event, FileRefused)
    assert not (folder / "out" / "0").exists() or not (folder / "out" / "0").read_bytes()


async def test_without_a_key_and_without_proxies_data_goes_bare_and_is_never_called_encrypted(
    cast: Cast, folder: Path, wire: DataProxy
) -> None:
    async with sessions((cast.server(), cast.login()), (cast.server(), cast.login())) as (source, destination):
        without_dcsc(destination)

        assert await secured(source, destination) is DataSecurity.UNAUTHENTICATED
        await move_all(source, destination, folder)
        assert PLAIN in wire.seen
        fault = refusal_of(source, destination)

    assert (fault.kind, fault.side, fault.retryable) == (Kind.UNSUPPORTED, Side.DESTINATION, False)
    assert "DCSC" in fault.advice


def refusal_of(source: GridFTPSession, destination: GridFTPSession) -> Fault:
    with pytest.raises(FaultError) as caught:
        agree(source, destination, encrypt=True)
    return caught.value.fault


@pytest.mark.parametrize("anonymous_side", [Side.SOURCE, Side.DESTINATION])
async def test_an_anonymous_end_gets_no_key_and_no_encryption(
    cast: Cast, folder: Path, toolkit_server_factory: Servers, anonymous_side: Side
) -> None:
    ends: list[tuple[ToolkitServer, Login]] = [(toolkit_server_factory(folder), ANONYMOUS)]
    ends.insert(anonymous_side is Side.SOURCE, (cast.server(), cast.login()))

    async with sessions(*ends) as (source, destination):
        assert await secured(source, destination) is DataSecurity.UNAUTHENTICATED
        await move_all(source, destination, folder)
        fault = refusal_of(source, destination)

    assert (fault.kind, fault.side) == (Kind.UNSUPPORTED, anonymous_side)
    assert "clear text" in fault.advice


# ---- servers that name a protection in FEAT, and refuse it


def refusing(cast: Cast, commands: str) -> ToolkitServer:
    """Names in FEAT what it refuses, as the toolkit's server does with disabled commands."""
    return cast.server(None, "-disable-command-list", commands)


@pytest.mark.parametrize("both", [False, True])
@pytest.mark.parametrize(
    ("commands", "why"),
    [
        ("DCSC", "takes no key"),
        ("DCSC P", "takes no key"),
        ("PBSZ,PROT,DCSC", "takes no key"),
        ("PROT", "refuses to encrypt"),
    ],
)
async def test_a_server_that_refuses_what_it_names_is_one_that_does_not_know_it(
    cast: Cast, folder: Path, wire: DataProxy, commands: str, why: str, both: bool
) -> None:
    unwilling = refusing(cast, commands)
    ends = [(unwilling if both else cast.server(), cast.login()), (unwilling, cast.login("bob"))]
    held = DataSecurity.UNAUTHENTICATED if "DCSC" in commands else DataSecurity.AUTHENTICATED

    async with sessions(*ends) as (source, destination):
        assert "DCSC" in destination.features
        for _ in range(2):
            assert await secured(source, destination) is held
            await move_all(source, destination, folder)
        with pytest.raises(FaultError) as caught:
            await secured(source, destination, encrypt=True)
        assert await secured(source, destination) is held

    fault = caught.value.fault
    side = Side.SOURCE if both else Side.DESTINATION
    assert (fault.kind, fault.side, fault.retryable) == (Kind.UNSUPPORTED, side, False)
    assert why in fault.advice
    assert fault.raw.endswith(("Command not supported.", "Command arguments disabled."))


async def test_a_server_that_refuses_pbsz_alone_encrypts(cast: Cast, folder: Path, wire: DataProxy) -> None:
    async with sessions((cast.server(), cast.login()), (refusing(cast, "PBSZ"), cast.login())) as (source, destination):
        assert await secured(source, destination, encrypt=True) is DataSecurity.PRIVATE
        await move_all(source, destination, folder)

    assert PLAIN not in wire.seen


async def test_a_server_without_dcau_is_refused_once_for_all(cast: Cast) -> None:
    """Nobody knows what it does with data connections: neither to say A to it nor N would help."""
    async with sessions((cast.server(), cast.login()), (refusing(cast, "DCAU"), cast.login())) as (source, destination):
        for encrypt, why in ((False, "refuses the commands that protect"), (True, "refuses to authenticate")):
            with pytest.raises(FaultError) as caught:
                await secured(source, destination, encrypt=encrypt)
            fault = caught.value.fault
            assert (fault.kind, fault.side, fault.retryable) == (Kind.UNSUPPORTED, Side.DESTINATION, False)
            assert why in fault.advice


@pytest.mark.parametrize("encrypt", [False, True])
async def test_a_server_that_does_not_let_go_of_a_key_shows_no_proxy(cast: Cast, folder: Path, encrypt: bool) -> None:
    """It was given one for another partner, and refuses DCSC D."""
    keeps = refusing(cast, "DCSC D"), cast.login("alice", delegate=True)
    proxied = refusing(cast, "DCSC"), cast.login("bob", delegate=True)

    async with sessions(keeps, (cast.server(), cast.login()), proxied) as (source, partner, destination):
        assert await secured(source, partner) is DataSecurity.AUTHENTICATED
        await move_all(source, partner, folder)
        if encrypt:
            with pytest.raises(FaultError) as caught:
                await secured(source, destination, encrypt=True)
            assert caught.value.fault.retryable is False
        assert await secured(source, destination) is DataSecurity.UNAUTHENTICATED
        await move_all(source, destination, folder)
        assert await secured(source, partner) is DataSecurity.AUTHENTICATED
        await move_all(source, partner, folder)


async def test_a_listing_on_data_connections_does_not_need_what_the_server_refuses(cast: Cast, folder: Path) -> None:
    async with sessions((refusing(cast, "DCSC,PBSZ,PROT"), cast.login())) as (session,):
        session.features = without(session.features, "MLSC")
        assert len([entry async for batch in session.listing(str(folder)) for entry in batch]) == 41


async def test_a_delegating_login_is_not_the_same_as_one_that_does_not(cast: Cast) -> None:
    login = cast.login()

    assert replace(login, delegate=True).key != login.key
