"""Paths with patterns (`interpret_globs`), expanded by listing as a shell does it.

`*`, `?` and `[...]` may stand in any component, and never match a slash; the language is that of
`endpoints.gridftp.patterns`. A name that begins with a dot is matched only by a pattern that does. Components before
the last may be symlinks to folders; what the last one matches is what it is, and nobody follows it.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import replace

from endpoints.gridftp.facts import Entry
from endpoints.gridftp.faults import Fault, FaultError, Kind, Scope, Side
from endpoints.gridftp.patterns import is_pattern, translate

from .bounds import size_of
from .desk import Desk, UnreachableError
from .paths import is_a_name
from .retry import worse

#: What a path that leads nowhere gets for an answer.
_NOTHING = frozenset({Kind.FILE_NOT_FOUND, Kind.NOT_A_DIRECTORY})
#: Folders that inner components may match and that are still to be looked into.
MAX_FOLDERS = 100_000


def matcher(component: str) -> Callable[[str], bool]:
    """Whether a name matches this component of a path."""
    match = re.compile(translate(component), re.DOTALL).fullmatch
    hidden = component.startswith(".")
    return lambda name: (hidden or not name.startswith(".")) and match(name) is not None


class Expansion:
    """What one path with patterns stands for, found through the desk's session to the source.

    fault: of a folder that could not be looked into; the rest is found nevertheless.
    Memory: one batch of entries, and the folders yet to be listed (MAX_FOLDERS at most).
    """

    def __init__(self, desk: Desk, path: str) -> None:
        self.fault: Fault | None = None
        self._desk = desk
        self._components = [component for component in path.split("/") if component]
        self._only_folders = path.endswith("/")
        #: (path of a folder, how many components led to it)
        self._stack: list[tuple[str, int]] = [("", 0)]

    async def matches(self) -> AsyncIterator[tuple[str, Sequence[Entry]]]:
        """Entries that match, with the path of the folder they lie in. Raises FaultError of the connection."""
        while self._stack:
            folder, at = self._stack.pop()
            self._desk.memory.free(size_of(folder))
            try:
                async for found in self._expand(folder, at):
                    yield found
            except UnreachableError:
                raise
            except FaultError as error:
                if error.fault.scope is not Scope.FILE:
                    raise
                if error.fault.kind not in _NOTHING:
                    self.fault = worse(self.fault, error.fault)

    async def _expand(self, folder: str, at: int) -> AsyncIterator[tuple[str, Sequence[Entry]]]:
        """Go on from here: past the plain names, then one component that is a pattern."""
        above, name = folder, ""
        components = self._components
        while at < len(components) and not is_pattern(components[at]):
            above, name = folder, components[at]
            folder = f"{folder}/{name}"
            at += 1
        if at == len(components):
            yield above, self._last([replace(await self._look(folder), name=name)])
        elif not name or name == "~" or (await self._look(folder)).is_directory:
            matches = matcher(components[at])
            async for entries in self._desk.listing(Side.SOURCE, folder or "/"):
                found = [entry for entry in entries if is_a_name(entry.name) and matches(entry.name)]
                if at == len(components) - 1:
                    yield folder, self._last(found)
                else:
                    self._enter(folder, found, at + 1)

    def _last(self, found: Sequence[Entry]) -> Sequence[Entry]:
        """A slash at the end means folders, and no symlink to one."""
        if not self._only_folders:
            return found
        return [entry for entry in found if entry.is_directory and entry.link_target is None]

    def _enter(self, folder: str, found: Sequence[Entry], at: int) -> None:
        inner = [f"{folder}/{entry.name}" for entry in found if entry.is_directory]
        self._desk.memory.take(sum(map(size_of, inner)))
        self._stack += [(path, at) for path in inner]
        if len(self._stack) > MAX_FOLDERS:
            self._stack.clear()
            why = f"More than {MAX_FOLDERS} folders match a part of this path; name fewer."
            raise FaultError(Fault(Kind.LIMIT_EXCEEDED, Side.SOURCE, retryable=False, advice=why))

    async def _look(self, path: str) -> Entry:
        return await self._desk.ask(Side.SOURCE, lambda session: session.stat(path))
