"""The shell's transfer and delete: what they accept, what they print, and what they refuse with line and column."""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from endpoints import bookmarks
from endpoints.models import Endpoint
from identity.models import User
from tests.integration.cast import octets_on_disk, submit
from tests.shell_context import Shell
from transferapi.tasks.models import Item, Task

UUID = r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"


@pytest.fixture
def shell(alice: User, ep1: Endpoint, ep2: Endpoint) -> Shell:
    return Shell(alice)


def task_of(output: str) -> Task:
    """The task of the one line of output."""
    found = re.fullmatch(rf"Task ID: ({UUID})\n", output)
    assert found, output
    return Task.objects.get(pk=found[1])


def items(task: Task) -> list[tuple[str, str | None, bool | None]]:
    rows = Item.objects.filter(task=task).order_by("position")
    return [(row.source_path, row.destination_path, row.recursive) for row in rows]


# ---- transfer: operands, lists, options


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("transfer -- ep1/a ep2/b", ("/a", "/b", False)),
        ("transfer ep1/a ep2/b", ("/a", "/b", False)),
        ("transfer -- alice#ep1/~/a alice#ep2:b", ("/~/a", "/~/b", False)),
        ("transfer -- ep1/d/ ep2/e/ -r", ("/d/", "/e/", True)),
        ("transfer -r -- ep1/d/ ep2/e/", ("/d/", "/e/", True)),
        ("transfer ep1/d/ ep2/e/ -r", ("/d/", "/e/", True)),
        ("transfer -r -- ep1/d ep2/e", ("/d", "/e", None)),
        ("transfer -- 'ep1/my file' \"ep2/my file\"", ("/my file", "/my file", False)),
        ("transfer -- ep1/my%20file ep2/100%", ("/my file", "/100%", False)),
        ("transfer -- ep1//a//b ep2/*", ("/a/b", "/*", False)),
    ],
)
def test_one_item_as_operands(shell: Shell, line: str, found: tuple[str, str, bool | None]) -> None:
    assert items(task_of(shell.ok(line))) == [found]


def test_with_operands_standard_input_is_not_read(shell: Shell) -> None:
    def endless() -> Iterator[str]:
        pytest.fail("read")
        yield ""

    task_of(shell.ok("transfer -- ep1/a ep2/b", endless()))


def test_a_list_on_standard_input(shell: Shell, alice: User, ep1: Endpoint) -> None:
    bookmarks.create(alice, name="my data", endpoint=str(ep1.pk), path="/project/")
    lines: list[str | bytes] = [
        "ep1/a ep2/b", "", "   ", "# a comment", "alice#ep1/d/ ep2:/e/ -r", f"  {ep1.pk}/c\talice#ep2/~/c  ",
        "'ep1/it'\\''s one' \"ep2/it's one\"", "'^my data/run 1' ep2/run", "^my%20data/run%202 ep2/run2",
        b"ep1/not\xffutf8 ep2/not%FFutf8", "ep1/last ep2/last\r",
    ]  # fmt: skip
    task = task_of(shell.ok("transfer --label 'a/b. c'", lines))
    assert items(task) == [
        ("/a", "/b", False),
        ("/d/", "/e/", True),
        ("/c", "/~/c", False),
        ("/it's one", "/it's one", False),
        ("/project/run 1", "/run", False),
        ("/project/run 2", "/run2", False),
        ("/not\udcffutf8", "/not\udcffutf8", False),
        ("/last", "/last", False),
    ]
    assert (task.label, task.command) == ("a/b. c", "transfer (+8 input lines)")
    assert task.deadline - task.request_time == timedelta(hours=24)


def test_all_options_of_a_transfer(shell: Shell) -> None:
    line = (
        "transfer -s 3 --delete --encryp --verify-checksum --preserve-mtime -g -d 2d --label=L --perf-p=6 --perf-cc 4"
        " --perf-pp=5 --perf-udt --bandwidth-limit 2500000 --priority=background -- ep1/d/ ep2/e/ -r"
    )
    task = task_of(shell.ok(line))
    wanted = {
        "sync_level": 3, "delete_destination_extra": True, "encrypt_data": True, "verify_checksum": True,
        "preserve_timestamp": True, "perf_p": 6, "perf_cc": 4, "perf_pp": 5, "perf_udt": True,
        "bandwidth_limit": 2_500_000, "priority": "background",
    }  # fmt: skip
    assert {name: task.options[name] for name in wanted} == wanted
    assert abs(task.deadline - task.request_time - timedelta(days=2)) < timedelta(seconds=30)
    assert task_of(shell.ok("transfer --no-verify-checksum ep1/a ep2/b")).options["verify_checksum"] is False
    assert task_of(shell.ok("transfer -- ep1/a ep2/c -s2")).options["sync_level"] == 2
    assert task_of(shell.ok("transfer", ["ep1/a ep2/f -s 1", "ep1/c ep2/d -s1"])).options["sync_level"] == 1


def test_the_command_of_a_task_is_kept_as_it_was_given(shell: Shell) -> None:
    assert task_of(shell.ok("transfer --perf-p=6", ["ep1/a ep2/b"] * 1 + ["ep1/c ep2/d"])).command == (
        "transfer --perf-p=6 (+2 input lines)"
    )
    task = task_of(shell.ok("transfer -s 1 -r -- 'ep1/a b/' ep2/c/"))
    assert task.command == "transfer -r -s 1 'ep1/a b/' ep2/c/"


# ---- ids


def test_a_chosen_id_makes_one_task_however_often_it_is_sent(shell: Shell) -> None:
    told = shell.ok("transfer --generate-id")
    assert re.fullmatch(rf"{UUID}\n", told)
    chosen = told.strip()
    for _ in range(2):
        assert shell.ok(f"transfer --taskid={chosen} -- ep1/a ep2/b\n") == f"Task ID: {chosen}\n"
    assert shell.ok(f"transfer --taskid {chosen}", ["ep1/a ep2/b"]) == f"Task ID: {chosen}\n"
    assert Task.objects.count() == Item.objects.count() == 1


def test_an_id_of_another_user_is_refused(shell: Shell, bob: User, public: Endpoint) -> None:
    other = submit(bob, public, public, ("/a", "/b"))
    error = shell.fails(f"transfer --taskid={other.pk} -- ep1/a ep2/b")
    assert error.startswith("Error: ")
    assert "cannot be used" in error
    nil = uuid.UUID(int=0)
    assert shell.fails(f"transfer --taskid={nil} -- ep1/a ep2/b") == error
    assert "xyz" in shell.fails("transfer --taskid=xyz -- ep1/a ep2/b", status=2)


# ---- errors, literally as scripts know them


@pytest.mark.parametrize(
    ("line", "error"),
    [
        ("transfer --perf-p=6--perf-cc=6 -- ep1/a ep2/b", "Error: Invalid Number '6--perf-cc=6'\n"),
        (
            "transfer -- ep1/d/ ep2/e/",
            "Error: Poorly formed input line 1: '-r option should be used when transfering directories:"
            " ep1/d/ ep2/e/ '\n",
        ),
    ],
)
def test_literal_errors(shell: Shell, line: str, error: str) -> None:
    assert shell.fails(line) == error
    assert not Task.objects.exists()


def test_a_word_without_an_endpoint(shell: Shell) -> None:
    assert shell.fails("transfer -- fff ep2/b") == "Error: Missing '/': 'fff'\n"
    for line, lines in (
        ("transfer -- fff", None),
        ("transfer fff -r", None),
        ("transfer", ["fff"]),
        ("transfer", ["fff -r"]),
    ):
        first, advice = shell.fails(line, lines).splitlines()
        assert first == "Error: Missing '/': 'fff'"
        assert advice.startswith("SOURCE and DESTINATION are wanted")
    assert shell.fails("transfer", ["ep1/f"]).startswith("Error: Poorly formed input line 1: 'ep1/f' (SOURCE and")


BAD = [
    ("ep1/my file ep2/b", "Unknown option: file: ep1/my file ep2/b'", "'ep1/my file' ep2/b", 8),
    ("ep1/a ep2/my new file", "Unknown option: new: ep1/a ep2/my new file'", "ep1/a 'ep2/my new file'", 14),
    ("alice#ep1/x 09:42.nc alice#ep2/x", "Unknown option: 09:42.nc: ", "'alice#ep1/x 09:42.nc' alice#ep2/x", 13),
    ("ep1/a ep2/b --perf-p=3", "Unknown option: --perf-p=3: ep1/a ep2/b --perf-p=3'", "", 13),
    ("ep1/a", "'ep1/a'", "SOURCE and DESTINATION", None),
    ("'ep1/a ep2/b", "'ep1/a ep2/b'", "is not closed", 1),
    ("ep1/d/ ep2/d/", "-r option should be used when transfering directories: ep1/d/ ep2/d/ '", "", None),
    ("ep1/f ep2/d/", "the destination of a file is a file", "ep2/d/f", None),
    ("ep1/a ep2/b -s 9", "Invalid Number '9'", "0 to 3", 13),
]


@pytest.mark.parametrize(("bad", "literal", "advice", "column"), BAD, ids=[one[0] for one in BAD])
def test_a_bad_line_is_named_with_its_column_and_the_quoting_that_works(
    shell: Shell, bad: str, literal: str, advice: str, column: int | None
) -> None:
    before = [f"ep1/{number} ep2/{number}" for number in range(1233)]
    error = shell.fails("transfer", [*before, bad, "ep1/last ep2/last"])
    assert error.startswith("Error: Poorly formed input line 1234: '")
    assert literal in error
    assert advice in error
    assert error.count("\n") == 1
    if column:
        assert f"column {column}" in error
    assert not Task.objects.exists()
    assert octets_on_disk() == 0


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        (["ep1/a ep2/b", "ep1/c ep1/d"], ["line 2, column 7", "destination endpoint is 'ep1'", "'ep2'"]),
        (["ep1/a ep2/b", "ep2/c ep2/d"], ["line 2, column 1", "source endpoint is 'ep2'"]),
        (["ep1/a ep2/b", "ep1/c   ep2/b"], ["line 2, column 9", "same destination", "'/b'"]),
        (["ep1/a ep2/b", "ep1/a/../c ep2/d"], ['no ".." components', "line 2, column 1"]),
        (["ep1/a ep2/b", b"ep1/\x00\x1b ep2/c"], ["control characters", "line 2, column 1"]),
        (["ep1/a ep2/b", b"\x7fELF\x02\x01\x01 \x00"], ["line 2, column 1"]),
        (["ep1/a ep2/b", "nothing ep2/c"], ["Missing '/': 'nothing'", "line 2, column 1"]),
        (["ep1/a ep2/b -s 1", "ep1/c ep2/d"], ["line 2", "sync level"]),
        (["ep1/a ep2/b", "^nowhere/x ep2/d"], ["nowhere"]),
        (["nobody#x/a ep2/b"], ["nobody#x"]),
        (["ep1/a ep2/b", "x" * 70_000], ["line 2", "65536"]),
        (["", "# only a comment"], ["nothing to do"]),
        ([], ["nothing to do", "transfer -h"]),
    ],
)
def test_a_list_with_a_mistake_makes_no_task(shell: Shell, lines: list[str | bytes], words: list[str]) -> None:
    error = shell.fails("transfer", lines)
    assert error.startswith("Error: ")
    assert all(word in error for word in words), error
    assert error.count("\n") == 1
    assert error.isascii()
    assert error[:-1].isprintable()
    assert not Task.objects.exists()


def test_without_operands_and_without_input_there_is_nothing_to_do(shell: Shell) -> None:
    assert "SOURCE and DESTINATION" in shell.fails("transfer")
    assert "ENDPOINT/PATH" in shell.fails("delete")


def test_too_many_lines_are_refused_while_they_arrive(shell: Shell, settings: Any) -> None:
    settings.LIMITS = replace(settings.LIMITS, listed_items=10)
    taken = 0

    def endless() -> Iterator[str]:
        nonlocal taken
        while True:
            taken += 1
            yield f"ep1/{taken} ep2/{taken}"

    assert "WAYBILL_MAX_LISTED_ITEMS" in shell.fails("transfer", endless())
    assert taken == 11


def test_an_endpoint_of_another_user_does_not_exist(ep1: Endpoint, ep2: Endpoint, charlie: User) -> None:
    shell = Shell(charlie)
    for line in ("transfer -- alice#ep1/a alice#ep2/b", f"transfer {ep1.pk}/a {ep2.pk}/b", "rm alice#ep1/a"):
        assert "No such endpoint" in shell.fails(line)


def test_a_refusal_for_want_of_activation_names_the_way(shell: Shell, gsi: Endpoint) -> None:
    error = shell.fails("transfer -- gsi/a ep2/b")
    assert "endpoint-activate alice#gsi" in error
    assert "http" in error


def test_json_is_the_document_of_rest(shell: Shell) -> None:
    document = shell.run("transfer -O json -- ep1/a ep2/b").json
    assert document["DATA_TYPE"] == "transfer_result"
    assert document["code"] == "Accepted"
    assert Task.objects.filter(pk=document["task_id"]).exists()
    error = shell.run("transfer -O json -- ep1/a/ ep2/b/")
    assert error.err.startswith('{"code": ')


# ---- --dry-run


def test_a_dry_run_shows_a_summary_and_makes_nothing(shell: Shell) -> None:
    told = shell.ok("transfer --dry-run --delete", ["ep1/a ep2/b", "ep1/d/ ep2/e/ -r"])
    assert told == (
        "Source Endpoint     : alice#ep1\n"
        "Destination Endpoint: alice#ep2\n"
        "Items               : 2\n"
        "Folders             : 1\n"
        "Delete              : files that only the destination has will be deleted\n"
        "Nothing was submitted.\n"
    )
    assert shell.run("delete --dry-run -O json -- ep1/a").json["items"] == 1
    assert "same destination" in shell.fails("transfer --dry-run", ["ep1/a ep2/b", "ep1/c ep2/b"])
    assert not Task.objects.exists()


# ---- delete


def test_deletes(shell: Shell) -> None:
    task = task_of(shell.ok("delete -- ep1/my%20file"))
    assert (task.type, items(task)) == ("DELETE", [("/my file", None, False)])
    task = task_of(shell.ok("delete -f", ["ep1/a -r", "ep1/d/ -r"]))
    assert items(task) == [("/a", None, True), ("/d/", None, True)]
    assert task.options["ignore_missing"]
    assert task.command == "delete -f (+2 input lines)"
    assert items(task_of(shell.ok("delete -r", ["ep1/d/"]))) == [("/d/", None, True)]


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        (["ep1/a -r", "ep1/b"], ["line 2", "some lines"]),
        (["ep1/d/"], ["line 1", "-r option"]),
        (["ep1/a", "ep1/"], ["line 2"]),
        (["ep1/a", "ep2/b"], ["line 2, column 1", "'ep2'"]),
        (["ep1/a b"], ["line 1", "'ep1/a b'", "column 7"]),
    ],
)
def test_a_list_of_deletes_with_a_mistake_makes_no_task(shell: Shell, lines: list[str], words: list[str]) -> None:
    error = shell.fails("delete", lines)
    assert all(word in error for word in words), error
    assert not Task.objects.exists()


def test_the_root_is_not_deleted(shell: Shell) -> None:
    assert "root" in shell.fails("delete -r -- ep1/")
    assert "root" in shell.fails("delete -r", ["ep1/a/", "ep1/~/"])
    assert not Task.objects.exists()


# ---- scp and rm in the background: their operands


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("scp -D ep1:/x/f ep2:/y/", ("/x/f", "/y/f", False)),
        ("scp -D ep1:/x/f ep2:/home/u/.", ("/x/f", "/home/u/f", False)),
        ("scp -D ep1:de.data ep2:", ("/~/de.data", "/~/de.data", False)),
        ("scp -D -r ep1:/X/ ep2:/Y/", ("/X/", "/Y/", True)),
        ("scp -D -r ep1:/X/ ep2:/Y", ("/X/", "/Y", True)),
        ("scp -D -r ep1:/X ep2:/Y/", ("/X", "/Y/X", None)),
        (
            "scp -D -v -g -s 1 -d 1d --encrypt --preserve-mtime --label L ep1:a%2b ep2:/y/",
            ("/~/a%2b", "/y/a%2b", False),
        ),
    ],
)
def test_operands_of_scp(shell: Shell, line: str, found: tuple[str, str, bool | None]) -> None:
    assert items(task_of(shell.ok(line))) == [found]


def test_operands_of_rm(shell: Shell) -> None:
    task = task_of(shell.ok("rm -D -r -f -d 1d ep1:/d"))
    assert items(task) == [("/d", None, True)]
    assert task.options["ignore_missing"]
    assert task_of(shell.ok("rm -D --globs ep1:/*.tmp")).options["interpret_globs"]
    assert "-r option" in shell.fails("rm -D ep1:/d/")
    assert "-r option should be used when transfering directories" in shell.fails("scp -D ep1:/d/ ep2:/d/")


def test_a_task_beyond_the_limit_is_refused(shell: Shell, settings: Any) -> None:
    settings.LIMITS = replace(settings.LIMITS, pending_tasks=1)
    shell.ok("transfer -- ep1/a ep2/b")
    assert "not done" in shell.fails("transfer -- ep1/c ep2/d")
