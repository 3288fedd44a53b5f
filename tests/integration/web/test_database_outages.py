"""A web server and an ssh shell whose PostgreSQL hangs, is gone, or is cut off in the middle of a request."""

from __future__ import annotations

import http.client
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import psycopg2
import pytest
from django.db import connection

from deploy.stack.child import spawn, stop
from deploy.stack.free_ports import free_port
from deploy.stack.postgres import Postgres
from deploy.stack.redis import Redis
from identity import ssh_keys, tokens
from identity.models import User
from tests.integration.web.web_server import web_server
from tests.servers.shell_server import ShellServer
from tests.waiting import children_of, eventually
from transferapi.config import CHECKOUT
from transferapi.config.servers import database
from transferapi.outages.database import is_outage
from transferapi.shell.server import host_key

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.timeout(180)]

#: Seconds. The bar is 2; a busy machine may take longer, but not the 30 s and more that a server without bounds takes.
LONGEST = 15.0
BUSY = "The service is busy or restarts; try again"


class Answer(NamedTuple):
    status: int
    headers: http.client.HTTPMessage
    body: str
    seconds: float

    def assert_away(self) -> None:
        assert (self.status, self.headers["Retry-After"]) == (503, "5"), self
        assert self.seconds < LONGEST


class OwnPostgres(Postgres):
    """A server that a test may break."""

    def url(self, database: str = "waybill") -> str:
        """That of its one database, whatever the database of the tests is called."""
        return super().url(database if database == "postgres" else "waybill")

    def signal(self, number: int) -> None:
        """To the server and all its processes."""
        assert self.process is not None
        for pid in (self.process.pid, *children_of(self.process.pid)):
            os.kill(pid, number)


@pytest.fixture(scope="module")
def own_postgres(stack_home: Path, give_schema: Callable[[Path], object]) -> Iterator[OwnPostgres]:
    home = stack_home / "outages-of-postgres"
    home.mkdir(mode=0o711)
    give_schema(home)
    server = OwnPostgres(home, durable=False)
    server.start()
    yield server
    server.signal(signal.SIGCONT)
    server.stop()


@contextmanager
def rows_in(server: Postgres) -> Iterator[None]:
    """Rows that are made within go into the database of this server."""
    before = dict(connection.settings_dict)
    connection.close()
    connection.settings_dict.update({name: database(server.url())[name] for name in ("NAME", "USER", "HOST", "PORT")})
    try:
        yield
    finally:
        connection.close()
        connection.settings_dict.update(before)


def ask(port: int, path: str, **headers: str) -> Answer:
    line = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    begun = time.monotonic()
    try:
        line.request("GET", path, headers=headers)
        answer = line.getresponse()
        return Answer(answer.status, answer.headers, answer.read().decode(), time.monotonic() - begun)
    finally:
        line.close()


def outages(log: Path) -> list[str]:
    return [line for line in log.read_text().splitlines() if "waybill.outages" in line]


def lines_of_trouble(log: Path) -> list[str]:
    return [line for line in log.read_text().splitlines() if " WARNING " in line or " ERROR " in line]


@pytest.fixture
def web(own_postgres: OwnPostgres, redis_server: Redis, tmp_path: Path) -> Iterator[int]:
    """Its port. At the end, `web_server` looks for tracebacks in the log."""
    with web_server(own_postgres, redis_server, tmp_path, "--workers", "1") as port:
        yield port


@pytest.fixture
def api(own_postgres: OwnPostgres) -> dict[str, str]:
    """The headers of a user."""
    with rows_in(own_postgres):
        user, _ = User.objects.get_or_create(username="asking")
        token = tokens.issue(user)
        with connection.cursor() as cursor:
            # The server writes late, and one that is killed would lose the token.
            cursor.execute("CHECKPOINT")
        return {"Authorization": f"Bearer {token}"}


def test_requests_get_503_while_the_server_hangs(
    own_postgres: OwnPostgres, web: int, api: dict[str, str], tmp_path: Path
) -> None:
    page = {"Accept": "text/html", "Cookie": "waybill-session=" + "x" * 32}
    assert ask(web, "/v0.10/task_list", **api).status == 200
    own_postgres.signal(signal.SIGSTOP)
    try:
        for _ in range(3):
            refused = ask(web, "/v0.10/task_list", **api)
            refused.assert_away()
            assert (json.loads(refused.body)["code"], json.loads(refused.body)["message"]) == (
                "ServiceUnavailable",
                BUSY,
            )
        shown = ask(web, "/activity", **page)
        shown.assert_away()
        assert "<html" in shown.body
        before_views = ask(web, "/activity", Cookie=page["Cookie"], Accept="application/json")
        before_views.assert_away()
        assert json.loads(before_views.body)["code"] == "ServiceUnavailable"
        assert ask(web, "/healthz").status == 200
        found = ask(web, "/readyz?exclude=sweep")
        assert found.status == 503
        assert "PostgreSQL" in json.loads(found.body)["checks"]["database"]["reason"]
    finally:
        own_postgres.signal(signal.SIGCONT)
    eventually(lambda: ask(web, "/v0.10/task_list", **api).status == 200)
    eventually(lambda: len(outages(tmp_path / "web.log")) == 2)
    began, ended = outages(tmp_path / "web.log")
    assert "PostgreSQL does not answer" in began
    assert "PostgreSQL answers again after" in ended
    assert lines_of_trouble(tmp_path / "web.log") == [began, ended]


def test_requests_get_503_where_the_connection_is_cut_and_while_the_port_is_closed(
    own_postgres: OwnPostgres, web: int, api: dict[str, str], tmp_path: Path
) -> None:
    assert ask(web, "/v0.10/task_list", **api).status == 200
    answers: list[Answer] = []
    own_postgres.signal(signal.SIGSTOP)
    asking = threading.Thread(target=lambda: answers.append(ask(web, "/v0.10/task_list", **api)))
    asking.start()
    own_postgres.signal(signal.SIGKILL)
    asking.join(60)
    own_postgres.stop()
    answers += [ask(web, "/v0.10/task_list", **api) for _ in range(3)]
    own_postgres.start()
    for one in answers:
        one.assert_away()
    assert len(answers) == 4
    # The token may be lost: this server does not write to its disk before it answers.
    eventually(lambda: ask(web, "/v0.10/task_list", **api).status in (200, 401))
    eventually(lambda: "answers again" in outages(tmp_path / "web.log")[-1])


@contextmanager
def process_of(role: str, server: Postgres, redis: Redis, folder: Path) -> Iterator[tuple[int, int]]:
    """`waybill shell` or `waybill relay` as a process of its own; its port and its pid."""
    port, log = free_port(), folder / f"{role}.log"
    given = {
        **{name: value for name, value in os.environ.items() if not name.startswith("WAYBILL_")},
        "DATABASE_URL": server.url(),
        "REDIS_URL": redis.url(),
        "WAYBILL_SECRET_KEY": "x" * 50,
        "WAYBILL_HOME": str(folder),
        "WAYBILL_SSH_HOST": "127.0.0.1",
        "WAYBILL_SSH_PORT": str(port),
        "WAYBILL_RELAY": f"127.0.0.1:{port}",
    }
    process = spawn([sys.executable, "-m", "deploy.cli", role], log=log, env=given, cwd=CHECKOUT)
    try:
        eventually(lambda: "listening on" in log.read_text() or process.poll() is not None, seconds=90)
        assert process.poll() is None, log.read_text()
        yield port, process.pid
    finally:
        stop(process)
    assert "Traceback" not in log.read_text(), log.read_text()


def test_the_shell_answers_with_a_sentence_also_when_it_is_asked_to_stop(
    own_postgres: OwnPostgres, redis_server: Redis, tmp_path: Path
) -> None:
    private = host_key.new_private_key()
    host_key.write_new(tmp_path / "key", private)
    public = ShellServer.public_key(tmp_path / "key")
    with rows_in(own_postgres):
        ssh_keys.add(User.objects.create_user("typing"), public)
    with process_of("shell", own_postgres, redis_server, tmp_path) as (port, pid):
        command = ["ssh", "-F", "none", "-T", "-p", str(port), "-i", str(tmp_path / "key"), "-o", "LogLevel=INFO"]
        command += ["-o", "StrictHostKeyChecking=no", "-o", f"UserKnownHostsFile={tmp_path / 'hosts'}"]
        client = subprocess.Popen(
            [*command, "typing@127.0.0.1"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        said: Any = client
        said.stdin.write(b"endpoint-list\nhelp exit\n")
        said.stdin.flush()
        assert said.stdout.readline()
        own_postgres.signal(signal.SIGSTOP)
        try:
            said.stdin.write(b"endpoint-list\n")
            said.stdin.flush()
            # After a warning about the key of the host.
            assert f"Error: {BUSY}" in (said.stderr.readline().decode().strip() for _ in range(3))
        finally:
            own_postgres.signal(signal.SIGCONT)
        eventually(lambda: len(outages(tmp_path / "shell.log")) == 2)
        os.kill(pid, signal.SIGTERM)
        # To the end of the client, whose input stays open.
        assert b"The service restarts; tasks go on" in said.stderr.read()
        said.communicate(timeout=60)
    began, ended = outages(tmp_path / "shell.log")
    assert "does not answer" in began
    assert "answers again" in ended


def test_a_process_in_the_background_has_two_lines_for_an_outage(
    own_postgres: OwnPostgres, redis_server: Redis, tmp_path: Path
) -> None:
    """The relay beats each second, and waits longer than a request until a server that is silent counts as away."""
    log = tmp_path / "relay.log"
    with process_of("relay", own_postgres, redis_server, tmp_path):
        own_postgres.signal(signal.SIGSTOP)
        try:
            eventually(lambda: len(outages(log)) == 1)
        finally:
            own_postgres.signal(signal.SIGCONT)
        eventually(lambda: len(outages(log)) == 2)
    assert lines_of_trouble(log) == outages(log)


def test_an_error_of_a_statement_is_no_outage(postgres: Postgres) -> None:
    line = psycopg2.connect(postgres.url("postgres"))
    with line, line.cursor() as cursor, pytest.raises(psycopg2.errors.QueryCanceled) as found:
        cursor.execute("SET statement_timeout TO 10; SELECT pg_sleep(30)")
    line.close()
    assert not is_outage(found.value)
    with pytest.raises(psycopg2.OperationalError) as found_too:
        psycopg2.connect("postgresql:///nothing?host=/nowhere")
    assert is_outage(found_too.value)
