"""Striped toolkit servers (GFD.20): a front end with data nodes of its own, as source, as destination, as both."""

from __future__ import annotations

import asyncio
import random
import socket
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from endpoints.gridftp.client import GridFTPSession
from endpoints.gridftp.faults import Kind
from endpoints.gridftp.ranges import RangeSet
from endpoints.gridftp.third_party.lane import ThirdPartyLane
from endpoints.gridftp.third_party.slots import FileRefused, FileReturned, FileSettled, Transfer
from tests.gridftp.toolkit import ToolkitServer

pytestmark = pytest.mark.toolkit

FILES = 60
BIG = 24 * 2**20


class DataNode(ToolkitServer):
    """A back end: it speaks to its front end only, and greets nobody."""

    def _greets(self) -> bool:
        with suppress(OSError), socket.create_connection((self.address, self.port), timeout=2):
            return True
        return False


@dataclass
class Place:
    root: Path
    plain: int
    striped: int


@pytest.fixture
def place(folder: Path, toolkit_server_factory: Callable[..., ToolkitServer]) -> Iterator[Place]:
    noise = random.Random(7)
    (folder / "from").mkdir()
    (folder / "to").mkdir()
    for index in range(FILES):
        size = (0, 1, 1000, 70_000, 1_500_000)[index % 5]
        (folder / "from" / f"file{index}").write_bytes(noise.randbytes(size))
    (folder / "from" / "big").write_bytes(noise.randbytes(BIG))
    (folder / "to" / "big").write_bytes(bytes(BIG))
    nodes = [DataNode(folder, "-dn") for _ in range(2)]
    plain = toolkit_server_factory(folder)
    for node in nodes:
        node.start()
    contacts = ",".join(f"127.0.0.1:{node.port}" for node in nodes)
    yield Place(folder, plain.port, toolkit_server_factory(folder, "-r", contacts).port)
    for node in nodes:
        node.stop()


async def open_lane(source: int, destination: int) -> ThirdPartyLane:
    """All nodes are on the front end's own host: they need not be registered."""
    sessions = [await GridFTPSession.open("127.0.0.1", port) for port in (source, destination)]
    return ThirdPartyLane(*sessions, parallelism=2, accept_address=lambda _: False, stall_timeout=20.0)


def transfer(place: Place, name: str, ranges: RangeSet | None = None) -> Transfer:
    source, target = place.root / "from" / name, place.root / "to" / name
    size = source.stat().st_size if source.exists() else 0
    return Transfer(name, str(source).encode(), str(target).encode(), size, ranges=ranges)


async def move(place: Place, lane: ThirdPartyLane, names: list[str]) -> tuple[set[str], dict[str, Kind], bool]:
    """Move the files. Return the settled and refused names, and whether each settled file has a number of octets."""
    waiting, flying = deque(names), 0
    settled: set[str] = set()
    refused: dict[str, Kind] = {}
    counted = True
    async with asyncio.timeout(60):
        while (waiting or flying) and lane.alive:
            while waiting and flying < 20:
                lane.feed(transfer(place, waiting.popleft()))
                flying += 1
            for event in await lane.events():
                flying -= isinstance(event, FileSettled | FileRefused | FileReturned)
                match event:
                    case FileSettled(str(name), octets):
                        settled.add(name)
                        counted = counted and octets is not None
                    case FileRefused(str(name), fault, _):
                        refused[name] = fault.kind
                    case FileReturned(str(name), _):
                        waiting.append(name)
    return settled, refused, counted


async def end(lane: ThirdPartyLane) -> None:
    for session in lane.release() or ():
        await session.close()
    await asyncio.sleep(0.01)


@pytest.mark.parametrize("way", ["plain-striped", "striped-plain", "striped-striped"])
async def test_files_move_over_all_data_nodes_and_a_big_one_is_continued(place: Place, way: str) -> None:
    source, destination = (getattr(place, kind) for kind in way.split("-"))
    lane = await open_lane(source, destination)
    names = [f"file{index}" for index in range(FILES)]
    settled, refused, counted = await move(place, lane, names)
    assert settled == set(names)
    assert not refused
    assert counted is not (destination == place.striped)
    for name in names:
        assert (place.root / "to" / name).read_bytes() == (place.root / "from" / name).read_bytes()

    # Between data nodes REST garbles the file, with success on both sides: the lane goes over to one of them.
    content = (place.root / "from" / "big").read_bytes()
    ranges = RangeSet([(4 * 2**20, 6 * 2**20), (9 * 2**20, 13 * 2**20 + 12345)])
    with (place.root / "to" / "big").open("r+b") as file:
        for start, stop in ranges:
            file.seek(start)
            file.write(content[start:stop])
    lane.feed(transfer(place, "big", ranges))
    lane.feed(transfer(place, "file4"))
    events: list[FileSettled] = []
    async with asyncio.timeout(30):
        while len(events) < 2:
            events += [event for event in await lane.events() if isinstance(event, FileSettled)]
    assert events == [FileSettled("big", BIG - ranges.total), FileSettled("file4", 1_500_000)]
    assert (place.root / "to" / "big").read_bytes() == content
    await end(lane)


async def test_a_front_end_makes_the_checksums_that_it_does_not_announce(place: Place) -> None:
    values = []
    for port in (place.plain, place.striped):
        session = await GridFTPSession.open("127.0.0.1", port)
        path = str(place.root / "from" / "big")
        values.append({algorithm: await session.checksum(path, algorithm) for algorithm in session.algorithms})
        await session.close()
    await asyncio.sleep(0.01)
    assert values[0] == values[1]
    assert len(values[0]) == 5


@pytest.mark.parametrize("way", ["plain-striped", "striped-plain", "striped-striped"])
async def test_a_refused_file_spoils_no_other(place: Place, way: str) -> None:
    """The front end sometimes hangs up when it has to close its nodes' connections: then the lane is lost, as any."""
    source, destination = (getattr(place, kind) for kind in way.split("-"))
    names = [f"file{index}" for index in range(FILES)]
    for at in (50, 21, 20, 0):
        names.insert(at, f"missing{at}")
    lane = await open_lane(source, destination)
    settled, refused, _ = await move(place, lane, names)
    for name in settled:
        assert (place.root / "to" / name).read_bytes() == (place.root / "from" / name).read_bytes()
    if lane.alive:
        assert settled == {f"file{index}" for index in range(FILES)}
        assert refused == dict.fromkeys(("missing0", "missing20", "missing21", "missing50"), Kind.FILE_NOT_FOUND)
    await end(lane)
