"""The maintenance mode: changes are refused with the operator's words, reading goes on, and tasks may be held."""

from __future__ import annotations

import json
import math
import os
import socket
import subprocess
import sys
import urllib.error
import urllib.request
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from deploy.stack.child import spawn, stop
from deploy.stack.postgres import Postgres
from deploy.stack.redis import Redis
from endpoints import registry
from endpoints.models import Endpoint
from endpoints.registry import ServerSpec
from identity import tokens
from identity.models import User
from identity.scim import clients
from tests.integration.cast import make_user, submit, transfer_request
from tests.integration.pages import PASSWORD, Browser
from tests.integration.rest import Api
from tests.integration.web.web_server import web_server
from tests.shell_context import Shell
from tests.waiting import eventually
from transferapi.config import CHECKOUT
from transferapi.rest.scim.errors import MEDIA_TYPE
from transferapi.shell.command import COMMANDS
from transferapi.shell.interpreter import READING
from transferapi.tasks import maintenance
from transferapi.tasks.errors import RequestError
from transferapi.tasks.maintenance import Notice
from transferapi.tasks.models import Lease, Task
from transferapi.timers import running
from transferapi.timers import services as timers
from transferapi.timers.schedule import Schedule

MESSAGE = "The storage is being moved."
CODE = "ServiceUnavailable.Maintenance"


@pytest.fixture
def mode(db: None) -> Iterator[Callable[..., None]]:
    """Turn it on, and let this process know."""

    def on(message: str = MESSAGE, until: datetime | None = None, *, hold: bool = False) -> None:
        maintenance.turn_on(message, until, hold=hold)
        maintenance.refresh()

    yield on
    maintenance.turn_off()
    maintenance.refresh()


def test_changes_are_refused_with_the_message_and_reads_go_on(
    mode: Callable[..., None], alice: User, ep1: Endpoint, ep2: Endpoint
) -> None:
    api, task = Api(alice), submit(alice, ep1, ep2)
    item = {"DATA_TYPE": "delete_item", "path": "/a"}
    submission = {"DATA_TYPE": "delete", "endpoint": str(ep1.pk), "DATA": [item], "submission_id": str(uuid.uuid4())}
    mode(until=datetime(2099, 1, 31, 18, 0, tzinfo=UTC))
    for method, path in (
        ("POST", "/delete"),
        ("POST", "/endpoint"),
        ("PUT", f"/endpoint/{ep1.pk}"),
        ("DELETE", f"/endpoint/{ep1.pk}"),
        ("POST", f"/task/{task.pk}/cancel"),
        ("POST", "/operation/endpoint/x/mkdir"),
    ):
        answer = api.call(method, path, submission)
        assert (answer.status, answer.code) == (503, CODE), path
        assert answer.body["message"] == f"{MESSAGE} Expected end: 2099-01-31 18:00 UTC."
        assert answer.headers["Retry-After"] == "5"
    directory = {"Authorization": f"Bearer {clients.make_token('campus').value}"}
    users = Client().post("/scim/v2/Users", b"{}", MEDIA_TYPE, headers=directory)
    assert (users.status_code, users.json()["detail"].startswith(MESSAGE)) == (503, True)
    for path in ("/task_list", f"/task/{task.pk}", f"/endpoint/{ep1.pk}", "/submission_id"):
        assert api.get(path).status == 200
    assert api.post("/delete/check", submission).status == 200
    assert Api(root="").post("/v2/oauth2/token", {}).status != 503
    maintenance.turn_off()
    maintenance.refresh()
    assert api.post("/delete", submission).status == 202


def test_pages_have_a_banner_and_answer_forms_with_the_message(
    mode: Callable[..., None], alice: User, passwords: None
) -> None:
    mode("<b>Later</b> & better")
    browser = Browser(HTTP_ACCEPT="text/html")
    assert browser.sign_in(alice, PASSWORD).status_code == 302
    assert browser.get("/activity").status_code == 200
    assert "Maintenance <b>Later</b> & better" in browser.text
    answer = browser.post("/groups", name="x")
    assert (answer.status_code, answer.headers["Retry-After"]) == (503, "5")
    assert "Maintenance <b>Later</b> & better" in browser.text
    assert browser.post("/signout").status_code == 302


def test_the_forms_of_the_sign_in_page_make_no_account_and_link_nothing(
    mode: Callable[..., None], alice: User, passwords: None
) -> None:
    mode()
    browser = Browser(HTTP_ACCEPT="text/html")
    browser.sign_in(alice, PASSWORD)
    browser.get("/activity")
    for path, fields in (
        ("/signin/certificate/account", {"username": "carol"}),
        ("/signin/with/lab", {"link": "1"}),
        ("/signin/myproxy/lab", {"link": "1", "username": "a", "passphrase": "b"}),
        ("/signin/institution/1", {"link": "1"}),
    ):
        assert browser.post(path, **fields).status_code == 503, path
    assert browser.post("/signin/with/lab").status_code == 404


def test_the_shell_refuses_what_changes_something(
    mode: Callable[..., None], alice: User, ep1: Endpoint, ep2: Endpoint
) -> None:
    shell = Shell(alice)
    mode()
    refused = shell.run("rm ep1/x")
    assert (refused.status, refused.err) == (1, f"Error: {MESSAGE}\n")
    assert json.loads(shell.run("delete -O json -- ep1/x").err)["code"] == CODE
    assert shell.run("profile -n off").err == f"Error: {MESSAGE}\n"
    for line in ("status", "endpoint-list", "profile", "help", "rm --help"):
        shell.ok(line)


def test_each_command_of_the_shell_is_one_that_reads_or_one_that_changes_something() -> None:
    changing = {
        "scp",
        "transfer",
        "delete",
        "rm",
        "cancel",
        "modify",
        "pause",
        "resume",
        "retry",
        "mkdir",
        "rename",
        "endpoint-create",
    }
    changing |= {"confirm-deletion", "refuse-deletion", "mkdir", "rename", "endpoint-create"}
    verbs = ("-add", "-remove", "-modify", "-rename", "-activate", "-deactivate")
    assert {name for name in COMMANDS if name not in changing and not name.endswith(verbs)} == READING


def test_no_request_asks_the_database_for_it(mode: Callable[..., None]) -> None:
    mode()
    with CaptureQueriesContext(connection) as asked:
        assert maintenance.current() is not None
    assert not asked.captured_queries


@pytest.fixture
def reader(monkeypatch: pytest.MonkeyPatch) -> Iterator[maintenance.Reader]:
    """Of a process whose thread for it is played by the test."""
    monkeypatch.setattr(maintenance, "FIRST_SECONDS", 0.2)
    yield maintenance.expect()
    maintenance._Known.reader = maintenance._Known.notice = None


def test_the_first_request_after_a_pause_waits_until_the_row_was_read_again(
    reader: maintenance.Reader, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(maintenance, "FIRST_SECONDS", 20.0)
    maintenance.know(None)
    assert maintenance.current() is None
    # A long time passes.
    reader._read_at = reader._asked_at = -math.inf
    assert not reader.is_needed(), "nobody asks, so nobody reads"
    found = Notice("later", None, hold=False, since=datetime.now(UTC))

    def read_when_asked() -> None:
        reader.wait(0.0, 3600.0)
        maintenance.know(found)

    with ThreadPoolExecutor(1) as thread:
        thread.submit(read_when_asked)
        assert maintenance.current() == found
    assert reader.is_needed(), "it is read again and again now"


def test_while_the_row_cannot_be_read_one_request_waits_and_the_others_do_not(
    reader: maintenance.Reader, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert maintenance.current() is None
    monkeypatch.setattr(maintenance, "FIRST_SECONDS", 3600.0)
    assert maintenance.current() is None
    assert reader.is_needed(), "so it is tried again"
    maintenance.know(None)
    assert maintenance.current() is None


@pytest.mark.django_db
def test_a_message_is_a_line_and_an_end_is_in_the_future() -> None:
    for message, until in ((" ", None), ("x" * 501, None), ("x", datetime(2020, 1, 1, tzinfo=UTC))):
        with pytest.raises(RequestError):
            maintenance.turn_on(message, until)
    assert maintenance.read() is None
    maintenance.turn_on("one\ntwo", hold=True)
    maintenance.turn_on("three")
    found = maintenance.read()
    assert found is not None
    assert (found.message, found.hold) == ("three", False)
    assert (maintenance.turn_off(), maintenance.turn_off()) == (True, False)


def test_timers_wait_for_its_end(mode: Callable[..., None], alice: User, ep1: Endpoint, ep2: Endpoint) -> None:
    past = datetime.now(UTC) - timedelta(minutes=1)
    timers.create(alice, name="due", plan=Schedule(past), request=transfer_request(ep1, ep2), now=past)
    mode()
    assert running.run_due(10) == 0
    assert not Task.objects.exists()
    maintenance.turn_off()
    maintenance.refresh()
    assert running.run_due(10) == 1
    assert Task.objects.count() == 1


# ---- real processes


def waybill(url: str, folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    environ = os.environ | {"DATABASE_URL": url, "REDIS_URL": "redis://127.0.0.1:1/0", "WAYBILL_HOME": str(folder)}
    words = (sys.executable, "-m", "deploy.cli", "maintenance", *words)
    return subprocess.run(words, env=environ, cwd=CHECKOUT, capture_output=True, text=True, timeout=60, check=False)


def status_of(port: int, token: str) -> int:
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    request = urllib.request.Request(f"http://127.0.0.1:{port}/v0.10/bookmark", b"{}", headers)
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        error.close()
        return error.code


@pytest.mark.timeout(180)
@pytest.mark.django_db(transaction=True)
def test_running_processes_know_it_within_seconds_and_hold_their_tasks(
    postgres: Postgres, redis_server: Redis, database_url: str, loopback_opened: None, tmp_path: Path
) -> None:
    alice = make_user("alice")
    token = tokens.issue(alice)
    words = [sys.executable, "-m", "celery", "-A", "workers.celery:app", "worker", "--pool", "threads"]
    words += ["--concurrency", "2", "--without-gossip", "--without-mingle", "--without-heartbeat"]
    environ = {
        **os.environ,
        "DATABASE_URL": database_url,
        "REDIS_URL": redis_server.url(),
        "WAYBILL_SECRET_KEY": "x" * 50,
        "WAYBILL_ALLOW_TARGETS": "127.0.0.1",
    }
    with (
        socket.create_server(("127.0.0.1", 0)) as silent,
        web_server(postgres, redis_server, tmp_path, "--workers", "1") as port,
    ):
        spec = ServerSpec("127.0.0.1", int(silent.getsockname()[1]), "ftp")
        one, two = (registry.create(alice, {"name": name, "display_name": name}, [spec]) for name in ("one", "two"))
        task = submit(alice, one, two)
        held = Lease.objects.filter(pk=task.pk).exclude(worker="")
        worker = spawn(words, log=tmp_path / "worker", env=environ, cwd=CHECKOUT)
        try:
            eventually(held.exists)
            assert status_of(port, token) == 400
            done = waybill(database_url, tmp_path, "on", MESSAGE, "--until", "2h", "--hold")
            assert done.returncode == 0, done
            eventually(lambda: status_of(port, token) == 503)
            eventually(lambda: not held.exists())
            shown = waybill(database_url, tmp_path, "status")
            assert (shown.returncode, MESSAGE in shown.stdout) == (3, True), shown
            # Its only worker sweeps every 2 s; the task would be taken again.
            assert waybill(database_url, tmp_path, "off").returncode == 0
            eventually(lambda: status_of(port, token) == 400)
            eventually(held.exists)
        finally:
            stop(worker)
