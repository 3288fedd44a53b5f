"""`/healthz`, `/readyz` and `waybill check`, against a real web server, PostgreSQL and Redis."""

from __future__ import annotations

import http.client
import json
import os
import re
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from django.db import connection
from django.db.migrations.recorder import MigrationRecorder
from django.test import Client, override_settings

from deploy import cli
from deploy.doctor import programs
from deploy.stack.errors import StackError
from deploy.stack.postgres import Postgres
from deploy.stack.redis import Redis
from tests.integration.web.web_server import web_server
from tests.waiting import eventually
from transferapi.config import CHECKOUT, load
from transferapi.rest import health
from transferapi.rest.health import Prober
from transferapi.rest.health_checks import CHECKS
from transferapi.tasks.models import WorkerProcess
from transferapi.tasks.upkeep import rounds, worker_processes

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("redis_server")]


@pytest.fixture(autouse=True)
def _fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    """No test sees the findings of another one."""
    monkeypatch.setattr(health, "_prober", Prober({name: one.ask for name, one in CHECKS.items()}))


@pytest.fixture
def swept() -> None:
    """A worker swept just now: the first claim makes the row."""
    rounds.poll({"sweep": rounds.Interval(2.0)})
    rounds.poll({"sweep": rounds.Interval(2.0)})


def ready(client: Client, query: str = "", **more: Any) -> tuple[int, dict[str, Any]]:
    answer = client.get(f"/readyz{query}", **more)
    return answer.status_code, answer.json()


def test_a_service_that_works_is_ready(client: Client, swept: None) -> None:
    status, document = ready(client)
    assert (status, document["status"]) == (200, "ready"), document
    assert set(document["checks"]) == {"database", "schema", "redis", "sweep"}
    assert client.get("/healthz").json() == {"status": "alive"}


def test_neither_needs_a_known_host_name_and_other_paths_name_the_setting(client: Client, swept: None) -> None:
    assert ready(client, HTTP_HOST="10.1.2.3")[0] == 200
    assert client.get("/healthz", HTTP_HOST="10.1.2.3").status_code == 200
    refused = client.get("/v0.10/task_list", HTTP_HOST="10.1.2.3")
    assert refused.status_code == 400
    assert "WAYBILL_HOSTS" in refused.json()["message"]


def test_strangers_see_no_reasons(client: Client) -> None:
    assert ready(client, REMOTE_ADDR="192.0.2.1") == (503, {"status": "not_ready"})
    with override_settings(MONITORS=load({"WAYBILL_MONITORS": "192.0.2.0/24"}).monitors):
        assert "No worker" in ready(client, REMOTE_ADDR="192.0.2.1")[1]["checks"]["sweep"]["reason"]
        assert "checks" not in ready(client)[1]


def test_no_sweep_and_a_late_one(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    status, document = ready(client)
    assert (status, document["checks"]["sweep"]["passed"]) == (503, False)
    assert "start a worker" in document["checks"]["sweep"]["reason"]
    assert ready(client, "?exclude=sweep")[0] == 200
    monkeypatch.setattr(rounds, "overdue", lambda name: 31.0)
    assert "for 31 s" in CHECKS["sweep"].ask()


def test_only_known_checks_are_left_out_and_only_reading_is_allowed(client: Client) -> None:
    status, document = ready(client, "?exclude=nothing")
    assert (status, document["reason"]) == (400, "exclude=nothing: the checks are database, schema, redis, sweep")
    for path in ("/readyz", "/healthz"):
        assert client.post(path).status_code == 405


def test_another_schema_is_named(client: Client, swept: None) -> None:
    recorder = MigrationRecorder(connection)
    recorder.record_applied("tasks", "9999_later")
    try:
        status, document = ready(client)
    finally:
        # The table of migrations is not emptied between tests.
        recorder.record_unapplied("tasks", "9999_later")
    assert (status, "tasks.9999_later" in document["checks"]["schema"]["reason"]) == (503, True)


# ---- real processes


def get(port: int, path: str) -> tuple[int, dict[str, Any]]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read())
    finally:
        connection.close()


def waybill(*words: str, **environ: str) -> int:
    arguments = cli.parser().parse_args(words)
    return cli.carry_out(load(environ), arguments)


@pytest.fixture
def own_redis(tmp_path: Path) -> Iterator[Redis]:
    """A Redis of this test, which may stop it."""
    redis = Redis(tmp_path / "home")
    redis.start()
    yield redis
    redis.stop()


def test_without_redis_it_is_not_ready_and_says_so(
    postgres: Postgres, own_redis: Redis, tmp_path: Path, swept: None
) -> None:
    with web_server(postgres, own_redis, tmp_path, "--workers", "1") as port:
        assert waybill("check", "web", "--exclude", "sweep", WAYBILL_PORT=str(port)) == 0
        own_redis.stop()
        eventually(lambda: get(port, "/readyz?exclude=sweep")[0] == 503)
        with pytest.raises(StackError, match=r"redis: Redis does not answer \(ConnectionError\): see REDIS_URL"):
            waybill("check", "web", "--exclude", "sweep", WAYBILL_PORT=str(port))
        # A load balancer leaves out what requests can do without.
        assert waybill("check", "web", "--exclude", "sweep", "--exclude", "redis", WAYBILL_PORT=str(port)) == 0
        assert get(port, "/healthz") == (200, {"status": "alive"})


def test_a_worker_is_known_by_its_reports(database_url: str) -> None:
    there = load({"DATABASE_URL": database_url})
    host = socket.gethostname()
    with pytest.raises(StackError, match=f"no worker of the host {re.escape(host)}"):
        programs._worker(there, [])
    worker_processes.report("elsewhere:1", "elsewhere")
    with pytest.raises(StackError, match=f"no worker of the host {re.escape(host)}"):
        programs._worker(there, [])
    # Linux gives no process this number (PID_MAX_LIMIT): a row of a process that runs would be another finding.
    worker_processes.report(f"{host}:{2**22 + 1}", host)
    programs._worker(there, [])
    put_back("1 hour")
    with pytest.raises(StackError, match="3600 s old"):
        programs._worker(there, [])
    worker_processes.report(f"{host}:2", host)
    programs._worker(there, [])
    worker_processes.leave(f"{host}:2")
    put_back("8 days")
    worker_processes.report(f"{host}:3", host)
    assert [row.name for row in WorkerProcess.objects.all()] == [f"{host}:3"]


def test_a_worker_that_runs_and_does_not_report_is_reported_although_others_work(database_url: str) -> None:
    """And not one that was killed, nor a process that has got the number of one since."""
    there = load({"DATABASE_URL": database_url})
    host = socket.gethostname()
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait(60)
    for pid in (os.getpid(), dead.pid):
        worker_processes.report(f"{host}:{pid}", host)
    put_back("10 years")
    worker_processes.report(f"{host}:1", host)
    programs._worker(there, [])
    # This process must be older than its report in the table.
    eventually(lambda: programs._runs(f"{host}:{os.getpid()}", 60.0), seconds=90)
    for name in (f"{host}:{os.getpid()}", f"{host}:{dead.pid}"):
        worker_processes.report(name, host)
    put_back("30 seconds")
    worker_processes.report(f"{host}:1", host)
    with pytest.raises(StackError, match=rf"runs and has not reported: process {os.getpid()} for \d+ s$"):
        programs._worker(there, [])


@pytest.mark.parametrize("apart", [False, True])
def test_the_command_asks_the_database_itself(database_url: str, tmp_path: Path, apart: bool) -> None:
    """In a process of its own, as a container's health check. apart: the address is in a file."""
    (tmp_path / "url").write_text(database_url)
    given = {"DATABASE_URL_FILE": str(tmp_path / "url")} if apart else {"DATABASE_URL": database_url}
    assert health_check("worker", **given)[0] == 1
    worker_processes.report(f"{socket.gethostname()}:1", socket.gethostname())
    assert health_check("worker", **given) == (0, "worker: works\n", "")


@pytest.mark.own_interpreter
def test_a_health_check_loads_neither_django_nor_the_configuration() -> None:
    """It runs every few seconds for each program, and a start of Django costs a second of processor."""
    program = (
        "import sys; from deploy.commands import check; status = check.main(['relay']); "
        "print(status, sorted({'django', 'asyncio', 'cryptography', 'transferapi.config.reading'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True, cwd=CHECKOUT,
        env={**clean_environment(), "WAYBILL_RELAY": "127.0.0.1:1"},
    )  # fmt: skip
    assert done.stdout == "1 []\n", done.stderr


@pytest.mark.parametrize(
    ("words", "environ", "said"),
    [
        ("worker", {}, "waybill: DATABASE_URL is not set, so that no worker can be found"),
        (
            "worker",
            {"DATABASE_URL": "postgresql://u:hunter2@127.0.0.1:1/x"},
            "PostgreSQL does not say whether a worker",
        ),
        ("worker", {"DATABASE_URL_FILE": "/nonexistent"}, "DATABASE_URL_FILE: the file /nonexistent cannot be read"),
        ("web", {"WAYBILL_PORT": "none"}, "WAYBILL_PORT: a whole number from 1 to 65535"),
        ("relay", {"WAYBILL_RELAY": "unix:/nonexistent"}, "the relay does not answer at unix:/nonexistent"),
    ],
)
def test_a_health_check_says_what_is_wrong(words: str, environ: dict[str, str], said: str) -> None:
    status, _, error = health_check(words, **environ)
    assert (status, said in error, "hunter2" in error, "Traceback" in error) == (1, True, False, False), error


def health_check(program: str, **environ: str) -> tuple[int, str, str]:
    done = subprocess.run(
        [sys.executable, "-m", "deploy.entry", "check", program], capture_output=True, text=True, timeout=60,
        check=False, cwd=CHECKOUT, env={**clean_environment(), **environ},
    )  # fmt: skip
    return done.returncode, done.stdout, done.stderr


def clean_environment() -> dict[str, str]:
    """Of this process, without settings; a home in which nothing runs."""
    given = {name: text for name, text in os.environ.items() if not name.startswith(("WAYBILL_", "DATABASE_URL"))}
    return {**given, "WAYBILL_HOME": "/nonexistent"}


def put_back(interval: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute("UPDATE tasks_workerprocess SET seen_at = now() - %s::interval", [interval])


def test_programs_that_do_not_listen_are_reported() -> None:
    with pytest.raises(StackError, match="does not answer at port 1:"):
        waybill("check", "web", WAYBILL_PORT="1")
    with pytest.raises(StackError, match="does not answer at port 1:"):
        waybill("check", "shell", WAYBILL_SSH_PORT="1")
    with pytest.raises(StackError, match=r"the relay does not answer at 127\.0\.0\.1:1:"):
        waybill("check", "relay", WAYBILL_RELAY="127.0.0.1:1")


def test_another_program_at_the_port_is_reported() -> None:
    with (
        a_program_that_says(b"220 ready\r\n", "127.0.0.1") as port,
        pytest.raises(StackError, match=f"the program at port {port} is not the ssh shell"),
    ):
        waybill("check", "shell", WAYBILL_SSH_PORT=str(port))


@pytest.mark.parametrize(
    ("listens", "host"), [("127.0.0.2", "127.0.0.2"), ("127.0.0.1", "0.0.0.0"), ("::1", "::"), ("::1", "::1")]
)
def test_the_shell_is_asked_where_it_listens(listens: str, host: str) -> None:
    """With the settings of this process, and with those of the environment alone."""
    with a_program_that_says(b"SSH-2.0-Waybill\r\n", listens) as port:
        assert waybill("check", "shell", WAYBILL_SSH_PORT=str(port), WAYBILL_SSH_HOST=host) == 0
    with a_program_that_says(b"SSH-2.0-Waybill\r\n", listens) as port:
        status, _, error = health_check("shell", WAYBILL_SSH_PORT=str(port), WAYBILL_SSH_HOST=host)
        assert status == 0, error


@contextmanager
def a_program_that_says(greeting: bytes, host: str) -> Iterator[int]:
    """It greets one client; its port."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.create_server((host, 0), family=family) as server:

        def greet() -> None:
            with suppress(OSError), server.accept()[0] as sock:
                sock.sendall(greeting)

        threading.Thread(target=greet, daemon=True).start()
        yield server.getsockname()[1]
