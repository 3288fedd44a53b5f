"""Commands: what may become a line on the wire, and addresses in replies."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from endpoints.gridftp.commands import (
    CommandError,
    encode,
    format_extended,
    format_host_port,
    parse_extended_port,
    parse_host_port,
)


@given(st.binary(max_size=200))
def test_a_command_is_always_exactly_one_line(argument: bytes) -> None:
    try:
        line = encode("STOR", argument)
    except CommandError:
        assert any(octet < 32 or octet == 127 for octet in argument)
    else:
        assert line.endswith(b"\r\n")
        assert line.count(b"\n") == line.count(b"\r") == 1
        assert b"\0" not in line


@pytest.mark.parametrize("verb", ["", "stor", "STOR x", "A", "STOR\r\n", "TOOLONGVERB"])
def test_what_is_no_verb_is_refused(verb: str) -> None:
    with pytest.raises(CommandError):
        encode(verb)


@given(st.ip_addresses(v=4), st.integers(1, 65535))
def test_a_data_address_survives_the_way_through_port(address: object, port: int) -> None:
    assert parse_host_port(b"Entering Passive Mode (" + format_host_port(str(address), port) + b")") == (
        str(address),
        port,
    )


@pytest.mark.parametrize("text", [b"", b"(1,2,3,4,5)", b"(256,0,0,1,1,1)", b"(1,2,3,4,5,999)"])
def test_a_data_address_that_is_none_is_refused(text: bytes) -> None:
    with pytest.raises(CommandError):
        parse_host_port(text)


def test_extended_forms_follow_rfc_2428() -> None:
    assert parse_extended_port(b"Entering Extended Passive Mode (|||6446|)") == 6446
    assert format_extended("::1", 6446) == b"|2|::1|6446|"
    assert format_extended("10.0.0.1", 6446) == b"|1|10.0.0.1|6446|"
    for text in (b"(|||0|)", b"(|||65536|)", b"(||6446|)", b""):
        with pytest.raises(CommandError):
            parse_extended_port(text)
