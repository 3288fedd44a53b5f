"""PostgreSQL that allows no further connection (SQLSTATE 53300), and poolers before it."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psycopg2
import pytest
from psycopg2.extensions import parse_dsn

from deploy.stack.child import spawn, stop
from deploy.stack.redis import Redis
from endpoints.error_meanings import NO_CONNECTION
from identity import tokens
from identity.models import User
from tests.integration.web.test_database_outages import Answer, ask, outages
from tests.integration.web.web_server import web_server
from tests.servers.external_servers import NetworkPostgres
from tests.servers.pgbouncer import NEEDS_PGBOUNCER, pgbouncer
from tests.waiting import eventually
from transferapi.config import CHECKOUT
from transferapi.outages import bounded, connection_limits, database, outage, pooler
from transferapi.outages.shared_connections import SharedConnections

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.timeout(240)]

PASSWORD, CONNECTIONS = "correct-horse-battery", 20
#: Of the role of the service, which is no superuser: limits hold for it.
SESSIONS = "SELECT count(*) FROM pg_stat_activity WHERE usename = 'service'"
END_SESSIONS = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE usename = 'service'"


@pytest.fixture(scope="module")
def server(stack_home: Path, give_schema: Callable[[Path], object]) -> Iterator[NetworkPostgres]:
    home = stack_home / "connection-limits"
    home.mkdir(mode=0o711)
    give_schema(home)
    made = NetworkPostgres(home, PASSWORD, connections=CONNECTIONS)
    made.start()
    made.run(f"CREATE ROLE service LOGIN PASSWORD '{PASSWORD}'")
    for kind in ("TABLES", "SEQUENCES"):
        made.run(f"GRANT ALL ON ALL {kind} IN SCHEMA public TO service")
    yield made
    made.stop()


@pytest.fixture
def url(server: NetworkPostgres) -> Iterator[str]:
    """The DATABASE_URL of the service, whose limits a test may change."""
    yield f"postgresql://service:{PASSWORD}@{server.place}/waybill"
    server.run("ALTER ROLE service CONNECTION LIMIT -1")


@pytest.fixture
def token(alice: User) -> dict[str, str]:
    """A token that this database does not know: each request asks it, and gets 401."""
    return {"Authorization": f"Bearer {tokens.issue(alice)}"}


def environ(url: str, redis: Redis, folder: Path, **more: str) -> dict[str, str]:
    return {
        **{name: value for name, value in os.environ.items() if not name.startswith("WAYBILL_")},
        "DATABASE_URL": url,
        "REDIS_URL": redis.url(),
        "WAYBILL_SECRET_KEY": "x" * 50,
        "WAYBILL_HOME": str(folder),
        "PYTHONUNBUFFERED": "1",
        **more,
    }


def test_without_a_free_connection_all_name_sqlstate_53300(
    server: NetworkPostgres, url: str, redis_server: Redis, tmp_path: Path, token: dict[str, str]
) -> None:
    with web_server(server, redis_server, tmp_path, "--workers", "1", DATABASE_URL=url) as port:
        eventually(lambda: ask(port, "/v0.10/task_list", **token).status == 401)
        server.run("ALTER ROLE service CONNECTION LIMIT 0")
        server.run(END_SESSIONS)
        eventually(lambda: any("53300" in line for line in outages(tmp_path / "web.log")))
        refused = ask(port, "/v0.10/task_list", **token)
        refused.assert_away()
        assert json.loads(refused.body)["message"] == NO_CONNECTION
        eventually(lambda: "53300" in reason(ask(port, "/readyz?exclude=sweep"), "database"))
        assert "53300" in reason(ask(port, "/readyz?exclude=sweep"), "schema")
        server.run("ALTER ROLE service CONNECTION LIMIT -1")
        eventually(lambda: ask(port, "/v0.10/task_list", **token).status == 401)
        eventually(lambda: "accepts connections again" in outages(tmp_path / "web.log")[-1])
    assert any(connection_limits.REFUSAL in line for line in outages(tmp_path / "web.log"))


def reason(answer: Answer, check: str) -> str:
    return str(json.loads(answer.body)["checks"][check].get("reason"))


def test_requests_have_one_connection_in_turn_where_no_further_one_is_allowed(
    server: NetworkPostgres, url: str, redis_server: Redis, tmp_path: Path, token: dict[str, str]
) -> None:
    """339 of 400 requests failed where each thread opened one of its own."""
    with web_server(server, redis_server, tmp_path, "--workers", "1", DATABASE_URL=url) as port:
        eventually(lambda: server.run(SESSIONS) == 1)
        server.run("ALTER ROLE service CONNECTION LIMIT 1")
        with ThreadPoolExecutor(20) as pool:
            answers = list(pool.map(lambda _: ask(port, "/v0.10/task_list", **token).status, range(400)))
        assert answers == [401] * 400
        assert server.run(SESSIONS) == 1


def test_workers_leave_connections_to_the_web_server(
    server: NetworkPostgres, url: str, redis_server: Redis, tmp_path: Path, token: dict[str, str]
) -> None:
    log = tmp_path / "worker.log"
    # The server keeps 3 for superusers. The worker may have what is left of the others.
    given = environ(url, redis_server, tmp_path, WAYBILL_DATABASE_RESERVE=str(CONNECTIONS - 3 - 1))
    worker = spawn([sys.executable, "-m", "deploy.cli", "run", "worker"], log=log, env=given, cwd=CHECKOUT)
    try:
        eventually(lambda: bool(server.run("SELECT count(*) FROM tasks_workerprocess")), seconds=90)
        eventually(lambda: bool(outages(log)))
        most, until = 0, time.monotonic() + 3
        while time.monotonic() < until:
            most = max(most, int(str(server.run(SESSIONS))))
            time.sleep(0.02)
        # One may be there until the worker knows what PostgreSQL allows, and another one that asks for it.
        assert 1 <= most <= 3
        assert "53300" in outages(log)[0]
        with (
            web_server(server, redis_server, tmp_path, "--workers", "1", DATABASE_URL=url) as port,
            ThreadPoolExecutor(16) as pool,
        ):
            assert set(pool.map(lambda _: ask(port, "/v0.10/task_list", **token).status, range(200))) == {401}
    finally:
        stop(worker)


def test_the_limits_of_server_role_and_database_are_read(server: NetworkPostgres, url: str) -> None:
    with psycopg2.connect(url) as connection, connection.cursor() as cursor:
        try:
            use = connection_limits.read_use(cursor)
            assert (use.scope, use.allowed) == ("server", CONNECTIONS - 3)
            assert 1 <= use.used <= 3
            server.run("ALTER DATABASE waybill CONNECTION LIMIT 7")
            assert connection_limits.read_use(cursor)[:2] == ("database", 7)
            server.run("ALTER ROLE service CONNECTION LIMIT 2")
            assert connection_limits.read_use(cursor) == ("role", 2, 1)
        finally:
            server.run("ALTER DATABASE waybill CONNECTION LIMIT -1")
    connection.close()


def connect_until_refused(held: list[psycopg2.extensions.connection], urls: list[str]) -> None:
    for url in urls:
        for _ in range(CONNECTIONS + 1):
            try:
                held.append(psycopg2.connect(url))
            except psycopg2.OperationalError:
                if url == urls[-1]:
                    raise
                break


@pytest.mark.parametrize("limit", ["server", "superuser", "role", "database"])
def test_each_refusal_of_the_server_is_known(server: NetworkPostgres, url: str, limit: str) -> None:
    held: list[psycopg2.extensions.connection] = []
    try:
        if limit in ("role", "database"):
            what = "ROLE service" if limit == "role" else "DATABASE waybill"
            server.run(f"ALTER {what} CONNECTION LIMIT 0")
        with pytest.raises(psycopg2.OperationalError) as found:
            connect_until_refused(held, [url, server.url()] if limit == "superuser" else [url])
        assert connection_limits.is_full(found.value), found.value
    finally:
        for one in held:
            one.close()
        server.run("ALTER DATABASE waybill CONNECTION LIMIT -1")


def test_a_process_opens_no_more_connections_than_it_may(
    server: NetworkPostgres, url: str, redis_server: Redis, tmp_path: Path, token: dict[str, str]
) -> None:
    """Three threads have at most nine, and what `waybill_database_connections_needed` adds up is true."""
    given = {"DATABASE_URL": url, "WAYBILL_WEB_THREADS": "3"}
    with web_server(server, redis_server, tmp_path, "--workers", "1", **given) as port, ThreadPoolExecutor(16) as pool:
        assert set(pool.map(lambda _: ask(port, "/v0.10/task_list", **token).status, range(100))) == {401}
        assert int(str(server.run(SESSIONS))) <= 9
        needed = "SELECT (gauges->>'connections_most')::int FROM tasks_serviceprocess WHERE kind = 'web'"
        eventually(lambda: server.run(f"{needed} ORDER BY seen_at DESC LIMIT 1") == 9)
        names = "SELECT DISTINCT split_part(application_name, ' ', 2) FROM pg_stat_activity WHERE usename = 'service'"
        assert server.run(names) == "web"


def test_a_start_compares_what_is_allowed_with_what_may_be_needed(
    server: NetworkPostgres, url: str, redis_server: Redis, tmp_path: Path
) -> None:
    server.run("ALTER ROLE service CONNECTION LIMIT 4")
    server.run("DELETE FROM tasks_serviceprocess")
    log = tmp_path / "relay.log"
    relay = spawn(RELAY, log=log, env=environ(url, redis_server, tmp_path), cwd=CHECKOUT)
    try:
        said = "PostgreSQL allows 4 connections (CONNECTION LIMIT of the role), of which "
        eventually(lambda: said in log.read_text() or relay.poll() is not None, seconds=90)
        assert "the running processes may need 5: see docs/operate/sizing.md" in log.read_text()
        doctor = [sys.executable, "-m", "deploy.cli", "doctor", "connections"]
        given = environ(url, redis_server, tmp_path)
        done = subprocess.run(doctor, env=given, cwd=CHECKOUT, capture_output=True, text=True, timeout=120, check=False)
        assert (done.returncode, said in done.stdout) == (1, True), done.stdout
    finally:
        stop(relay)
    server.run("ALTER ROLE service CONNECTION LIMIT 0")
    done = subprocess.run(doctor, env=given, cwd=CHECKOUT, capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, "SQLSTATE 53300" in done.stdout) == (2, True), done.stdout


@NEEDS_PGBOUNCER
@pytest.mark.parametrize(
    ("mode", "ignore", "sentence"),
    [
        ("transaction", "options", pooler.SHARED),
        ("statement", "options", pooler.SHARED),
        ("session", "options", pooler.NO_LIMITS),
        ("session", "", pooler.NO_LIMITS),
    ],
)
def test_a_role_refuses_a_pooler_by_name(
    server: NetworkPostgres, redis_server: Redis, tmp_path: Path, mode: str, ignore: str, sentence: str
) -> None:
    with pgbouncer(server, tmp_path, mode, ignore=ignore) as url:
        done = run_relay(url, redis_server, tmp_path)
    assert (done.returncode, done.stderr.strip()) == (78, f"waybill: {sentence}")


@NEEDS_PGBOUNCER
def test_a_role_starts_with_sessions_of_its_own_by_a_pooler(
    server: NetworkPostgres, redis_server: Redis, tmp_path: Path
) -> None:
    """Where the role has the time limits that the service gives to its sessions."""
    for name in ("statement_timeout", "lock_timeout", "idle_in_transaction_session_timeout"):
        server.run(f"ALTER ROLE waybill SET {name} = '60s'")
    log = tmp_path / "relay.log"
    try:
        with pgbouncer(server, tmp_path, "session") as url:
            relay = spawn(RELAY, log=log, env=environ(url, redis_server, tmp_path), cwd=CHECKOUT)
            try:
                eventually(lambda: "listening on" in log.read_text() or relay.poll() is not None, seconds=90)
                assert relay.poll() is None, log.read_text()
            finally:
                stop(relay)
    finally:
        server.run("ALTER ROLE waybill RESET ALL")


RELAY = [sys.executable, "-m", "deploy.cli", "run", "relay"]


def run_relay(url: str, redis: Redis, folder: Path) -> subprocess.CompletedProcess[str]:
    given = environ(url, redis, folder)
    return subprocess.run(RELAY, env=given, cwd=CHECKOUT, capture_output=True, text=True, timeout=120, check=False)


class Turnstile:
    """A way to a server that lets one connection in after the other, as a machine with too much to do does."""

    def __init__(self, port: int, seconds: float) -> None:
        self._to, self._seconds = port, seconds
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=200)
        self.port: int = self._listener.getsockname()[1]
        self.let_in = 0
        self._open: list[socket.socket] = []
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join(60)
        for one in self._open:
            one.close()

    def _run(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                ours, _ = self._listener.accept()
                time.sleep(self._seconds)
                self.let_in += 1
                theirs = socket.create_connection(("127.0.0.1", self._to))
                self._open += [ours, theirs]
                for one, two in ((ours, theirs), (theirs, ours)):
                    threading.Thread(target=_pass_on, args=(one, two), daemon=True).start()


def _pass_on(one: socket.socket, two: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while octets := one.recv(65536):
            two.sendall(octets)
    with contextlib.suppress(OSError):
        two.shutdown(socket.SHUT_WR)


def test_after_an_outage_all_threads_have_a_connection_although_each_new_one_is_slow(
    server: NetworkPostgres, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sixteen that are opened at a time would each wait for the fifteen others, and for longer than a request waits."""
    monkeypatch.setattr(outage, "_watching", True)
    monkeypatch.setattr(database, "_timeouts", database.OF_REQUESTS)
    monkeypatch.setattr(database, "SHARED", SharedConnections(database._works))
    monkeypatch.setattr(bounded, "load_factor", lambda: 1.0)
    gate = Turnstile(server.port, 0.3)
    parameters = {**parse_dsn(url), "port": str(gate.port)}

    def opening(given: Mapping[str, Any]) -> database.WatchedConnection:
        classes = {"connection_factory": database.WatchedConnection, "cursor_factory": database.WatchedCursor}
        made: Any = psycopg2.connect(**{**given, **classes})
        assert isinstance(made, database.WatchedConnection)
        return made

    def ask() -> int:
        connection = database.connect(opening, parameters)
        connection.autocommit = True
        with connection.cursor() as cursor:
            cursor.execute("SELECT 7")
            rows = cursor.fetchall()
        database.release(connection)
        return int(rows[0][0])

    try:
        with ThreadPoolExecutor(16) as pool:
            assert [one.result() for one in [pool.submit(ask) for _ in range(16)]] == [7] * 16
        assert gate.let_in <= 2 * database.OPENED_AT_ONCE
        assert not database.OUTAGE.is_on
    finally:
        database.SHARED.close_idle(-1)
        gate.close()
