"""Expands paths with patterns (`interpret_globs`) by listing, as a shell does it.

`*`, `?` and `[...]` may stand in any component, and never match a slash; the language is that of
`endpoints.gridftp.patterns`. A name that begins with a dot matches only a pattern that begins with one. Components
before the last may be symlinks to folders; a symlink that the last component matches is not followed.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable, Sequence

from endpoints.gridftp.facts import Entry
from endpoints.gridftp.faults import Fault, FaultError, FaultScope, Kind, Side
from endpoints.gridftp.patterns import is_pattern, translate
from workers.engine.bounds import size_of
from workers.engine.control_sessions import ControlSessions, UnreachableError
from workers.engine.paths import is_a_name
from workers.engine.retry import worse

#: Kinds that a server reports for a path that does not exist.
_NOTHING = frozenset({Kind.FILE_NOT_FOUND, Kind.NOT_A_DIRECTORY})
#: Maximum number of matching folders that wait to be listed.
MAX_FOLDERS = 100_000


def matcher(component: str) -> Callable[[str], bool]:
    """Return whether a name matches this component of a path."""
    match = re.compile(translate(component), re.DOTALL).fullmatch
    hidden = component.startswith(".")
    return lambda name: (hidden or not name.startswith(".")) and match(name) is not None


class Expansion:
    """The files that one path with patterns matches, found through the control session to the source.

    fault: of a folder that could not be listed; the other matches are found nevertheless.
    Memory: one batch of entries, and the folders that wait to be listed (at most MAX_FOLDERS).
    """

    def __init__(self, control_sessions: ControlSessions, path: str) -> None:
        self.fault: Fault | None = None
        self._control_sessions = control_sessions
        self._components = [component for component in path.split("/") if component]
        self._only_folders = path.endswith("/")
        #: (path of a folder, number of components that led to it)
        self._stack: list[tuple[str, int]] = [("", 0)]

    async def matches(self) -> AsyncIterator[tuple[str, Sequence[Entry]]]:
        """Matching entries, with the path of their folder. Raises FaultError when the connection fails."""
        while self._stack:
            folder, at = self._stack.pop()
            self._control_sessions.memory.free(size_of(folder))
            try:
                async for found in self._expand(folder, at):
                    yield found
            except UnreachableError:
                raise
            except FaultError as error:
                if error.fault.scope is not FaultScope.FILE:
                    raise
                if error.fault.kind not in _NOTHING:
                    self.fault = worse(self.fault, error.fault)

    async def _expand(self, folder: str, at: int) -> AsyncIterator[tuple[str, Sequence[Entry]]]:
        """Continue at this folder: past the plain names, then one component that is a pattern."""
        above, name = folder, ""
        components = self._components
        while at < len(components) and not is_pattern(components[at]):
            above, name = folder, components[at]
            folder = f"{folder}/{name}"
            at += 1
        if at == len(components):
            entry = await self._control_sessions.stat(Side.SOURCE, folder)
            yield above, self._filter_last([entry._replace(name=name)])
        elif name in ("", "~") or (await self._control_sessions.stat(Side.SOURCE, folder)).is_directory:
            async for found in self._matching(folder, components[at]):
                if at == len(components) - 1:
                    yield folder, self._filter_last(found)
                else:
                    self._enter(folder, found, at + 1)

    async def _matching(self, folder: str, pattern: str) -> AsyncIterator[Sequence[Entry]]:
        matches = matcher(pattern)
        async for entries in self._control_sessions.listing(Side.SOURCE, folder or "/"):
            yield [entry for entry in entries if is_a_name(entry.name) and matches(entry.name)]

    def _filter_last(self, found: Sequence[Entry]) -> Sequence[Entry]:
        """Keep only folders if the path ends with a slash; a symlink to a folder is none."""
        if not self._only_folders:
            return found
        return [entry for entry in found if entry.is_directory and entry.link_target is None]

    def _enter(self, folder: str, found: Sequence[Entry], at: int) -> None:
        inner = [f"{folder}/{entry.name}" for entry in found if entry.is_directory]
        self._control_sessions.memory.take(sum(map(size_of, inner)))
        self._stack += [(path, at) for path in inner]
        if len(self._stack) > MAX_FOLDERS:
            self._stack.clear()
            why = f"More than {MAX_FOLDERS} folders match a part of this path; name fewer."
            raise FaultError(Fault(Kind.LIMIT_EXCEEDED, Side.SOURCE, retryable=False, advice=why))
