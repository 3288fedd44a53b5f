"""The shell's scp, rm and wait against real servers, moved by the real engine."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from endpoints import registry
from endpoints.addresses.openings import parse_openings
from endpoints.gridftp.server import GridFtpServer
from endpoints.registry import ServerSpec
from identity.models import User
from tests.conformance.tasks.slices import run
from tests.shell_context import Shell
from tests.store_connections import close_connections
from transferapi.shell.context import Signal
from transferapi.tasks.models import Task

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def _instance(settings: Any) -> Iterator[None]:
    """The gate lets these tests through to their own servers; the store's threads give their connections back."""
    settings.ALLOW_TARGETS = parse_openings("127.0.0.1/32")
    close_connections()
    yield
    close_connections()


@pytest.fixture
def folders(tmp_path: Path) -> dict[str, Path]:
    found = {name: tmp_path / name for name in ("here", "there")}
    for folder in found.values():
        folder.mkdir()
    return found


@pytest.fixture
def shell(folders: dict[str, Path], serve: Callable[..., GridFtpServer]) -> Shell:
    """alice's, with an endpoint for each folder. While she waits, a worker moves the files."""
    alice = User.objects.create(username="alice", email="alice@example.org")
    for name, folder in folders.items():
        registry.create(alice, {"name": name}, [ServerSpec("127.0.0.1", serve(folder).port, "ftp")])
    found = Shell(alice)
    found.on_pause = work
    return found


def work() -> Signal | None:
    """One slice of the task that is not done."""
    for task in Task.objects.exclude(phase="done"):
        run(task)
    return None


def files(folder: Path) -> dict[str, str]:
    return {str(path.relative_to(folder)): path.read_text() for path in folder.rglob("*") if path.is_file()}


def write(folder: Path, **names: str) -> None:
    """Names with two underscores for a slash."""
    for name, content in names.items():
        path = folder / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)


def test_a_copy_in_the_foreground_in_its_literal_form(shell: Shell, folders: dict[str, Path]) -> None:
    write(folders["here"], a="content")
    told = shell.ok("scp here:/a there:/b")
    assert files(folders["there"]) == {"b": "content"}
    task = Task.objects.get()
    head, bar = told.split("\r", 1)
    assert head == f"Task ID: {task.pk}\nType <CTRL-C> to cancel or bg<ENTER> to background\n"
    assert re.fullmatch(r"\[X+\] 1/1 [0-9]+\.[0-9]{2} mbps\n", bar.rpartition("\r")[2])
    assert (task.status, task.command) == ("SUCCEEDED", "scp here:/a there:/b")
    assert shell.run(f"wait -q {task.pk}").status == 0


@pytest.mark.parametrize(
    ("options", "operands", "last"),
    [
        ("-s 3 --delete", "here:/d there:/d", {"d/a", "d/new"}),
        ("-s 1", "here:/d there:/d", {"d/a", "d/extra", "d/new"}),
        ("--delete", "here:/d there:/d", {"d/a", "d/new"}),
        ("-s 3 --delete", "here:/d there:/", {"d/a", "d/new"}),
        ("-s 3 --delete", "here:/d there:/d/", {"d/d/a", "d/d/new", "d/extra"}),
        ("-s 3 --delete", "here:/d/ there:/d", {"d/a", "d/new"}),
        ("", "here:/d there:/d", {"d/a", "d/extra", "d/d/a", "d/d/new"}),
    ],
)
def test_a_mirror_that_is_repeated_is_the_same_mirror(
    shell: Shell, folders: dict[str, Path], options: str, operands: str, last: set[str]
) -> None:
    write(folders["here"], d__a="1")
    shell.ok(f"scp -r {options} {operands}")
    write(folders["here"], d__new="2")
    write(folders["there"], d__extra="3")
    shell.ok(f"scp -r {options} {operands}")
    assert files(folders["there"]).keys() == last


COPIES = [
    ("scp here:/d/f there:/", {"f": "1"}),
    ("scp here:/d/f there:/sub", {"sub/f": "1"}),
    ("scp here:/d/f there:/new/name", {"new/name": "1"}),
    ("scp here:/d/f there:", {"f": "1"}),
    ("scp -r here:/d/ there:/e/", {"e/f": "1", "e/g/h": "2"}),
    ("scp -r here:/d there:/e/", {"e/d/f": "1", "e/d/g/h": "2"}),
    ("scp -r here:/d there:/sub", {"sub/d/f": "1", "sub/d/g/h": "2"}),
    ("scp -r here:/d there:/e", {"e/f": "1", "e/g/h": "2"}),
    ("scp -r here:/d/f there:/copy", {"copy": "1"}),
    ("scp 'here:/with blank' 'there:/with blank too'", {"with blank too": "3"}),
]


@pytest.mark.parametrize(("line", "arrived"), COPIES, ids=[one[0] for one in COPIES])
def test_where_a_copy_goes(shell: Shell, folders: dict[str, Path], line: str, arrived: dict[str, str]) -> None:
    write(folders["here"], d__f="1", d__g__h="2", **{"with blank": "3"})
    (folders["there"] / "sub").mkdir()
    shell.ok(line)
    assert files(folders["there"]) == arrived


FAILURES = [
    ("scp here:/nothing there:/b", "Message: No such file or directory"),
    ("scp here:/d there:/b", ""),
    ("rm here:/nothing", "Message: No such file or directory"),
    ("rm here:/d", ""),
]


@pytest.mark.parametrize(("line", "third"), FAILURES, ids=[one[0] for one in FAILURES])
def test_a_task_that_fails_says_why_on_the_third_line(
    shell: Shell, folders: dict[str, Path], line: str, third: str
) -> None:
    write(folders["here"], d__f="1")
    found = shell.run(line)
    assert found.status == 1
    lines = found.err.splitlines()
    assert lines[0].startswith(f"Error: The task {Task.objects.get().pk} has failed")
    assert lines[1] == f"Command: {line}"
    assert lines[2].startswith(third or "Message: ")
    assert files(folders["here"]) == {"d/f": "1"}
    assert files(folders["there"]) == {}


@pytest.mark.parametrize("line", ["rm -r here:/d", "rm -r here:/d/", "rm -rf here:/d/", "rm --globs -r here:/d*"])
def test_a_folder_is_deleted_with_and_without_the_slash(shell: Shell, folders: dict[str, Path], line: str) -> None:
    write(folders["here"], d__f="1", d__g__h="2", e="3")
    shell.ok(line)
    assert files(folders["here"]) == {"e": "3"}
    assert not (folders["here"] / "d").exists()


DELETIONS = [("rm here:/e", 1), ("rm -r here:/d", 4), ("rm -r here:/empty", 1)]


@pytest.mark.parametrize(("line", "count"), DELETIONS, ids=[one[0] for one in DELETIONS])
def test_the_last_progress_line_of_a_deletion_counts_all_that_is_gone(
    shell: Shell, folders: dict[str, Path], line: str, count: int
) -> None:
    write(folders["here"], d__f="1", d__g__h="2", e="3")
    (folders["here"] / "empty").mkdir()
    last = shell.ok(line).rpartition("\r")[2]
    assert re.fullmatch(rf"\[[X ]+\] {count}/{count} 0.00 mbps\n", last), last


def test_a_star_is_the_name_of_a_file(shell: Shell, folders: dict[str, Path]) -> None:
    write(folders["here"], **{"*": "1", "e": "2"})
    shell.ok("rm here:/*")
    assert files(folders["here"]) == {"e": "2"}
    shell.ok("rm -f here:/nothing")


def test_what_has_failed_arrives_with_retry(shell: Shell, folders: dict[str, Path]) -> None:
    write(folders["here"], a="1", c="3", b__folder="x", d__folder="x")
    lines = [f"here/{name} there/{name}" for name in ("a", "b", "c", "d")]
    task = shell.ok("transfer", lines).split()[-1]
    assert shell.run(f"wait -q {task}").status == 1
    assert files(folders["there"]) == {"a": "1", "c": "3"}
    for name in ("b", "d"):
        shutil.rmtree(folders["here"] / name)
    write(folders["here"], a="changed", b="2", d="4")
    assert shell.ok(f"details --failed-files {task}") == ("alice#here/b alice#there/b\nalice#here/d alice#there/d\n")
    again = shell.ok(f"retry {task}").split()[-1]
    assert shell.run(f"wait -q {again}").status == 0
    assert files(folders["there"]) == {"a": "1", "b": "2", "c": "3", "d": "4"}
    assert shell.ok(f"events -f code -O csv {again}").split()[0] == "STARTED"
    assert shell.ok(f"events -f code -O csv {again}").split()[-1] == "SUCCEEDED"
    faults = shell.ok(f"events --faults {task}")
    assert "\nFile: /b\n" in faults
