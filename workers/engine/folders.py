"""Makes folders at the destination, each once, before the files in them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from endpoints.gridftp.facts import Entry
from endpoints.gridftp.faults import FaultError, Kind, Side

from .control_sessions import ControlSessions
from .paths import parent

#: Maximum number of folders that are remembered as existing.
MAX_KNOWN = 10_000


class Folders:
    """Makes folders through the control sessions. Methods raise FaultError."""

    def __init__(self, control_sessions: ControlSessions) -> None:
        self._control_sessions = control_sessions
        self._known: set[str] = {""}
        #: Folders that `make` has made: nobody else had.
        self._made: set[str] = set()

    def is_known(self, path: str) -> bool:
        """Whether this folder surely exists."""
        return path in self._known

    async def look(self, paths: Iterable[str]) -> None:
        """Remember those of these folders that exist: `make` asks nothing about them. Raises UnreachableError only."""
        unknown = sorted(set(paths) - self._known)
        for path, found in zip(unknown, await self._control_sessions.facts(Side.DESTINATION, unknown), strict=True):
            if isinstance(found, Entry) and found.is_directory:
                self.remember(path)

    async def make(self, path: str) -> bool:
        """Make this folder and its missing parents. Returns False when it existed.

        It starts with the folder itself: its parents usually exist, and many users may not make or list them.
        """
        if path in self._known:
            return False
        missing = [path]
        while True:
            try:
                made = await self._make(missing[-1:])
                break
            except FaultError as error:
                above = parent(missing[-1])
                if error.fault.kind is not Kind.FILE_NOT_FOUND or not above:
                    raise
                missing.append(above)
        missing.pop()
        if missing:
            made = await self._make(missing[::-1])
        self.remember(path)
        return made[-1]

    def made_part(self, path: str) -> str:
        """The end of a path that `make` has made, as "/b/c" where "/a" was there; "" where the folder was there."""
        above = path
        while above in self._made:
            above = parent(above)
        return path[len(above) :]

    async def _make(self, paths: Sequence[str]) -> Sequence[bool]:
        made = await self.make_all(paths)
        if len(self._made) >= MAX_KNOWN:
            self._made.clear()
        self._made.update(path for path, new in zip(paths, made, strict=True) if new)
        return made

    async def make_all(self, paths: Sequence[str]) -> Sequence[bool]:
        """Make these folders, whose parents exist or stand before them. Returns False for each that existed."""
        return await self._control_sessions.ask(Side.DESTINATION, lambda session: session.make_directories(paths))

    async def make_parents(self, paths: Iterable[str]) -> dict[str, FaultError]:
        """Make the parent folders of these files. Returns the errors, by folder."""
        wrong: dict[str, FaultError] = {}
        for folder in sorted({parent(path) for path in paths} - self._known):
            try:
                await self.make(folder)
            except FaultError as error:
                wrong[folder] = error
        return wrong

    async def identity(self, side: Side, path: str) -> str:
        """The identity of a file on its server (the Unique fact, RFC 3659 section 7.5.2); "" without that fact."""
        return (await self._control_sessions.stat(side, path or "/")).unique

    def remember(self, path: str) -> None:
        """Record that this folder exists."""
        if len(self._known) >= MAX_KNOWN:
            self._known = {""}
        self._known.add(path)
