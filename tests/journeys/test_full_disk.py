"""`make up` on a disk that is full: what cannot start names the folder, and what runs goes on."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import IO

import pytest

from deploy.stack.account import own_account
from tests.waiting import eventually, is_alive

from .test_make_up import Waybill

pytestmark = [
    pytest.mark.timeout(400),
    pytest.mark.skipif(os.geteuid() != 0, reason="only root mounts a disk of its own"),
]
FILLER = "filler"


@pytest.fixture
def disk() -> Iterator[Callable[[int], Waybill]]:
    """`disk(MB)`: an instance whose home is alone on a disk of that size."""
    with tempfile.TemporaryDirectory(prefix="waybill-", ignore_cleanup_errors=True) as folder:
        Path(folder).chmod(0o711)
        home = Path(folder) / "home"
        home.mkdir()
        made: list[Waybill] = []

        def make(size: int) -> Waybill:
            account = own_account()
            options = f"size={size}m,mode=700,uid={account.pw_uid},gid={account.pw_gid}"
            subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", home], check=True, timeout=30)
            made.append(Waybill(home))
            return made[-1]

        try:
            yield make
        finally:
            for waybill in made:
                if waybill.process is not None:
                    waybill.stop(signal.SIGTERM)
                subprocess.run(["umount", "--lazy", home], check=True, timeout=30)


def write_on(file: IO[bytes], size: int) -> None:
    while file.write(b"x" * size):
        pass


def fill(home: Path) -> None:
    """Until no octet is free."""
    with (home / FILLER).open("ab", buffering=0) as file:
        for size in (1 << 20, 1):
            with pytest.raises(OSError, match="No space left on device"):
                write_on(file, size)


@pytest.mark.parametrize("size", [1, 16, 48, 100])
def test_a_disk_that_is_too_small_is_named(disk: Callable[[int], Waybill], size: int) -> None:
    """The keys, the sample, the database and its tables need more and more."""
    waybill = disk(size)
    if size == 1:
        fill(waybill.home)
    refused = waybill.run("up")
    assert refused.returncode == 1
    told = refused.stderr
    assert "No space left on device" in told or "no space is left for" in told, told
    assert str(waybill.home) in told
    assert "Traceback" not in told


def test_a_full_disk_does_not_end_what_runs(disk: Callable[[int], Waybill]) -> None:
    waybill = disk(700)
    waybill.up()
    waybill.read_until("Ctrl-C here")
    before = waybill.pids()
    supervisor = before["supervisor"]
    fill(waybill.home)
    for name in ("ep1", "redis", "relay", "postgres"):
        os.kill(before[name], signal.SIGKILL)
    eventually(lambda: not is_alive(before["postgres"]))
    # Long enough for a database that cannot be started, which is tried again and again.
    for name in ("shell", "worker1"):
        os.kill(before[name], signal.SIGKILL)
        waybill.read_until(f"  {name} ended with")
        assert is_alive(supervisor)
    (waybill.home / FILLER).unlink()
    for name in ("ep1", "redis", "relay", "postgres", "shell", "worker1"):
        eventually(partial(waybill.is_whole_again, before.keys(), name, before[name]), seconds=120)
    eventually(lambda: waybill.run("token", "demo").returncode == 0)
    assert waybill.pids()["supervisor"] == supervisor
    assert waybill.stop(signal.SIGINT) == 0
