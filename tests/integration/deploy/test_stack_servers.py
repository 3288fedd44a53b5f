"""The embedded PostgreSQL and Redis, for real."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import django.core.cache
import psycopg2
import pytest
import redis as redis_client
from django.db import connection

from deploy.stack.errors import StackError, StartError
from deploy.stack.postgres import Postgres
from deploy.stack.redis import Redis
from tests.waiting import children_of, eventually, is_alive


@pytest.fixture
def home() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="waybill-") as folder:
        Path(folder).chmod(0o711)
        yield Path(folder)


@pytest.fixture
def closed_home() -> Iterator[Path]:
    """Below a folder that nobody else may pass, as a checkout in /root is."""
    with tempfile.TemporaryDirectory(prefix="waybill-") as folder:
        yield Path(folder) / "home"


@pytest.mark.django_db
def test_django_speaks_to_the_embedded_postgres() -> None:
    with connection.cursor() as cursor:
        cursor.execute("SHOW server_encoding")
        assert cursor.fetchone() == ("UTF8",)


def test_djangos_cache_is_the_embedded_redis(redis_server: Redis) -> None:
    django.core.cache.cache.set("answer", 42, 60)
    assert django.core.cache.cache.get("answer") == 42


def query(server: Postgres, statement: str) -> list[tuple[object, ...]]:
    session = psycopg2.connect(server.url())
    try:
        session.autocommit = True
        with session.cursor() as cursor:
            cursor.execute(statement)
            return cursor.fetchall() if cursor.description else []
    finally:
        session.close()


def test_postgres_starts_after_a_killed_one_whose_session_goes_on(home: Path) -> None:
    server = Postgres(home)
    server.start()
    killed = server.process
    assert killed is not None
    session = psycopg2.connect(server.url())
    try:
        process = session.info.backend_pid
        busy = threading.Thread(target=work_for_seconds, args=(session,), daemon=True)
        busy.start()
        eventually(lambda: query(server, f"SELECT 1 FROM pg_stat_activity WHERE pid = {process} AND state = 'active'"))
        killed.kill()
        killed.wait(60)
        assert is_alive(process), "it does not look whether its server lives"
        server.start()
        assert not is_alive(process)
        assert query(server, "SELECT 1") == [(1,)]
    finally:
        session.close()
        server.stop()


def work_for_seconds(session: psycopg2.extensions.connection) -> None:
    """A session without a pause in which it would see that its server is gone."""
    with contextlib.suppress(psycopg2.OperationalError), session.cursor() as cursor:
        cursor.execute("DO $$ BEGIN FOR number IN 1..60000000 LOOP END LOOP; END $$")


#: As process 1 of a container that reaps no child: orphans below it become zombies of this process (prctl(2)).
REAPS_NO_CHILD = """
import ctypes, subprocess, sys, time
from pathlib import Path
from deploy.stack.postgres import Postgres
PR_SET_CHILD_SUBREAPER = 36
assert ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0
home, other = Path(sys.argv[1]), sys.argv[2:]
words = [sys.executable, "-c", "import sys\\n" + other[0], str(home)]
with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as parent:
    pid = int(parent.stdout.readline().split()[0])
    parent.kill()
while "\\nState:\\tZ" not in Path(f"/proc/{pid}/status").read_text():
    time.sleep(0.01)
server = Postgres(home, durable=False)
server.start(timeout=20)
print("started", server.process.pid, flush=True)
server.stop()
"""


def test_postgres_starts_after_a_killed_one_that_nobody_reaps(home: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", REAPS_NO_CHILD, str(home), STARTS_BOTH],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert "started" in done.stdout, done.stderr[-3000:]


def test_postgres_does_not_start_where_another_one_runs(home: Path) -> None:
    server, second = Postgres(home, durable=False), Postgres(home, durable=False)
    server.start()
    try:
        # Without the look at its socket, at which the first one answers.
        second.prepare()
        refused = subprocess.run(second.command(), stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
        assert refused.returncode != 0
        assert 'lock file "postmaster.pid" already exists' in refused.stderr
        assert query(server, "SELECT 1") == [(1,)]
    finally:
        server.stop()


def test_postgres_starts_where_another_program_has_the_number_of_a_killed_one(home: Path) -> None:
    server = Postgres(home, durable=False)
    server.start()
    assert server.process is not None
    lock = home / "postgres" / "postmaster.pid"
    text = lock.read_text()
    server.stop()
    with subprocess.Popen(["sleep", "1000"], user=lock.parent.stat().st_uid) as other:
        lock.write_text(text.replace(text.partition("\n")[0], str(other.pid), 1))
        os.chown(lock, lock.parent.stat().st_uid, lock.parent.stat().st_gid)
        try:
            server.start(timeout=20)
            assert query(server, "SELECT 1") == [(1,)]
        finally:
            server.stop()
            other.kill()


def test_postgres_runs_in_a_home_below_a_closed_folder(closed_home: Path) -> None:
    server = Postgres(closed_home, durable=False)
    try:
        server.start()
        assert query(server, "SELECT current_user") == [("waybill",)]
    finally:
        server.stop()


def test_postgres_keeps_its_rows_when_it_is_killed(home: Path) -> None:
    server = Postgres(home)
    try:
        server.start()
        query(server, "CREATE TABLE kept AS SELECT 7 AS number")
        assert server.process is not None
        server.process.kill()
        server.process.wait(60)
        server.start()
        assert query(server, "SELECT number FROM kept") == [(7,)]
    finally:
        server.stop()


def test_postgres_listens_on_no_network_address(postgres: Postgres) -> None:
    assert query(postgres, "SHOW listen_addresses") == [("",)]


def test_only_the_user_who_started_postgres_is_let_in(postgres: Postgres) -> None:
    rules = query(postgres, "SELECT type, auth_method, user_name FROM pg_hba_file_rules")
    assert rules == [("local", "peer", ["all"])]
    with pytest.raises(psycopg2.OperationalError, match="Peer authentication failed"):
        psycopg2.connect(postgres.url().replace("waybill@", "postgres@"))


def test_a_postgres_that_cannot_start_says_why(home: Path) -> None:
    server = Postgres(home, durable=False)
    server.start()
    server.stop()
    (home / "postgres" / "PG_VERSION").write_text("9\n")
    with pytest.raises(StartError, match="data directory was initialized by PostgreSQL version 9"):
        server.start()


def test_a_folder_that_cannot_be_made_is_named(home: Path) -> None:
    (home / "file").write_text("")
    with pytest.raises(StackError, match=r"file/logs|file/run"):
        Postgres(home / "file").start()


def test_redis_keeps_its_messages_when_it_is_killed(home: Path) -> None:
    server = Redis(home)
    try:
        server.start()
        with redis_client.Redis.from_url(server.url()) as client:
            client.lpush("queue", "message")
            eventually(lambda: client.info("persistence")["aof_pending_bio_fsync"] == 0)
        assert server.process is not None
        server.process.kill()
        server.process.wait(60)
        server.start()
        with redis_client.Redis.from_url(server.url()) as client:
            assert client.lrange("queue", 0, -1) == [b"message"]
    finally:
        server.stop()


STARTS_BOTH = """
import sys, time
from pathlib import Path
from deploy.stack.postgres import Postgres
from deploy.stack.redis import Redis
home = Path(sys.argv[1])
postgres, redis = Postgres(home, durable=False), Redis(home)
postgres.start()
redis.start()
print(postgres.process.pid, redis.process.pid, flush=True)
time.sleep(1000)
"""


def test_a_killed_parent_leaves_no_server_behind(home: Path) -> None:
    parent = subprocess.Popen(
        [sys.executable, "-c", STARTS_BOTH, str(home)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True
    )
    with parent:
        assert parent.stdout is not None
        servers = [int(word) for word in parent.stdout.readline().split()]
        everybody = servers + children_of(servers[0])
        assert len(everybody) > 3
        parent.send_signal(signal.SIGKILL)
    eventually(lambda: not any(is_alive(pid) for pid in everybody))
