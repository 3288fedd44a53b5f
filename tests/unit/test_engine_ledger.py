"""Settlement: in batches, not too often, at once when somebody waits, and never in the wrong order."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from endpoints.gridftp.faults import Kind, make_fault
from workers.engine.fakes import ManualClock, MemoryLease, MemoryStore, run
from workers.engine.ledger import FULL, INTERVAL, Ledger
from workers.engine.ports import Faulted, FileRow, Found, Progress, Settled


class Desk:
    """A ledger on a store with a thousand files."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.store = MemoryStore(self.clock, [("/src", "/dst", None)])
        item = self.store.items[1].row
        self.files = self.store.add(item, [Found(f"/s{n}", f"/d{n}", 10, None) for n in range(1000)])
        self.released: list[int] = []
        self.ledger = Ledger(MemoryLease(self.store, 0), self.clock, self.released.extend)
        self.store.held = True
        self.task = asyncio.create_task(self.ledger.run())

    def settle(self, *files: FileRow) -> None:
        for file in files:
            self.ledger.settle(Settled(file, file.size))


def at_a_desk(test: Callable[[Desk], Coroutine[Any, Any, None]]) -> None:
    async def main() -> None:
        desk = Desk()
        await test(desk)
        desk.task.cancel()
        assert desk.store.violations == []

    run(main())


def test_the_first_settlement_is_written_at_once() -> None:
    async def test(desk: Desk) -> None:
        desk.settle(desk.files[0])
        await asyncio.sleep(0.001)
        assert desk.released == [1]

    at_a_desk(test)


def test_later_ones_are_collected() -> None:
    async def test(desk: Desk) -> None:
        for file in desk.files[:100]:
            desk.settle(file)
            await asyncio.sleep(0.01)
        await asyncio.sleep(INTERVAL)
        assert len(desk.released) == 100
        assert len(desk.store.writes) <= 2 + 1 / INTERVAL

    at_a_desk(test)


def test_a_full_batch_and_one_that_is_waited_for_are_written_at_once() -> None:
    async def test(desk: Desk) -> None:
        desk.settle(desk.files[0])
        await asyncio.sleep(0.001)
        desk.settle(*desk.files[1 : FULL + 1])
        await asyncio.sleep(0.001)
        assert len(desk.released) == FULL + 1
        desk.settle(desk.files[FULL + 1])
        await asyncio.sleep(0.001)
        assert len(desk.released) == FULL + 1
        desk.ledger.hurry()
        await asyncio.sleep(0.001)
        assert len(desk.released) == FULL + 2

    at_a_desk(test)


def test_hurry_counts_for_what_comes_while_another_batch_is_being_written() -> None:
    async def test(desk: Desk) -> None:
        desk.ledger._store = MemoryLease(desk.store, 0, latency=0.05)  # a slow database
        desk.settle(desk.files[0])
        await asyncio.sleep(0.01)
        desk.settle(desk.files[1])
        desk.ledger.hurry()
        await asyncio.sleep(0.2)
        assert desk.released == [1, 2]
        assert desk.clock.now().timestamp() % 60 < 0.15 + 0.1

    at_a_desk(test)


def test_progress_is_written_once_a_second_and_the_last_counts() -> None:
    async def test(desk: Desk) -> None:
        file = desk.files[0]
        for tick in range(1, 30):
            desk.ledger.progress(Progress(file, f"0-{tick}", tick))
            await asyncio.sleep(0.1)
        assert 2 <= len(desk.store.writes) <= 3
        assert desk.store.rows[1].file.ranges in ("0-20", "0-21", "0-22", "0-23")

    at_a_desk(test)


def test_progress_is_never_written_after_the_fate_of_its_file() -> None:
    async def test(desk: Desk) -> None:
        first, second = desk.files[:2]
        for file in (first, second):
            desk.ledger.progress(Progress(file, "0-5", 5))
        desk.settle(first)
        desk.ledger.fault(Faulted(second, make_fault(Kind.UNKNOWN), desk.clock.now(), ranges=""))
        await desk.ledger.flush()
        assert desk.store.rows[2].file.ranges == ""
        assert [batch.progress for batch in desk.store.writes] == [[]]

    at_a_desk(test)


def test_what_is_forgotten_is_so_in_the_store_too_even_while_a_note_of_it_is_being_written() -> None:
    async def test(desk: Desk) -> None:
        desk.ledger._store = MemoryLease(desk.store, 0, latency=1.0)
        desk.ledger.progress(Progress(desk.files[0], "0-5", 5))
        writing = asyncio.create_task(desk.ledger.flush())
        await asyncio.sleep(0.5)
        await desk.ledger.forget([desk.files[0]])
        await writing
        assert desk.store.rows[1].file.ranges == ""
        assert len(desk.store.writes) == 2

    at_a_desk(test)


def test_the_earliest_retry_is_remembered() -> None:
    async def test(desk: Desk) -> None:
        now = desk.clock.now()
        for file, wait in zip(desk.files, (None, now.replace(second=9), now.replace(second=3)), strict=False):
            desk.ledger.fault(Faulted(file, make_fault(Kind.UNKNOWN), wait))
        assert desk.ledger.next_retry == now.replace(second=3)

    at_a_desk(test)
