"""Entries of the operator's setting that opens the address gate."""

from __future__ import annotations

from ipaddress import ip_address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from endpoints.addresses.openings import AllowedTarget, opened, parse_openings


@pytest.mark.parametrize(
    ("text", "inside", "outside"),
    [
        ("10.1.0.0/16", ("10.1.255.255", 1), ("10.2.0.0", 1)),
        ("127.0.0.1", ("127.0.0.1", 65535), ("127.0.0.2", 65535)),
        ("127.0.0.1/32:5061", ("127.0.0.1", 5061), ("127.0.0.1", 5062)),
        ("10.2.0.0/16:2811-2813", ("10.2.3.4", 2813), ("10.2.3.4", 2814)),
        ("fd00::/8", ("fdff::1", 22), ("fe00::1", 22)),
        ("::1", ("::1", 22), ("::2", 22)),
        ("[fd00::/8]", ("fd00::1", 2811), ("10.1.0.1", 2811)),
        ("[fd00::/8]:2811", ("fd00::1", 2811), ("fd00::1", 2812)),
        ("[::1]:1-65535", ("::1", 1), ("::2", 1)),
        (" 10.0.0.1:80 , ,10.0.0.2:81,", ("10.0.0.2", 81), ("10.0.0.2", 80)),
        # An IPv4 address in the clothes of an IPv6 one is no IPv4 address.
        ("127.0.0.0/8", ("127.0.0.1", 1), ("::ffff:127.0.0.1", 1)),
    ],
)
def test_an_entry_opens_what_it_says(text: str, inside: tuple[str, int], outside: tuple[str, int]) -> None:
    openings = parse_openings(text)
    assert opened(ip_address(inside[0]), inside[1], openings)
    assert not opened(ip_address(outside[0]), outside[1], openings)


@pytest.mark.parametrize(
    "text",
    [
        "10.0.0.1/8", "localhost", "10.0.0.0/8:", "10.0.0.0/8:0", "10.0.0.0/8:65536", "10.0.0.0/8:9-8", "10.0.0.0/8:1-",
        "10.0.0.0/8:-1", "10.0.0.0/8:1:2", "[10.0.0.1", "[::1]2811", "[::1]:", "[]:5", "[::1]:1-2-3", "::1/128:22",
        "10.0.0.1:\u0661", "10.0.0.1: 80", "*",
    ],
)  # fmt: skip
def test_what_is_no_entry_is_refused_by_its_text(text: str) -> None:
    with pytest.raises(ValueError) as refused:
        parse_openings(f"127.0.0.1,{text}")
    assert text in str(refused.value)


@given(st.text(alphabet="0123456789.:/[]-,ab ", max_size=30))
def test_whatever_is_written_is_refused_or_read_as_ports_of_networks(text: str) -> None:
    try:
        openings = parse_openings(text)
    except ValueError:
        return
    for opening in openings:
        assert 1 <= opening.first <= opening.last <= 65535
        assert opening == AllowedTarget(opening.network, opening.first, opening.last)
