"""Laptops behind NATs of network namespaces, 20 ms from a server and from the service: files to it, from it and between
them, a laptop that falls asleep in a large file, and an ssh account whose firewall lets nothing in but ssh.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from bench.connect.journeys import End, Surroundings, asleep, two_laptops
from bench.connect.ssh import account_endpoint
from bench.wan.datasets import DataSet
from bench.wan.ssh import ssh_server
from tests.gridftp.ssh_grid import NEEDS_SSHD
from tests.gridftp.toolkit import hand_over

POSSIBLE = (
    os.geteuid() == 0 and Path("/dev/net/tun").exists() and all(shutil.which(name) for name in ("ip", "nft", "cc"))
)
pytestmark = [
    pytest.mark.toolkit,
    pytest.mark.skipif(not POSSIBLE, reason="needs root, /dev/net/tun, ip, nft and a C compiler"),
]
MIXED = DataSet("mixed", 20, 8 * 10**6)
LARGE = DataSet("large", 1, 64 * 10**6)
#: So slow that the large file takes seconds, and that a laptop falls asleep in the middle of it.
RATE = 200e6
SLEEP_SECONDS = 8.0
#: A host accepts connections to ssh, and answers. The rest is dropped, and a source gives up after 20 s.
ONLY_SSH = """
table inet only_ssh {
    chain in { type filter hook input priority 0; policy drop; ct state established,related accept;
        iifname "lo" accept; tcp dport 22 accept; }
}"""


@pytest.fixture(scope="module")
def there(give_schema: Callable[[Path], object]) -> Iterator[Surroundings]:
    with two_laptops(rtt=20.0, rate=RATE, before=give_schema) as made:
        yield made


def filled(end: End, data: DataSet) -> End:
    end.folder.rmdir()
    data.make(end.folder)
    return end


def moved(
    there: Surroundings, source: End, destination: End, meanwhile: Any = None
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The task and its events, when all files have arrived by their hashes."""
    before = there.journeys.failed
    task = there.journeys.go("a journey", source, destination, meanwhile)
    events = there.journeys.events(task)
    assert there.journeys.failed == before, (task, events)
    return task, events


def test_a_laptop_behind_a_nat_sends_to_a_server_and_receives_from_it(there: Surroundings) -> None:
    sent = filled(there.journeys.on(there.first, "mixed"), MIXED)
    server = there.journeys.server(there.server, "mixed")
    for source, destination in ((sent, server), (server, there.journeys.on(there.first, "back"))):
        task, _ = moved(there, source, destination)
        assert (task["data_way"], task["faults"]) == ("direct", 0)


def test_two_laptops_behind_two_nats_are_relayed(there: Surroundings) -> None:
    source = filled(there.journeys.on(there.first, "between"), MIXED)
    task, _ = moved(there, source, there.journeys.on(there.second, "between"))
    assert (task["data_way"], task["data_protection"], task["faults"]) == ("relayed", "encrypted", 0)


def test_a_laptop_that_sleeps_and_wakes_elsewhere_in_a_file_that_it_sends(there: Surroundings) -> None:
    source = filled(there.journeys.on(there.first, "large"), LARGE)
    server = there.journeys.server(there.server, "large")
    is_told_once(*moved(there, source, server, asleep(there.first, server.folder, SLEEP_SECONDS, LARGE.size)))


def test_a_laptop_that_sleeps_and_wakes_elsewhere_in_a_file_that_it_receives(there: Surroundings) -> None:
    server = filled(there.journeys.server(there.server, "received"), LARGE)
    hand_over(server.folder, stop_at=there.journeys.root.parent)
    here = there.journeys.on(there.second, "received")
    is_told_once(*moved(there, server, here, asleep(there.second, here.folder, SLEEP_SECONDS, LARGE.size)))


def is_told_once(task: dict[str, Any], events: list[dict[str, Any]]) -> None:
    """No storm: the absence is one event, and no error."""
    codes = [event["code"] for event in events]
    assert codes.count("GC_NOT_CONNECTED") == 1, codes
    assert task["faults"] == 0, codes
    assert not any(event["is_error"] for event in events), codes


@NEEDS_SSHD
def test_the_data_of_an_ssh_account_whose_host_lets_in_ssh_only_go_through_ssh(
    there: Surroundings, tmp_path: Path
) -> None:
    host = there.net.destination
    subprocess.run([*host.prefix, "nft", "-f", "-"], input=ONLY_SSH, text=True, check=True)
    with ssh_server(there.net, host, tmp_path / "ssh"):
        account = account_endpoint(there.journeys.api, host, tmp_path / "ssh")
        source = filled(there.journeys.server(there.server, "to-account"), MIXED)
        hand_over(source.folder, stop_at=there.journeys.root.parent)
        folder = there.journeys.root / "account"
        folder.mkdir()
        _, events = moved(there, source, End(account, f"{folder}/", folder))
    ways = [event["details"] for event in events if event["code"] == "DATA_WAY"]
    assert "could not connect directly" in ways[-1]
    assert "through ssh" in ways[-1]
