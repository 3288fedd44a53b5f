"""The ports of the relay that a lane has: the one in use, the next one, and none left."""

from __future__ import annotations

import asyncio
import itertools
import socket
from collections.abc import Iterator

import pytest

from endpoints.gridftp.faults import FaultError, Kind, make_fault
from endpoints.gridftp.third_party.data_path import DataAddress
from workers.ways.entrances import RelayEntrances


class Relay:
    """Opens ports until it has no more: sockets, of which one end is the relay's."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.opened: list[tuple[str, socket.socket]] = []
        self.sockets: list[socket.socket] = []

    async def open_port(self, token: str) -> tuple[socket.socket, DataAddress]:
        await asyncio.sleep(0)
        if len(self.opened) >= self.most:
            raise FaultError(make_fault(Kind.ENDPOINT_TOO_BUSY))
        near, far = socket.socketpair()
        self.sockets += [near, far]
        self.opened.append((token, far))
        return near, ("127.0.0.1", 20_000 + len(self.opened))

    def closed(self, number: int) -> bool:
        self.opened[number][1].setblocking(False)
        try:
            return self.opened[number][1].recv(1) == b""
        except BlockingIOError:
            return False


@pytest.fixture
def relays() -> Iterator[list[Relay]]:
    made: list[Relay] = []
    yield made
    for relay in made:
        for sock in relay.sockets:
            sock.close()


def lane(relays: list[Relay], most: int) -> tuple[Relay, RelayEntrances]:
    relay = Relay(most)
    relays.append(relay)
    numbers = itertools.count(1)
    return relay, RelayEntrances(relay.open_port, lambda: f"token {next(numbers)}")


async def settled() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_the_next_port_is_opened_ahead_and_each_has_a_token_of_its_own(relays: list[Relay]) -> None:
    relay, entrances = lane(relays, 10)
    await entrances.prepare()
    first = entrances.take()
    await settled()
    second = entrances.take()
    assert first is not None
    assert second is not None
    assert {first.token, second.token} == {"token 1", "token 2"}
    assert first.address != second.address
    assert not entrances.exhausted
    entrances.close(first.address)
    assert (relay.closed(0), relay.closed(1)) == (True, False)
    entrances.end()
    assert relay.closed(1)


async def test_a_lane_without_another_port_says_so(relays: list[Relay]) -> None:
    _, entrances = lane(relays, 1)
    await entrances.prepare()
    assert entrances.take()
    await settled()
    assert entrances.take() is None
    assert entrances.exhausted
    entrances.end()


async def test_a_port_that_opens_after_the_end_is_closed(relays: list[Relay]) -> None:
    relay, entrances = lane(relays, 2)
    await entrances.prepare()
    assert entrances.take()
    opening = asyncio.ensure_future(entrances.prepare())
    entrances.end()
    await opening
    assert all(relay.closed(number) for number in range(len(relay.opened)))


async def test_a_relay_that_opens_none_is_a_fault_of_the_first(relays: list[Relay]) -> None:
    _, entrances = lane(relays, 0)
    with pytest.raises(FaultError):
        await entrances.prepare()
    entrances.end()
