"""The part of a slice that does the work on pending files, as the slice sees it."""

from __future__ import annotations

from typing import Protocol


class FileProcessor(Protocol):
    """Processes pending files: lanes for a TRANSFER, one remover for a DELETE."""

    @property
    def idle(self) -> bool:
        """No file is under way."""

    def start_work(self) -> None:
        """Start everything that can be started now. Only the slice calls this, after `SliceContext.more_to_do`."""

    def set_scanning(self, running: bool) -> None:
        """The scan has begun, or has ended."""

    def stop_feeding(self) -> None:
        """Start no more files."""

    async def abort(self, *, rename_suspects: bool) -> None:
        """Stop all work at once.

        rename_suspects: give each file under way a new temporary name, because a server may still write it.
        """
