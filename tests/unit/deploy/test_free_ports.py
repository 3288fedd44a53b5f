"""Ports are given to one process at a time."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from deploy.stack import free_ports
from deploy.stack.free_ports import RESERVED_AT_ONCE, free_port, is_free


@pytest.fixture
def few_ports(monkeypatch: pytest.MonkeyPatch) -> range:
    """Ports that this process alone chooses from."""
    first = free_port()
    monkeypatch.setattr(free_ports, "_FREE_PORTS", (first + 1, first + 200))
    return range(first + 1, first + 200)


def test_no_port_is_given_twice(few_ports: range) -> None:
    given = [free_port() for _ in range(RESERVED_AT_ONCE)]
    assert len(set(given)) == len(given)
    assert all(port in few_ports and is_free(port) for port in given)


def test_another_process_is_not_given_ours(few_ports: range) -> None:
    ours = {free_port() for _ in range(RESERVED_AT_ONCE)}
    script = (
        "from deploy.stack import free_ports\n"
        f"free_ports._FREE_PORTS = ({few_ports.start}, {few_ports.stop})\n"
        f"print(*(free_ports.free_port() for _ in range({RESERVED_AT_ONCE})))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True)
    theirs = {int(port) for port in done.stdout.split()}
    assert len(theirs) == RESERVED_AT_ONCE
    assert not ours & theirs


def test_reservations_take_a_bounded_number_of_files() -> None:
    for _ in range(RESERVED_AT_ONCE):
        free_port()
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(RESERVED_AT_ONCE):
        free_port()
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_forked_child_closes_no_file_for_a_port_of_its_parent() -> None:
    free_port()
    child = os.fork()
    if child == 0:
        os._exit(len(free_ports._reservations))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
