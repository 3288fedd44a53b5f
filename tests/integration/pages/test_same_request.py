"""The same request elsewhere: each command that the page of a task shows makes the same request.

The commands are run as a user would run them, by sh, curl, Python and the published `globus` command. A small server
writes down what they send; our own REST API and ssh shell then take it.
"""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
import threading
import uuid
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from rest_framework.test import APIClient

from endpoints.models import Endpoint
from identity.models import User
from tests.integration.cast import submit_delete, transfer_request
from tests.integration.pages import Browser
from tests.real_clients import GLOBUS, environment
from tests.shell_context import Shell
from transferapi.rest.transfer import submission_documents
from transferapi.shell import submissions, words
from transferapi.tasks import options, submission
from transferapi.tasks.models import Item, Task
from transferapi.tasks.options import TaskOption
from transferapi.tasks.submission import TransferItem
from webui.activity import same_request

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("passwords", "redis_server")]

#: A value of each option that is not its default.
OTHER: dict[str, Any] = {
    "sync_level": 2,
    "confirm_deletion_above": 7,
    "recursive_symlinks": "keep",
    "filter_rules": [
        {"method": "include", "name": "it's *.txt", "type": None},
        {"method": "exclude", "name": "*", "type": "file"},
        {"method": "exclude", "name": "tmp", "type": "dir"},
    ],
    "perf_cc": 3,
    "perf_p": 5,
    "perf_pp": 7,
    "tuning": "fixed",
    "bandwidth_limit": 1_500_000,
    "priority": "background",
}
#: Names that lines, quotes and JSON could take for something else.
PATHS = (
    TransferItem("/from/it's $HOME: true/", "/to/`id`/", recursive=True),
    TransferItem("/from/100%41 'x' \"y\" null", "/to/SUBMISSION_ID", recursive=False),
    TransferItem("/from/END", "/to/ü # no comment"),
)
LABEL = "a 'b' \"c\": false SUBMISSION_ID"


def other(one: TaskOption) -> Any:
    return OTHER.get(one.name, not one.default)


def all_set(known: dict[str, TaskOption], *left_out: str) -> dict[str, Any]:
    return {name: other(one) for name, one in known.items() if not one.refused and name not in left_out}


def transfer(alice: User, ep1: Endpoint, ep2: Endpoint, given: dict[str, Any], *items: TransferItem) -> Task:
    request = transfer_request(ep1, ep2, options=given, label=LABEL)
    request = submission.TransferRequest(
        request.submission_id, str(ep1.pk), str(ep2.pk), items or PATHS, LABEL, options=given
    )
    return submission.submit_transfer(alice, request)[0]


def commands(task: Task) -> dict[str, str]:
    items = list(Item.objects.filter(task=task).order_by("position"))
    return {command.key: command.text for command in same_request.commands(task, items)}


def facts(task: Task) -> tuple[Any, ...]:
    rows = Item.objects.filter(task=task).order_by("position")
    items = [(row.source_path, row.destination_path, row.recursive, row.extra) for row in rows]
    return task.type, task.source_id, task.destination_id, task.label, task.options, items


class _Recorder(BaseHTTPRequestHandler):
    """Gives tokens and submission ids, and keeps the documents that are sent."""

    def _answer(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        answer: dict[str, Any] = {"value": str(uuid.uuid4()), "task_id": "-"}
        if self.path.endswith("/token"):
            scope = "urn:globus:auth:scope:transfer.api.globus.org:all"
            token = {"access_token": "t", "scope": scope, "expires_in": 3600, "token_type": "Bearer"}
            answer = {**token, "resource_server": "transfer.api.globus.org", "other_tokens": []}
        elif body:
            self.server.sent.append(json.loads(body))  # type: ignore[attr-defined]
        data = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    do_GET = do_POST = _answer  # noqa: N815 - names of the standard library

    def log_message(self, *args: object) -> None:
        pass


@pytest.fixture
def recorder(settings: Any) -> Iterator[list[dict[str, Any]]]:
    """The documents that programs have sent to the service that the commands name."""
    with ThreadingHTTPServer(("127.0.0.1", 0), _Recorder) as server:
        server.sent = []  # type: ignore[attr-defined]
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        settings.PUBLIC_URL = f"http://127.0.0.1:{server.server_port}"
        yield server.sent  # type: ignore[attr-defined]
        server.shutdown()
        thread.join()


def run(*line: str, given: str = "", **more: str) -> str:
    env = {**environment("http://127.0.0.1:9", Path("/nonexistent")), "TOKEN": "t", **more}
    done = subprocess.run(line, input=given, capture_output=True, text=True, timeout=60, check=False, env=env)
    assert done.returncode == 0, done.stderr
    return done.stdout


def sent_again(alice: User, document: dict[str, Any]) -> Task:
    """The task that our REST API makes of a document."""
    client = APIClient()
    client.force_authenticate(alice)
    text = json.dumps(document)
    answer = client.post(f"/v0.10/{document['DATA_TYPE']}", text, content_type="application/json")
    assert answer.status_code == 202, answer.content
    assert answer.json()["warning"] is None or "Unknown" not in answer.json()["warning"]
    return Task.objects.get(pk=answer.json()["task_id"])


def typed(alice: User, text: str) -> Task:
    """The task that our ssh shell makes of a command: what ssh sends is its last word."""
    found = run("/bin/sh", "-c", 'ssh() { for last; do :; done; printf "%s\\n" "$last"; cat; }\n' + text)
    line, *lines = found.splitlines()
    # Another task writes to the same place: there is a warning on standard error.
    ran = Shell(alice).run(line, lines)
    assert ran.status == 0, ran
    return Task.objects.get(pk=ran.out.split()[-1])


KINDS = ("transfer", "delete")


@pytest.fixture(params=KINDS)
def full(request: pytest.FixtureRequest, alice: User, ep1: Endpoint, ep2: Endpoint) -> Task:
    """A task whose options all differ from their defaults."""
    if request.param == "transfer":
        return transfer(alice, ep1, ep2, all_set(options.TRANSFER))
    paths = ("/old/it's $HOME/", "/old/100%41 *.txt", "/END")
    return submit_delete(alice, ep1, *paths, label=LABEL, options=all_set(options.DELETE))


def test_curl_and_python_send_the_same_request(full: Task, alice: User, recorder: list[dict[str, Any]]) -> None:
    shown = commands(full)
    run("/bin/sh", "-c", shown["curl"])
    run(sys.executable, "-c", shown["python"])
    assert len(recorder) == 2
    for document in recorder:
        assert facts(sent_again(alice, document)) == facts(full)


def test_the_ssh_shell_gets_the_same_request(full: Task, alice: User) -> None:
    assert facts(typed(alice, commands(full)["shell"])) == facts(full)


def globus(text: str, recorder: list[dict[str, Any]], tmp_path: Path, url: str) -> dict[str, Any]:
    """The document that the published command sends."""
    login = {"GLOBUS_CLI_CLIENT_ID": str(uuid.UUID(int=1)), "GLOBUS_CLI_CLIENT_SECRET": "s"}
    more = {**environment(url, tmp_path, login), "PATH": f"{GLOBUS.parent}:/usr/bin:/bin"}
    run("/bin/sh", "-c", text, **more)
    return recorder[-1]


@pytest.mark.real_clients
@pytest.mark.parametrize("kind", KINDS)
def test_the_globus_command_sends_the_same_request(
    alice: User, ep1: Endpoint, ep2: Endpoint, kind: str, recorder: list[dict[str, Any]], tmp_path: Path, settings: Any
) -> None:
    known = options.TRANSFER if kind == "transfer" else options.DELETE
    cannot = [name for name, one in known.items() if not one.globus and not one.globus_notify]
    given = all_set(known, *cannot)
    rules = [{"method": "include", "name": "it's", "type": "file"}, {"method": "exclude", "name": "*", "type": "file"}]
    if kind == "transfer":
        task = transfer(alice, ep1, ep2, {**given, "filter_rules": rules})
    else:
        task = submit_delete(alice, ep1, "/old/it's $HOME/", "/END", label=LABEL, options=given)
    document = globus(commands(task)["globus"], recorder, tmp_path, settings.PUBLIC_URL)
    assert facts(sent_again(alice, document)) == facts(task)


@pytest.mark.real_clients
@pytest.mark.parametrize("events", [(), ("succeeded",), ("failed", "inactive"), ("succeeded", "failed", "inactive")])
def test_the_globus_command_asks_for_the_same_mails(
    alice: User, ep1: Endpoint, ep2: Endpoint, events: tuple[str, ...], recorder: list[dict[str, Any]], tmp_path: Path,
    settings: Any,
) -> None:  # fmt: skip
    wanted = {f"notify_on_{name}": name in events for name in ("succeeded", "failed", "inactive")}
    md5 = TransferItem("/a", "/b", recursive=None, external_checksum="0" * 32)
    task = transfer(alice, ep1, ep2, wanted, md5)
    document = globus(commands(task)["globus"], recorder, tmp_path, settings.PUBLIC_URL)
    assert facts(sent_again(alice, document)) == facts(task)


@pytest.mark.parametrize(
    ("item", "given", "missing"),
    [
        (TransferItem("/a", "/b", symlink=True), {}, {"globus", "shell"}),
        (TransferItem("/a", "/b", external_checksum="0" * 32), {}, {"shell"}),
        (TransferItem("/a", "/b", checksum_algorithm="SHA256"), {}, {"shell"}),
        (TransferItem("/a\udce9", "/b\udce9"), {}, {"globus"}),
        (TransferItem("/a\u2028b", "/b"), {}, {"globus"}),
        (TransferItem("/a/", "/b/"), {"confirm_deletion_above": 5}, {"globus"}),
        (TransferItem("/a/", "/b/"), {"filter_rules": [{"method": "exclude", "name": "x"}]}, {"globus"}),
    ],
)
def test_an_interface_that_cannot_say_the_request_is_not_shown(
    alice: User, ep1: Endpoint, ep2: Endpoint, item: TransferItem, given: dict[str, Any], missing: set[str],
    recorder: list[dict[str, Any]],
) -> None:  # fmt: skip
    task = transfer(alice, ep1, ep2, given, item)
    shown = commands(task)
    assert {"curl", "globus", "python", "shell"} - set(shown) == missing
    run("/bin/sh", "-c", shown["curl"])
    run(sys.executable, "-c", shown["python"])
    for document in recorder:
        assert facts(sent_again(alice, document)) == facts(task)
    if "shell" in shown:
        again = facts(typed(alice, shown["shell"]))
        # A line says that a path is a folder only by the slash at its end.
        folder = [(*row[:2], None if row[0].endswith("/") else row[2], row[3]) for row in again[-1]]
        assert (*again[:-1], folder) == facts(task)


def test_every_option_is_in_every_place(full: Task, alice: User) -> None:
    known = options.of(full.type)
    shown = {name for name, one in known.items() if not one.refused}
    document = submission_documents.TRANSFER if full.type == "TRANSFER" else submission_documents.DELETE
    assert shown <= {field.name for field in document.fields}
    flags = submissions.MOVEMENT if full.type == "TRANSFER" else submissions.DELETION
    assert shown == {option.key for option in flags} & set(known)
    assert shown == {name for name in full.options if name in known and full.options[name] != known[name].default}
    browser = Browser()
    browser.sign_in(alice)
    browser.get(f"/activity/{full.pk}")
    assert {name for name in shown if known[name].label not in browser.text} == set()


def test_the_form_of_the_page_has_a_field_for_each_option_that_it_offers(alice: User) -> None:
    browser = Browser()
    browser.sign_in(alice)
    browser.get("/transfer?plain=1")
    offered = [name for name, one in options.TRANSFER.items() if one.in_form]
    assert len(offered) > 5
    assert {name for name in offered if f'name="{name}"' not in browser.page} == set()


def test_a_request_of_which_items_are_left_out_is_not_shown(alice: User, ep1: Endpoint, ep2: Endpoint) -> None:
    items = [TransferItem(f"/a/{n}", f"/b/{n}", recursive=False) for n in range(21)]
    task = transfer(alice, ep1, ep2, {}, *items)
    browser = Browser()
    browser.sign_in(alice)
    browser.get(f"/activity/{task.pk}?part=scripts")
    assert "/b/20" in browser.text
    Task.objects.filter(pk=task.pk).update(items_total=201)
    browser.get(f"/activity/{task.pk}?part=scripts")
    assert "/b/20" not in browser.text
    assert "The request has more items than a command can show here." in browser.text


@pytest.mark.parametrize("url", ["https://data.example.org/", "http://[::1]:8000", "https://data.example.org:8443"])
def test_the_ssh_command_names_the_host_and_the_port(
    alice: User, ep1: Endpoint, ep2: Endpoint, settings: Any, url: str
) -> None:
    settings.PUBLIC_URL, settings.SSH_PORT = url, 4222
    line = commands(transfer(alice, ep1, ep2, {}))["shell"].partition(" <<")[0]
    host = "::1" if "[" in url else "data.example.org"
    program, flag, port, user, remote = shlex.split(line)
    assert (program, flag, port, user) == ("ssh", "-p", "4222", f"alice@{host}")
    assert [word.text for word in words.split(remote)] == ["transfer", f"--label={LABEL}"]
