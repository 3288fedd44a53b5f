"""Names and texts on their ways out: nothing that a terminal acts on passes, and nothing else is changed."""

from __future__ import annotations

import csv
import io
import subprocess
import sys
import unicodedata

import pytest

from deploy.commands.base import say
from endpoints.gridftp.facts import Entry
from identity import audit_export
from identity.gsi.printable import ACTIVE, FORBIDDEN, FORBIDDEN_IN_LINES, inert, quoted, readable, readable_lines
from transferapi.logs import formats
from transferapi.shell import output
from transferapi.shell.commands import files
from transferapi.tasks import events
from transferapi.tasks.notify.mails.task import body_of, subject_line
from webui.activity import task_page

#: ESC [, the octet of C1 that means the same, its character, overrides and isolates, separators, what is not seen.
NAMES = ["a\x1b[2J", "a\udc9b2J", "a\x9b2J", "a\u202egnp.exe", "a\u2066b", "a\u2028b", "a\ufeffb", "a\x7f\x08b"]
#: Names that people have.
HARMLESS = [
    "a b",
    "größe",
    "цена",
    "数据",
    "ملف",
    "שלום",
    "👩\u200d🚀",
    "می\u200cخواهم",
    "caf\udce9",
    "a\u00a0b",
    "a\\b",
]
CONTROLS = {"Cc", "Zl", "Zp"}


def is_active(text: str) -> bool:
    """Whether a terminal would act on it, written independently of the expression under test."""
    bidirectional = {"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"}
    return any(
        unicodedata.category(letter) in CONTROLS
        or unicodedata.bidirectional(letter) in bidirectional
        or 0xDC80 <= ord(letter) <= 0xDC9F
        for letter in text
    )


def octets_are_active(octets: bytes) -> bool:
    return is_active(octets.decode("utf-8", "surrogateescape").replace("\n", "").replace("\r\n", ""))


WAYS = {
    "ls": lambda name: output.encoded("".join(files.short([Entry(name, "file")]))),
    "ls of a link": lambda name: output.encoded("".join(files.long([Entry("l", "link", link_target=name)]))),
    "ls -l": lambda name: output.encoded("".join(files.long([Entry(name, "file", owner=name, group=name)]))),
    "shell csv": lambda name: output.encoded(output._csv([(None, name)])),  # type: ignore[list-item]
    "shell text": lambda name: output.encoded(output.line(name)),
    "whatever a command writes": output.encoded,
    "event": lambda name: events.text({"path": name}).encode(),
    "event of words": lambda name: events.printable(name).encode(),
    "mail": lambda name: body_of([name]).encode(),
    "subject": lambda name: subject_line(name).encode(),
    "errors.csv": lambda name: str(task_page._cell(name)).encode("utf-8", "backslashreplace"),
    "audit.csv": lambda name: audit_export._cell(name).encode("utf-8", "backslashreplace"),
    "log": lambda name: formats._safe(name).encode(),
    "fault": lambda name: quoted(name).encode(),
}


@pytest.mark.parametrize("name", NAMES, ids=ascii)
@pytest.mark.parametrize("way", WAYS)
def test_no_active_character_of_a_name_leaves(way: str, name: str) -> None:
    assert not octets_are_active(WAYS[way](name))


@pytest.mark.parametrize("name", NAMES, ids=ascii)
def test_no_active_character_of_a_name_leaves_by_a_command_of_the_operator(
    name: str, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    say(name)
    assert not octets_are_active(capsysbinary.readouterr().out)


@pytest.mark.parametrize("name", HARMLESS, ids=ascii)
def test_other_names_are_listed_as_they_are(name: str) -> None:
    assert (
        output.encoded("".join(files.short([Entry(name, "file")]))) == name.encode("utf-8", "surrogateescape") + b"\n"
    )
    assert inert(name) == name


def test_every_character_that_is_active_is_replaced_and_no_letter_is() -> None:
    for number in range(sys.maxunicode + 1):
        letter = chr(number)
        if is_active(letter):
            assert ACTIVE.match(letter), hex(number)
            assert not is_active(inert(letter)), hex(number)
            assert not is_active(readable(letter)), hex(number)
            assert not is_active(formats._safe(letter)), hex(number)
        elif unicodedata.category(letter)[0] in "LMNPS":
            assert inert(letter) == readable(letter) == letter, hex(number)


def test_no_text_of_a_user_has_controls() -> None:
    for number in range(sys.maxunicode + 1):
        letter = chr(number)
        if is_active(letter):
            assert FORBIDDEN.match(letter), hex(number)
            assert FORBIDDEN_IN_LINES.match(letter) or letter in "\t\n", hex(number)


@pytest.mark.parametrize("name", [*NAMES, "a'b\x1b", "a\\b\x1b", "\U000e0041"], ids=ascii)
def test_bash_reads_the_name_back(name: str) -> None:
    done = subprocess.run(
        ["bash", "-c", f"printf %s {files.shown(name)}"],
        env={"LC_ALL": "C.UTF-8", "PATH": "/usr/bin:/bin"},
        capture_output=True,
        check=True,
    )
    assert done.stdout == name.encode("utf-8", "surrogateescape")


def test_lines_stay_lines() -> None:
    assert readable_lines("a\tb\nc\x9bd\r\n") == "a\tb\nc\ufffdd\ufffd\n"
    assert readable("a\tb\nc") == "a b c"
    assert next(csv.reader(io.StringIO(output._csv([(None, "a\nb")])))) == ["a\nb"]  # type: ignore[list-item]
