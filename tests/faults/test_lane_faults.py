"""A lane between two real servers, with a fault at each step of the dialogue: no wrong byte, no hang, no file lost.

This is the part of the matrix that fits into a minute; `python -m bench.recovery.fault_matrix` runs all of it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

from endpoints.gridftp.client import GridFTPSession
from endpoints.gridftp.faults import Kind
from endpoints.gridftp.third_party.lane import ThirdPartyLane
from endpoints.gridftp.third_party.slots import FileProgress, FileRefused, FileReturned, FileSettled, Transfer
from tests.faults.lane_matrix import Case, Trouble, Verdict, cases_of, run_case
from tests.faults.scenes import Arena, arena
from tests.gridftp.proxy import Step, Watch

pytestmark = pytest.mark.toolkit

SAME = [("toolkit", "toolkit"), ("own", "own")]
MIXED = [("toolkit", "own"), ("own", "toolkit")]
QUICK = [Trouble.REFUSED, Trouble.PERMANENT_ERROR, Trouble.RESET, Trouble.KILLED, Trouble.CUT]
#: The first file's success is falsified: all others are under way, and come back.
SECOND_SENT = Step(Watch.REPLIES, "RETR", 0, 226)
#: Each costs a time limit.
SILENT = [Trouble.HALF_OPEN, Trouble.FROZEN, Trouble.FROZEN_LONG]


async def run_matrix(
    place: Arena, scene: str, troubles: Sequence[Trouble], *, stream: bool = False, every: int = 1
) -> list[Verdict]:
    """Every so many of the cases of this scene. Fails when one of them does."""
    good = await run_case(place, Case(scene, stream))
    assert not good.problems
    verdicts = [await run_case(place, case) for case in list(cases_of(good, list(troubles)))[::every]]
    assert [(str(verdict.case), verdict.problems) for verdict in verdicts if verdict.problems] == []
    came_true = sum(verdict.came_true for verdict in verdicts)
    assert came_true >= len(verdicts) * 0.8, "the plans must come true, or the test tests nothing"
    return verdicts


@pytest.mark.parametrize(("source", "destination"), SAME + MIXED)
@pytest.mark.parametrize("scene", ["plain", "refused", "renamed"])
async def test_a_fault_at_any_step_of_the_dialogue_spoils_no_file(
    root: Path, source: str, destination: str, scene: str
) -> None:
    with arena(root, source, destination) as place:
        await run_matrix(place, scene, QUICK, every=12 if source == destination else 30)


@pytest.mark.parametrize(("source", "destination"), SAME)
async def test_nor_does_one_in_stream_mode(root: Path, source: str, destination: str) -> None:
    with arena(root, source, destination) as place:
        await run_matrix(place, "refused", QUICK, stream=True, every=20)


@pytest.mark.parametrize(("source", "destination"), SAME)
async def test_a_server_that_falls_silent_at_any_step_is_left_within_the_limit(
    root: Path, source: str, destination: str
) -> None:
    with arena(root, source, destination) as place:
        verdicts = await run_matrix(place, "renamed", SILENT, every=60)
    assert any(Kind.TIMEOUT in verdict.faults for verdict in verdicts)


@pytest.mark.parametrize(("source", "destination"), SAME)
async def test_a_file_is_given_back_only_when_nothing_lies_under_its_name(
    root: Path, source: str, destination: str
) -> None:
    """Another lane may have it at once, and would lose it to a removal that comes late."""
    step = Step(Watch.COMMANDS, "DELE", 0)
    with arena(root, source, destination) as place:
        verdict = await run_case(place, Case("plain", False, Trouble.PERMANENT_ERROR, True, SECOND_SENT))
        late = await run_case(place, Case("refused", False, Trouble.DELAYED, False, step))
    assert verdict.problems + late.problems == []
    assert late.came_true


COUNT = 6


async def settle_all(place: Arena, lane: ThirdPartyLane, names: list[str]) -> tuple[set[str], dict[str, Kind]]:
    """Feed these, and what is given back again; settled and refused names."""
    settled: set[str] = set()
    refused: dict[str, Kind] = {}
    waiting, under_way = list(names), 0
    while waiting or under_way:
        for name in waiting:
            source, target = place.root / "here" / name, place.there / name
            lane.feed(Transfer(name, place.source.path(source), place.destination.path(target), 1000))
        under_way += len(waiting)
        waiting = []
        async with asyncio.timeout(20):
            events = await lane.events()
        for event in events:
            match event:
                case FileSettled(str(name), _):
                    settled.add(name)
                case FileRefused(str(name), fault, _):
                    refused[name] = fault.kind
                case FileReturned(str(name), _):
                    waiting.append(name)
            under_way -= not isinstance(event, FileProgress)
    return settled, refused


@pytest.mark.parametrize("bad", [[0], [3], [5], [0, 1], [4, 5], [0, 2, 4], list(range(COUNT))], ids=str)
@pytest.mark.parametrize("where", ["missing", "unreadable", "folder in the way", "no folder", "all"])
@pytest.mark.parametrize(("source", "destination"), SAME)
async def test_refused_files_shift_nothing(
    root: Path, source: str, destination: str, where: str, bad: list[int]
) -> None:
    names = [f"f{index}" for index in range(COUNT)]
    bad_names = {names[index] for index in bad}
    if where == "no folder":
        names = [f"none/{name}" if name in bad_names else name for name in names]
        bad_names = {f"none/{name}" for name in bad_names}
    with arena(root, source, destination) as place:
        await place.ready()
        here, there = root / "here", place.there
        (here / "none").mkdir(parents=True)
        there.mkdir()
        there.chmod(0o777)
        for index, name in enumerate(names):
            (here / name).write_bytes(bytes([index]) * (1000 + 70_000 * index))
            if name in bad_names:
                spoil(where, here / name, there / name)
        sessions = [
            await GridFTPSession.open("127.0.0.1", port) for port in (place.source.port, place.destination.port)
        ]
        lane = ThirdPartyLane(*sessions, parallelism=2, accept_address=lambda _: True, stall_timeout=20.0)
        settled, refused = await settle_all(place, lane, names)
        assert lane.idle
        for session in lane.release() or ():
            await session.close()
        await asyncio.sleep(0)
    assert refused.keys() == bad_names
    assert set(refused.values()) <= {Kind.FILE_NOT_FOUND, Kind.IS_A_DIRECTORY, Kind.PERMISSION_DENIED}
    assert settled == set(names) - bad_names
    assert {path.name for path in there.iterdir() if path.is_file()} == settled, "nothing lies under a refused name"
    for name in settled:
        assert (there / name).read_bytes() == (here / name).read_bytes()


@pytest.mark.parametrize(("source", "destination"), SAME)
async def test_a_file_that_waits_for_its_name_makes_room_for_another(root: Path, source: str, destination: str) -> None:
    """Over a long way the pipeline would be empty while names are on their way."""
    with arena(root, source, destination) as place:
        await place.ready()
        here, there = root / "here", place.there
        here.mkdir()
        there.mkdir()
        there.chmod(0o777)
        (here / "f").write_bytes(b"content")
        sessions = [
            await GridFTPSession.open("127.0.0.1", port) for port in (place.source.port, place.destination.port)
        ]
        lane = ThirdPartyLane(*sessions, parallelism=2, accept_address=lambda _: True, stall_timeout=20.0)
        paths = (
            place.source.path(here / "f"),
            place.destination.path(there / ".t"),
            place.destination.path(there / "f"),
        )
        lane.feed(Transfer("f", paths[0], paths[1], 7, rename_to=paths[2]))
        async with asyncio.timeout(20):
            while events := [one for one in await lane.events() if isinstance(one, FileProgress)]:
                pass
            assert (events, lane.renaming) == ([], 1)
            (settled,) = await lane.events()
        assert isinstance(settled, FileSettled)
        for session in lane.release() or ():
            await session.close()
        await asyncio.sleep(0)
    assert (there / "f").read_bytes() == b"content"


def spoil(where: str, source: Path, target: Path) -> None:
    if where in ("missing", "all"):
        source.unlink()
    if where == "unreadable":
        source.chmod(0)
    if where in ("folder in the way", "all"):
        target.mkdir()
