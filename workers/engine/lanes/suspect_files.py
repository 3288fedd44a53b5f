"""Files that a server process may still write after a lost connection: they get new temporary names."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from transferapi.tasks.records import FileRow
from workers.engine.queue.queue_feeder import QueueFeeder
from workers.engine.settle.settlement_writer import SettlementWriter


class SuspectFiles:
    """Keeps each suspect file until it has a new name: no lane may send it under the old one."""

    def __init__(self, feeder: QueueFeeder, settlement_writer: SettlementWriter) -> None:
        self._feeder = feeder
        self._settlement_writer = settlement_writer
        self._unnamed: dict[int, FileRow] = {}
        #: Suspects that had no new name when the slice ended.
        self.left_behind: list[FileRow] = []

    def add(self, files: Iterable[FileRow]) -> None:
        """Record that the connection of these files was lost."""
        self._unnamed.update((file.id, file) for file in files)

    async def rename(self, files: Sequence[FileRow]) -> Sequence[FileRow]:
        """Give these files new names. Their progress is deleted first: it belongs to the old names."""
        await self._settlement_writer.delete_progress(files)
        renamed = await self._feeder.rename(files)
        for file in files:
            self._unnamed.pop(file.id, None)
        return renamed

    async def close(self, *, rename: bool) -> None:
        """End: rename all suspects, or move them to `left_behind`."""
        suspects = list(self._unnamed.values())
        if rename and suspects:
            await self.rename(suspects)
        elif not rename:
            self.left_behind = suspects
        self._unnamed.clear()
