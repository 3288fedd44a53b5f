"""The address gate on hostile forms of addresses, and on names that answer what they should not."""

from __future__ import annotations

import socket
import threading
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from endpoints.addresses.gate import (
    LookupFailedError,
    TargetRefusedError,
    addresses_of,
    check_address,
    resolve_target,
    valid_host,
)
from endpoints.addresses.openings import parse_openings
from endpoints.addresses.special_addresses import forbidden_kind

LOOPBACK = parse_openings("127.0.0.0/8")

FORBIDDEN = {
    "127.0.0.1": "loopback",
    "127.255.255.254": "loopback",
    "::1": "loopback",
    "0.0.0.0": "unspecified",
    "::": "unspecified",
    "169.254.169.254": "link-local",
    "fe80::1": "link-local",
    "fec0::1": "link-local",
    "224.0.0.1": "multicast",
    "ff02::1": "multicast",
    "::ffff:127.0.0.1": "translated",
    "::ffff:8.8.8.8": "translated",
    "::7f00:1": "translated",
    "2002:7f00:1::": "translated",
    "64:ff9b::7f00:1": "translated",
    "2001:0:7f00:1::": "translated",
    "10.0.0.1": "private",
    "172.16.0.1": "private",
    "192.168.1.1": "private",
    "0.1.2.3": "reserved",
    "192.0.0.192": "reserved",
    "198.18.0.1": "private",
    "192.0.2.1": "documentation",
    "fd00::1": "private",
    "2001:db8::1": "documentation",
    "100.64.0.1": "private",
    "255.255.255.255": "broadcast",
    "3fff::1": "documentation",
    "5f00::1": "reserved",
    "4000::1": "reserved",
}
NOT_ADDRESSES = [
    "0177.0.0.1", "127.1", "127.0.1", "2130706433", "0x7f000001", "0x7f.1", "127.0.0.0x1", "127.0.0.1.", "1.2.3.04",
    "[::1]", "[::]", "fe80::1%eth0", "8.8.8.8%eth0", "١٢٧.0.0.1", "127。0。0。1", "", " ", "localhost",
    "8.8.8.8 ", "\n8.8.8.8",
]  # fmt: skip
NOT_HOSTS = [
    *(word for word in NOT_ADDRESSES if word not in ("localhost",)),
    "-a.example", "a-.example", "a..example", ".example", "a b", "a/b", "a@b", "a:80", "a#b", "a?b", "exa\0mple",
    "a\r\nb",
    "b\u00fccher.example", "a" * 64 + ".example", ".".join(["a" * 60] * 5), "1.2.3.4.5", "example.0x10", "example.123",
]  # fmt: skip


def answering(*addresses: str) -> Any:
    """A resolver that gives these addresses for every name."""

    def resolver(host: str, port: int, **_: object) -> list[Any]:
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port)) for address in addresses]

    return resolver


@pytest.mark.parametrize("address", ["8.8.8.8", "2001:4860:4860::8888", "141.2.3.4"])
def test_a_public_address_passes(address: str) -> None:
    assert check_address(address, 2811) == address
    assert resolve_target(address, 2811) == [address]


@pytest.mark.parametrize(("address", "kind"), FORBIDDEN.items())
def test_an_inner_address_is_refused_and_the_reason_names_its_kind(address: str, kind: str) -> None:
    with pytest.raises(TargetRefusedError) as refused:
        resolve_target(address, 2811)
    assert kind in refused.value.reason
    assert refused.value.host == address


@pytest.mark.parametrize("address", NOT_ADDRESSES)
def test_what_only_some_resolvers_take_for_an_address_is_none(address: str) -> None:
    with pytest.raises(TargetRefusedError):
        check_address(address, 2811, LOOPBACK)


@pytest.mark.parametrize("host", NOT_HOSTS)
def test_what_is_no_host_name_is_refused_before_it_is_looked_up(host: str) -> None:
    assert not valid_host(host)
    with pytest.raises(TargetRefusedError):
        resolve_target(host, 2811, allow=LOOPBACK, resolver=answering("8.8.8.8"))


@pytest.mark.parametrize(
    "host", ["localhost", "dtn1.example.org", "dtn-1.example.org.", "a_b.example", "xn--bcher-kva.example"]
)
def test_host_names_are_host_names(host: str) -> None:
    assert valid_host(host)


@pytest.mark.parametrize("port", [0, -1, 65536])
def test_a_port_that_is_none_is_refused(port: int) -> None:
    with pytest.raises(TargetRefusedError):
        resolve_target("8.8.8.8", port)


def test_an_allowed_network_lets_its_addresses_pass_and_no_others() -> None:
    assert resolve_target("127.0.0.1", 2811, allow=LOOPBACK) == ["127.0.0.1"]
    for address in ("::1", "::ffff:127.0.0.1", "10.0.0.1"):
        with pytest.raises(TargetRefusedError):
            resolve_target(address, 2811, allow=LOOPBACK)


def test_a_real_name_of_this_machine_is_refused() -> None:
    with pytest.raises(TargetRefusedError) as refused:
        resolve_target("localhost", 2811)
    assert "loopback" in refused.value.reason


def test_a_name_is_given_as_the_addresses_of_one_look_up() -> None:
    found = resolve_target("dtn.example.org", 2811, resolver=answering("8.8.8.8", "8.8.4.4", "8.8.8.8"))
    assert found == ["8.8.8.8", "8.8.4.4"]


def test_one_inner_address_among_others_refuses_the_name() -> None:
    with pytest.raises(TargetRefusedError):
        resolve_target("dtn.example.org", 2811, resolver=answering("8.8.8.8", "192.168.0.1"))


def test_a_name_without_an_address_is_a_failed_look_up() -> None:
    def nothing(*_: object, **__: object) -> list[Any]:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    with pytest.raises(LookupFailedError):
        resolve_target("nothing.example.org", 2811, resolver=nothing)


def test_a_look_up_that_hangs_ends_at_its_time_limit() -> None:
    end = threading.Event()

    def hanging(*_: object, **__: object) -> list[Any]:
        end.wait(30)
        return []

    with pytest.raises(LookupFailedError) as failed:
        resolve_target("slow.example.org", 2811, timeout=0.01, resolver=hanging)
    end.set()
    assert "0.01 s" in failed.value.reason


@given(st.text(max_size=40))
def test_no_text_passes_the_gate_but_public_addresses(text: str) -> None:
    try:
        found = check_address(text, 2811)
    except TargetRefusedError:
        return
    assert found not in FORBIDDEN


@given(st.ip_addresses())
def test_every_address_that_passes_is_global(address: Any) -> None:
    try:
        check_address(str(address), 2811)
    except TargetRefusedError:
        return
    assert not forbidden_kind(address)
    assert not address.is_multicast
    assert not address.is_loopback
    assert not address.is_link_local


def test_what_is_opened_is_a_port_of_an_address() -> None:
    samples = parse_openings("127.0.0.1:5061,127.0.0.1:5062")
    assert resolve_target("127.0.0.1", 5061, allow=samples) == ["127.0.0.1"]
    assert resolve_target("localhost", 5062, allow=samples, resolver=answering("127.0.0.1")) == ["127.0.0.1"]
    for host, port in (("127.0.0.1", 6379), ("127.0.0.1", 5060), ("127.0.0.2", 5061), ("::1", 5061)):
        with pytest.raises(TargetRefusedError, match=f"port {port}"):
            resolve_target(host, port, allow=samples)


def test_the_addresses_of_a_name_are_given_for_comparison_whatever_the_gate_says_of_them() -> None:
    assert addresses_of("dtn.example.org", resolver=answering("8.8.8.8", "10.0.0.1")) == {"8.8.8.8", "10.0.0.1"}
    assert addresses_of("10.0.0.1") == {"10.0.0.1"}
    with pytest.raises(TargetRefusedError):
        addresses_of("0177.0.0.1")
