"""Range markers name what is on the disk: the kernel's call for that is replaced by one that a test lets go on."""

from __future__ import annotations

import errno
import fcntl
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from endpoints.gridftp.markers import SYNCED_FROM, parse_marker
from endpoints.gridftp.ranges import RangeSet
from endpoints.gridftp.server.data import disk_sync, progress
from endpoints.gridftp.server.data.disk_sync import DiskSync
from endpoints.gridftp.server.data.progress import MarkerIntervals, MarkerWriter
from tests.waiting import eventually


class Disk:
    """Stands for fdatasync(2). `may_end`: whether a call returns; `error`: what it raises then."""

    def __init__(self) -> None:
        self.calls = 0
        self.may_end = threading.Event()
        self.may_end.set()
        self.error: OSError | None = None

    def __call__(self, fd: int) -> None:
        os.fstat(fd)  # it is open still
        self.calls += 1
        assert self.may_end.wait(20)
        if self.error:
            raise self.error


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Iterator[Disk]:
    disk = Disk()
    monkeypatch.setattr(disk_sync, "_sync", disk)
    monkeypatch.setattr(disk_sync, "_F_FULLFSYNC", None)
    yield disk
    disk.may_end.set()


@pytest.fixture
def fd(tmp_path: Path) -> Iterator[int]:
    number = os.open(tmp_path / "file", os.O_WRONLY | os.O_CREAT)
    yield number
    os.close(number)


class Markers:
    """A file that is received, and the markers that the client gets."""

    def __init__(self, fd: int, *, interval: float = 1.0, part: bool = False) -> None:
        self.told: list[RangeSet] = []
        self.disk = DiskSync(fd)
        self.writer = MarkerWriter(self._say, MarkerIntervals(interval, 0), self.disk, part=part)
        self.now = self.writer._next_restart

    def _say(self, reply: bytes) -> None:
        self.told.append(parse_marker(111, [reply.removeprefix(b"111 ").rstrip()]).ranges)  # type: ignore[union-attr]

    def tick(self) -> None:
        """An interval later."""
        self.writer.tick(self.now)
        self.now += 1.0

    def sync_ended(self) -> None:
        eventually(lambda: self.disk.ended)
        self.writer.tick(self.now - 1.0)


def ranges(*pairs: tuple[int, int]) -> RangeSet:
    return RangeSet(pairs)


def test_a_marker_is_sent_when_its_ranges_are_on_the_disk_and_names_no_others(disk: Disk, fd: int) -> None:
    markers = Markers(fd)
    disk.may_end.clear()
    markers.writer.add(0, 100)
    markers.tick()
    eventually(lambda: disk.calls == 1)
    markers.writer.add(100, 200)
    markers.tick()
    assert not markers.told
    disk.may_end.set()
    markers.sync_ended()
    assert markers.told == [ranges((0, 100))]
    markers.tick()
    markers.sync_ended()
    assert markers.told == [ranges((0, 100)), ranges((100, 200))]
    assert disk.calls == 2
    markers.tick()
    assert not markers.disk.running, "nothing is new"


def test_the_looks_come_soon_while_a_sync_runs(disk: Disk, fd: int) -> None:
    markers = Markers(fd)
    markers.writer.add(0, 100)
    now = markers.now
    assert markers.writer.tick(now) < now + 0.2
    eventually(lambda: markers.disk.ended)
    assert markers.writer.tick(now) == now + 1.0


@pytest.mark.parametrize(("octets", "syncs"), [(1, 0), (SYNCED_FROM - 1, 0), (SYNCED_FROM, 1), (10 * SYNCED_FROM, 1)])
def test_a_file_of_some_size_is_on_the_disk_before_its_end_is_reported(
    disk: Disk, fd: int, octets: int, syncs: int
) -> None:
    markers = Markers(fd)
    markers.writer.add(0, octets)
    markers.writer.finish()
    assert disk.calls == syncs
    assert markers.told == [ranges((0, octets))]


def test_a_part_and_a_file_that_has_sent_a_marker_are_on_the_disk_whatever_their_size(disk: Disk, fd: int) -> None:
    part = Markers(fd, part=True)
    part.writer.add(0, 1)
    part.writer.finish()
    assert (disk.calls, part.told) == (1, [ranges((0, 1))])
    slow = Markers(fd)
    slow.writer.add(0, 1)
    slow.tick()
    slow.sync_ended()
    slow.writer.add(1, 2)
    slow.writer.finish()
    assert (disk.calls, slow.told) == (3, [ranges((0, 1)), ranges((1, 2))])


def test_who_asks_for_no_markers_waits_for_no_disk(disk: Disk, fd: int) -> None:
    markers = Markers(fd, interval=0)
    markers.writer.add(0, 10 * SYNCED_FROM)
    markers.writer.finish()
    markers.writer.give_up()
    assert (disk.calls, markers.told) == (0, [])


def test_what_the_disk_refuses_is_an_error_and_no_range(disk: Disk, fd: int) -> None:
    disk.error = OSError(errno.EIO, os.strerror(errno.EIO))
    markers = Markers(fd)
    markers.writer.add(0, 100)
    markers.tick()
    with pytest.raises(OSError, match="Input/output"):
        markers.sync_ended()
    disk.error = None
    markers.writer.add(100, 200)
    # The kernel reports such an error once, and forgets the octets.
    markers.writer.give_up()
    markers.writer.close()
    assert not markers.told


def test_a_failing_file_names_what_is_on_the_disk_however_small_it_is(disk: Disk, fd: int) -> None:
    markers = Markers(fd)
    markers.writer.add(5, 10)
    markers.writer.give_up()
    assert (disk.calls, markers.told) == (1, [ranges((5, 10))])


@pytest.mark.parametrize("number", [errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP])
def test_a_file_system_that_cannot_do_it_is_served_all_the_same(disk: Disk, fd: int, number: int) -> None:
    disk.error = OSError(number, os.strerror(number))
    markers = Markers(fd)
    markers.writer.add(0, SYNCED_FROM)
    markers.writer.finish()
    assert markers.told == [ranges((0, SYNCED_FROM))]


def test_a_network_that_is_faster_than_the_disk_waits_for_it(
    disk: Disk, fd: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "MOST_UNSYNCED", 1000)
    markers = Markers(fd)
    disk.may_end.clear()
    markers.writer.add(0, 100)
    markers.tick()
    markers.writer.add(100, 1200)
    waiting = threading.Thread(target=markers.tick)
    waiting.start()
    waiting.join(0.1)
    assert waiting.is_alive()
    disk.may_end.set()
    waiting.join(20)
    assert markers.told == [ranges((0, 100))]
    markers.writer.close()


def test_the_file_is_not_closed_under_a_sync(disk: Disk, fd: int) -> None:
    markers = Markers(fd)
    markers.writer.add(0, 100)
    disk.may_end.clear()
    markers.tick()
    closing = threading.Thread(target=markers.writer.close)
    closing.start()
    closing.join(0.1)
    assert closing.is_alive()
    disk.may_end.set()
    closing.join(20)
    assert not closing.is_alive()


def test_the_calls_of_macos(fd: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """There fsync leaves the octets in the memory of the disk; disks of other makers know no more."""
    called: list[str] = []

    def full(_: int, command: int) -> int:
        called.append(f"fcntl {command}")
        if len(called) > 1:
            raise OSError(errno.ENOTSUP, os.strerror(errno.ENOTSUP))
        return 0

    monkeypatch.setattr(disk_sync, "_F_FULLFSYNC", 51)
    monkeypatch.setattr(fcntl, "fcntl", full)
    monkeypatch.setattr(disk_sync, "_sync", lambda _: called.append("fsync"))
    disk_sync.sync(fd)
    disk_sync.sync(fd)
    assert called == ["fcntl 51", "fcntl 51", "fsync"]


def test_real_files_are_synced(fd: int) -> None:
    sync: Callable[[int], None] = disk_sync.sync
    os.write(fd, b"x" * 1000)
    sync(fd)
