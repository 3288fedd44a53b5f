"""A way of data between two servers, and what it starts from: their sessions, and what the lanes of a slice share."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Protocol, Self

from endpoints.gridftp.client import GridFTPSession
from endpoints.gridftp.faults import Fault, Side
from endpoints.gridftp.third_party.data_path import DataAddress
from endpoints.gridftp.third_party.data_security import obstacle
from endpoints.ssh.accounts.account_login import offer_of
from workers.engine.ports import Lane, Transport
from workers.sessions.pool import THIRD_PARTY, SessionKey, SessionPool
from workers.sessions.pooled_sessions import PooledSession
from workers.streaming.host import TaskStreams

NOT_PRIVATE = "the data are to be encrypted, and the servers cannot do that."


@dataclass(frozen=True, slots=True)
class SliceLanes:
    """The things that the lanes of one slice share.

    hosts: the addresses that the owner of a side's endpoint has registered. Raises FaultError.
    accept_address: the gate for one of them, which a server names for a data connection.
    new_token: makes a token of the relay, for two agents, or for an agent and a server that connects to its port.
    explained: a fault of a server about its data connections, as the user may see it.
    size_at: the octets of a file that a lane writes, asked by another session; None where they are not known.
    """

    pool: SessionPool
    streams: TaskStreams
    options: Mapping[str, object]
    stream_only: bool
    hosts: Callable[[Side], Awaitable[Collection[str]]]
    accept_address: Callable[[DataAddress], bool]
    new_token: Callable[[], str]
    explained: Callable[[Fault, PooledSession, PooledSession], Fault]
    size_at: Callable[[SessionKey, bytes], Awaitable[int | None]]

    @property
    def encrypt(self) -> bool:
        """Whether the task requires encryption."""
        return bool(self.options.get("encrypt_data"))

    async def registered(self, side: Side) -> Callable[[DataAddress], bool]:
        """The check that an address belongs to a host which the owner of this side registered, and passes the gate."""
        known = await self.hosts(side)
        return lambda address: address[0] in known and self.accept_address(address)


@dataclass
class Pair:
    """Two sessions between which files are to move.

    transport: of the data connections between servers, as far as both agree. relayed: small files to an agent are to
    go by a port of the relay, which the operator has opened.
    """

    source: PooledSession
    destination: PooledSession
    lanes: SliceLanes
    transport: Transport
    relayed: bool = False
    _moves_blocks: bool | None = field(default=None, init=False)

    @property
    def sessions(self) -> tuple[PooledSession, PooledSession]:
        return self.source, self.destination

    @cached_property
    def are_gridftp(self) -> bool:
        """Whether both are sessions with GridFTP or FTP servers, and neither protects data as FTP over TLS does."""
        inner = [session.inner for session in self.sessions]
        return all(isinstance(one, GridFTPSession) and one.connection.data_tls is None for one in inner)

    @cached_property
    def accounts(self) -> tuple[str, str]:
        """The offers of both ends that were found or started in an ssh account: sentences; "" for other servers."""
        return offer_of(self.source.inner), offer_of(self.destination.inner)

    async def moves_blocks(self) -> bool:
        """Whether both servers move data between each other in MODE E, as far as it is known."""
        if self._moves_blocks is None:
            self._moves_blocks = self.are_gridftp and await self._find_out()
        return self._moves_blocks

    async def _find_out(self) -> bool:
        ends = self.source.gridftp, self.destination.gridftp
        if not any(self.accounts):
            return all(await asyncio.gather(*(end.moves_blocks() for end in ends)))
        if self.lanes.encrypt and all(self.accounts) and obstacle(*ends, encrypt=True):
            # These go through ssh, which encrypts.
            self.refuse(THIRD_PARTY, NOT_PRIVATE)
        return not self.refuses(THIRD_PARTY)

    def refuses(self, way: str) -> bool:
        """`SessionPool.refuses`."""
        return self.lanes.pool.refuses(way, self.source.address, self.destination.address)

    def refuse(self, way: str, why: str = "") -> None:
        """`SessionPool.refuse`."""
        self.lanes.pool.refuse(way, self.source.address, self.destination.address, why=why)

    def give_back(self) -> None:
        """Give both sessions back to the pool."""
        for session in self.sessions:
            self.lanes.pool.put(session.session_key, session.inner)


def protocols_of(sessions: Iterable[PooledSession]) -> list[str]:
    """The names of the protocols that these speak, each once."""
    return sorted({session.inner.protocol for session in sessions})


class OpenLane(Lane, Protocol):
    """A lane, with the transport of its data connections."""

    transport: Transport


class Way(ABC):
    """One way between the servers of a pair, for one lane."""

    #: Large files go in parts over several such lanes, which are opened when they have something to do.
    in_parts = False

    def __init__(self, pair: Pair) -> None:
        self.pair = pair

    @classmethod
    @abstractmethod
    async def of(cls, pair: Pair) -> Self | None:
        """This way; None where it is not possible for the pair. Raises FaultError."""

    @abstractmethod
    async def open(self) -> OpenLane:
        """The lane, to which both sessions belong then. Raises FaultError."""
