"""Lines of LIST as plain FTP servers send them: each is read as what it is, or is refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from endpoints.gridftp.facts import FactsError
from endpoints.gridftp.faults import FaultError
from endpoints.gridftp.requests.list_lines import parse_list_line


@pytest.mark.parametrize(
    ("line", "name", "kind", "size"),
    [
        (b"-rw-r--r--    1 0        0               5 Nov 22 23:02 f with  space", "f with  space", "file", 5),
        (b"drwxr-xr-x    2 alice    users        4096 Jan  1  2020 sub", "sub", "dir", 4096),
        (b"-rw-r--r--+   1 a        b      3000000000 Nov  2 23:02  leading", " leading", "file", 3_000_000_000),
        (b"-rw-r--r--. 1 a b 1 2020-01-02 10:11 long-iso", "long-iso", "file", 1),
        (b"-rw-r--r--@ 1 a b 1 2020-01-02 10:11:12.000000000 +0100 full-iso", "full-iso", "file", 1),
        (b"-rw-r--r-- 1 a b 1 01-02 10:11 iso", "iso", "file", 1),
        (b"-rw-r--r-- 1 a b 1 2020-01-02  iso", "iso", "file", 1),
        (b"-rw-r--r-- 1 a b 1 Jan  2 10:11:12 2020 BSD", "BSD", "file", 1),
        (b"brw-rw----    1 0        6          8,   0 Nov 22 23:02 sda", "sda", "OS.unix=special", 0),
        ("-rw-r--r-- 1 0 0 5 Nov 22 23:02 Grüße".encode(), "Grüße", "file", 5),
        (b"-rw-r--r-- 1 0 0 5 Nov 22 23:02 \xff", "\udcff", "file", 5),
        (b"-rw-r--r-- 1 0 0 5 Nov 22 23:02 two\nlines", "two\nlines", "file", 5),
        # Without a count of links, without a group, with neither, and with blanks in the names of a directory service.
        (b"-rw-r--r-- owner group 5 Jan 15 12:00 f", "f", "file", 5),
        (b"-rw-r--r-- 1 owner 5 Jan 15 12:00 f", "f", "file", 5),
        (b"-rw-r--r-- 5 Jan 15 12:00 f", "f", "file", 5),
        (b"-rw-r--r-- 1 alice domain users 1234 Jan 15 12:00 one", "one", "file", 1234),
        (b"drwxr-xr-x 1 jan van dam domain users 1234 Jan 15 12:00 one", "one", "dir", 1234),
        (b"brw-rw---- 1 root domain users 8, 0 Nov 22 23:02 sda", "sda", "OS.unix=special", 0),
        # The day before the month, and months of other languages.
        (b"-rw-r--r-- 1 alice users 1234 15 Jan 12:00 f", "f", "file", 1234),
        (b"-rw-r--r-- 1 alice 1234 15 Jan 2020 f", "f", "file", 1234),
        (b"-rw-r--r-- 1 alice users 1234 15. Jan 12:00 f", "f", "file", 1234),
        ("-rw-r--r-- 1 alice users 1234 fév 15 12:00 f".encode(), "f", "file", 1234),
        ("-rw-r--r-- 1 alice users 1234 févr. 15 12:00 f".encode("latin-1"), "f", "file", 1234),
        ("-rw-r--r-- 1 alice users 1234 15 янв 12:00 f".encode(), "f", "file", 1234),
        ("-rw-r--r-- 1 alice users 1234  1月 15 12:00 f".encode(), "f", "file", 1234),
        (b"-rw-r--r-- 1 alice users 1234 xyz 15 12:00 f", "f", "file", 1234),
        # An owner, a group, or a part of the name may look like a date.
        (b"-rw-r--r-- 1 ftp 20 2048 Jan 15 12:00 f", "f", "file", 2048),
        (b"-rw-r--r-- 1 jan 20 2048 Feb 15 12:00 f", "f", "file", 2048),
        (b"-rw-r--r-- 1 a b 5 Jan 15 12:00 copy of 7 Jan 15 12:00 z", "copy of 7 Jan 15 12:00 z", "file", 5),
        (b"-rw-r--r-- 1 a b c 5 Jan 15 12:00 copy of 7 Jan 15 12:00 z", "copy of 7 Jan 15 12:00 z", "file", 5),
        ("-rw-r--r-- 1 alice users 1234 2020年 1月15日 f".encode(), "f", "file", 1234),
        (b"-rw-r--r-- 1 a b 5 2020-01-15T12:00:33Z f", "f", "file", 5),
        (b"-rw-r--r-- 1 a b 5 2020/01/15 12:00 f", "f", "file", 5),
        # A size in groups of digits, which is not the two numbers of a device.
        (b"-rw-r--r-- 1 alice users 1,234 Jan 15 12:00 f", "f", "file", 1234),
        (b"-rw-r--r-- 1 alice domain users 12,345,678 Jan 15 12:00 f", "f", "file", 12_345_678),
        (b"crw-rw-rw- 1 root root 1,   3 Jan 15 12:00 null", "null", "OS.unix=special", 0),
        # DOS, IIS.
        (b"01-15-26  12:00PM               1,234 five", "five", "file", 1234),
        (b"15.01.2026  12:00           1.234.567 five", "five", "file", 1_234_567),
        (b"01-15-26  12:00PM                1234 five", "five", "file", 1234),
        (b"01-15-2026  12:00PM                1234 five", "five", "file", 1234),
        (b"01-15-26  13:00                  1234 five six", "five six", "file", 1234),
        (b"2026-01-15  13:00                1234  led", " led", "file", 1234),
        (b"11-22-26  11:02PM       <DIR>          dos", "dos", "dir", 0),
        (b"11-22-2026  23:02       <DIR>           led", " led", "dir", 0),
        (b"11/22/2026  11:02 PM    <DIR> short", "short", "dir", 0),
        (b"11-22-26  11:02PM       <JUNCTION>     elsewhere", "elsewhere", "link", 0),
    ],
)
def test_a_line_is_read(line: bytes, name: str, kind: str, size: int) -> None:
    entry = parse_list_line(line)
    assert entry is not None
    assert (entry.name, entry.kind, entry.size) == (name, kind, size)


def test_owner_and_group_are_read_also_with_blanks() -> None:
    entry = parse_list_line(b"-rw-r--r-- 1 alice domain users 1234 Jan 15 12:00 one")
    assert entry is not None
    assert (entry.owner, entry.group) == ("alice", "domain users")


def test_a_symlink_has_the_text_of_its_target() -> None:
    entry = parse_list_line(b"lrwxrwxrwx 1 0 0 12 Nov 22 23:02 a -> b")
    assert entry is not None
    assert (entry.name, entry.kind, entry.link_target) == ("a", "link", "b")
    assert (dos := parse_list_line(b"01-15-26  12:00PM       <JUNCTION>     a [C:\\b c]")) is not None
    assert (dos.name, dos.kind, dos.link_target) == ("a", "link", "C:\\b c")


@pytest.mark.parametrize(("size", "name", "target"), [(6, "a", "b -> c"), (1, "a -> b", "c")])
def test_of_two_arrows_the_length_of_the_target_shows_the_right_one(size: int, name: str, target: str) -> None:
    entry = parse_list_line(f"lrwxrwxrwx 1 0 0 {size} Nov 22 23:02 a -> b -> c".encode())
    assert entry is not None
    assert (entry.name, entry.link_target) == (name, target)


@pytest.mark.parametrize(
    "line",
    [b"total 12", b"total 0", b"insgesamt 12K", b"Total: 1,234", b"total 0 blocks", "yhteensä 3".encode(),
     "總計 3".encode(), b"drwxr-xr-x 2 0 0 4096 Nov 22 23:02 .",
     b"drwxr-xr-x 2 0 0 4096 Nov 22 23:02 ..", b"11-22-26  11:02PM       <DIR>          ."],
)  # fmt: skip
def test_the_folder_itself_and_a_total_are_no_entries(line: bytes) -> None:
    assert parse_list_line(line) is None


@pytest.mark.parametrize(
    "line",
    [
        b"garbage", b"-rw-r--r-- 1 a b", b"-rw-r--r-- 1 a b 5 Jan 15 12:00", b"-rw-r--r-- 1 a b 5 Jan 15 12:00 ",
        b"-rw-r--r-- 1 0 0 5 Nov 22 23:02 ../../etc/passwd", b"-rw-r--r-- 1 0 0 99999999999999999999 Nov 22 23:02 big",
        b"-rw-r--r-- 1 0 0 9223372036854775808 Nov 22 23:02 big", b"-rw-r--r-- " + b"1 " * 5000,
        b"-rw-r--r-- 1 a b 5 Jan 45 12:00 f", b"-rw-r--r-- 1 a b 5 Jan 15 12:99 f", b"total files 12",
        b"-rw-r--r-- 1 a b 5 xyz 15 12:00 copy of 7 Jan 15 12:00 z", b"-rw-r--r-- a " + b"1 xx 1 1:00 " * 5000,
        b"lrwxrwxrwx 1 0 0 12 Nov 22 23:02 a -> b -> c", b"-rw-r--r-- 1 a b 1, 3 Jan 15 12:00 f",
        b"-rw-r--r-- 1 a b 1,23 Jan 15 12:00 f", b"-rw-r--r-- 1 a b 1.5K Jan 15 12:00 f",
        b"01-15-26  12:00PM       <SYMLINKD>     a [2020]", b"01-15-26  12:00PM       1,23 f",
        b"11-22-26  11:02PM                99999999999999999999 big", b"ls: cannot open directory: Permission denied",
    ],
)  # fmt: skip
def test_what_cannot_be_read_with_certainty_is_refused(line: bytes) -> None:
    with pytest.raises(FactsError):
        parse_list_line(line)


def test_a_name_without_end_is_refused() -> None:
    with pytest.raises(FaultError):
        parse_list_line(b"-rw-r--r-- 1 0 0 5 Nov 22 23:02 " + b"x" * 5000)


words = st.from_regex(r"[a-z][a-z0-9_.-]{0,11}", fullmatch=True)
names = st.binary(min_size=1, max_size=60).filter(
    lambda name: name not in (b".", b"..") and not set(name) & set(b"/\0\r")
)
dates = st.sampled_from(
    ["Jan 15 12:00", "Dec  1  2019", "15 Jan 12:00", " 1 Dec 2019", "2020-01-02 10:11", "okt 31 23:59", "3 mai 2001"]
)


@given(
    links=st.sampled_from(["", "1 ", "  27 "]),
    owner=words,
    groups=st.lists(words, max_size=2),
    size=st.integers(0, 2**63 - 1),
    date=dates,
    name=names,
)
def test_a_line_is_read_as_it_was_written_or_is_refused(
    links: str, owner: str, groups: list[str], size: int, date: str, name: bytes
) -> None:
    """Never as another file: not even where owners and groups are words like months, and names like lines."""
    line = f"-rw-r--r-- {links}{' '.join([owner, *groups])}   {size} {date} ".encode() + name
    try:
        entry = parse_list_line(line)
    except FactsError:
        return
    assert entry is not None
    assert (entry.name.encode("utf-8", "surrogateescape"), entry.size) == (name, size)


@given(st.integers(0, 2**63 - 1), names)
def test_a_line_of_dos_is_read_as_it_was_written(size: int, name: bytes) -> None:
    entry = parse_list_line(b"01-15-26  12:00PM %20d %b" % (size, name))
    assert entry is not None
    assert (entry.name.encode("utf-8", "surrogateescape"), entry.size) == (name, size)


@given(st.binary())
def test_hostile_lines_are_an_entry_or_an_error(line: bytes) -> None:
    try:
        entry = parse_list_line(line)
    except FactsError:
        return
    assert entry is None or 0 <= entry.size < 2**63
