"""The lines of a listing: all of them are read, or the listing is a fault that quotes the first that is not."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from endpoints.gridftp.faults import FaultError, Kind, reported_shortfall, says_nothing_there
from endpoints.gridftp.listing import Allowance, EntryReader, LineSplitter
from endpoints.gridftp.replies import Reply
from endpoints.gridftp.requests.list_lines import may_begin, parse_list_line


class Shown(Allowance):
    partial = True


def read(lines: Sequence[bytes], allowance: Allowance, *, by_list: bool = False) -> list[str]:
    """The names of a listing that arrives line by line. Raises FaultError."""
    forms = (parse_list_line, may_begin) if by_list else ()
    reader = EntryReader(b"/folder", allowance, *forms)
    found = [entry.name for line in lines for entries in reader.read([line]) for entry in entries]
    found += [entry.name for entry in reader.end()]
    allowance.end()
    return found


A, B = b"Type=file;Size=1; a", b"Type=file;Size=1; b"


@pytest.mark.parametrize(
    ("lines", "left"),
    [
        ([b"Type=file;Size=99999999999999999999; huge", A], ["a"]),
        ([A, b"Type=file;Size=x; wrong", B], ["a", "b"]),
        ([A, b"Type=file;Size=1;", B], ["a", "b"]),
        ([b"garbage", A], ["a"]),
        # A line without facts may be the rest of the name before it, which is then no name.
        ([A, b"garbage", B], ["b"]),
        ([A, B, b"garbage"], ["a"]),
    ],
)
def test_a_line_of_facts_that_cannot_be_read_is_a_fault_that_quotes_it(lines: list[bytes], left: list[str]) -> None:
    with pytest.raises(FaultError) as caught:
        read(lines, Allowance())
    fault = caught.value.fault
    assert (fault.kind, fault.retryable) == (Kind.ENDPOINT_ERROR, False)
    assert any(word in fault.raw for word in ("huge", "wrong", "Size=1;", "garbage"))
    assert "/folder" in fault.raw
    shown = Shown()
    assert read(lines, shown) == left
    assert shown.incomplete == fault


def test_a_line_of_list_that_cannot_be_read_is_a_fault_that_quotes_it() -> None:
    good = b"-rw-r--r-- 1 a b 5 Jan 15 12:00 "
    lines = [b"total 3", good + b"one", b"", b"-rw-r--r-- what is this", good + b"two"]
    with pytest.raises(FaultError, match="what is this"):
        read(lines, Allowance(), by_list=True)
    assert read(lines, Shown(), by_list=True) == ["one", "two"]


def test_a_fault_quotes_a_part_of_a_long_line_in_characters_that_can_be_shown() -> None:
    with pytest.raises(FaultError) as caught:
        read([b"\x1b[31m\x00" + b"x" * 50_000], Allowance())
    assert len(caught.value.fault.raw) < 1000
    assert caught.value.fault.raw.isprintable()


def test_blank_lines_and_the_folder_itself_are_passed_over() -> None:
    lines = [b"", b"Type=cdir; .", b"Type=pdir; ..", b" ", A, b"\t", B]
    assert read(lines, Allowance()) == ["a", "b"]


names = st.binary(min_size=1, max_size=20).filter(lambda name: b"\r" not in name and b"\0" not in name)


@given(st.lists(names, min_size=1), st.lists(st.integers(0, 400)))
def test_lines_are_the_same_however_they_arrive(contents: list[bytes], cuts: list[int]) -> None:
    """Also names with a line feed, once an end of line was seen."""
    data = b"first\r\n" + b"".join(line + b"\r\n" for line in contents)
    splitter = LineSplitter()
    marks = sorted({7, *(min(7 + cut, len(data)) for cut in cuts), len(data)})
    found = [line for start, end in pairwise([0, *marks]) for line in splitter.feed(data[start:end])]
    assert found == [b"first", *contents]
    assert splitter.rest == b""


def test_lines_may_end_with_a_line_feed_alone() -> None:
    splitter = LineSplitter()
    assert [*splitter.feed(b"one\ntw"), *splitter.feed(b"o\nthr")] == [b"one", b"two"]
    assert splitter.rest == b"thr"


@pytest.mark.parametrize(
    "text",
    ["Output truncated to 500 matches", "Options: -a -l \nOutput truncated to 500 matches", "501 matches total",
     "Listing truncated", "Transfer complete. 700 files", "500 of 700 entries", "Partial listing sent.",
     "700 entries listed."],
)  # fmt: skip
def test_a_final_reply_that_speaks_of_more_than_arrived_is_seen(text: str) -> None:
    assert reported_shortfall(Reply(226, tuple(text.encode().split(b"\n"))), 500)


@pytest.mark.parametrize(
    "text",
    ["Transfer complete", "Directory send OK.", "500 matches total", "Options: -a -l \n500 matches total",
     "2 matches total", "Transfer complete. 70000 bytes sent, 700 KB/s", "Closing data connection, 12345 octets",
     "You have 900 files left of your quota"],
)  # fmt: skip
def test_a_final_reply_that_agrees_is_no_fault(text: str) -> None:
    assert not reported_shortfall(Reply(226, tuple(text.encode().split(b"\n"))), 500)


@pytest.mark.parametrize(
    ("code", "text", "nothing"),
    [
        (550, "No files found.", True), (450, "No files found", True), (550, "/in: No such file or directory", True),
        (550, "Directory is empty", True), (450, "File not found", True), (550, "Permission denied", False),
        (450, "Requested file action not taken", False), (451, "No files found", False), (425, "nothing", False),
    ],
)  # fmt: skip
def test_what_servers_say_of_an_empty_folder_is_distinguished_from_other_refusals(
    code: int, text: str, nothing: bool
) -> None:
    assert says_nothing_there(Reply(code, (text.encode(),))) is nothing
