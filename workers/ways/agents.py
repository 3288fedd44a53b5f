"""The ways to an agent, and between agents: to these no connection can be made from outside.

An agent and a server: the agent connects and the server listens. Two agents: directly where one can reach the other,
else both connect to the relay of this service, and TLS from end to end keeps the data from it.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable
from functools import partial
from typing import Self

from endpoints.connect import dial
from endpoints.gridftp.client import GridFTPSession
from endpoints.gridftp.commands import CommandError, parse_host_port
from endpoints.gridftp.faults import AWAY_KINDS, FaultError, Side
from endpoints.gridftp.third_party.data_path import LAST_SYSTEM_PORT, DataAddress
from transferapi.tasks.records import DIRECT, RELAYED, DataWay
from workers.sessions.pool import THIRD_PARTY, THROUGH_RELAY

from .entrances import RelayEntrances
from .third_party import ThirdPartyWay
from .trial import Reach, ReachOfRelay
from .way import Pair

TO_AGENT = DataWay(DIRECT, "The computer at the destination connects to the server at the source.")
BETWEEN_AGENTS = DataWay(DIRECT, "The two computers reach each other: they are in one network.")
SAME_COMPUTER = DataWay(DIRECT, "The source and the destination are on one computer.")
THROUGH_US = DataWay(
    RELAYED,
    "Neither computer can be reached from the other one. The data go through this service, encrypted from one computer "
    "to the other.",
)
SMALL_FILES = DataWay(
    RELAYED,
    "The files are small, and a connection for each would take several round trips. The server at the source connects "
    "to the relay of this service, and keeps the connection for all files; the relay passes the octets on, and stores "
    "none.",
)


class ToAgent(ThirdPartyWay):
    """From a server to an agent: the server listens, in MODE S, for several pairs of sessions."""

    listener = Side.SOURCE
    stream_mode = True
    in_parts = True
    data_way = TO_AGENT

    @classmethod
    async def of(cls, pair: Pair) -> Self | None:
        """Possible for every server."""
        return await super().of(pair) if _listen(pair) == (True, False) else None


class ToAgentByRelay(ThirdPartyWay):
    """Small files from a server to an agent: the server connects to a port of the relay, in MODE E."""

    data_way = SMALL_FILES
    trial = ReachOfRelay

    @classmethod
    async def of(cls, pair: Pair) -> Self | None:
        """Possible where the operator has opened ports, and the server reaches them."""
        if not pair.relayed or _listen(pair) != (True, False) or not await pair.moves_blocks():
            return None
        if pair.refuses(THROUGH_RELAY) or not (ports := await _ports(pair)):
            return None
        way = cls(pair)
        way.entrances = ports
        return way

    async def accepts(self) -> Callable[[DataAddress], bool]:
        """Everything: our own relay has named the address."""
        return lambda _: True


class BetweenAgents(ThirdPartyWay):
    """Two agents that reach each other. This service connects to neither's data port."""

    flushes = False
    trial = Reach

    @classmethod
    async def of(cls, pair: Pair) -> Self | None:
        """Possible on one computer, and where this service sees both at one address."""
        if _listen(pair) != (False, False) or pair.refuses(THIRD_PARTY):
            return None
        reach = await _may_reach(pair.source.gridftp, pair.destination.gridftp, same_computer=_is_one_computer(pair))
        return await super().of(pair) if reach else None

    @property
    def data_way(self) -> DataWay:
        """In words for the user."""
        return SAME_COMPUTER if _is_one_computer(self.pair) else BETWEEN_AGENTS

    async def accepts(self) -> Callable[[DataAddress], bool]:
        """An agent's own address, which is for the other agent alone."""
        return partial(accepts, local=_is_one_computer(self.pair))


class BetweenAgentsByRelay(ThirdPartyWay):
    """Two agents: both connect to the relay, and encrypt what it passes on."""

    private = True
    data_way = THROUGH_US

    @classmethod
    async def of(cls, pair: Pair) -> Self | None:
        """Possible for every two agents."""
        return await super().of(pair) if _listen(pair) == (False, False) else None

    def token(self) -> str:
        """Of this lane."""
        return self.pair.lanes.new_token()


def _listen(pair: Pair) -> tuple[bool, bool]:
    """Whether each end accepts data connections: agents do not."""
    if not pair.are_gridftp:
        return True, True
    return pair.source.gridftp.listens, pair.destination.gridftp.listens


def _is_one_computer(pair: Pair) -> bool:
    return pair.source.address == pair.destination.address


async def _ports(pair: Pair) -> RelayEntrances | None:
    """Ports of the relay for this source; None where it has none for it now. Raises FaultError where it is away."""
    sender = pair.source.gridftp.connection.peer_host
    if not sender:
        return None
    hosts = {sender, *await pair.lanes.hosts(Side.SOURCE)}
    ports = RelayEntrances(partial(dial.open_entrance, hosts=hosts), pair.lanes.new_token)
    try:
        await ports.prepare()
    except FaultError as error:
        if error.fault.kind in AWAY_KINDS:
            raise
        return None
    if (":" in ports.host) is not (":" in sender):
        # One has IPv4 only, and the other IPv6.
        pair.refuse(THROUGH_RELAY)
        ports.end()
        return None
    return ports


async def _may_reach(sender: GridFTPSession, receiver: GridFTPSession, *, same_computer: bool) -> bool:
    """Whether one agent could connect to the other's own address."""
    if not (same_computer or _in_one_network(sender, receiver)):
        return False
    address = await _own_address(receiver)
    return address is not None and accepts(address, local=same_computer)


def accepts(address: DataAddress, *, local: bool = False) -> bool:
    """Whether one agent may connect to this address of another one. This service itself never does.

    local: both are the same computer.
    """
    host, port = address
    try:
        ip = ipaddress.ip_address(host)
    except ValueError:
        return False
    if port <= LAST_SYSTEM_PORT or ip.is_multicast or ip.is_unspecified or ip.is_reserved:
        return False
    return not ip.is_link_local and (local or not ip.is_loopback)


def _in_one_network(source: GridFTPSession, destination: GridFTPSession) -> bool:
    """Whether the service sees both at one address: behind the same NAT, or in its own network."""
    return bool(source.connection.peer_host) and source.connection.peer_host == destination.connection.peer_host


async def _own_address(destination: GridFTPSession) -> DataAddress | None:
    """Where it would listen, as it says itself; None: nowhere."""
    reply = await destination.connection.request("PASV")
    try:
        return None if reply.is_error else parse_host_port(b" ".join(reply.lines))
    except CommandError:
        return None
