"""The reply parser: every cut of the bytes gives the same replies; hostile bytes end in ReplyError."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from endpoints.gridftp.replies import LINE_COST, MAX_LINE, MAX_LISTING_REPLY, MAX_REPLY, Reply, ReplyError, ReplyParser

LISTING = (
    b"150-Contents of /\r\n Type=file; 150 End.\r\n150 End.\r\n"
    b"250-Contents of /\r\n Type=file; b\r\n250 End.\r\n"
    b"550-GlobusError: v=1 c=PATH_NOT_FOUND\r\n550-GridFTP-Errno: 2\r\n550 End.\r\n226 Done\n"
)


def parse(*pieces: bytes) -> list[Reply]:
    parser = ReplyParser()
    return [reply for piece in pieces for reply in parser.feed(piece)]


def test_a_multi_line_reply_ends_at_its_own_code_and_a_blank() -> None:
    replies = parse(LISTING)
    assert [reply.code for reply in replies] == [150, 250, 550, 226]
    assert replies[0].lines == (b"Contents of /", b" Type=file; 150 End.", b"End.")
    assert replies[2].lines == (b"GlobusError: v=1 c=PATH_NOT_FOUND", b"GridFTP-Errno: 2", b"End.")


@given(st.lists(st.integers(0, len(LISTING)), max_size=20))
def test_any_cut_of_the_bytes_gives_the_same_replies(cuts: list[int]) -> None:
    edges = [0, *sorted(cuts), len(LISTING)]
    pieces = [LISTING[a:b] for a, b in itertools.pairwise(edges)]
    assert parse(*pieces) == parse(LISTING)


@given(st.binary(max_size=300))
def test_arbitrary_bytes_give_replies_or_a_typed_error(data: bytes) -> None:
    try:
        for reply in parse(data):
            assert 100 <= reply.code <= 659
    except ReplyError:
        pass


@pytest.mark.parametrize(
    "data",
    [
        b"HTTP/1.1 400 Bad Request\r\n",
        b"\r\n",
        b"22 short\r\n",
        b"999 no such code\r\n",
        b"220x\r\n",
        b"\xff\xfb\x01\r\n",
    ],
)
def test_what_is_no_reply_is_refused(data: bytes) -> None:
    with pytest.raises(ReplyError):
        parse(data)


def test_a_line_without_end_is_refused_before_it_fills_the_memory() -> None:
    with pytest.raises(ReplyError, match="without end"):
        parse(*[b"2" * 1000] * (MAX_LINE // 1000 + 2))


def test_a_reply_without_end_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("endpoints.gridftp.replies.MAX_REPLY", 10_000)
    with pytest.raises(ReplyError, match="reply without end"):
        parse(b"211-Features\r\n", *[b" " + b"x" * 100 + b"\r\n"] * 200)


@pytest.mark.parametrize("line", [b"\n", b"ab\n"])
def test_the_lines_of_a_reply_count_also_where_they_are_empty(line: bytes) -> None:
    with pytest.raises(ReplyError, match="reply without end"):
        parse(b"211-Features\n", *[line * 1000] * (1 + MAX_REPLY // LINE_COST // 1000))
    listing = ReplyParser(lambda: MAX_LISTING_REPLY)
    assert not list(listing.feed(b"250-Contents\n" + line * (2 * MAX_REPLY // LINE_COST)))


@pytest.mark.parametrize("pieces", [1, 7, 10_000])
def test_a_bare_line_feed_in_a_listing_belongs_to_a_name(pieces: int) -> None:
    """Half of a name would be another file, and its rest could end the reply."""
    data = b"250-Contents\r\n Type=file; two\nlines\r\n Type=file; x\n250 End\r\n Type=file; y\r\n250 End\r\n"
    parser = ReplyParser(lambda: MAX_LISTING_REPLY)
    [reply] = [one for at in range(0, len(data), pieces) for one in parser.feed(data[at : at + pieces])]
    assert reply.lines[1:-1] == (b" Type=file; two\nlines", b" Type=file; x\n250 End", b" Type=file; y")


def test_a_server_may_end_its_lines_with_a_line_feed_alone() -> None:
    parser = ReplyParser(lambda: MAX_LISTING_REPLY)
    [reply] = parser.feed(b"250-Contents\n Type=file; a\n Type=file; b\n250 End\n")
    assert len(reply.lines) == 4
    [banner] = ReplyParser().feed(b"220-Welcome\r\nto this\n220 server\r\n")
    assert banner.lines == (b"Welcome", b"to this", b"server")
