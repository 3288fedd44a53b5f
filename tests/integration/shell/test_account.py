"""The commands of the shell about users and the service, and the REST route of what each command can do."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime

import pytest
from django.test import Client

from endpoints.models import Endpoint
from identity import ssh_keys
from identity.models import User
from tests.integration.cast import submit
from tests.integration.rest import Api, assert_error, routes
from tests.shell_context import Shell
from transferapi.shell.command import COMMANDS
from transferapi.tasks.models import Mail, Task
from transferapi.tasks.notify import mail_preferences
from transferapi.tasks.notify.mails import task as task_mails
from transferapi.tasks.states import Phase, Status

pytestmark = pytest.mark.django_db

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIB4X5z7Zk0fV8Wl8kZpmnoQ2xEJfNTvcbx3ozTBoYRWu"


@pytest.fixture
def shell(alice: User) -> Shell:
    User.objects.filter(pk=alice.pk).update(email="alice@example.org", first_name="Alice", last_name="Liddell")
    alice.refresh_from_db()
    return Shell(alice)


# ---- identities


def test_identity_details_are_the_json_object_of_rest(shell: Shell, bob: User) -> None:
    User.objects.filter(pk=bob.pk).update(email="bob@example.org")
    shown = shell.run(f"identity-details {bob.pk}").json
    assert shown == Api(shell.user, root="").get(f"/v2/api/identities/{bob.pk}").body["identity"]
    assert (shown["username"], shown["email"]) == ("bob@127.0.0.1", None)
    assert shell.run("identity-details alice").json["email"] == "alice@example.org"
    assert [one["username"] for one in shell.run("identity-details alice bob").json] == [
        "alice@127.0.0.1",
        "bob@127.0.0.1",
    ]
    assert shell.ok("identity-details bob -f username,email -O csv") == "bob@127.0.0.1,n/a\n"
    for name in ("nobody", uuid.UUID(int=1)):
        assert shell.fails(f"identity-details {name}") == f"Error: No such identity '{name}'\n"


def test_each_user_has_one_identity(shell: Shell) -> None:
    assert (
        shell.ok("identity-list -f id,username,email -O csv") == f"{shell.user.pk},alice@127.0.0.1,alice@example.org\n"
    )
    assert shell.ok("identity-list").splitlines()[1] == "Username         : alice@127.0.0.1"
    assert [one["id"] for one in shell.run("identity-list -O json").json] == [str(shell.user.pk)]


# ---- profile


def test_the_profile_is_lines_that_pad_nothing(shell: Shell) -> None:
    ssh_keys.add(shell.user, KEY, "the laptop")
    assert shell.ok("profile").splitlines() == [
        "User Name: alice@127.0.0.1",
        "Full Name: Alice Liddell",
        "Email: alice@example.org",
        f"Identity ID: {shell.user.pk}",
        "Mail Notifications: on",
        f"SSH Public Key: {KEY} the laptop",
    ]
    assert "user_name=alice@127.0.0.1\n" in shell.ok("profile -O kv")
    shown = shell.run("profile -O json").json
    assert (shown["username"], shown["mail_notifications"]) == ("alice@127.0.0.1", True)
    assert [key["label"] for key in shown["ssh_keys"]] == ["the laptop"]


def ended(task: Task) -> None:
    Task.objects.filter(pk=task.pk).update(status=Status.SUCCEEDED, phase=Phase.DONE, completion_time=datetime.now(UTC))
    task_mails.ended(task.pk, datetime.now(UTC))


def to_be_sent(user: User) -> int:
    return Mail.objects.filter(user=user, next_try_at__isnull=False).count()


def test_mails_are_turned_off_and_on(shell: Shell, ep1: Endpoint, ep2: Endpoint) -> None:
    assert shell.ok("profile -n off") == ""
    assert "Mail Notifications: off" in shell.ok("profile")
    ended(submit(shell.user, ep1, ep2))
    assert to_be_sent(shell.user) == 0
    assert shell.ok("profile -n on") == ""
    ended(submit(shell.user, ep1, ep2))
    assert to_be_sent(shell.user) == 1
    assert "'maybe' is neither on nor off" in shell.fails("profile -n maybe", status=2)


def test_rest_turns_mails_off_and_on_for_its_user_only(shell: Shell, bob: User) -> None:
    api = Api(shell.user)
    assert api.get("/mail_preference").body == {"DATA_TYPE": "mail_preference", "enabled": True, "language": "en"}
    assert api.put("/mail_preference", {"enabled": False}).body["enabled"] is False
    assert (mail_preferences.enabled(shell.user), mail_preferences.enabled(bob)) == (False, True)
    assert api.put("/mail_preference", {"enabled": True}).body["enabled"] is True
    assert api.put("/mail_preference", {"enabled": True, "language": "de"}).body["language"] == "de"
    for wrong in ({}, {"enabled": "no"}, {"enabled": None}, {"enabled": False, "language": "xx"}):
        assert_error(api.put("/mail_preference", wrong), 400)
    assert mail_preferences.enabled(shell.user)


# ---- history, versions


def test_the_history_shows_the_commands_of_the_last_tasks(
    shell: Shell, bob: User, ep1: Endpoint, ep2: Endpoint
) -> None:
    first, second = submit(shell.user, ep1, ep2, label="by hand"), submit(shell.user, ep1, ep2)
    Task.objects.filter(pk=second.pk).update(command="scp ep1:/a ep2:/b")
    lines = shell.ok("history").splitlines()
    assert lines == [
        f"{first.request_time:%Y-%m-%d %H:%M:%SZ}  {first.pk}  transfer (label: by hand)",
        f"{second.request_time:%Y-%m-%d %H:%M:%SZ}  {second.pk}  scp ep1:/a ep2:/b",
    ]
    assert shell.ok("history -n 1") == f"{lines[1]}\n"
    assert shell.ok("history -f command -O csv").splitlines() == ["transfer (label: by hand)", "scp ep1:/a ep2:/b"]
    assert Shell(bob).ok("history") == ""


def test_versions_are_those_of_rest(shell: Shell) -> None:
    lines = dict(line.split(": ") for line in shell.ok("versions").splitlines())
    landing = Client().get("/", headers={"Accept": "application/json"}).json()
    assert (lines["Waybill"], lines["Transfer API"]) == (landing["version"], landing["api_version"])
    assert lines["SSH Server"].startswith("paramiko ")
    assert shell.run("versions -O json").json["transfer_api"] == "v0.10"


# ---- the shell can do nothing that REST cannot

_E = "v0.10/endpoint/<str:endpoint>"
_O = "v0.10/operation/endpoint/<str:endpoint>"
_T = "v0.10/task/<str:task>"
_SEARCH = ("GET", "v0.10/endpoint_search")
_TRANSFER, _DELETE = ("POST", "v0.10/transfer"), ("POST", "v0.10/delete")
_TASK, _TASKS = ("GET", _T), ("GET", "v0.10/task_list")
_CANCEL = ("POST", f"{_T}/cancel")
_IDENTITIES = ("GET", "v2/api/identities")
#: Each command with the routes that can do the same. Those of the language need none.
REST = {
    "ls": [("GET", f"{_O}/ls"), ("GET", f"{_O}/stat")],
    "mkdir": [("POST", f"{_O}/mkdir")],
    "rename": [("POST", f"{_O}/rename")],
    "endpoint-list": [_SEARCH],
    "endpoint-search": [_SEARCH],
    "endpoint-details": [("GET", _E)],
    "endpoint-add": [("POST", "v0.10/endpoint"), ("POST", "v0.10/shared_endpoint"), ("POST", f"{_E}/server")],
    "endpoint-create": [("POST", "v0.10/endpoint"), ("POST", "v0.10/shared_endpoint"), ("POST", f"{_E}/server")],
    "endpoint-modify": [("PUT", _E)],
    "endpoint-rename": [("PUT", _E)],
    "endpoint-remove": [("DELETE", _E), ("DELETE", f"{_E}/server/<str:server>")],
    "endpoint-activate": [
        ("POST", f"{_E}/autoactivate"),
        ("GET", f"{_E}/activation_requirements"),
        ("POST", f"{_E}/activate"),
    ],
    "endpoint-deactivate": [("POST", f"{_E}/deactivate")],
    "server-add": [("POST", f"{_E}/server")],
    "server-list": [("GET", f"{_E}/server_list")],
    "server-modify": [("PUT", f"{_E}/server/<str:server>")],
    "ssh-program-remove": [("DELETE", f"{_E}/ssh_program")],
    "server-remove": [("DELETE", f"{_E}/server/<str:server>")],
    "acl-add": [("POST", f"{_E}/access"), _IDENTITIES],
    "acl-list": [("GET", f"{_E}/access_list")],
    "acl-remove": [("DELETE", f"{_E}/access/<str:access>")],
    "endpoint-role-add": [("POST", f"{_E}/role"), _IDENTITIES],
    "endpoint-role-list": [("GET", f"{_E}/role_list")],
    "endpoint-role-remove": [("DELETE", f"{_E}/role/<str:role>")],
    "bookmark-add": [("POST", "v0.10/bookmark")],
    "bookmark-list": [("GET", "v0.10/bookmark_list")],
    "bookmark-remove": [("DELETE", "v0.10/bookmark/<str:bookmark>")],
    "bookmark-rename": [("PUT", "v0.10/bookmark/<str:bookmark>")],
    "identity-details": [("GET", "v2/api/identities/<str:identity>"), _IDENTITIES],
    "identity-list": [("GET", "v2/oauth2/userinfo")],
    "profile": [("GET", "v0.10/mail_preference"), ("PUT", "v0.10/mail_preference"), ("GET", "v2/api/ssh_keys")],
    "history": [_TASKS],
    "versions": [("GET", "v0.10/openapi")],
    "transfer": [_TRANSFER, ("GET", "v0.10/submission_id"), ("POST", "v0.10/transfer/check")],
    "scp": [_TRANSFER, _TASK, _CANCEL],
    "rm": [_DELETE, _TASK, _CANCEL],
    "delete": [_DELETE, ("POST", "v0.10/delete/check")],
    "status": [_TASKS],
    "details": [_TASK, ("GET", f"{_T}/successful_transfers"), ("GET", f"{_T}/skipped_errors")],
    "events": [("GET", f"{_T}/event_list")],
    "wait": [_TASK],
    "cancel": [_CANCEL],
    "pause": [("POST", f"{_T}/pause")],
    "resume": [("POST", f"{_T}/resume")],
    "confirm-deletion": [("POST", f"{_T}/confirm_deletion")],
    "refuse-deletion": [("POST", f"{_T}/refuse_deletion")],
    "modify": [("PUT", _T)],
    "retry": [("GET", f"{_T}/skipped_errors"), _TRANSFER, _DELETE],
    **{name: [] for name in ("help", "man", "exit", "quit", "logout")},
}


@pytest.mark.parametrize("name", sorted(REST))
def test_a_command_does_nothing_that_rest_cannot(name: str) -> None:
    known = set(routes())
    assert [key for key in REST[name] if key not in known] == []


def test_every_command_is_in_the_table() -> None:
    assert set(COMMANDS) <= set(REST)
