"""Warm sessions: who gets which. The keys of doors decide, on real connections."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path

import pytest

import workers.sessions.pool
from endpoints.gridftp.faults import FaultError, Kind, make_fault
from endpoints.gridftp.login import ANONYMOUS, Login
from endpoints.gridftp.server import GridFtpServer
from tests.fences import open_fence
from workers.sessions.pool import IDLE_SECONDS, MAX_IDLE, MAX_IDLE_OF_ALL, Address, SessionKey, SessionPool


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
async def pool(clock: Clock) -> AsyncIterator[SessionPool]:
    pool = SessionPool(clock)
    yield pool
    pool.forget("")


@pytest.fixture
def address(tmp_path: Path) -> Iterator[Address]:
    server = GridFtpServer(tmp_path)
    server.start()
    yield Address("127.0.0.1", server.port)
    server.stop()


def door(address: Address, key: str, opened: list[str] | None = None) -> SessionKey:
    """Notes when somebody logs in there."""

    async def login() -> Login:
        if opened is not None:
            opened.append(key)
        return ANONYMOUS

    return SessionKey(address, key, login)


async def test_a_warm_session_is_given_to_the_same_key_only(pool: SessionPool, address: Address) -> None:
    opened: list[str] = []
    keys = ["alice 1 v1 host", "alice 1 v2 host", "alice 1 v1 other-name", "bob 1 v1 host", ANONYMOUS.key]
    sessions = {key: await pool.take(door(address, key, opened), open_fence()) for key in keys}
    for key, session in sessions.items():
        pool.put(door(address, key), session)
    for key in reversed(keys):
        assert await pool.take(door(address, key, opened), open_fence()) is sessions[key]
    assert opened == keys, "each logged in once"
    stranger = await pool.take(door(address, "charlie 1 v1 host", opened), open_fence())
    assert stranger not in sessions.values()


async def test_who_comes_with_another_key_leaves_the_warm_ones_alone(pool: SessionPool, address: Address) -> None:
    session = await pool.take(door(address, "alice"), open_fence())
    pool.put(door(address, "alice"), session)
    pool.put(door(address, "bob"), await pool.take(door(address, "bob"), open_fence()))
    assert await pool.take(door(address, "alice"), open_fence()) is session
    assert session.usable


async def test_sessions_of_a_credential_that_is_gone_are_ended(pool: SessionPool, address: Address) -> None:
    gone = await pool.take(door(address, "alice 1 v1"), open_fence())
    kept = await pool.take(door(address, "alice 2 v1"), open_fence())
    pool.put(door(address, "alice 1 v1"), gone)
    pool.put(door(address, "alice 2 v1"), kept)
    pool.forget("alice 1 ")
    assert not gone.usable
    assert await pool.take(door(address, "alice 2 v1"), open_fence()) is kept
    assert await pool.take(door(address, "alice 1 v1"), open_fence()) is not gone


async def test_few_are_kept_of_each_login_and_of_all(pool: SessionPool, address: Address) -> None:
    mine = [await pool.take(door(address, "alice"), open_fence()) for _ in range(MAX_IDLE + 2)]
    for session in mine:
        pool.put(door(address, "alice"), session)
    assert [session.usable for session in mine] == [False] * 2 + [True] * MAX_IDLE
    for number in range(MAX_IDLE_OF_ALL):
        key = f"user {number}"
        pool.put(door(address, key), await pool.take(door(address, key), open_fence()))
    assert not any(session.usable for session in mine), "the oldest went"
    assert sum(len(idle) for idle in pool._idle.values()) == MAX_IDLE_OF_ALL


async def test_few_are_kept_to_all_servers_together(
    pool: SessionPool, tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workers.sessions.pool, "MAX_IDLE_ANYWHERE", 3)
    with contextlib.ExitStack() as stack:
        servers = [stack.enter_context(GridFtpServer(tmp_path)) for _ in range(5)]
        doors = [door(Address("127.0.0.1", server.port), "alice") for server in servers]
        sessions = [await pool.take(one, open_fence()) for one in doors]
        for one, session in zip(doors, sessions, strict=True):
            clock.now += 1
            pool.put(one, session)
        assert [session.usable for session in sessions] == [False, False, True, True, True], "the oldest went"
        pool.forget("")


async def test_an_idle_session_ends_in_time_whoever_has_used_the_server_since(
    pool: SessionPool, address: Address, clock: Clock
) -> None:
    old = await pool.take(door(address, "alice"), open_fence())
    pool.put(door(address, "alice"), old)
    clock.now += IDLE_SECONDS / 2
    young = await pool.take(door(address, "bob"), open_fence())
    pool.put(door(address, "bob"), young)
    clock.now += IDLE_SECONDS / 2
    pool.expire()
    assert (old.usable, young.usable) == (False, True)


@pytest.mark.parametrize("kind", [Kind.NO_CREDENTIALS, Kind.AUTH])
async def test_a_login_that_cannot_be_made_says_nothing_of_the_server(
    pool: SessionPool, address: Address, kind: Kind
) -> None:
    async def login() -> Login:
        raise FaultError(make_fault(kind))

    no_login: Callable[[], Awaitable[Login]] = login
    with pytest.raises(FaultError):
        await pool.take(SessionKey(address, "alice", no_login), open_fence())
    assert not pool.absences.left_out(address)
    assert pool.in_use(address) == 0
