"""A lane between two real servers, with a fault at each line of the dialogue: no wrong byte, no hang, no file lost."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from deploy.endpoint.toolkit import ToolkitServer
from endpoints.gridftp.client import GridFTPSession
from endpoints.gridftp.faults import FaultError, Kind
from endpoints.gridftp.lane import ThirdPartyLane
from endpoints.gridftp.pair import FileProgress, FileRefused, FileReturned, FileSettled, Transfer
from tests.proxy import Deed, MisbehavingProxy, Plan, Watch

pytestmark = pytest.mark.toolkit

COUNT = 6


class Place:
    """Two toolkit servers over one folder, with files to move."""

    def __init__(self, root: Path, start: Callable[..., ToolkitServer]) -> None:
        self.source_folder, self.destination_folder = root / "a", root / "b"
        self.source_folder.mkdir()
        self.destination_folder.mkdir()
        for index in range(COUNT):
            (self.source_folder / f"f{index}").write_bytes(bytes([index]) * (1000 + 70_000 * index))
        self.source = start(self.source_folder)
        self.destination = start(self.destination_folder)

    def transfers(self) -> list[Transfer]:
        return [self.transfer(f"f{index}") for index in range(COUNT)]

    def transfer(self, name: str) -> Transfer:
        source, target = self.source_folder / name, self.destination_folder / name
        size = source.stat().st_size if source.exists() else 0
        return Transfer(name, str(source).encode(), str(target).encode(), size)

    def suspect(self, name: str, attempt: int) -> Transfer:
        """Under another name: a late writer of the lost connection may still hold the first one."""
        first = self.transfer(name)
        return first._replace(write_path=first.write_path + b".tmp%d" % attempt, rename_to=first.write_path)

    def wrong(self) -> list[str]:
        """Files of the destination, under their real names, that hold anything else than they should."""
        return [
            path.name
            for path in self.destination_folder.iterdir()
            if ".tmp" not in path.name and path.read_bytes() != (self.source_folder / path.name).read_bytes()
        ]


@pytest.fixture
def place(tmp_path: Path, toolkit_server_factory: Callable[..., ToolkitServer]) -> Place:
    return Place(tmp_path, toolkit_server_factory)


async def open_lane(source_port: int, destination_port: int, stall: float = 0.6) -> ThirdPartyLane:
    source = await GridFTPSession.open("127.0.0.1", source_port, timeout=1.5)
    try:
        destination = await GridFTPSession.open("127.0.0.1", destination_port, timeout=1.5)
    except FaultError:
        source.connection.abort()
        raise
    return ThirdPartyLane(source, destination, parallelism=2, accept_address=lambda _: True, stall_timeout=stall)


async def move(lane: ThirdPartyLane, transfers: list[Transfer]) -> tuple[set[str], dict[str, Kind], set[str]]:
    """Feed all at once; settled, refused and returned names."""
    settled: set[str] = set()
    refused: dict[str, Kind] = {}
    returned: set[str] = set()
    for transfer in transfers:
        lane.feed(transfer)
    while len(settled) + len(refused) + len(returned) < len(transfers):
        async with asyncio.timeout(20):
            events = await lane.events()
        for event in events:
            match event:
                case FileSettled(str(name), _):
                    settled.add(name)
                case FileRefused(str(name), fault, _):
                    refused[name] = fault.kind
                case FileReturned(str(name), _):
                    returned.add(name)
                case FileProgress():
                    pass
    return settled, refused, returned


async def end(lane: ThirdPartyLane) -> None:
    for session in lane.release() or ():
        await session.close()
    await asyncio.sleep(0)  # aborted transports close their sockets in the loop's next turn


async def move_all(place: Place, source_port: int, destination_port: int) -> set[Kind]:
    """As the engine does: what a lost lane gives back goes through a new one, under temporary names."""
    faults: set[Kind] = set()
    waiting = place.transfers()
    for attempt in range(4):
        try:
            lane = await open_lane(source_port, destination_port)
        except FaultError as error:
            faults.add(error.fault.kind)
            continue
        settled, refused, returned = await move(lane, waiting)
        await end(lane)
        faults |= set(refused.values())
        assert settled.isdisjoint(returned | set(refused))
        waiting = [place.suspect(name, attempt) for name in sorted(returned | set(refused))]
        if not waiting:
            return faults
    raise AssertionError(f"not settled: {waiting}")


STEPS = [
    *((Watch.COMMANDS, line) for line in (0, 3, 6, 8, 10, 11, 13, 16)),
    *((Watch.REPLIES, line) for line in (0, 1, 2, 30, 36, 38, 40, 41, 43, 46, 52)),
]
EXPECTED = {
    Kind.CONNECTION_BROKEN,
    Kind.CONNECTION_RESET,
    Kind.ENDPOINT_ERROR,
    Kind.TIMEOUT,
    Kind.UNKNOWN,
    Kind.CONNECT_FAILED,
}


@pytest.mark.parametrize("side", ["source", "destination"])
@pytest.mark.parametrize("deed", list(Deed), ids=lambda deed: deed.name.lower())
async def test_a_fault_at_any_line_of_the_dialogue_spoils_no_file(place: Place, deed: Deed, side: str) -> None:
    came_true = 0

    async def one(watch: Watch, line: int) -> None:
        nonlocal came_true
        async with (
            MisbehavingProxy(place.source.port, Plan(watch, line, deed) if side == "source" else None) as source,
            MisbehavingProxy(
                place.destination.port, Plan(watch, line, deed) if side == "destination" else None
            ) as other,
        ):
            faults = await move_all(place, source.port, other.port)
            assert faults <= EXPECTED
            came_true += source.deeds + other.deeds
        assert place.wrong() == [], (watch, line)
        assert len([path for path in place.destination_folder.iterdir() if ".tmp" not in path.name]) == COUNT
        for path in place.destination_folder.iterdir():
            path.unlink()

    # Silence costs a time limit each time: there fewer lines must do.
    steps = STEPS[::3] if deed in (Deed.HANG, Deed.ENDLESS_LINE) else STEPS
    for watch, line in steps:
        await one(watch, line)
    assert came_true >= len(steps) // 2, "the plan must come true, or the test tests nothing"


@pytest.mark.parametrize("missing", [[0], [3], [5], [0, 1], [4, 5], [0, 2, 4], list(range(6))], ids=str)
@pytest.mark.parametrize("where", ["source", "destination", "both"])
async def test_refused_files_shift_nothing(place: Place, missing: list[int], where: str) -> None:
    """A source that is not there; a destination that is a folder."""
    for index in missing:
        if where != "destination":
            (place.source_folder / f"f{index}").unlink()
        if where != "source":
            (place.destination_folder / f"f{index}").mkdir()
    lane = await open_lane(place.source.port, place.destination.port, stall=20.0)
    settled: set[str] = set()
    refused: dict[str, Kind] = {}
    waiting = place.transfers()
    while waiting:
        some, gone, returned = await move(lane, waiting)
        settled |= some
        refused |= gone
        waiting = [place.transfer(name) for name in sorted(returned)]
    assert lane.idle
    await end(lane)
    bad = {f"f{index}" for index in missing}
    assert refused.keys() == bad
    assert set(refused.values()) <= {Kind.FILE_NOT_FOUND, Kind.IS_A_DIRECTORY}
    assert settled == {f"f{index}" for index in range(COUNT)} - bad
    found = {path.name for path in place.destination_folder.iterdir() if path.is_file()}
    assert found == settled, "nothing lies there under a refused name"
    for name in settled:
        assert (place.destination_folder / name).read_bytes() == (place.source_folder / name).read_bytes()
