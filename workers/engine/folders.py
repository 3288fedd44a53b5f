"""Folders at the destination: made before what goes into them, each asked for once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from endpoints.gridftp.faults import FaultError, Kind, Side

from .desk import Desk
from .paths import parent

#: Folders remembered as being there, at most.
MAX_KNOWN = 10_000


class Folders:
    """Makes folders through the desk's sessions. Methods raise FaultError."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._known: set[str] = {""}

    async def make(self, path: str) -> bool:
        """Make this folder, and those above it that are missing; False when it was there already.

        From below, because of those above many a user may make none, or not even look: they are there as a rule.
        """
        if path in self._known:
            return False
        missing = [path]
        while True:
            try:
                made = await self.make_all(missing[-1:])
                break
            except FaultError as error:
                above = parent(missing[-1])
                if error.fault.kind is not Kind.FILE_NOT_FOUND or not above:
                    raise
                missing.append(above)
        missing.pop()
        if missing:
            made = await self.make_all(missing[::-1])
        self._remember(path)
        return made[-1]

    async def make_all(self, paths: Sequence[str]) -> Sequence[bool]:
        """Make these folders; what they lie in is there, or stands before them. False for one that was there."""
        return await self._desk.ask(Side.DESTINATION, lambda session: session.make_directories(paths))

    async def make_parents(self, paths: Iterable[str]) -> dict[str, FaultError]:
        """Make the folders that these files go into; what went wrong, by folder."""
        wrong: dict[str, FaultError] = {}
        for folder in sorted({parent(path) for path in paths} - self._known):
            try:
                await self.make(folder)
            except FaultError as error:
                wrong[folder] = error
        return wrong

    async def identity(self, side: Side, path: str) -> str:
        """What the server tells apart things by (the Unique fact, RFC 3659 section 7.5.2); "" when it does not."""
        return (await self._desk.ask(side, lambda session: session.stat(path or "/"))).unique

    def _remember(self, path: str) -> None:
        if len(self._known) >= MAX_KNOWN:
            self._known = {""}
        self._known.add(path)
