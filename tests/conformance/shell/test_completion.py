"""Completion by Tab: commands, options, endpoints, bookmarks, tasks, and paths on a real server."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import pytest
from django.db import connection

from endpoints import bookmarks, registry
from endpoints.addresses.openings import parse_openings
from endpoints.gridftp.server import GridFtpServer
from endpoints.registry import ServerSpec
from identity.models import User
from tests.integration.cast import make_user
from transferapi.shell.command import COMMANDS, Heading, ShellCommand
from transferapi.shell.terminal import completion
from transferapi.shell.terminal.completion import Completer
from transferapi.shell.terminal.editor import Completion

pytestmark = pytest.mark.django_db(transaction=True)

P = ParamSpec("P")
T = TypeVar("T")


class Caller:
    """Calls the services in the thread of the completion, as the ssh server does, and counts the calls."""

    transport = "ssh"

    def __init__(self, user: User) -> None:
        self.user = user
        self.calls = 0
        self.allowed: set[str] | None = None

    def call(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        self.calls += 1
        try:
            return function(*args, **kwargs)
        finally:
            connection.close()

    def allows(self, command: str) -> bool:
        return self.allowed is None or command in self.allowed


@pytest.fixture
def alice(serve: Callable[..., GridFtpServer], tmp_path: Path, settings: Any) -> Caller:
    """She has an endpoint, `place`, with some files, a bookmark, and sees an endpoint of bob."""
    settings.ALLOW_TARGETS = parse_openings("127.0.0.1/32")
    served = tmp_path / "files"
    folder = served / "dir"
    (folder / "inner").mkdir(parents=True)
    (folder / "my folder").mkdir()
    for name in ("file1", "file2", "100%", "it's", ".hidden", "line\nbreak"):
        (folder / name).write_bytes(b"")
    user, bob = make_user("alice"), make_user("bob")
    registry.create(user, {"name": "place"}, [ServerSpec("127.0.0.1", serve(served).port, "ftp")])
    registry.create(bob, {"name": "public", "public": True})
    registry.create(bob, {"name": "private", "public": False})
    bookmarks.create(user, name="My data/x", endpoint="place", path="/dir/")
    return Caller(user)


def completed(caller: Caller, line: str) -> tuple[str, tuple[str, ...]] | None:
    """The line with the completed word, and the choices."""
    found: Completion | None = Completer(caller).complete(line)
    return None if found is None else (line[: found.start] + found.text, found.choices)


def test_commands_and_their_long_options_are_completed(alice: Caller) -> None:
    assert completed(alice, "mkd") == ("mkdir ", ())
    assert completed(alice, "  mkd") == ("  mkdir ", ())
    assert completed(alice, "man mkd") == ("man mkdir ", ())
    assert completed(alice, "mkdir --par") == ("mkdir --parents ", ())
    assert completed(alice, "mkdir --") == ("mkdir --", ("--help", "--output-format", "--parents"))
    assert completed(alice, "mkdir -O js") == ("mkdir -O json ", ())
    assert completed(alice, "nonsense x") is None
    assert completed(alice, "'unclosed \"") is None
    alice.allowed = {"ls"}
    assert completed(alice, "mkd") is None
    assert completed(alice, "mkdir --par") is None


def test_completion_lists_nothing_that_the_key_does_not_permit_to_list(alice: Caller) -> None:
    alice.allowed = {"transfer", "mkdir", "endpoint-details", "wait"}
    assert completed(alice, "transfer place/dir/fi") is None
    assert completed(alice, "mkdir pl") is None
    assert completed(alice, "endpoint-details ") is None
    assert completed(alice, "wait ") is None
    assert alice.calls == 0
    alice.allowed |= {"ls", "endpoint-list"}
    assert completed(alice, "mkdir pl") == ("mkdir place/", ())
    assert completed(alice, "mkdir place/di") == ("mkdir place/dir/", ())


def test_own_endpoints_and_bookmarks_are_completed(alice: Caller) -> None:
    assert completed(alice, "ls pl") == ("ls place/", ())
    assert completed(alice, "ls alice#") == ("ls alice#place/", ())
    assert completed(alice, "ls ^") == ("ls ^My\\ data%2Fx/", ())
    assert completed(alice, "ls bob#") is None
    assert completed(alice, "ls zzz") is None


def test_paths_are_completed_as_far_as_they_are_clear(alice: Caller) -> None:
    assert completed(alice, "ls place/di") == ("ls place/dir/", ())
    assert completed(alice, "ls place/dir/f") == ("ls place/dir/file", ("file1", "file2"))
    assert completed(alice, "ls place:/dir/in") == ("ls place:/dir/inner/", ())
    assert completed(alice, "ls place/~") == ("ls place/~/", ())
    assert completed(alice, "ls place/dir/.h") == ("ls place/dir/.hidden ", ())
    assert completed(alice, "ls place/dir/") == (
        "ls place/dir/",
        ("100%", "file1", "file2", "inner/", "it's", "my folder/"),
    )
    assert completed(alice, "ls ^My\\ data%2Fx/in") == ("ls ^My\\ data%2Fx/inner/", ())
    assert completed(alice, "ls place/no/such/x") is None


def test_paths_are_completed_in_a_list_of_transfer(alice: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    declared = ShellCommand("transfer", "SOURCE DESTINATION", Heading.TASKS, "", (), lambda context, arguments: None)
    monkeypatch.setitem(COMMANDS, "transfer", declared)
    completer = Completer(alice)
    assert completer.complete_item("place/di") == Completion(0, "place/dir/")
    assert completer.complete_item("place/dir/100") == Completion(0, "place/dir/100%25 ")
    assert completer.complete_item("place/dir/file1 al") == Completion(16, "alice#place/")


def test_names_are_quoted_in_the_way_that_the_user_has_begun(alice: Caller) -> None:
    assert completed(alice, "ls place/dir/my") == ("ls place/dir/my\\ folder/", ())
    assert completed(alice, "ls 'place/dir/my") == ("ls 'place/dir/my folder/", ())
    assert completed(alice, 'ls "place/dir/my') == ('ls "place/dir/my folder/', ())
    assert completed(alice, "ls 'place/dir/it") == ("ls 'place/dir/it'\\''s' ", ())
    assert completed(alice, "ls place/dir/it") == ("ls place/dir/it\\'s ", ())


def test_an_answer_is_kept_for_some_seconds(alice: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    completer = Completer(alice)
    for line in ("ls place/dir/f", "ls place/dir/file", "ls place/dir/in"):
        completer.complete(line)
    assert alice.calls == 1
    monkeypatch.setattr(completion, "KEPT", 0.0)
    completer.complete("ls place/dir/f")
    assert alice.calls == 2


def test_an_endpoint_that_does_not_answer_holds_one_thread_and_no_key(
    alice: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = threading.Event()

    class Slow(Caller):
        def call(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
            self.calls += 1
            answer.wait(60)
            return super().call(function, *args, **kwargs)

    monkeypatch.setattr(completion, "ANSWER_SECONDS", 0.01)
    slow = Slow(alice.user)
    completer = Completer(slow)
    for _ in range(5):
        assert completer.complete("ls place/dir/f") is None
    assert slow.calls == 1
    [thread] = [one for one in threading.enumerate() if one.name == "completion"]
    answer.set()
    thread.join()
    found = completer.complete("ls place/dir/f")
    assert found is not None
    assert found.choices == ("file1", "file2")
