"""Settlement: in batches, not too often, at once when somebody waits, and never in the wrong order."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from endpoints.gridftp.faults import Kind, make_fault
from tests.engine_fakes import ManualClock, MemoryLease, MemoryStore
from transferapi.tasks.records import FaultedFile, FileRow, FoundFile, PartialFile, SettledFile
from workers.engine.settle.settlement_writer import FULL, INTERVAL, SettlementWriter

pytestmark = pytest.mark.virtual_time


class Settlement:
    """A settlement writer on a store with a thousand files."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.store = MemoryStore(self.clock, [("/src", "/dst", None)])
        item = self.store.items[1].row
        self.files = self.store.add(item, [FoundFile(f"/s{n}", f"/d{n}", 10, None) for n in range(1000)])
        self.released: list[int] = []
        self.writer = SettlementWriter(MemoryLease(self.store, 0), self.clock, self.released.extend)
        self.store.held = True
        self.task = asyncio.create_task(self.writer.run())

    def settle(self, *files: FileRow) -> None:
        for file in files:
            self.writer.settle(SettledFile(file, file.size))


@pytest.fixture
async def settlement() -> AsyncIterator[Settlement]:
    setup = Settlement()
    yield setup
    setup.task.cancel()
    assert setup.store.violations == []


async def test_the_first_settlement_is_written_at_once(settlement: Settlement) -> None:
    settlement.settle(settlement.files[0])
    await asyncio.sleep(0.001)
    assert settlement.released == [1]


async def test_later_ones_are_collected(settlement: Settlement) -> None:
    for file in settlement.files[:100]:
        settlement.settle(file)
        await asyncio.sleep(0.01)
    await asyncio.sleep(INTERVAL)
    assert len(settlement.released) == 100
    assert len(settlement.store.writes) <= 2 + 1 / INTERVAL


async def test_a_full_batch_and_one_that_is_waited_for_are_written_at_once(settlement: Settlement) -> None:
    settlement.settle(settlement.files[0])
    await asyncio.sleep(0.001)
    settlement.settle(*settlement.files[1 : FULL + 1])
    await asyncio.sleep(0.001)
    assert len(settlement.released) == FULL + 1
    settlement.settle(settlement.files[FULL + 1])
    await asyncio.sleep(0.001)
    assert len(settlement.released) == FULL + 1
    settlement.writer.flush_soon()
    await asyncio.sleep(0.001)
    assert len(settlement.released) == FULL + 2


async def test_hurry_counts_for_what_comes_while_another_batch_is_being_written(settlement: Settlement) -> None:
    settlement.writer._store = MemoryLease(settlement.store, 0, latency=0.05)  # a slow database
    settlement.settle(settlement.files[0])
    await asyncio.sleep(0.01)
    settlement.settle(settlement.files[1])
    settlement.writer.flush_soon()
    await asyncio.sleep(0.2)
    assert settlement.released == [1, 2]
    assert settlement.clock.now().timestamp() % 60 < 0.15 + 0.1


async def test_progress_is_written_once_a_second_and_the_last_counts(settlement: Settlement) -> None:
    file = settlement.files[0]
    for tick in range(1, 30):
        settlement.writer.progress(PartialFile(file, f"0-{tick}", tick))
        await asyncio.sleep(0.1)
    assert 2 <= len(settlement.store.writes) <= 3
    assert settlement.store.rows[1].file.ranges in ("0-20", "0-21", "0-22", "0-23")


async def test_progress_is_never_written_after_the_fate_of_its_file(settlement: Settlement) -> None:
    first, second = settlement.files[:2]
    for file in (first, second):
        settlement.writer.progress(PartialFile(file, "0-5", 5))
    settlement.settle(first)
    settlement.writer.fault(FaultedFile(second, make_fault(Kind.UNKNOWN), settlement.clock.now(), ranges=""))
    await settlement.writer.flush()
    assert settlement.store.rows[2].file.ranges == ""
    assert [batch.progress for batch in settlement.store.writes] == [[]]


async def test_what_is_forgotten_is_so_in_the_store_too_even_while_a_note_of_it_is_being_written(
    settlement: Settlement,
) -> None:
    settlement.writer._store = MemoryLease(settlement.store, 0, latency=1.0)
    settlement.writer.progress(PartialFile(settlement.files[0], "0-5", 5))
    writing = asyncio.create_task(settlement.writer.flush())
    await asyncio.sleep(0.5)
    await settlement.writer.delete_progress([settlement.files[0]])
    await writing
    assert settlement.store.rows[1].file.ranges == ""
    assert len(settlement.store.writes) == 2


async def test_the_earliest_retry_is_remembered(settlement: Settlement) -> None:
    now = settlement.clock.now()
    for file, wait in zip(settlement.files, (None, now.replace(second=9), now.replace(second=3)), strict=False):
        settlement.writer.fault(FaultedFile(file, make_fault(Kind.UNKNOWN), wait))
    assert settlement.writer.next_retry == now.replace(second=3)
