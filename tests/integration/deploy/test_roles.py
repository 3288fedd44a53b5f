"""`waybill run`: real processes of the roles that no other module starts, and hosts that migrate at one time."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.parse import quote, unquote

import psycopg2
import pytest

from deploy.commands import run as roles
from deploy.stack.child import spawn, stop
from deploy.stack.free_ports import free_port
from deploy.stack.redis import Redis
from deploy.stack.roles import MIGRATING
from tests.waiting import children_of, eventually
from transferapi.config import CHECKOUT, load

pytestmark = pytest.mark.own_interpreter
RUN = [sys.executable, "-m", "deploy.cli", "run"]


@pytest.fixture
def environ(database_url: str, redis_server: Redis, tmp_path: Path) -> dict[str, str]:
    return {
        **{name: value for name, value in os.environ.items() if not name.startswith("WAYBILL_")},
        "DATABASE_URL": database_url,
        "REDIS_URL": redis_server.url(),
        "WAYBILL_SECRET_KEY": "x" * 50,
        "WAYBILL_HOME": str(tmp_path),
        "PYTHONUNBUFFERED": "1",
    }


@contextmanager
def another_host_migrates(database_url: str) -> Iterator[psycopg2.extensions.connection]:
    connection = psycopg2.connect(database_url)
    connection.autocommit = True
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_lock(%s)", [MIGRATING])
        yield connection
    finally:
        connection.close()


@pytest.mark.django_db(transaction=True)
def test_the_web_server_is_the_process_that_was_started(environ: dict[str, str], tmp_path: Path) -> None:
    port, log = free_port(), tmp_path / "web.log"
    environ |= {"WAYBILL_PORT": str(port), "WAYBILL_WEB_PROCESSES": "1", "WAYBILL_WEB_THREADS": "3"}
    process = spawn([*RUN, "web"], log=log, env=environ, cwd=CHECKOUT)
    try:
        eventually(lambda: "Booting worker" in log.read_text() or process.poll() is not None, seconds=90)
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz", timeout=30) as answer:
            assert answer.status == 200
        assert b"gunicorn" in Path(f"/proc/{process.pid}/cmdline").read_bytes()
        assert len(children_of(process.pid)) == 1
        assert f"http://127.0.0.1:{port}" in log.read_text()
    finally:
        stop(process)


@pytest.mark.django_db(transaction=True)
def test_the_events_server_is_the_process_that_was_started_and_its_check_asks_it(
    environ: dict[str, str], tmp_path: Path
) -> None:
    port, log = free_port(), tmp_path / "events.log"
    environ |= {"WAYBILL_EVENTS_PORT": str(port), "WAYBILL_WEB_PROCESSES": "3"}
    check = [sys.executable, "-m", "deploy.cli", "check", "events", "--exclude", "redis", "--exclude", "sweep"]
    before = subprocess.run(check, env=environ, cwd=CHECKOUT, capture_output=True, text=True, timeout=60, check=False)
    assert (before.returncode, f"the events server does not answer at port {port}" in before.stderr) == (1, True)
    process = spawn([*RUN, "events"], log=log, env=environ, cwd=CHECKOUT)
    try:
        eventually(lambda: "Booting worker" in log.read_text() or process.poll() is not None, seconds=90)
        eventually(lambda: subprocess.run(check, env=environ, cwd=CHECKOUT, timeout=60, check=False).returncode == 0)
        assert b"transferapi.asgi" in Path(f"/proc/{process.pid}/cmdline").read_bytes()
        assert len(children_of(process.pid)) == 1
    finally:
        stop(process)
    assert "Traceback" not in log.read_text(), log.read_text()


@pytest.mark.django_db(transaction=True)
def test_a_web_server_listens_before_it_has_loaded_the_application(environ: dict[str, str], tmp_path: Path) -> None:
    """A connection that comes while it loads waits for the answer, and is not refused."""
    port, log = free_port(), tmp_path / "web.log"
    environ |= {"WAYBILL_PORT": str(port), "WAYBILL_WEB_PROCESSES": "1"}
    process = spawn([*RUN, "web"], log=log, env=environ, cwd=CHECKOUT)
    try:
        eventually(lambda: listens(port), seconds=90)
        eventually(lambda: b"gunicorn" in Path(f"/proc/{process.pid}/cmdline").read_bytes())
        assert b"fd://" in Path(f"/proc/{process.pid}/cmdline").read_bytes(), "the socket is older than gunicorn"
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz", timeout=90) as answer:
            assert answer.status == 200
    finally:
        stop(process)


def test_a_web_server_listens_late_where_the_database_does_not_answer(environ: dict[str, str], tmp_path: Path) -> None:
    """Requests would wait for the database, for up to 30 s; refused ones go to another web server at once."""
    port, log = free_port(), tmp_path / "web.log"
    environ |= {"WAYBILL_PORT": str(port), "DATABASE_URL": f"postgresql://waybill@127.0.0.1:{free_port()}/waybill"}
    process = spawn([*RUN, "web"], log=log, env=environ, cwd=CHECKOUT)
    try:
        eventually(lambda: b"gunicorn" in Path(f"/proc/{process.pid}/cmdline").read_bytes(), seconds=90)
        assert process.poll() is None
        assert not listens(port)
    finally:
        stop(process)


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("answers", [True, False])
def test_a_web_server_listens_late_while_another_one_answers(
    environ: dict[str, str], tmp_path: Path, *, answers: bool
) -> None:
    """One that is being started listens, too, but does not answer: then both listen early."""
    port, log, said = free_port(), tmp_path / "web.log", b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
    with socket.create_server(("127.0.0.1", 0)) as peer:
        environ |= {"WAYBILL_PORT": str(port), "WAYBILL_WEB_PEER": f"127.0.0.1:{peer.getsockname()[1]}"}
        process = spawn([*RUN, "web"], log=log, env=environ, cwd=CHECKOUT)
        try:
            peer.settimeout(90)
            with peer.accept()[0] as asked:
                asked.settimeout(90)
                assert asked.recv(65536).startswith(b"GET /healthz ")
                if answers:
                    asked.sendall(said)
                eventually(lambda: b"gunicorn" in Path(f"/proc/{process.pid}/cmdline").read_bytes(), seconds=90)
            assert (b"fd://" in Path(f"/proc/{process.pid}/cmdline").read_bytes()) is not answers
            eventually(lambda: "Booting worker" in log.read_text() or process.poll() is not None, seconds=90)
            assert listens(port)
        finally:
            stop(process)


def listens(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=5).close()
    except ConnectionRefusedError:
        return False
    return True


@pytest.mark.django_db(transaction=True)
def test_a_host_waits_while_another_one_migrates(environ: dict[str, str], tmp_path: Path) -> None:
    log = tmp_path / "migrate.log"
    with another_host_migrates(environ["DATABASE_URL"]) as connection:
        process = spawn([*RUN, "migrate"], log=log, env=environ, cwd=CHECKOUT)
        try:

            def asks() -> bool:
                with connection.cursor() as cursor:
                    cursor.execute(
                        "SELECT count(*) FROM pg_stat_activity"
                        " WHERE datname = current_database() AND query LIKE 'SELECT pg_try_advisory_lock(%%'"
                    )
                    return cursor.fetchone() != (0,) or process.poll() is not None

            eventually(asks, seconds=90)
            assert process.poll() is None, log.read_text()
            assert "Operations to perform" not in log.read_text()
            connection.close()
            assert process.wait(90) == 0, log.read_text()
        finally:
            stop(process)
    assert "Nothing to do." in log.read_text()


@pytest.mark.django_db(transaction=True)
def test_the_wait_for_another_host_has_an_end(
    database_url: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(roles, "WAIT_SECONDS", 0.0)
    with another_host_migrates(database_url):
        assert roles.ROLES["migrate"](load({})) == 75
    assert "another host has been migrating" in capsys.readouterr().err


def test_migrations_wait_for_a_database_and_end_with_status_75(environ: dict[str, str]) -> None:
    """A script in place of the command, so that it does not wait for 30 s."""
    script = "import transferapi.schema_version as schema; schema.TIMEOUT = 0.0; from deploy import cli; "
    script += "raise SystemExit(cli.main(['run', 'migrate']))"
    environ["DATABASE_URL"] = f"postgresql://waybill@127.0.0.1:{free_port()}/waybill"
    words = [sys.executable, "-c", script]
    done = subprocess.run(words, env=environ, cwd=CHECKOUT, capture_output=True, text=True, timeout=90, check=False)
    assert done.returncode == 75, done.stderr
    assert done.stderr == "waybill: the database did not answer for 0 s\n"


@contextmanager
def a_server_that_hangs_up(path: Path) -> Iterator[list[None]]:
    """A local socket that refuses to speak, as PostgreSQL while its host starts; one item for each caller."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        path.chmod(0o777)
        listener.listen()
        callers: list[None] = []

        def answer() -> None:
            with suppress(OSError):
                while True:
                    listener.accept()[0].close()
                    callers.append(None)

        thread = threading.Thread(target=answer, daemon=True)
        thread.start()
        try:
            yield callers
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            thread.join(30)


@pytest.mark.django_db(transaction=True)
def test_migrations_with_a_wait_outlast_a_database_that_starts_late(environ: dict[str, str], tmp_path: Path) -> None:
    """A script in place of the command, so that it does not wait as it usually does."""
    script = "import transferapi.schema_version as schema; schema.TIMEOUT = 0.0; from deploy import cli; "
    script += "raise SystemExit(cli.main(['run', 'migrate', '--wait', '600']))"
    log = tmp_path / "migrate.log"
    address, _, real = environ["DATABASE_URL"].partition("?host=")
    [there] = Path(unquote(real)).glob(".s.PGSQL.*[0-9]")
    with tempfile.TemporaryDirectory() as folder, a_server_that_hangs_up(Path(folder) / there.name) as callers:
        environ["DATABASE_URL"] = f"{address}?host={quote(folder)}"
        process = spawn([sys.executable, "-c", script], log=log, env=environ, cwd=CHECKOUT)
        try:
            eventually(lambda: len(callers) > 3 or process.poll() is not None, seconds=90)
            assert process.poll() is None, log.read_text()
            (Path(folder) / "real").symlink_to(there)
            (Path(folder) / "real").replace(Path(folder) / there.name)
            assert process.wait(90) == 0, log.read_text()
        finally:
            stop(process)
    assert log.read_text() == "Nothing to do.\n"


@pytest.mark.django_db(transaction=True)
def test_migrations_with_a_wait_outlast_a_database_that_restarts(environ: dict[str, str], tmp_path: Path) -> None:
    """Their session ends while they wait for another host; without the wait that is the end."""
    log = tmp_path / "migrate.log"
    with another_host_migrates(environ["DATABASE_URL"]) as connection, connection.cursor() as cursor:
        process = spawn([*RUN, "migrate", "--wait", "600"], log=log, env=environ, cwd=CHECKOUT)

        def ended() -> bool:
            cursor.execute(
                "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity"
                " WHERE datname = current_database() AND query LIKE 'SELECT pg_try_advisory_lock(%%'"
            )
            return cursor.fetchone() != (0,) or process.poll() is not None

        try:
            eventually(ended, seconds=90)
            eventually(lambda: "trying again" in log.read_text() or process.poll() is not None, seconds=90)
            assert process.poll() is None, log.read_text()
            connection.close()
            assert process.wait(90) == 0, log.read_text()
        finally:
            stop(process)
    assert log.read_text() == "waybill: the connection to the database was lost; trying again\nNothing to do.\n"
