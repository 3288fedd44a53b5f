"""`POST /shell`: commands over https, with bounds of octets, lines and time."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.http import HttpResponse
from django.test import Client

from endpoints.models import Endpoint
from identity import tokens
from identity.models import User
from identity.provider import scopes
from tests.integration.cast import make_endpoint
from tests.integration.provider import make
from tests.integration.rest import Api, assert_error, read
from transferapi.shell import https
from transferapi.shell.command import COMMANDS, Heading, command
from transferapi.shell.context import Context
from transferapi.shell.foreground import Progress, follow
from transferapi.shell.options import Arguments
from transferapi.shell.words import MAX_LINE

pytestmark = pytest.mark.django_db
Send = Callable[..., HttpResponse]


@pytest.fixture
def send(alice: User) -> Send:
    """Sends lines as alice, as `curl --data` does."""
    token = tokens.issue(alice)

    def post(body: str | bytes, accept: str = "*/*", kind: str = "application/x-www-form-urlencoded") -> Any:
        headers = {"Authorization": f"Bearer {token}", "Accept": accept}
        data = body.encode() if isinstance(body, str) else body
        client = Client(raise_request_exception=False)
        return client.generic("POST", "/shell", data, kind, headers=headers)

    return post


def exit_code(answer: HttpResponse) -> int:
    assert answer.status_code == 200, answer.content
    return int(answer.headers["X-Exit-Code"])


def test_a_line_is_run_as_the_user_and_answered_with_its_output(send: Send, ep1: Endpoint, public: Endpoint) -> None:
    answer = send("endpoint-details -f owner ep1\n")
    assert (exit_code(answer), answer.headers["Content-Type"]) == (0, "text/plain; charset=utf-8")
    assert "alice" in answer.content.decode()
    assert answer.headers["Cache-Control"] == "no-store"


@pytest.mark.parametrize(
    "kind", ["text/plain", "text/plain; charset=utf-8", "application/octet-stream", "text/xml", ""]
)
def test_the_media_type_of_the_body_does_not_matter(send: Send, kind: str) -> None:
    assert exit_code(send("help", kind=kind)) == 0


def test_errors_follow_the_output_and_the_exit_code_is_that_of_the_last_line(send: Send) -> None:
    answer = send("help\nnonsense\n\n")
    assert exit_code(answer) == 2
    output, error = answer.content.decode().split("Error: ")
    assert output.endswith("\n")
    assert error.startswith("No such command 'nonsense'")
    assert exit_code(send("nonsense\r\nhelp\r\n")) == 0


def test_json_has_the_two_streams_apart(send: Send) -> None:
    answer = send("help\nnonsense", accept="application/json")
    found = json.loads(answer.content)
    assert set(found) == {"output", "error", "exit_code"}
    assert found["exit_code"] == exit_code(answer) == 2
    assert found["error"].startswith("Error: No such command 'nonsense'")
    assert found["output"] == send("help").content.decode()


def test_exit_ends_the_list_and_nothing_is_nothing(send: Send) -> None:
    answer = send("exit\nnonsense")
    assert (exit_code(answer), answer.content) == (0, b"")
    for body in ("", "\n\n", " \n"):
        assert (exit_code(send(body)), send(body).content) == (0, b"")


def test_the_endpoints_of_others_are_not_there(send: Send, bob: User) -> None:
    make_endpoint(bob, "secret")
    assert exit_code(send("endpoint-details bob#secret")) == 1


@pytest.mark.parametrize(
    ("line", "status"),
    [(b"\xff\xfe", 2), (b"\0", 2), (b"ls 'open", 2), (b"ls \\", 2), ("ls \u202e".encode(), 1), (b"\x1b[2J", 2)],
)
def test_lines_that_are_no_commands_are_errors_without_control_characters(send: Send, line: bytes, status: int) -> None:
    answer = send(line)
    assert exit_code(answer) == status
    assert answer.content.startswith((b"Error: ", b"Usage: "))
    assert not {b"\x1b", b"\0"} & {bytes([octet]) for octet in answer.content}


def test_a_request_has_bounds_of_octets_and_lines(send: Send) -> None:
    assert_error(read(send(b"x" * (https.MAX_BODY + 1))), 413, "ClientError.RequestTooLarge")
    assert_error(read(send("help\n" * https.MAX_LINES)), 413, "ClientError.RequestTooLarge")
    answer = send("help\n" + "x" * (MAX_LINE + 1) + "\nhelp")
    assert exit_code(answer) == 2
    assert answer.content.decode().endswith(f"Error: line 2: a line has at most {MAX_LINE} octets\n")


def test_a_refused_request_is_answered_by_a_document(alice: User, send: Send) -> None:
    assert_error(read(Client().generic("POST", "/shell", b"help", "text/plain")), 401)
    for method in ("GET", "PUT", "DELETE"):
        headers = {"Authorization": f"Bearer {tokens.issue(alice)}"}
        assert_error(read(Client().generic(method, "/shell", headers=headers)), 405)
    assert exit_code(send("help", accept="text/html, */*;q=0.1")) == 0


def test_a_token_needs_the_scope_of_transfers(alice: User) -> None:
    app = make(alice)
    for scope, status in ((scopes.TRANSFER_ALL, 200), ("openid", 403)):
        headers = {"Authorization": f"Bearer {app.own(scope).body['access_token']}"}
        answer = Client().generic("POST", "/shell", b"help", "text/plain", headers=headers)
        assert answer.status_code == status


def test_an_application_gets_nothing_that_rest_refuses_it(alice: User, send: Send) -> None:
    """A token for transfers covers neither the mail address nor the ssh keys of the user, nor the names of others."""
    headers = {"Authorization": f"Bearer {make(alice).own(scopes.TRANSFER_ALL).body['access_token']}"}
    client: Any = Client()
    for name in ("profile", "identity-list", "identity-details"):
        answer = client.generic("POST", "/shell", f"{name} alice".encode(), "text/plain", headers=headers)
        assert exit_code(answer) == 2
        assert answer.content.decode() == f"Error: The token of this request does not permit the command '{name}'\n"
    assert exit_code(client.generic("POST", "/shell", b"status", "text/plain", headers=headers)) == 0
    assert exit_code(send("profile\nidentity-list")) == 0


def test_a_session_needs_its_csrf_token(alice: User) -> None:
    """Otherwise the page of another site could run commands by a form."""
    client = Client(enforce_csrf_checks=True)
    client.force_login(alice)
    answer = client.generic("POST", "/shell", b"help", "text/plain")
    assert_error(read(answer), 403, "PermissionDenied")


def test_each_line_counts_as_a_request(send: Send, settings: Any, redis_server: Any) -> None:
    settings.RATE_LIMIT = 0.3
    answer = send("help\n" * 20)
    assert exit_code(answer) == 1
    assert b"you ask too often" in answer.content
    assert_error(read(send("help")), 429)


# ---- commands that wait


@pytest.fixture
def waits() -> Iterator[None]:
    """A command that waits without end for what never comes, and one with a long output."""

    @command("test-wait", "", Heading.OTHER, summary="Wait")
    def wait(context: Context, arguments: Arguments) -> None:
        """Waits."""
        follow(context, lambda: Progress(0, 1, 0.0, ended=False))

    @command("test-long", "", Heading.OTHER, summary="Write")
    def write(context: Context, arguments: Arguments) -> None:
        """Writes."""
        for _ in range(100):
            context.out("x" * 65_535 + "\n")

    @command("test-ask", "", Heading.OTHER, summary="Ask")
    def ask(context: Context, arguments: Arguments) -> None:
        """Asks."""
        context.prompt("Passphrase: ", echo=False)

    yield
    for name in ("test-wait", "test-long", "test-ask"):
        del COMMANDS[name]


@pytest.mark.usefixtures("waits")
def test_a_command_that_waits_ends_with_the_status_of_a_timeout(send: Send, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(https, "MAX_SECONDS", 0.2)
    answer = send("test-wait\nhelp")
    assert exit_code(answer) == 4
    progress, first, second = answer.content.decode().splitlines()[-3:]
    assert progress.endswith("0/1 0.00 mbps")
    assert first == "Error: A request over https takes at most 0 seconds; what it began goes on"
    assert second.startswith("Error: line 2: it was not run")


@pytest.mark.django_db(transaction=True)
def test_a_command_that_waits_reads_rows_between_its_pauses(
    alice: User, send: Send, waits: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The connection of the database is given back in a pause."""
    monkeypatch.setattr(https, "MAX_SECONDS", 0.5)
    seen: list[str] = []

    def look(context: Context) -> Progress:
        seen.append(context.call(User.objects.get, pk=alice.pk).username)
        return Progress(0, 1, 0.0, ended=len(seen) == 3)

    @command("test-wait", "", Heading.OTHER, summary="Wait")
    def wait(context: Context, arguments: Arguments) -> None:
        """Waits."""
        follow(context, lambda: look(context), show=False)

    assert exit_code(send("test-wait")) == 0
    assert seen == ["alice"] * 3


@pytest.mark.usefixtures("waits")
def test_a_long_output_is_cut_with_an_error(send: Send) -> None:
    answer = send("test-long", accept="application/json")
    found = json.loads(answer.content)
    assert exit_code(answer) == 1
    assert len(found["output"]) <= https.MAX_OUTPUT
    assert found["error"].startswith("Error: The output over https is at most")


@pytest.mark.usefixtures("waits")
def test_nothing_is_asked(send: Send) -> None:
    answer = send("test-ask")
    assert exit_code(answer) == 1
    assert answer.content == b"Error: There is no terminal to ask at: connect with ssh -t\n"


def test_errors_have_a_bound_too(alice: User) -> None:
    context = https.HttpsContext(alice, 1)
    for _ in range(1000):
        context.err("x" * 1000)
    assert sum(len(text) for _, text in context.written) <= https.MAX_ERRORS


def test_one_request_of_a_user_waits_at_a_time_and_few_of_all(monkeypatch: pytest.MonkeyPatch) -> None:
    alice, bob, charlie = (User(pk=uuid.uuid4()) for _ in range(3))

    def waiting(user: User) -> https.HttpsContext:
        context = https.HttpsContext(user, 100)
        context.pause(0)
        context.pause(0)
        return context

    with waiting(alice):
        with pytest.raises(https.TimeOverError):
            waiting(alice)
        with waiting(bob), pytest.raises(https.TimeOverError):
            waiting(charlie)
        with waiting(charlie):
            pass
    with waiting(alice):
        pass


def test_a_place_is_given_back_after_an_error(alice: User) -> None:
    def fail() -> None:
        with https.HttpsContext(alice, 100) as context:
            context.pause(0)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert https._waiting.total() == 0


def test_tokens_and_lines_are_in_no_log(send: Send, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG")
    send("ls ep1/secret-path\nnonsense-secret")
    assert "secret" not in caplog.text
    assert "wb_" not in caplog.text


def test_the_description_has_it(alice: User) -> None:
    described = Api(alice).get("/openapi").body["paths"]["/shell"]["post"]
    assert set(described["responses"]["200"]["content"]) == {"text/plain", "application/json"}
    assert described["requestBody"]["content"] == {"text/plain": {"schema": {"type": "string"}}}
