"""Lines of LIST as plain FTP servers send them."""

from __future__ import annotations

import pytest

from endpoints.gridftp.faults import FaultError
from endpoints.gridftp.requests.plain_ftp import parse_line


@pytest.mark.parametrize(
    ("line", "name", "kind", "size"),
    [
        (b"-rw-r--r--    1 0        0               5 Nov 22 23:02 f with  space", "f with  space", "file", 5),
        (b"drwxr-xr-x    2 alice    users        4096 Jan  1  2020 sub", "sub", "dir", 4096),
        (b"-rw-r--r--+   1 a        b      3000000000 Nov  2 23:02  leading", " leading", "file", 3_000_000_000),
        (b"-rw-r--r--. 1 a b 1 2020-01-02 10:11 iso", "iso", "file", 1),
        (b"brw-rw----    1 0        6          8,   0 Nov 22 23:02 sda", "sda", "OS.unix=special", 0),
        ("-rw-r--r-- 1 0 0 5 Nov 22 23:02 Grüße".encode(), "Grüße", "file", 5),
        (b"-rw-r--r-- 1 0 0 5 Nov 22 23:02 \xff", "\udcff", "file", 5),
    ],
)
def test_a_line_is_read(line: bytes, name: str, kind: str, size: int) -> None:
    entry = parse_line(line)
    assert entry is not None
    assert (entry.name, entry.kind, entry.size) == (name, kind, size)


def test_a_symlink_has_the_text_of_its_target() -> None:
    entry = parse_line(b"lrwxrwxrwx 1 0 0 12 Nov 22 23:02 a -> b -> c")
    assert entry is not None
    assert (entry.name, entry.kind, entry.link_target) == ("a", "link", "b -> c")


@pytest.mark.parametrize(
    "line",
    [
        b"", b"total 12", b"drwxr-xr-x 2 0 0 4096 Nov 22 23:02 .", b"drwxr-xr-x 2 0 0 4096 Nov 22 23:02 ..",
        b"-rw-r--r-- 1 0 0 5 Nov 22 23:02 ../../etc/passwd", b"-rw-r--r-- 1 0 0 99999999999999999999 Nov 22 23:02 big",
        b"11-22-26  11:02PM       <DIR>          dos", b"-rw-r--r-- " + b"1 " * 5000,
    ],
)  # fmt: skip
def test_what_is_no_entry_is_left_out(line: bytes) -> None:
    assert parse_line(line) is None


def test_a_name_without_end_is_refused() -> None:
    with pytest.raises(FaultError):
        parse_line(b"-rw-r--r-- 1 0 0 5 Nov 22 23:02 " + b"x" * 5000)
