"""Lists on standard input and task commands, by the real OpenSSH client."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from identity.models import User
from tests.integration.cast import make_endpoint, octets_on_disk
from tests.servers.shell_server import ShellServer, shell_server
from transferapi.tasks.models import Item, Task

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.timeout(120)]


@pytest.fixture
def server(transactional_db: None, redis_server: Any, alice: User, tmp_path: Path) -> Iterator[ShellServer]:
    for name in ("ep1", "ep2"):
        make_endpoint(alice, name)
    with shell_server(tmp_path) as running:
        running.add_key(alice)
        yield running


def test_a_long_list_becomes_one_task_and_its_id_can_be_sent_again(server: ShellServer) -> None:
    lines = b"".join(b"ep1/from/%d 'ep2/to a file/%d'\n" % (number, number) for number in range(20_000))
    chosen = uuid.UUID(server.run("transfer", "--generate-id").stdout.decode().strip())
    for _ in range(2):
        result = server.run("transfer", f"--taskid={chosen}\n", input=lines)
        assert (result.returncode, result.stdout, result.stderr) == (0, f"Task ID: {chosen}\n".encode(), b"")
    assert Item.objects.filter(task=chosen).count() == Item.objects.count() == 20_000
    assert octets_on_disk() == 0


def test_a_mistake_in_line_1234_is_named_and_leaves_nothing(server: ShellServer) -> None:
    lines = [b"ep1/%d ep2/%d" % (number, number) for number in range(5000)]
    for bad, words in (
        (b"ep1/a 'ep2/b", b"column 7"),
        (b"ep1/a\x00 ep2/b", b"column 1"),
        (b"x" * 100_000, b"line 1234"),
    ):
        lines[1233] = bad
        result = server.run("transfer", input=b"\n".join(lines))
        assert (result.returncode, result.stdout) == (1, b"")
        assert result.stderr.startswith(b"Error: ")
        assert b"line 1234" in result.stderr
        assert words in result.stderr
    assert not Task.objects.exists()
    assert octets_on_disk() == 0


def test_commands_on_tasks_in_a_list_of_commands(server: ShellServer) -> None:
    result = server.run(input=b"transfer -- ep1/a ep2/b\nstatus -f status\ncancel --all\nstatus\n")
    assert (result.returncode, result.stderr) == (0, b"")
    task = Task.objects.get()
    lines = result.stdout.decode().splitlines()
    assert lines == [f"Task ID: {task.pk}", "Status: ACTIVE", f"{task.pk}: The task has been cancelled successfully."]
    assert server.run("wait", "-q", f"{task.pk}\n").returncode == 1
