"""Pools of connections that have not signed in: nobody who signs in at once is kept out, however many others come."""

from __future__ import annotations

import itertools

import pytest

from endpoints.gridftp.server.strangers import Strangers, network_of_stranger


@pytest.mark.parametrize(
    ("address", "network"),
    [
        ("192.0.2.7", "192.0.2.0/24"),
        ("::ffff:192.0.2.7", "192.0.2.0/24"),
        ("2001:db8:1:2::3", "2001:db8:1::/48"),
        ("2001:db8:1:ffff::/64", "2001:db8:1::/48"),
        ("fe80::1%eth0", "fe80::/48"),
        ("", ""),
        ("a name", "a name"),
    ],
)
def test_what_one_person_has_without_effort_is_one_network(address: str, network: str) -> None:
    assert network_of_stranger(address) == network


def test_the_oldest_of_the_network_that_has_most_gives_way() -> None:
    pool: Strangers[str] = Strangers(4)
    for name, address in (("a1", "10.0.1.1"), ("b1", "10.0.2.1"), ("a2", "10.0.1.2"), ("a3", "10.0.1.3")):
        assert pool.enter(name, address) is None
    assert pool.enter("c1", "10.0.3.1") == "a1"
    assert pool.enter("c2", "10.0.3.2") == "a2"
    assert len(pool) == 4
    assert "a1" not in pool
    assert not pool.leave("a1")
    assert pool.leave("c1")
    assert pool.enter("b2", "10.0.2.2") is None


def test_a_network_that_is_full_loses_its_own_oldest() -> None:
    pool: Strangers[int] = Strangers(100, 2)
    assert [pool.enter(number, f"10.0.0.{number}") for number in range(4)] == [None, None, 0, 1]
    assert pool.enter(9, "10.0.9.1") is None


@pytest.mark.parametrize("attackers", [1, 8, 100])
def test_a_client_that_signs_in_soon_is_never_kept_out(attackers: int) -> None:
    """Each attacker opens ten connections while an honest client signs in, and ends none."""
    pool: Strangers[tuple[str, int]] = Strangers(512, 64)
    numbers = itertools.count()
    addresses = [f"10.{number}.0.1" for number in range(attackers)]
    for address in addresses * 64:
        pool.enter((address, next(numbers)), address)
    for honest in range(50):
        client = ("honest", honest)
        pool.enter(client, f"192.0.{honest}.1")
        for address in addresses * 10 if attackers < 50 else addresses:
            assert pool.enter((address, next(numbers)), address) != client
        assert pool.leave(client)
        assert len(pool) <= 512


def test_nobody_ends_for_a_network_that_has_as_many_as_any_other() -> None:
    pool: Strangers[str] = Strangers(4)
    assert pool.next_to_go("10.0.1.1") is None
    pool.enter("a1", "10.0.1.1")
    assert pool.next_to_go("10.0.1.2") is None
    assert pool.next_to_go("10.0.2.1") == "a1"
    pool.enter("b1", "10.0.2.1")
    assert pool.next_to_go("10.0.2.1") is None


def test_networks_that_have_nobody_are_forgotten() -> None:
    pool: Strangers[int] = Strangers(10)
    for number in range(1000):
        pool.enter(number, f"10.{number % 250}.{number // 250}.1")
        pool.leave(number)
    assert pool._networks == {}
    assert pool._network_of == {}
