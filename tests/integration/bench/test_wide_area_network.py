"""The network of the wide-area benchmark: its lines delay, drop and lose packets, and nothing of it stays behind."""

from __future__ import annotations

import hashlib
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.wan.network import Network
from tests.waiting import eventually

POSSIBLE = os.geteuid() == 0 and Path("/dev/net/tun").exists() and shutil.which("ip") and shutil.which("cc")
pytestmark = [
    pytest.mark.nightly,
    pytest.mark.skipif(not POSSIBLE, reason="needs root, /dev/net/tun, ip and a C compiler"),
]

CONTENT = random.Random(1).randbytes(8_000_000)


@pytest.fixture(scope="module")
def net() -> Iterator[Network]:
    with Network() as network:
        yield network


def listener(net: Network) -> socket.socket:
    with net.inside("destination"):
        return socket.create_server((net.destination.address, 0))


def connect(net: Network, server: socket.socket) -> socket.socket:
    with net.inside("source"):
        return socket.create_connection(server.getsockname(), timeout=10)


def received(server: socket.socket, into: list[str]) -> None:
    found = hashlib.sha256()
    connection, _ = server.accept()
    with connection:
        while piece := connection.recv(1 << 20):
            found.update(piece)
    into.append(found.hexdigest())


def content_arrives(net: Network) -> bool:
    """Over one connection, from source to destination."""
    hashes: list[str] = []
    with listener(net) as server:
        reader = threading.Thread(target=received, args=(server, hashes))
        reader.start()
        with connect(net, server) as connection:
            connection.sendall(CONTENT)
        reader.join(60)
    return hashes == [hashlib.sha256(CONTENT).hexdigest()]


@pytest.mark.parametrize("rtt_ms", [5, 80])
def test_a_connection_takes_a_round_trip_of_the_line_as_it_is_now(net: Network, rtt_ms: int) -> None:
    net.shape(rtt_ms=rtt_ms)
    with listener(net) as server:
        begun = time.monotonic()
        connect(net, server).close()
        assert time.monotonic() - begun >= rtt_ms / 1000


def test_hosts_use_the_congestion_control_of_the_benchmark(net: Network) -> None:
    with listener(net) as server, connect(net, server) as connection:
        name = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16)
        assert name.rstrip(b"\0") == b"cubic"


def test_an_undisturbed_line_drops_nothing_and_counts_every_segment(net: Network) -> None:
    net.shape(rtt_ms=0.6, queue=50_000_000)
    assert content_arrives(net)
    counts = net.counts()
    assert (counts.dropped, counts.lost) == (0, 0)
    assert counts.segments >= len(CONTENT) / 1448
    assert counts.octets >= len(CONTENT) + counts.segments * 40


def test_lost_segments_are_cut_out_of_larger_packets_and_the_rest_is_whole(net: Network) -> None:
    net.shape(rtt_ms=0.6, loss=0.01)
    assert content_arrives(net)
    assert 20 < net.counts().lost < 200


def test_a_full_queue_drops_the_segments_that_it_has_no_room_for(net: Network) -> None:
    net.shape(rtt_ms=5, queue=40_000)
    assert content_arrives(net)
    assert net.counts().dropped > 0


def test_names_resolve_on_every_host(net: Network) -> None:
    process = net.run_in("source", ["getent", "hosts", "destination"], stdout=subprocess.PIPE, text=True)
    assert net.destination.address in process.communicate(timeout=10)[0]


ENDLESS = """
from bench.wan.network import Network
with Network() as net:
    net.run_in("source", ["sleep", "600"])
    print(net.source.namespace, flush=True)
    input()
"""


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_nothing_stays_behind_however_the_process_ends(how: signal.Signals) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", ENDLESS],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert process.stdout is not None
    namespace = process.stdout.readline().strip()
    assert Path("/run/netns", namespace).exists()
    process.send_signal(how)
    process.communicate(timeout=20)
    eventually(lambda: not Path("/etc/netns", namespace).exists())
    assert not Path("/run/netns", namespace).exists()
