"""Words of servers, systems and libraries, as people read them."""

from __future__ import annotations

import errno
import re
import ssl

import pytest
from hypothesis import given
from hypothesis import strategies as st

from endpoints.gridftp.commands import CommandError
from endpoints.gridftp.facts import FactsError, parse_line
from endpoints.gridftp.faults import Fault, Kind, make_fault
from endpoints.gridftp.markers import MarkerError, parse_marker
from endpoints.gridftp.ranges import RangeError, RangeSet
from endpoints.gridftp.replies import ReplyError
from identity.gsi.printable import MAX_SHOWN, error_text, quoted, readable, shown

REFUSED = ConnectionRefusedError(errno.ECONNREFUSED, "Connect call failed ('127.0.0.1', 2811)")


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (REFUSED, "Connection refused"),
        (OSError("no route"), "no route"),
        (ValueError("not a key: b'\\x00' of ['rsa']"), 'not a key: "\\x00" of ["rsa"]'),
        (ValueError("it's alice's"), "it's alice's"),
        (TimeoutError(), "TimeoutError"),
        (ssl.SSLError(1, "[SSL: WRONG_VERSION_NUMBER] wrong version number"), "[SSL: WRONG_VERSION_NUMBER]"),
    ],
)
def test_errors_of_the_system_and_of_libraries_are_reported_without_pythons_notation(
    error: Exception, words: str
) -> None:
    assert words in error_text(error)


@pytest.mark.parametrize("kind", sorted(set(Kind) - {Kind.VERIFY_CHECKSUM}))
def test_advice_promises_nothing_that_only_a_task_does(kind: Kind) -> None:
    """A listing that fails shows it, too, and is not tried again."""
    assert not re.search(
        r"(tries|tried|sent) (it )?again|cancel the task|the (file|task) goes", make_fault(kind).advice
    )


@given(st.binary(max_size=2 * MAX_SHOWN))
def test_whatever_a_server_sends_is_one_line_of_text_in_quotes(octets: bytes) -> None:
    text = shown(octets)

    assert text[0] == text[-1] == '"'
    assert len(text) <= MAX_SHOWN + 6
    assert text.isprintable() or not set(text) & set("\n\r\x00\x1b\x7f\x9b\u202e")
    text.encode()


@given(st.text(max_size=100))
def test_a_fault_holds_nothing_that_moves_the_cursor_or_turns_the_line(text: str) -> None:
    fault = Fault(Kind.UNKNOWN, advice=text, raw=text)

    for kept in (fault.advice, fault.raw, readable(text)):
        assert not set(kept) & set("\n\r\x00\x1b\x7f\x85\x9b\u2028\u202e\u2066")


def test_the_words_of_a_fault_are_bounded() -> None:
    assert len(make_fault(Kind.UNKNOWN, "x" * 10_000).raw) == 2000


def test_names_are_quoted_as_they_are() -> None:
    assert quoted("źródło 'ü'") == "\"źródło 'ü'\""
    assert quoted("a\nb\udcff") == '"a\ufffdb\ufffd"'


def test_errors_about_what_a_server_sent_hold_no_octets_of_python() -> None:
    errors: list[Exception] = [ReplyError("not a reply", b"SSH-2.0\r\n\xff"), CommandError("no", b"a\x00\xff")]
    for read in (
        lambda: parse_line(b"\xffnonsense"),
        lambda: parse_marker(111, [b"\xff nothing"]),
        lambda: parse_marker(112, [b"\xff nothing"]),
        lambda: RangeSet.parse("1-\xff"),
    ):
        with pytest.raises((FactsError, MarkerError, RangeError)) as caught:
            read()
        errors.append(caught.value)

    for error in errors:
        assert "b'" not in str(error)
        assert "\\x" not in str(error)
