"""The registries of special addresses: each row is looked at from inside, and from both sides of it."""

from __future__ import annotations

from ipaddress import ip_address

import pytest

from endpoints.addresses.special_addresses import OTHERS, REGISTRY, Address, AddressBlock, forbidden_kind

ROWS = (*REGISTRY, *OTHERS)


def expected(address: Address) -> str:
    """The kind of the address by a second implementation: the narrowest row that contains the address decides."""
    holding = sorted((row.network.prefixlen, row.reachable, row.kind) for row in ROWS if address in row.network)
    return "" if not holding or holding[-1][1] else holding[-1][2]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: str(row.network))
def test_a_row_holds_from_its_first_to_its_last_address(row: AddressBlock) -> None:
    first, last = int(row.network.network_address), int(row.network.broadcast_address)
    kind = type(row.network.network_address)
    for number in (first - 1, first, (first + last) // 2, last, last + 1):
        if 0 <= number < 2**row.network.max_prefixlen:
            address = kind(number)
            assert forbidden_kind(address) == expected(address), address
    narrower = [other for other in ROWS if other is not row and other.network.version == row.network.version]
    inner = [other for other in narrower if other.network.prefixlen > row.network.prefixlen]
    if not any(row.network.network_address in other.network for other in inner):
        assert bool(forbidden_kind(row.network.network_address)) is not row.reachable


@pytest.mark.parametrize(
    ("address", "kind"),
    [
        ("192.0.0.192", "reserved"), ("192.0.0.8", "reserved"), ("192.0.0.9", ""), ("192.0.0.10", ""),
        ("192.0.0.11", "reserved"), ("192.0.0.170", "translated"), ("192.31.196.1", ""), ("192.88.99.1", "translated"),
        ("198.19.255.255", "private"), ("198.20.0.0", ""), ("223.255.255.255", ""), ("224.0.0.0", "multicast"),
        ("239.255.255.255", "multicast"), ("240.0.0.0", "reserved"), ("2001:1::1", ""), ("2001:1::4", "reserved"),
        ("2001:db8:ffff::", "documentation"), ("2001:200::1", ""), ("64:ff9b::7f00:1", "translated"),
        ("1fff:ffff::", "reserved"), ("2606:4700::1", ""), ("3fff:fff::", "documentation"), ("4000::", "reserved"),
        ("100::1", "reserved"), ("100:0:0:1::1", "reserved"), ("5f00::1", "reserved"), ("fec0::1", "link-local"),
    ],
)  # fmt: skip
def test_a_sample_by_hand(address: str, kind: str) -> None:
    assert forbidden_kind(ip_address(address)) == kind


def test_no_row_stands_there_twice() -> None:
    assert len({row.network for row in ROWS}) == len(ROWS)
    assert all(row.rfc.startswith("RFC ") for row in ROWS)
