"""Commands of the shell in a session whose key is restricted to one endpoint: nothing else is there, by any command."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest

from endpoints import bookmarks
from endpoints.models import Endpoint
from endpoints.permissions import restricted_to
from identity.models import User
from tests.integration.cast import submit
from tests.integration.shared import make_share
from tests.shell_context import Shell
from transferapi.shell.command import COMMANDS
from transferapi.tasks.models import Task

pytestmark = pytest.mark.django_db

#: Lines that name another endpoint, as {ep}, or a task at one, as {task}. Each must fail.
LINES = """
acl-add --perm r --all {ep}/folder/
acl-list {ep}
acl-remove --id {id} {ep}
bookmark-add {ep}/folder/ mark
bookmark-remove other
bookmark-rename other new
endpoint-activate {ep}
endpoint-deactivate {ep}
endpoint-details {ep}
endpoint-list {ep}
endpoint-modify --public {ep}
endpoint-remove {ep}
endpoint-rename {ep} new
endpoint-role-add --role administrator --identityusername alice {ep}
endpoint-role-list {ep}
endpoint-role-remove --id {id} {ep}
ls {ep}/
ls {ep}:folder
ls ^other/
mkdir {ep}/folder
mkdir -p {ep}:folder/more
rename {ep}/one {ep}/other
server-add {ep} ftp://new.example.org
server-list {ep}
server-modify {ep} 1 --subject /CN=new
server-remove {ep} 1
ssh-program-remove {ep}
transfer -- {ep}/a ep1/b
transfer -- ep1/a {ep}/b
scp -D {ep}:/a ep1:/b
scp -D ep1:/a {ep}:/b
rm -D {ep}/a
delete {ep}/a
details {task}
events {task}
cancel {task}
pause {task}
resume {task}
confirm-deletion {task}
refuse-deletion {task}
wait --timeout 1 {task}
modify --label taken {task}
retry {task}
status {task}
endpoint-add new -p new.example.org
endpoint-create new -p new.example.org
endpoint-add --sharing ep1/folder/ -n new
""".strip().splitlines()
#: Commands that name neither an endpoint nor a task, or have a test of their own below.
WITHOUT_ENDPOINTS = {
    *("exit", "quit", "logout", "help", "man", "versions", "history", "profile", "identity-details", "identity-list"),
    *("endpoint-search", "bookmark-list"),
}


def name_of(line: str) -> str:
    return line.split(maxsplit=1)[0]


@pytest.fixture
def share(ep2: Endpoint) -> Endpoint:
    """alice's, of her ep2."""
    return make_share(ep2, "share")


@pytest.fixture
def shell(alice: User, ep1: Endpoint, ep2: Endpoint, share: Endpoint) -> Iterator[Shell]:
    """alice's session, restricted to ep1. She has a bookmark `other` of ep2."""
    bookmarks.create(alice, name="other", endpoint="ep2", path="/")
    bookmarks.create(alice, name="mine", endpoint="ep1", path="/")
    with restricted_to([ep1.pk]):
        yield Shell(alice)


@pytest.fixture
def task(alice: User, ep1: Endpoint, ep2: Endpoint) -> Task:
    """alice's, from ep1 to ep2."""
    return submit(alice, ep1, ep2, label="secret")


def test_every_command_is_tested_here() -> None:
    assert set(COMMANDS) <= WITHOUT_ENDPOINTS | {name_of(line) for line in LINES}


@pytest.mark.parametrize("line", [line for line in LINES if name_of(line) in COMMANDS])
def test_no_command_reaches_another_endpoint_its_share_or_its_tasks(
    task: Task, shell: Shell, ep2: Endpoint, line: str
) -> None:
    before = list(Endpoint.objects.order_by("pk").values())
    for ref in ("ep2", "alice#ep2", str(ep2.pk), "share"):
        found = shell.run(line.format(ep=ref, task=task.pk, id=uuid.uuid4()))
        assert (found.status, found.out) == (1, ""), found
        assert "No such" in found.err or "key of this session" in found.err
        assert "secret" not in found.out + found.err
    assert list(Endpoint.objects.order_by("pk").values()) == before
    assert list(Task.objects.values_list("pk", "label", "cancel_requested_at")) == [(task.pk, "secret", None)]


LISTS = ("endpoint-list", "endpoint-list -v", "endpoint-search --scope=my-endpoints", "bookmark-list", "status -a")


@pytest.mark.parametrize("line", [line for line in LISTS if name_of(line) in COMMANDS])
def test_lists_name_only_what_is_in_reach(task: Task, shell: Shell, ep2: Endpoint, line: str) -> None:
    out = shell.ok(line)
    assert not {"ep2", "share", "other", "secret", str(ep2.pk), str(task.pk)} & set(out.replace(":", " ").split())


def test_the_endpoint_of_the_key_is_used_as_ever(shell: Shell) -> None:
    assert "ep1" in shell.ok("endpoint-list")
    assert "ep1" in shell.ok("endpoint-details ep1")
    assert "mine" in shell.ok("bookmark-list")
    shell.ok("server-list ep1")
