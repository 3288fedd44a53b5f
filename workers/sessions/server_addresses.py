"""The addresses of a task's servers: names are resolved through the gate, once for each slice."""

from __future__ import annotations

import asyncio
import ipaddress
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import NamedTuple

from endpoints.connect.login import AGENT_PORT
from endpoints.gridftp.faults import FaultError, Side
from endpoints.gridftp.wire.answering import by_answer

from .pool import Address, tiers_of

#: Threads for names of data hosts, which may hang, and may be many: they must not delay other names or threads.
_looking_up = ThreadPoolExecutor(2, thread_name_prefix="look-up")


class Place(NamedTuple):
    """A server before its name is resolved. subject: that of its certificate, if it is not the host name.

    through_jump_host: its name is resolved by the jump host, and no connection of ours goes there.
    """

    host: str
    port: int
    subject: str = ""
    through_jump_host: bool = False

    @property
    def label(self) -> str:
        """The server as the endpoint names it: host and port. "" for an agent."""
        if self.port == AGENT_PORT:
            return ""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class ServersBySide:
    """The servers of a task's endpoints, by side."""

    servers: dict[Side, Sequence[Place]]
    #: Further hosts that the endpoints' owners have registered for their data connections, by side.
    data_hosts: Mapping[Side, Sequence[str]] = field(default_factory=dict)


class ServerAddresses:
    """The addresses of the endpoints' servers and data hosts, by side.

    resolve: the gate: turns a host name and port into allowed addresses, or raises FaultError; runs in a thread.
    look_up: the addresses of a registered host, which have not passed the gate; runs in a thread.
    """

    def __init__(
        self,
        places: ServersBySide,
        resolve: Callable[[str, int], list[str]],
        look_up: Callable[[str], Collection[str]],
    ) -> None:
        self._places = places
        self._resolve = resolve
        self._look_up = look_up
        self._tiers: dict[Side, Sequence[Sequence[Address]]] = {}
        self._hosts: dict[Side, Collection[str]] = {}
        self._place_at: dict[tuple[Side, Address], Place] = {}

    def place(self, side: Side, address: Address) -> Place:
        """The server with this address, which `allowed` has returned."""
        return self._place_at[side, address]

    async def allowed(self, side: Side) -> Sequence[Sequence[Address]]:
        """All addresses of the endpoint's servers that may be connected to. Raises FaultError when there is none."""
        if side not in self._tiers:
            places = self._places.servers.get(side, ())
            found = await asyncio.gather(*map(self._resolved, places), return_exceptions=True)
            known = [(place, hosts) for place, hosts in zip(places, found, strict=True) if isinstance(hosts, list)]
            tiers = tiers_of([(hosts, place.port) for place, hosts in known])
            if not any(tiers):
                _raise_first(found)
            self._note_places(side, known)
            self._tiers[side] = tiers
        return self._tiers[side]

    async def hosts(self, side: Side) -> Collection[str]:
        """The addresses of the endpoint's servers and data hosts. Raises FaultError when no server is allowed."""
        if side not in self._hosts:
            names = self._places.data_hosts.get(side, ())
            loop = asyncio.get_running_loop()
            found = await asyncio.gather(*(loop.run_in_executor(_looking_up, self._look_up, name) for name in names))
            servers = {address.host for tier in await self.allowed(side) for address in tier}
            self._hosts[side] = servers.union(*found)
        return self._hosts[side]

    async def are_near(self) -> bool:
        """Whether servers of both sides may show one storage: on one host or network, or of one domain.

        Servers whose addresses are not known count as near.
        """
        near = [await self._neighborhood(side) for side in (Side.SOURCE, Side.DESTINATION)]
        return None in near or bool(set.intersection(*(one for one in near if one is not None)))

    async def _neighborhood(self, side: Side) -> set[str] | None:
        places = self._places.servers.get(side, ())
        found = {_domain(place.host) for place in places if place.port != AGENT_PORT}
        try:
            addresses = [address for tier in await self.allowed(side) for address in tier]
        except FaultError:
            return None
        return found | {"agents" if at.port == AGENT_PORT else _network(at.host) for at in addresses}

    async def _resolved(self, place: Place) -> list[str]:
        if place.through_jump_host:
            return [place.host]
        hosts = await asyncio.to_thread(self._resolve, place.host, place.port)
        return await by_answer(hosts, place.port)

    def _note_places(self, side: Side, known: Sequence[tuple[Place, Sequence[str]]]) -> None:
        for place, hosts in known:
            for host in hosts:
                self._place_at.setdefault((side, Address(host, place.port)), place)


def _domain(host: str) -> str:
    """The last two labels of a host name; the name itself where it is an address."""
    labels = host.lower().rstrip(".").split(".")
    return host if labels[-1].isdecimal() or ":" in host else ".".join(labels[-2:])


def _network(host: str) -> str:
    """The network of an address: 24 bits of IPv4, 64 bits of IPv6; one for all loopback addresses."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host
    if address.is_loopback:
        return "loopback"
    return str(ipaddress.ip_network(f"{host}/{24 if address.version == 4 else 64}", strict=False))


def _raise_first(found: Sequence[object]) -> None:
    for one in found:
        if isinstance(one, BaseException):
            raise one
