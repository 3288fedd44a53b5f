"""The session that holds the event loop is found, and its server put off; nobody else is to blame."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Iterator

import pytest

from endpoints.gridftp.faults import FaultError
from endpoints.gridftp.wire.put_off import PutOffServers
from workers.slices import loop_watch
from workers.slices.loop_watch import LoopWatch

Loop = tuple[asyncio.AbstractEventLoop, threading.Thread]


class Session:
    """It belongs to a server."""

    def __init__(self, address: tuple[str, int] | None) -> None:
        self.server_address = address
        self.aborted = threading.Event()

    def abort(self) -> None:
        self.aborted.set()

    def hold(self, over: threading.Event, *, busy: bool) -> None:
        while not over.is_set():
            if not busy:
                time.sleep(0.01)


class Other:
    """It belongs to no server."""

    def hold(self, session: Session, over: threading.Event) -> None:
        session.hold(over, busy=True)


@pytest.fixture
def loop() -> Iterator[Loop]:
    made = asyncio.new_event_loop()
    thread = threading.Thread(target=made.run_forever, daemon=True)
    thread.start()
    yield made, thread
    made.call_soon_threadsafe(made.stop)
    thread.join(60)
    made.close()


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop_watch, "LIMIT", 0.2)


def watched(loop: Loop, session: Session, *, busy: bool = True) -> PutOffServers:
    """One look, while the session holds the loop for twice the limit; the servers that are put off after it."""
    servers, over = PutOffServers(), threading.Event()
    loop[0].call_soon_threadsafe(lambda: Other().hold(session, over) if busy else session.hold(over, busy=False))
    threading.Timer(1.0, over.set).start()
    LoopWatch(loop[0], loop[1], servers, used=time.monotonic if busy else lambda: 0.0).look()
    return servers


def is_put_off(servers: PutOffServers, host: str, port: int) -> bool:
    try:
        servers.check(host, port)
    except FaultError as error:
        return "delays the transfers of others" in error.fault.advice
    return False


def test_the_server_whose_session_holds_the_loop_is_named_and_put_off(
    loop: Loop, caplog: pytest.LogCaptureFixture
) -> None:
    session = Session(("192.0.2.1", 22))
    with caplog.at_level(logging.WARNING):
        servers = watched(loop, session)
    assert is_put_off(servers, "192.0.2.1", 22)
    assert not is_put_off(servers, "192.0.2.1", 23)
    assert session.aborted.wait(60)
    [line] = [record.getMessage() for record in caplog.records]
    assert "stood still" in line
    assert "192.0.2.1 port 22" in line


def test_a_loop_whose_thread_waits_is_reported_and_no_server_is_put_off(
    loop: Loop, caplog: pytest.LogCaptureFixture
) -> None:
    session = Session(("192.0.2.1", 22))
    with caplog.at_level(logging.WARNING):
        servers = watched(loop, session, busy=False)
    assert not is_put_off(servers, "192.0.2.1", 22)
    assert not session.aborted.is_set()
    assert "stood still" in caplog.text


def test_code_that_belongs_to_no_server_is_reported_alone(loop: Loop, caplog: pytest.LogCaptureFixture) -> None:
    session = Session(None)
    with caplog.at_level(logging.WARNING):
        watched(loop, session)
    assert "for no server" in caplog.text
    assert not session.aborted.is_set()


def test_a_loop_that_answers_is_left_alone(loop: Loop, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        LoopWatch(loop[0], loop[1], PutOffServers()).look()
    assert caplog.text == ""


class Seconds:
    """In place of the event that stops a watch: so many pauses, and then the end."""

    def __init__(self, pauses: int) -> None:
        self._left = pauses

    def wait(self, seconds: float) -> bool:
        assert seconds == loop_watch.PAUSE
        self._left -= 1
        return self._left < 0


@pytest.mark.parametrize(("begins_at", "looks"), [(0, 10), (11, 2), (7, 5)])
def test_a_loop_without_work_is_looked_at_less_often_until_its_work_begins(
    loop: Loop, monkeypatch: pytest.MonkeyPatch, begins_at: int, looks: int
) -> None:
    seen: list[int] = []
    pauses = iter(range(1, 20))
    watch = LoopWatch(loop[0], loop[1], PutOffServers(), has_work=lambda: next(pauses) >= begins_at)
    monkeypatch.setattr(watch, "look", lambda: seen.append(1))
    monkeypatch.setattr(watch, "_stopped", Seconds(10))
    watch._run()
    assert len(seen) == looks
