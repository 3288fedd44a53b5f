"""Which way the data of a lane go when an agent has a part in it: to it no connection can be made from outside.

An agent and a server: the agent connects and the server listens. Two agents: directly where one can reach the other,
else both connect to the relay of this service, and TLS from end to end keeps the data from it.
"""

from __future__ import annotations

import ipaddress
from enum import Enum

from endpoints.gridftp.client import GridFTPSession
from endpoints.gridftp.commands import CommandError, parse_host_port
from endpoints.gridftp.third_party.data_path import LAST_SYSTEM_PORT, DataAddress
from transferapi.tasks.records import DIRECT, RELAYED, DataWay
from workers.sessions.pool import DIRECT as DIRECTLY
from workers.sessions.pool import THROUGH_RELAY, SessionPool
from workers.sessions.pooled_sessions import PooledSession

FROM_AGENT = DataWay(DIRECT, "The computer at the source connects to the server at the destination.")
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


class AgentWay(Enum):
    """How two sessions move data, by the sides to which connections can be made."""

    #: Neither is an agent, or the source only: the destination listens.
    ORDINARY = "the destination listens"
    #: The destination is an agent: the source listens, in MODE S.
    SOURCE_LISTENS = "the source listens"
    #: The same, with small files: the source connects to a port of the relay, in MODE E.
    SOURCE_CONNECTS = "the source connects to the relay"
    #: Both are agents.
    TRY_DIRECT = "try"
    RELAY = "relay"


#: The way of each, for the user; none for servers.
WAYS = {
    AgentWay.SOURCE_LISTENS: TO_AGENT,
    AgentWay.SOURCE_CONNECTS: SMALL_FILES,
    AgentWay.TRY_DIRECT: BETWEEN_AGENTS,
    AgentWay.RELAY: THROUGH_US,
}


def told(way: AgentWay, source: PooledSession, destination: PooledSession) -> DataWay | None:
    """The way in words for the user; None between two servers."""
    if way is AgentWay.ORDINARY:
        return None if getattr(source.inner, "listens", True) else FROM_AGENT
    if way is AgentWay.TRY_DIRECT and source.address == destination.address:
        return SAME_COMPUTER
    return WAYS[way]


async def agent_way(
    source: PooledSession, destination: PooledSession, pool: SessionPool, *, relayed: bool = False
) -> AgentWay:
    """The way for these sessions. Raises FaultError where the destination is lost.

    relayed: files to an agent are to go by a port of the relay, which the operator has opened.
    """
    sender, receiver = source.inner, destination.inner
    if not (isinstance(sender, GridFTPSession) and isinstance(receiver, GridFTPSession)) or receiver.listens:
        return AgentWay.ORDINARY
    if sender.listens:
        refused = pool.refuses(THROUGH_RELAY, source.address, destination.address)
        known = bool(sender.connection.peer_host)
        return AgentWay.SOURCE_CONNECTS if relayed and known and not refused else AgentWay.SOURCE_LISTENS
    if pool.refuses(DIRECTLY, source.address, destination.address):
        return AgentWay.RELAY
    direct = await _may_reach(sender, receiver, same_computer=source.address == destination.address)
    return AgentWay.TRY_DIRECT if direct else AgentWay.RELAY


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
