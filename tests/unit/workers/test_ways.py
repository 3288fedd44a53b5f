"""Which way data take between two servers, by what is known about both."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from endpoints.gridftp.client import GridFTPSession
from endpoints.gridftp.faults import Side
from endpoints.ssh.sftp.session import SftpSession
from workers.engine.ports import TCP
from workers.sessions.pool import THIRD_PARTY, Address, SessionKey, SessionPool
from workers.sessions.pooled_sessions import PooledSession
from workers.ways import agents, way
from workers.ways.choice import WAYS, way_between
from workers.ways.through_service import ThroughService
from workers.ways.way import Pair, SliceLanes


def gridftp(
    host: str = "",
    *,
    blocks: bool = True,
    listens: bool = True,
    tls: bool = False,
    protected: bool = False,
    offer: str = "",
) -> Any:
    """A session with a GridFTP or FTP server, as far as the choice looks at it. offer: of an ssh account."""
    session: Any = object.__new__(GridFTPSession)
    session.connection = SimpleNamespace(data_tls=object() if tls else None, peer_host=host)
    session.login = SimpleNamespace(protected=protected)
    session.listens, session._moves_blocks, session.offer = listens, blocks, offer
    return session


def sftp() -> Any:
    session: Any = object.__new__(SftpSession)
    session.offer = ""
    return session


SERVER = gridftp("server")
PLAIN = gridftp("plain", blocks=False)
PROTECTED = gridftp("protected", protected=True)
FTPES = gridftp("ftpes", blocks=False, tls=True, protected=True)
AGENT = gridftp("laptop", listens=False, protected=True)
DESKTOP = gridftp("desktop", listens=False, protected=True)
ACCOUNT = gridftp("login-node", protected=True, offer="python 3.11")


@pytest.fixture(autouse=True)
def offers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(way, "offer_of", lambda session: session.offer)


def pair(source: Any, destination: Any, *, pool: SessionPool | None = None, **options: object) -> Pair:
    unused = cast("Any", None)
    lanes = SliceLanes(
        pool or SessionPool(),
        streams=unused,
        options=options,
        stream_only=False,
        hosts=unused,
        accept_address=unused,
        new_token=unused,
        explained=unused,
        size_at=unused,
    )
    ends = [
        PooledSession(SessionKey(Address(_host(session), 2811)), side, session)
        for side, session in ((Side.SOURCE, source), (Side.DESTINATION, destination))
    ]
    return Pair(ends[0], ends[1], lanes, TCP)


def _host(session: Any) -> str:
    return session.connection.peer_host if isinstance(session, GridFTPSession) else "sftp"


@pytest.mark.parametrize(
    ("source", "destination", "name"),
    [
        (SERVER, SERVER, "BetweenServers"),
        (AGENT, SERVER, "BetweenServers"),
        (SERVER, AGENT, "ToAgent"),
        (ACCOUNT, AGENT, "ToAgent"),
        (AGENT, DESKTOP, "BetweenAgentsByRelay"),
        (ACCOUNT, SERVER, "BetweenAccounts"),
        (AGENT, ACCOUNT, "BetweenAccounts"),
        (PLAIN, PLAIN, "InStreamMode"),
        (SERVER, PLAIN, "InStreamMode"),
        (PROTECTED, PLAIN, "ThroughService"),
        (FTPES, FTPES, "ThroughService"),
        (FTPES, PLAIN, "ThroughService"),
        (sftp(), SERVER, "ThroughService"),
        (AGENT, sftp(), "ThroughService"),
        (sftp(), AGENT, "ThroughService"),
    ],
)
async def test_the_first_possible_way_is_taken(source: Any, destination: Any, name: str) -> None:
    assert type(await way_between(pair(source, destination))).__name__ == name


@pytest.mark.parametrize(("source", "destination"), [(ACCOUNT, SERVER), (ACCOUNT, AGENT), (PLAIN, PLAIN)])
async def test_after_a_failed_trial_data_go_through_the_service(source: Any, destination: Any) -> None:
    pool = SessionPool()
    pool.refuse(THIRD_PARTY, Address(_host(source), 2811), Address(_host(destination), 2811))
    assert isinstance(await way_between(pair(source, destination, pool=pool)), ThroughService)


@pytest.mark.parametrize("refused", [False, True])
async def test_agents_on_one_computer_try_to_reach_each_other_first(
    monkeypatch: pytest.MonkeyPatch, refused: bool
) -> None:
    async def own_address(_: GridFTPSession) -> tuple[str, int]:
        return "127.0.0.1", 50000

    monkeypatch.setattr(agents, "_own_address", own_address)
    pool = SessionPool()
    if refused:
        pool.refuse(THIRD_PARTY, Address("laptop", 2811), Address("laptop", 2811))
    taken = await way_between(pair(AGENT, AGENT, pool=pool))
    assert type(taken) is (agents.BetweenAgentsByRelay if refused else agents.BetweenAgents)


async def test_the_last_way_is_always_possible() -> None:
    assert WAYS[-1] is ThroughService
    assert isinstance(await ThroughService.of(pair(sftp(), sftp())), ThroughService)
