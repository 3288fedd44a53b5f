"""Large files in parts, and the lane that sends them over several streams."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from endpoints.gridftp.faults import Fault, FaultError, FaultScope, Kind, Side, make_fault
from endpoints.gridftp.ranges import RangeSet
from endpoints.gridftp.third_party.slots import FileEvent, FileProgress, FileRefused, FileReturned, FileSettled
from transferapi.tasks.records import CLEAR, DataProtection, DataWay, FileRow
from workers.ways import agents
from workers.ways.parted_lane import PartedLane, Stream
from workers.ways.parts import MIN_PART, FilePart, PartedFile, in_parts, split

MB = 10**6
FILE = FileRow(1, 1, "/s/large", "/d/large", 256 * MB)
LOST = replace(make_fault(Kind.CONNECTION_RESET), scope=FaultScope.SESSION)

GAPS = st.lists(st.tuples(st.integers(0, 200 * MB), st.integers(1, 50 * MB)), max_size=6).map(
    lambda pairs: RangeSet((start, start + length) for start, length in pairs)
)


@given(st.integers(0, 300 * MB), GAPS, st.integers(1, 16))
def test_the_parts_are_what_is_missing_each_octet_once(size: int, had: RangeSet, streams: int) -> None:
    parts = split(FILE._replace(size=size), had, streams)
    assert [(part.start, part.end) for part in parts] == sorted((part.start, part.end) for part in parts)
    assert RangeSet((part.start, part.end) for part in parts) == RangeSet(had.gaps(size))
    assert sum(part.end - part.start for part in parts) == sum(end - start for start, end in had.gaps(size))
    assert sum(part.last for part in parts) <= 1


def test_a_file_has_as_many_parts_as_streams_and_none_is_too_small_to_pay() -> None:
    assert len(split(FILE, RangeSet(), 4)) == 4
    assert len(split(FILE._replace(size=40 * MB), RangeSet(), 8)) == round(40 * MB / MIN_PART)
    assert split(FILE, RangeSet(), 4)[-1].asked == (192 * MB, 256 * MB + 1), "a file that has grown is noticed"


@pytest.mark.parametrize(
    ("file", "parted"),
    [
        (FILE, True),
        (FILE._replace(size=100_000), False),
        (FILE._replace(size=100_000, ranges="0-50000"), True),
    ],
)
def test_large_and_continued_files_go_in_parts(file: FileRow, parted: bool) -> None:
    assert in_parts(file) is parted


def test_what_is_on_the_disk_counts_from_the_start_of_the_part_and_no_part_claims_another() -> None:
    one = PartedFile(FILE, 4)
    first, second = one.next(), one.next()
    assert first
    assert second
    assert one.take(second, FileProgress(second, RangeSet([(0, 10 * MB)])))
    assert one.on_disk == RangeSet([(64 * MB, 74 * MB)])
    one.take(second, FileProgress(second, RangeSet([(0, 200 * MB)])))
    assert one.on_disk == RangeSet([(64 * MB, 128 * MB)]), "a receiver that lies about one part"
    one.take(first, FileSettled(first, 64 * MB))
    assert one.on_disk == RangeSet([(0, 128 * MB)])
    assert not one.done


def test_a_source_that_has_grown_makes_the_sizes_be_compared() -> None:
    one = PartedFile(FILE, 4)
    while part := one.next():
        one.take(part, FileSettled(part, 64 * MB + part.last))
    assert one.arrived
    assert one.outcome() == FileSettled(FILE, None)


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("octets", [None, 0, 64 * MB - 1, 64 * MB + 2, 256 * MB])
def test_a_part_of_another_length_than_was_asked_for_is_a_fault_and_the_file_is_sent_whole(
    octets: int | None, last: bool
) -> None:
    """A server that ignores the range of ERET sends all: cut to its size the file would look complete."""
    one = PartedFile(FILE, 4)
    while part := one.next():
        one.take(part, FileSettled(part, octets if part.last is last else 64 * MB))
    while one.under_way:
        one.take(next(iter(one.under_way)), FileSettled(part, 64 * MB))
    assert not one.arrived
    outcome = one.outcome()
    assert isinstance(outcome, FileRefused)
    assert (outcome.fault.kind, outcome.trusted) == (Kind.FILE_SIZE_CHANGED, None)
    assert in_parts(FILE)
    assert not in_parts(FILE._replace(last_fault=outcome.fault.kind))


class FakeStream:
    """A stream whose events a test gives."""

    def __init__(self) -> None:
        self.protection = DataProtection(CLEAR)
        self.data_way: DataWay | None = agents.TO_AGENT
        self.alive = True
        self.begun: Sequence[FileRow] = []
        self.fed: list[FileRow | FilePart] = []
        self.completed: list[tuple[FileRow, int]] = []
        self.closed = False
        self.refuses: Fault | None = None
        self._queue: asyncio.Queue[FileEvent] = asyncio.Queue()

    def feed(self, file: FileRow) -> None:
        self.fed.append(file)

    def feed_part(self, part: FilePart) -> None:
        self.fed.append(part)

    async def events(self) -> Sequence[FileEvent]:
        return [await self._queue.get()]

    async def complete(self, file: FileRow, size: int) -> None:
        if self.refuses:
            raise FaultError(self.refuses)
        self.completed.append((file, size))

    def say(self, event: FileEvent) -> None:
        self._queue.put_nowait(event)

    def arrive(self) -> None:
        what = self.fed[-1]
        self.say(FileSettled(what, what.end - what.start if isinstance(what, FilePart) else what.size))

    def lose(self, fault: Fault) -> None:
        if self.alive and self.fed:
            self.alive = False
            self.say(FileRefused(self.fed[-1], fault, None, begun=True))

    async def close(self) -> None:
        self.closed = True


class Streams:
    def __init__(self, most: int = 8) -> None:
        self.all = [FakeStream()]
        self.most = most
        self.lane = PartedLane(self.all[0], self.open)

    async def open(self) -> Stream:
        await asyncio.sleep(0)
        if len(self.all) >= self.most:
            raise FaultError(make_fault(Kind.ENDPOINT_TOO_BUSY))
        self.all.append(FakeStream())
        return self.all[-1]

    async def until_fed(self, count: int) -> list[FakeStream]:
        for _ in range(10 * count):
            await asyncio.sleep(0)
        assert len([one for one in self.all if one.fed]) == count
        return self.all


async def outcomes(lane: PartedLane, count: int) -> list[FileEvent]:
    found: list[FileEvent] = []
    async with asyncio.timeout(5):
        while len(found) < count:
            found += [event for event in await lane.events() if not isinstance(event, FileProgress)]
    return found


async def test_a_large_file_takes_all_streams_and_gets_its_size_when_all_parts_are_there() -> None:
    streams = Streams()
    streams.lane.use_streams(4)
    streams.lane.feed(FILE)
    for stream in await streams.until_fed(4):
        stream.arrive()
    assert await outcomes(streams.lane, 1) == [FileSettled(FILE, FILE.size)]
    assert [done for stream in streams.all for done in stream.completed] == [(FILE, FILE.size)]
    await streams.lane.close()
    assert all(stream.closed for stream in streams.all)


@pytest.mark.parametrize("ranges", ["nonsense", ",".join(f"{2 * n}-{2 * n + 1}" for n in range(201))])
@pytest.mark.parametrize("size", [100_000, 256 * MB])
async def test_a_file_whose_ranges_cannot_be_read_is_sent_from_the_start(size: int, ranges: str) -> None:
    streams = Streams()
    file = FILE._replace(size=size)
    streams.lane.feed(file._replace(ranges=ranges))
    while not any(isinstance(event, FileSettled) for event in streams.lane._events):
        await streams.until_fed(1)
        streams.all[0].arrive()
    assert await outcomes(streams.lane, 1) == [FileSettled(file, size)]
    await streams.lane.close()


async def test_a_server_that_allows_fewer_sessions_gets_all_parts_over_those() -> None:
    streams = Streams(most=2)
    streams.lane.use_streams(4)
    streams.lane.feed(FILE)
    await streams.until_fed(2)
    for _ in range(2):
        for stream in streams.all:
            stream.arrive()
        await asyncio.sleep(0.01)
    assert await outcomes(streams.lane, 1) == [FileSettled(FILE, FILE.size)]
    await streams.lane.close()


async def test_a_lost_stream_brings_every_file_back_once_and_keeps_what_is_on_the_disk() -> None:
    streams = Streams()
    small = [FileRow(number, 1, f"/s/{number}", f"/d/{number}", 10) for number in range(10, 14)]
    streams.lane.use_streams(4)
    streams.lane.feed(FILE)
    for file in small:
        streams.lane.feed(file)
    first, second, third, _ = await streams.until_fed(4)
    second.say(FileProgress(second.fed[-1], RangeSet([(0, 5 * MB)])))
    first.arrive()
    await asyncio.sleep(0.01)
    third.lose(replace(make_fault(Kind.AGENT_AWAY), scope=FaultScope.SESSION))
    events = await outcomes(streams.lane, 5)
    assert sorted(event.tag.id for event in events if isinstance(event.tag, FileRow)) == [1, 10, 11, 12, 13]
    (large,) = [event for event in events if event.tag == FILE]
    assert isinstance(large, FileRefused)
    assert large.fault.kind is Kind.AGENT_AWAY
    assert large.trusted == RangeSet([(0, 69 * MB)])
    assert not streams.lane.alive
    streams.lane.feed(small[0])
    assert await outcomes(streams.lane, 1) == [FileReturned(small[0], suspect=False)]
    await streams.lane.close()


async def test_a_part_that_is_refused_ends_its_file_and_not_the_lane() -> None:
    streams = Streams()
    streams.lane.use_streams(2)
    streams.lane.feed(FILE)
    first, second = await streams.until_fed(2)
    full = make_fault(Kind.NO_SPACE_LEFT, side=Side.DESTINATION)
    first.say(FileRefused(first.fed[-1], full, None))
    second.arrive()
    (event,) = await outcomes(streams.lane, 1)
    assert isinstance(event, FileRefused)
    assert event.fault == full
    assert event.trusted == RangeSet([(128 * MB, 256 * MB)])
    assert event.trusted is not None
    assert streams.lane.alive
    streams.lane.feed(FILE._replace(ranges=event.trusted.format()))
    await asyncio.sleep(0.01)
    assert isinstance(first.fed[-1], FilePart)
    assert (first.fed[-1].start, first.fed[-1].end) in ((0, 64 * MB), (64 * MB, 128 * MB))
    await streams.lane.close()


async def test_a_file_whose_size_cannot_be_set_is_no_arrival() -> None:
    streams = Streams()
    whole = FILE._replace(ranges=f"0-{FILE.size}")
    streams.all[0].refuses = make_fault(Kind.PERMISSION_DENIED, side=Side.DESTINATION)
    streams.lane.feed(whole)
    (event,) = await outcomes(streams.lane, 1)
    assert isinstance(event, FileRefused)
    streams.all[0].refuses = None
    streams.lane.feed(whole)
    assert await outcomes(streams.lane, 1) == [FileSettled(whole, 0)]
    await streams.lane.close()


@pytest.mark.parametrize(
    ("address", "allowed", "local"),
    [
        (("192.168.1.5", 40000), True, True),
        (("8.8.8.8", 40000), True, True),
        (("127.0.0.1", 40000), False, True),
        (("169.254.169.254", 40000), False, False),
        (("0.0.0.0", 40000), False, False),
        (("224.0.0.1", 40000), False, False),
        (("192.168.1.5", 22), False, False),
        (("nonsense", 40000), False, False),
    ],
)
def test_an_agent_may_name_its_own_network_to_the_other_agent_and_nothing_special(
    address: tuple[str, int], allowed: bool, local: bool
) -> None:
    assert agents.accepts(address) is allowed
    assert agents.accepts(address, local=True) is local


async def test_small_files_wait_behind_each_other_on_one_stream_and_side_by_side_on_several() -> None:
    small = [FileRow(number, 1, f"/s/{number}", f"/d/{number}", 10) for number in range(10, 16)]
    one, several = Streams(), Streams()
    for streams, wanted in ((one, 1), (several, 4)):
        streams.lane.use_streams(wanted)
        for file in small:
            streams.lane.feed(file)
    assert [stream.fed for stream in await one.until_fed(1)] == [small]
    assert [stream.fed for stream in await several.until_fed(4)] == [[file] for file in small[:4]]
    for file in reversed(small):
        one.all[0].say(FileSettled(file, 10))
    assert {event.tag for event in await outcomes(one.lane, 6)} == set(small)
    for streams in (one, several):
        await streams.lane.close()


async def test_no_small_file_goes_behind_a_part_of_a_large_one() -> None:
    streams = Streams()
    small = FileRow(10, 1, "/s/10", "/d/10", 10)
    streams.lane.use_streams(1)
    streams.lane.feed(FILE)
    streams.lane.feed(small)
    (stream,) = await streams.until_fed(1)
    assert len(stream.fed) == 1
    stream.arrive()
    await outcomes(streams.lane, 1)
    assert stream.fed[1:] == [small]
    await streams.lane.close()
