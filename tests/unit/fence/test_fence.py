"""The fence of a slice, and the socket that asks it before each piece that leaves."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Self

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from endpoints.gridftp.connection import ControlConnection
from endpoints.gridftp.faults import FaultError, Kind
from endpoints.gridftp.wire.fence import Fence, FenceClosedError, boot_time
from endpoints.gridftp.wire.fenced_socket import FencedSocket, connect

LASTS = 3.5


@dataclass
class Clock:
    """Seconds of a machine that may sleep."""

    at: float = 100.0

    def __call__(self) -> float:
        return self.at


@dataclass
class Peer:
    """The server's end: it reads only when a test calls `read`."""

    accepted: socket.socket
    said: bytes = b""

    def read(self) -> bytes:
        """All that has arrived so far."""
        self.accepted.settimeout(0.02)
        try:
            while data := self.accepted.recv(1 << 20):
                self.said += data
        except (TimeoutError, ConnectionResetError):
            pass
        return self.said

    def ends_with_a_reset(self) -> bool:
        self.accepted.settimeout(60)
        try:
            while self.accepted.recv(1 << 20):
                pass
        except ConnectionResetError:
            return True
        return False


class Listener:
    """A server that accepts, with small buffers."""

    def __init__(self) -> None:
        self._server = socket.create_server(("127.0.0.1", 0))
        self._server.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8192)
        self._server.settimeout(0.2)
        self._peers: list[Peer] = []
        self.address = self._server.getsockname()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        for peer in self._peers:
            peer.accepted.close()
        self._server.close()

    def accept(self) -> Peer:
        """Raises TimeoutError where nobody connects."""
        self._peers.append(Peer(self._server.accept()[0]))
        return self._peers[-1]


@pytest.fixture
def listener() -> Iterator[Listener]:
    with Listener() as server:
        yield server


def wire_behind(fence: Fence) -> FencedSocket:
    with fence.in_force():
        wire = FencedSocket()
    wire.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 8192)
    return wire


async def dial(listener: Listener, fence: Fence) -> tuple[ControlConnection, Peer]:
    """A control connection behind this fence, and the other end."""
    with fence.in_force():
        wire = await connect(*listener.address)
    wire.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 8192)
    return await ControlConnection.on(wire), listener.accept()


# ---- the fence


def test_nothing_may_leave_before_the_first_heartbeat() -> None:
    fence = Fence(LASTS, Clock())
    assert fence.closed
    fence.extend(fence.now())
    assert not fence.closed


def test_it_counts_from_the_beginning_of_a_heartbeat_and_not_from_its_answer() -> None:
    clock = Clock()
    fence = Fence(LASTS, clock)
    begun = fence.now()
    clock.at += 3.0
    fence.extend(begun)
    assert fence.seconds_left == pytest.approx(0.5)
    clock.at += 0.5
    assert fence.closed


def test_an_answer_that_comes_after_the_end_does_not_open_it_again() -> None:
    clock = Clock()
    fence = Fence(LASTS, clock)
    fence.extend(clock.at)
    begun = clock.at = clock.at + 3.0
    clock.at += 1.0
    fence.extend(begun)
    assert fence.closed
    fence.extend(clock.at)
    assert fence.closed


def test_a_lost_lease_closes_it_for_good() -> None:
    fence = Fence(LASTS, Clock())
    fence.extend(fence.now())
    fence.close()
    fence.extend(fence.now())
    assert fence.closed
    assert fence.seconds_left == 0


def test_the_clock_counts_while_the_machine_sleeps() -> None:
    """CLOCK_BOOTTIME is CLOCK_MONOTONIC and the seconds of sleep: it is never behind."""
    monotonic = time.monotonic()
    assert boot_time() >= monotonic


@given(st.lists(st.tuples(st.floats(0, 6), st.floats(0, 6), st.booleans()), max_size=20))
def test_it_is_open_only_within_the_time_of_a_good_heartbeat(beats: list[tuple[float, float, bool]]) -> None:
    """(seconds before a heartbeat, seconds that it takes, whether it is good): against a model with all instants."""
    clock = Clock()
    fence = Fence(LASTS, clock)
    good: list[float] = []
    ever_closed = False

    def may_leave() -> bool:
        nonlocal ever_closed
        within = bool(good) and clock.at < max(good) + LASTS
        ever_closed = ever_closed or (bool(good) and not within)
        return within and not ever_closed

    for pause, takes, is_good in beats:
        clock.at += pause
        assert fence.closed is not may_leave()
        begun = clock.at
        clock.at += takes
        if is_good:
            if not good or may_leave():
                good.append(begun)
            fence.extend(begun)
        assert fence.closed is not may_leave()


# ---- the socket


def test_outside_slices_a_socket_has_no_fence(listener: Listener) -> None:
    wire = FencedSocket()
    with wire:
        wire.connect(listener.address)
        wire.sendall(b"NOOP\r\n")
        assert not wire.fenced_off


def test_a_closed_fence_lets_no_connection_be_made(listener: Listener) -> None:
    fence = Fence(LASTS, Clock())
    with fence.in_force(), FencedSocket() as wire:
        for reach in (wire.connect, wire.connect_ex):
            with pytest.raises(FenceClosedError):
                reach(listener.address)
    with pytest.raises(TimeoutError):
        listener.accept()


def test_a_closed_fence_lets_no_octet_out_by_any_call(listener: Listener) -> None:
    clock = Clock()
    fence = Fence(LASTS, clock)
    fence.extend(clock.at)
    wire = wire_behind(fence)
    wire.connect(listener.address)
    peer = listener.accept()
    wire.send(b"before")
    clock.at += LASTS
    calls = (
        lambda: wire.send(b"x"),
        lambda: wire.sendall(b"x"),
        lambda: wire.sendmsg([b"x"]),
        lambda: wire.sendto(b"x", ("127.0.0.1", 1)),
        lambda: wire.shutdown(socket.SHUT_WR),
    )
    for call in calls:
        with pytest.raises(FenceClosedError):
            call()
    with pytest.raises(NotImplementedError):
        wire.sendfile(None)
    assert peer.read() == b"before"
    wire.close()
    assert peer.ends_with_a_reset(), "the end of the data means in MODE S that the file is complete"


def test_what_waits_in_the_kernel_is_dropped_when_a_fenced_off_socket_is_closed(listener: Listener) -> None:
    clock = Clock()
    fence = Fence(LASTS, clock)
    fence.extend(clock.at)
    wire = wire_behind(fence)
    wire.connect(listener.address)
    peer = listener.accept()
    wire.setblocking(False)
    sent = 0
    with suppress(BlockingIOError):
        while True:
            sent += wire.send(b"x" * 4096)
    clock.at += LASTS
    wire.close()
    assert peer.ends_with_a_reset()
    assert len(peer.said) < sent


def test_a_thread_that_waits_for_a_fenced_off_socket_is_woken(listener: Listener) -> None:
    """As the bridge to a command over ssh ends its threads."""
    fence = Fence(LASTS, Clock())
    fence.extend(fence.now())
    wire = wire_behind(fence)
    wire.connect(listener.address)
    listener.accept()
    got: list[bytes] = []
    waiting = threading.Thread(target=lambda: got.append(wire.recv(10)))
    waiting.start()
    fence.close()
    wire.shutdown(socket.SHUT_RDWR)
    waiting.join(60)
    assert got == [b""]
    wire.close()


async def test_a_shared_socket_is_shut_by_the_fence_of_any_of_its_users(listener: Listener) -> None:
    mine, yours = Fence(LASTS, Clock()), Fence(LASTS, Clock())
    for fence in (mine, yours):
        fence.extend(fence.now())
    with mine.in_force():
        wire = await connect("127.0.0.1", listener.address[1])
    first, second = object(), object()
    wire.set_fence(first, mine)
    wire.set_fence(second, yours)
    yours.close()
    assert wire.fenced_off
    wire.set_fence(second, None)
    assert wire.fenced_off, "its user is gone, and what it said may wait in buffers above"
    wire.close()


async def test_the_fence_of_the_slice_that_opened_a_socket_counts_until_its_users_are_known(listener: Listener) -> None:
    opener, user = Fence(LASTS, Clock()), Fence(LASTS, Clock())
    for fence in (opener, user):
        fence.extend(fence.now())
    with opener.in_force():
        wire = await connect(*listener.address)
    session = object()
    wire.set_fence(session, user)
    opener.close()
    assert not wire.fenced_off
    wire.set_fence(session, None)
    user.close()
    assert not wire.fenced_off
    wire.close()


# ---- a control connection


async def test_a_command_after_the_end_breaks_the_connection_and_does_not_leave(listener: Listener) -> None:
    clock = Clock()
    fence = Fence(LASTS, clock)
    fence.extend(clock.at)
    connection, peer = await dial(listener, fence)
    asked = asyncio.ensure_future(connection.request("DELE", b"/first"))
    await asyncio.sleep(0.01)
    assert await asyncio.to_thread(peer.read) == b"DELE /first\r\n"
    clock.at += LASTS
    with pytest.raises(FaultError) as caught:
        await connection.request("DELE", b"/second")
    assert caught.value.fault.kind is Kind.CONNECTION_RESET
    assert "lease" in caught.value.fault.raw
    with pytest.raises(FaultError):
        await asked
    assert not connection.usable
    assert await asyncio.to_thread(peer.ends_with_a_reset)
    assert peer.said == b"DELE /first\r\n"


async def test_what_waits_in_the_buffers_of_the_loop_does_not_leave_when_the_process_wakes(
    listener: Listener,
) -> None:
    """The loop runs writable sockets before timers: a check where commands are made would come too late."""
    clock = Clock()
    fence = Fence(LASTS, clock)
    fence.extend(clock.at)
    connection, peer = await dial(listener, fence)
    number = 0
    while not buffered(connection):
        for _ in range(100):
            number += 1
            connection.channel.send("DELE", b"/folder/file-%06d" % number)
        connection.flush()
    held_back = buffered(connection)
    clock.at += LASTS
    # Now the server reads, and the socket is writable.
    reading = asyncio.ensure_future(asyncio.to_thread(peer.ends_with_a_reset))
    assert await reading
    assert not connection.usable
    whole = number * len(b"DELE /folder/file-000000\r\n")
    assert held_back > 0
    assert len(peer.said) <= whole - held_back


def buffered(connection: ControlConnection) -> int:
    assert connection._transport
    return connection._transport.get_write_buffer_size()


async def test_a_session_that_is_given_back_has_no_fence_and_another_slice_gives_it_its_own(
    listener: Listener,
) -> None:
    first, second = Fence(LASTS, Clock()), Fence(LASTS, Clock())
    for fence in (first, second):
        fence.extend(fence.now())
    connection, peer = await dial(listener, first)
    connection.set_fence(first)
    connection.set_fence(None)
    first.close()
    assert connection.usable
    connection.set_fence(second)
    connection.channel.send("NOOP")
    connection.flush()
    await asyncio.sleep(0.01)
    assert await asyncio.to_thread(peer.read) == b"NOOP\r\n"
    second.close()
    assert not connection.usable
    connection.abort()
    await asyncio.sleep(0.01)


STEPS = st.one_of(
    st.tuples(st.just("pass"), st.floats(0, 5)),
    st.tuples(st.just("beat"), st.floats(0, 5)),
    st.tuples(st.just("send"), st.integers(1, 300)),
    st.tuples(st.just("read"), st.just(0)),
)


@settings(max_examples=60, deadline=None)
@given(st.lists(STEPS, max_size=25))
def test_whatever_the_order_of_heartbeats_pauses_and_commands_nothing_leaves_after_the_end(
    steps: list[tuple[str, float]],
) -> None:
    asyncio.run(_nothing_leaves(steps))


async def _nothing_leaves(steps: list[tuple[str, float]]) -> None:
    """The kernel takes nothing more from the moment at which the fence closes."""
    clock = Clock()
    fence = Fence(LASTS, clock)
    fence.extend(clock.at)
    with Listener() as listener:
        await _steps(*await dial(listener, fence), clock, fence, steps)


async def _steps(
    connection: ControlConnection, peer: Peer, clock: Clock, fence: Fence, steps: list[tuple[str, float]]
) -> None:
    wire = connection.wire
    assert wire
    left = _count(wire)
    end = clock.at + LASTS
    most: int | None = None
    for what, number in steps:
        if what == "pass":
            clock.at += number
        elif what == "beat":
            begun = clock.at
            clock.at += number
            if clock.at < end:
                end = max(end, begun + LASTS)
            fence.extend(begun)
        elif what == "send":
            for _ in range(int(number)):
                connection.channel.send("DELE", b"/folder/file")
            connection.flush_soon()
        else:
            await asyncio.to_thread(peer.read)
        if clock.at >= end and most is None:
            most = sum(left)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
    connection.abort()
    await asyncio.sleep(0)
    await asyncio.to_thread(peer.read) if most is None else await asyncio.to_thread(peer.ends_with_a_reset)
    if most is not None:
        assert sum(left) == most
        assert len(peer.said) <= most


def _count(wire: FencedSocket) -> list[int]:
    """The octets of each piece that the kernel takes."""
    taken: list[int] = []
    send = wire.send

    def counting(data: bytes, flags: int = 0) -> int:
        taken.append(send(data, flags))
        return taken[-1]

    wire.send = counting  # type: ignore[method-assign]
    return taken
