"""Commands of the shell read the database only within `Context.call`: elsewhere a session would hold a connection."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.db import connection

from endpoints.models import Endpoint
from identity.models import User
from tests.integration.cast import submit
from tests.integration.shared import give, make_share
from tests.shell_context import Shell, ShellContext

pytestmark = pytest.mark.django_db

LINES = [
    "endpoint-list",
    "endpoint-list -v",
    "endpoint-list -p",
    "endpoint-search e",
    "endpoint-details ep1 share",
    "endpoint-add new -p new.example.org",
    "endpoint-add -n Shared --sharing ep1/x",
    "endpoint-modify ep1 --public",
    "endpoint-rename ep1 other",
    "endpoint-remove ep2",
    "endpoint-remove ep1 -p ep1.example.org",
    "endpoint-activate ep1",
    "endpoint-deactivate ep1",
    "server-add ep1 ftp://second.example.org",
    "server-list ep1",
    "server-modify ep1 ep1.example.org -p third.example.org",
    "server-remove ep1 ep1.example.org",
    "acl-add share/x/ --perm r --all",
    "acl-list share",
    "endpoint-role-add ep1 --identityusername bob --role administrator",
    "endpoint-role-list ep1",
    "bookmark-add ep1/x name",
    "bookmark-list",
    "bookmark-rename saved name",
    "bookmark-remove saved",
    "identity-details bob",
    "identity-list",
    "profile",
    "profile -n off",
    "history",
    "versions",
]
#: `{}`: the id of a task.
ON_TASKS = [
    *("transfer -- ep1/a ep2/b", "transfer --dry-run -O json -- ep1/a ep2/b", "transfer -- ^saved/a ep2/b"),
    *("scp -D ep1:/a ep2:/b/", "rm -D ep1:/a", "delete -- ep1/a", "delete --dry-run -- ep1/a"),
    *("status", "status -a", "status {}", "status -O json", "details {}", "details {} -O json"),
    *("details -f destination_endpoint,label {}", "details -t {}", "details --failed-files {}", "events --all {}"),
    *("modify --label x {}", "pause {}", "resume {}", "cancel {}", "cancel --all -O json"),
]
FAILING = [
    *("ls ep1", "ls gsi/x", "ls nix/x", "mkdir ep1/x", "rename ep1/x ep2/x"),
    *("acl-list ep1", "endpoint-activate gsi", "endpoint-details nix", "ssh-program-remove ep1"),
]


@pytest.fixture
def shell(alice: User, bob: User, ep1: Endpoint, ep2: Endpoint, gsi: Endpoint) -> Shell:
    give(make_share(ep1, "share"), bob)
    submit(alice, ep1, ep2)
    shell = Shell(alice)
    shell.ok("bookmark-add ep1/saved saved")
    return shell


@pytest.fixture
def task(shell: Shell) -> str:
    return shell.ok("status -O csv -f task_id").strip()


@pytest.fixture
def only_in_calls(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A query outside of a call fails."""
    within: list[bool] = []
    call = ShellContext.call

    def counted(self: ShellContext, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        within.append(True)
        try:
            return call(self, function, *args, **kwargs)
        finally:
            within.pop()

    def query(execute: Callable[..., Any], sql: str, *args: Any) -> Any:
        assert within, f"outside of a call: {sql[:200]}"
        return execute(sql, *args)

    monkeypatch.setattr(ShellContext, "call", counted)
    with connection.execute_wrapper(query):
        yield


@pytest.mark.parametrize("form", ["", " -O json"])
@pytest.mark.parametrize("line", LINES)
def test_a_command_reads_rows_within_calls_only(shell: Shell, only_in_calls: None, line: str, form: str) -> None:
    shell.ok(line + form)


@pytest.mark.parametrize("line", ON_TASKS)
def test_so_does_a_command_on_tasks(shell: Shell, task: str, only_in_calls: None, line: str) -> None:
    shell.ok(line.format(task))


@pytest.mark.parametrize("line", FAILING)
def test_so_does_a_command_that_fails(shell: Shell, only_in_calls: None, line: str) -> None:
    found = shell.run(line)
    assert (found.status, found.out) == (1, "")
    assert "The service failed" not in found.err
