"""The list of SITE RESTRICT: each entry for the toolkit's server matches one folder, and is the name of no file."""

from __future__ import annotations

from fnmatch import translate
from pathlib import Path
from re import fullmatch
from urllib.parse import unquote_to_bytes

import pytest

from endpoints.gridftp.restriction import restriction

PATHS = [
    b"/srv/shared/",
    b"/srv/a,b:c%41/x",
    b"/srv/sh\xc3\xa9/\xff",
    "/é/ü".encode(),
    b"/srv/ a b ",
    b"/srv/$HOME/~",
    b"/x",
]


def entries(path: bytes, *, patterns: bool) -> list[bytes]:
    line = restriction([(True, path)], patterns=patterns)
    assert line.startswith(b"RESTRICT RW/")
    return [unquote_to_bytes(entry.removeprefix(b"RW")) for entry in line.removeprefix(b"RESTRICT ").split(b",")]


@pytest.mark.parametrize("path", PATHS)
def test_patterns_match_the_folder_and_what_is_in_it(path: bytes) -> None:
    plain = path.rstrip(b"/").decode("latin-1")
    itself, inside = (translate(entry.decode("latin-1")) for entry in entries(path, patterns=True))
    assert fullmatch(itself, plain)
    assert fullmatch(inside, f"{plain}/a")
    assert fullmatch(inside, f"{plain}/.a/b c")
    for other in (f"{plain}x", f"{plain}/a", plain[:-1], "/", f"/x{plain}"):
        assert not fullmatch(itself, other)
    for other in (plain, f"{plain}x/a", "/"):
        assert not fullmatch(inside, other)


def test_a_pattern_names_a_folder_that_only_an_administrator_can_make() -> None:
    for path in PATHS[:-1]:
        first = entries(path, patterns=True)[0].split(b"/")[1]
        assert first.endswith(b"[")
        assert not Path("/").joinpath(first.decode("utf-8", "replace")).exists()


def test_what_a_pattern_would_read_stands_for_itself() -> None:
    assert entries(rb"/srv/a*b?[c]\d", patterns=True)[0] == rb"/srv[/]a\*b\?\[c]\\d"
    assert restriction([(False, b"/srv/a*b"), (False, b"/srv/c")], patterns=False) == b"RESTRICT R/srv/c"
    assert restriction([(False, b"/srv/a*b")], patterns=False) == b""
    assert restriction([(True, b"/")], patterns=True) == restriction([(True, b"/")], patterns=False) == b"RESTRICT RW/"
