"""Servers that greet late, and servers that throw away commands which arrive before they have answered earlier ones."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from endpoints.gridftp import connection
from endpoints.gridftp.client import GridFTPSession
from endpoints.gridftp.connection import ControlConnection
from endpoints.gridftp.faults import FaultError, FaultScope, Kind
from endpoints.gridftp.login import ANONYMOUS
from endpoints.gridftp.server import GridFtpServer
from endpoints.gridftp.wire import login_time, pipelining
from endpoints.gridftp.wire.pipelining import Pipelining
from endpoints.gridftp.wire.server_memory import ServerMemory
from endpoints.sessions.remote import open_session
from tests.gridftp.ends import End
from tests.gridftp.odd_ftp import OddFtp, OddSession
from tests.gridftp.streamed_tasks import StreamedTask, tree

#: Seconds of silence that are waited for here.
SILENCE = 0.4


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ports are used again by other servers: nothing is known of them."""
    monkeypatch.setattr(pipelining, "_memory", ServerMemory[Pipelining]())
    monkeypatch.setattr(login_time, "_memory", ServerMemory[float]())
    for name in ("LOGIN_SILENCE", "PROBE_AFTER", "TEST_SECONDS"):
        monkeypatch.setattr(pipelining, name, SILENCE)


class WithFacts(OddFtp):
    features: tuple[str, ...] | None = (*(OddFtp.features or ()), "MLST type*;size*;modify*;")


class LosesAll(WithFacts):
    """Reads one command, and throws away what is behind it."""

    def loses_input(self, verb: str) -> bool:
        return True


class LosesInLogin(WithFacts):
    def loses_input(self, verb: str) -> bool:
        return verb == "PASS"


class LosesBeforeGreeting(WithFacts):
    def greet(self, session: OddSession) -> None:
        time.sleep(0.05)
        session.lose_input()
        super().greet(session)


class EndsOnce(LosesInLogin):
    """Loses commands in the login only; the first connection that is sent NOOP breaks."""

    broken = False

    def answer(self, verb: str, argument: bytes, session: OddSession) -> str | None:
        if verb == "NOOP" and not self.broken:
            self.broken = True
            raise ConnectionResetError
        return None


class EndsAtCommandsTogether(LosesInLogin):
    """Loses commands in the login, and later ends a connection on which several arrive together."""

    def answer(self, verb: str, argument: bytes, session: OddSession) -> str | None:
        if verb in ("NOOP", "MLST") and session.has_more():
            raise ConnectionResetError
        return None


class EndsLoginTogether(WithFacts):
    """Ends the connection of a login whose commands arrive before it has answered earlier ones."""

    in_login = frozenset({"USER", "PASS"})

    def answer(self, verb: str, argument: bytes, session: OddSession) -> str | None:
        if verb in self.in_login and session.has_more():
            raise ConnectionResetError
        return None


class EndsAllTogether(EndsLoginTogether):
    in_login = frozenset({"USER", "PASS", "NOOP", "MLST"})


class EndsBeforeGreeting(WithFacts):
    """Ends the connection of a client that speaks first."""

    def greet(self, session: OddSession) -> None:
        time.sleep(0.05)
        if session.has_more():
            raise ConnectionResetError
        super().greet(session)


class LosesBehindFacts(WithFacts):
    """Throws away what is behind one MLST. A login has none."""

    def loses_input(self, verb: str) -> bool:
        return verb == "MLST"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "in" / "sub").mkdir(parents=True)
    for number in range(20):
        (tmp_path / "in" / f"f{number}").write_text("x" * number)
        (tmp_path / "in" / "sub" / f"g{number}").write_text("y" * number)
    return tmp_path


async def sizes(session: GridFTPSession) -> list[int]:
    return [one.size for one in await asyncio.gather(*(session.stat(f"/in/f{number}") for number in range(20)))]


@pytest.mark.parametrize(
    ("kind", "known"),
    [
        (WithFacts, None),
        (LosesAll, Pipelining.NEVER),
        (LosesInLogin, Pipelining.AFTER_LOGIN),
        (LosesBeforeGreeting, Pipelining.AFTER_LOGIN),
        (EndsLoginTogether, Pipelining.AFTER_LOGIN),
        (EndsAllTogether, Pipelining.NEVER),
        (EndsBeforeGreeting, Pipelining.AFTER_LOGIN),
        (EndsOnce, Pipelining.AFTER_LOGIN),
        (EndsAtCommandsTogether, Pipelining.NEVER),
    ],
)
async def test_a_login_whose_commands_are_lost_is_done_one_command_at_a_time(
    root: Path, kind: type[OddFtp], known: Pipelining | None
) -> None:
    with kind(root) as server:
        for _ in range(2):
            session = await GridFTPSession.open("127.0.0.1", server.port)
            assert await sizes(session) == list(range(20))
            await session.close()
        assert pipelining.of(("127.0.0.1", server.port)) is known
        logins = sum(verb == "USER" for verb, _ in server.log)
        assert logins <= 2 if known is None else logins <= 7, "what was found out is remembered"
        session = await GridFTPSession.open("127.0.0.1", server.port)
        assert await sizes(session) == list(range(20))
        await session.close()
        assert sum(verb == "USER" for verb, _ in server.log) == logins + 1, "the next login is a single one"


class EndsALogin(WithFacts):
    """Ends the first `most` connections at their login."""

    def __init__(self, root: Path, most: int) -> None:
        super().__init__(root)
        self.most = most
        self.greeted = 0

    def greet(self, session: OddSession) -> None:
        self.greeted += 1
        super().greet(session)
        if self.greeted <= self.most:
            raise ConnectionResetError


async def test_a_login_that_ends_once_is_no_reason_to_send_one_command_at_a_time(root: Path) -> None:
    with EndsALogin(root, 1) as server:
        session = await GridFTPSession.open("127.0.0.1", server.port)
        assert await sizes(session) == list(range(20))
        await session.close()
        assert pipelining.of(("127.0.0.1", server.port)) is None
        assert server.greeted == 2


async def test_a_server_that_always_hangs_up_is_tried_three_times_and_nothing_is_remembered_of_it(root: Path) -> None:
    with EndsALogin(root, 1000) as server:
        with pytest.raises(FaultError) as caught:
            await GridFTPSession.open("127.0.0.1", server.port)
        assert caught.value.fault.kind in (Kind.CONNECTION_BROKEN, Kind.CONNECTION_RESET)
        assert caught.value.fault.scope is FaultScope.SESSION
        assert server.greeted == 3
        assert pipelining.of(("127.0.0.1", server.port)) is None


class SlowPassword(WithFacts):
    def answer(self, verb: str, argument: bytes, session: OddSession) -> str | None:
        if verb == "PASS":
            time.sleep(2 * SILENCE)
        return None


async def test_a_slow_login_is_no_reason_to_send_one_command_at_a_time_for_good(root: Path) -> None:
    with SlowPassword(root) as server:
        session = await GridFTPSession.open("127.0.0.1", server.port)
        assert not session.connection.channel.one_at_a_time
        assert await sizes(session) == list(range(20))
        await session.close()


@pytest.fixture
def watchful(monkeypatch: pytest.MonkeyPatch) -> None:
    """Connections are looked at twice a second."""
    defaults = ControlConnection.__init__.__kwdefaults__
    assert defaults is not None
    monkeypatch.setitem(defaults, "stall_timeout", 1.0)


@pytest.mark.usefixtures("watchful")
async def test_commands_that_are_lost_later_are_found_by_a_noop_and_not_sent_together_again(root: Path) -> None:
    with LosesBehindFacts(root) as server:
        session = await GridFTPSession.open("127.0.0.1", server.port)
        with pytest.raises(FaultError) as caught:
            await sizes(session)
        assert (caught.value.fault.kind, caught.value.fault.scope) == (Kind.TIMEOUT, FaultScope.SESSION)
        assert caught.value.fault.advice == connection.LOST_COMMANDS
        again = await GridFTPSession.open("127.0.0.1", server.port)
        assert await sizes(again) == list(range(20))
        await again.close()


@pytest.mark.usefixtures("watchful")
async def test_a_server_that_answers_late_and_in_order_has_lost_nothing(root: Path) -> None:
    class Slow(WithFacts):
        def answer(self, verb: str, argument: bytes, session: OddSession) -> str | None:
            if verb == "MLST" and argument.endswith(b"f0"):
                time.sleep(0.9)
            return None

    with Slow(root) as server:
        session = await GridFTPSession.open("127.0.0.1", server.port)
        assert await sizes(session) == list(range(20))
        assert ("NOOP", b"") in server.log
        assert await sizes(session) == list(range(20))
        assert pipelining.of(("127.0.0.1", server.port)) is None
        await session.close()


@pytest.mark.usefixtures("watchful")
async def test_the_silence_before_a_command_does_not_count_as_silence_after_it(root: Path) -> None:
    class Slow(WithFacts):
        def answer(self, verb: str, argument: bytes, session: OddSession) -> str | None:
            if verb == "MLST":
                time.sleep(0.8)
            return None

    with Slow(root) as server:
        session = await GridFTPSession.open("127.0.0.1", server.port)
        await asyncio.sleep(1.3)
        assert (await session.stat("/in/f3")).size == 3
        await session.close()


@pytest.mark.parametrize("kind", [LosesAll, LosesBehindFacts, EndsAllTogether])
async def test_a_task_from_and_to_a_server_that_loses_commands_succeeds(root: Path, kind: type[OddFtp]) -> None:
    (root / "here").mkdir()
    with kind(root) as server, GridFtpServer(root / "here") as other:
        task = StreamedTask(End(server.port), End(other.port), [("/in/", "/to/", True)])
        await task.run()
        back = StreamedTask(End(other.port), End(server.port), [("/to/", "/back/", True)], {"verify_checksum": True})
        await back.run()
    assert (task.store.status, back.store.status) == ("SUCCEEDED", "SUCCEEDED")
    assert tree(root / "back") == tree(root / "in")


# ---- the greeting


class Late(WithFacts):
    seconds = 0.5

    def greet(self, session: OddSession) -> None:
        time.sleep(self.seconds)
        super().greet(session)


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(login_time, "FIRST", 0.2)
    monkeypatch.setattr(login_time, "LONGEST", 0.8)


@pytest.mark.usefixtures("short")
async def test_a_late_greeting_is_waited_for_longer_at_each_try_and_then_at_once(root: Path) -> None:
    with Late(root) as server:
        for _ in range(2):
            with pytest.raises(FaultError) as caught:
                await open_session("127.0.0.1", server.port, ANONYMOUS)
            assert caught.value.fault.kind is Kind.TIMEOUT
        for _ in range(2):
            session = await open_session("127.0.0.1", server.port, ANONYMOUS)
            await session.close()
    assert login_time.of(("127.0.0.1", server.port)) == 0.8


@pytest.fixture
def silent() -> Iterator[int]:
    """A port that takes connections, and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield int(listener.getsockname()[1])


@pytest.mark.usefixtures("short")
async def test_a_silent_port_has_a_short_time_at_first_and_a_bounded_one_for_ever(silent: int) -> None:
    times = []
    for _ in range(5):
        times.append(login_time.of(("127.0.0.1", silent)))
        with pytest.raises(FaultError) as caught:
            await open_session("127.0.0.1", silent, ANONYMOUS)
        assert caught.value.fault.kind is Kind.TIMEOUT
    assert times == [0.2, 0.4, 0.8, 0.8, 0.8]
