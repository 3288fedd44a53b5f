"""Confinement: a path on a shared endpoint must not lead out of the shared folder by symbolic links.

Rules are about names, but a server follows links. The server itself confines a session, even if a link changes in the
meantime (`GridFTPSession.restrict`). This module adds two things: it reports in advance, with our own error, that a
path leads out; and it removes from listings the facts of files outside, which servers report when they follow links.

Each name of a path below the root is examined. There are three kinds of servers:
- A server that reports the final target of a link (the toolkit's, `resolves_links`): the target is compared.
- A server that reports the text of a link: the text is followed here. An absolute text is refused, and so is one that
  climbs above the server's root: such a server may serve another tree than it names.
- A server that does not report links (`tells_links` is false): the target is unknown, so everything is refused, unless
  the whole server is shared.

The toolkit's server does not report dangling links. Nothing can be read through one.

The folders that a session is confined to are resolved here, too (`confine`), anew for each session: a rule is about a
name, and a link may be, or may have become, the object with this name.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from endpoints.gridftp.facts import Entry
from endpoints.gridftp.faults import Fault, FaultError, FaultScope, Kind
from endpoints.gridftp.restriction import TOO_MANY_FOLDERS, AllowedPath, not_restricted

#: The number of cached folders, and the seconds of caching: a link may have replaced a folder.
MAX_KNOWN, MAX_AGE = 4096, 30.0
#: Links that are followed for one path, as on Linux; and links of one listing whose targets are resolved.
MAX_LINKS, MAX_LISTED = 40, 200
#: Names of one path that are examined concurrently.
AT_ONCE = 32
#: Folders that a session is confined to; one command line holds no more.
MAX_FOLDERS = 500

_GONE = frozenset({Kind.FILE_NOT_FOUND, Kind.NOT_A_DIRECTORY})
#: Faults that concern one folder, not the present state of the server.
_OF_A_FOLDER = _GONE | {Kind.PERMISSION_DENIED, Kind.INVALID_PATH_NAME}


class LinkReader(Protocol):
    """The part of a session that is needed to examine paths."""

    @property
    def tells_links(self) -> bool: ...
    @property
    def resolves_links(self) -> bool: ...
    @property
    def home(self) -> str: ...
    async def stat(self, path: str) -> Entry: ...


class ConfinableSession(LinkReader, Protocol):
    """A session that can be confined to folders."""

    async def restrict(self, allowed_paths: Iterable[AllowedPath]) -> None: ...


class LeadsOutError(FaultError):
    """A path leads out of the shared folder, or its target is unknown. The error does not name the target."""

    def __init__(self, why: str = "A symbolic link on this path leads out of the shared folder.") -> None:
        super().__init__(Fault(Kind.PERMISSION_DENIED, scope=FaultScope.FILE, retryable=False, advice=why))


class LinksNotReportedError(LeadsOutError):
    """The server does not report symbolic links, so the target of a path is unknown."""

    def __init__(self) -> None:
        super().__init__(
            "This endpoint's servers do not report symbolic links, so access cannot be limited to the shared folder."
        )


@dataclass(frozen=True, slots=True)
class _Known:
    """The path of a folder without links, and the loop time when it was resolved."""

    real: str
    since: float


class Confinement:
    """Confines the users of one shared folder to it. Paths are the host's (`Access.real`); one for each host and root.

    root: as `Access.root`, without a slash at its end; "": the whole server is shared. allows: whether a path of the
    share is allowed to this user; None: the whole share is.
    """

    def __init__(self, root: str, allows: Callable[[str], bool] | None = None) -> None:
        self._root = root
        self._allows = allows
        self._known: OrderedDict[str, _Known] = OrderedDict()

    async def resolve(self, session: LinkReader, path: str, *, follow: bool = True) -> str:
        """The path without links. follow False: for an operation on a link itself (rename, delete).

        Raises FaultError, LeadsOutError.
        """
        return path if self._is_open else await self.real(session, path, follow=follow) or "/"

    @property
    def _is_open(self) -> bool:
        return not self._root and self._allows is None

    async def real(self, session: LinkReader, path: str, *, follow: bool = True) -> str:
        """The path without links and without a slash at its end; names that do not exist are kept as they are.

        Raises FaultError, LeadsOutError.
        """
        root = await self._real_root(session)
        path = path.rstrip("/")
        if not f"{path}/".startswith(f"{self._root}/") or ".." in path.split("/"):
            raise LeadsOutError
        if path == self._root:
            return root
        folder, _, name = path.rpartition("/")
        above = root if folder == self._root else await self._real_folder(session, folder, root)
        real = await _Walk(session).go(above, [name]) if follow else f"{above}/{name}"
        return self._within(real, root)

    async def link_target(self, session: LinkReader, path: str, place: str) -> str | None:
        """The target on the share of a path that leads to `place`; None when the path is not a link."""
        if self._is_open or await self.real(session, path, follow=False) == place.rstrip("/"):
            return None
        return place[len(await self._real_root(session)) :] or "/"

    async def confine(self, session: ConfinableSession, wanted: Sequence[AllowedPath]) -> Mapping[str, str]:
        """Confine an unrestricted session to these folders, permanently; returns a mapping for `resolved_path`.

        Raises FaultError; LeadsOutError when every folder leads out of what this user may access.
        """
        if self._is_open:
            await session.restrict(wanted)
            return {}
        places = {self._root: await self._real_root(session)}
        folders = await self.folders(session, wanted)
        if not folders:
            raise LeadsOutError
        await session.restrict(folders.values())
        for name, allowed in folders.items():
            real = allowed.path.rstrip("/")
            if resolved_path(name, places) != (real or "/"):
                places[name] = real
        return {name: real for name, real in places.items() if name != real}

    async def folders(self, session: LinkReader, wanted: Sequence[AllowedPath]) -> dict[str, AllowedPath]:
        """These folders by name, with paths without links: a server compares paths after resolving links. Folders that
        lead out are left out, as are those that the server refuses to examine while another one remains.

        Raises FaultError; a temporary fault always, so that the session is tried again.
        """
        names = [allowed.path.rstrip("/") for allowed in wanted]
        if len(wanted) > MAX_FOLDERS:
            raise not_restricted(Kind.LIMIT_EXCEEDED, TOO_MANY_FOLDERS)
        answers = await asyncio.gather(*(self._folder(session, allowed) for allowed in wanted))
        found = {
            name: allowed for name, allowed in zip(names, answers, strict=True) if isinstance(allowed, AllowedPath)
        }
        refusal = next((one for one in answers if isinstance(one, FaultError)), None)
        if refusal is not None and not found:
            raise refusal
        return found

    async def _folder(self, session: LinkReader, allowed: AllowedPath) -> AllowedPath | FaultError | None:
        """None if it leads out. Returns a fault that concerns only this folder."""
        try:
            return AllowedPath(await self.real(session, allowed.path) + "/", allowed.write)
        except LeadsOutError:
            return None
        except FaultError as error:
            if error.fault.scope is not FaultScope.FILE or error.fault.kind not in _OF_A_FOLDER:
                raise
            return error

    def _within(self, real: str, root: str) -> str:
        """The path, if it is below the root and allowed. Raises LeadsOutError."""
        inner = _inside(real, root)[len(root) :] or "/"
        if self._allows is not None and not self._allows(inner):
            raise LeadsOutError
        return real

    async def shown(self, session: LinkReader, folder: str, entries: Sequence[Entry]) -> list[Entry]:
        """The entries of a folder as users of the share may see them: a link that stays inside shows its path on the
        share; any other link shows only that it is a link."""
        if self._is_open or not any(entry.is_link for entry in entries):
            return list(entries)
        root, real = await self._real_root(session), await self.real(session, folder)
        found: list[Entry] = []
        left = MAX_LISTED
        for entry in entries:
            if entry.is_link:
                left -= not session.resolves_links
                entry = await self._shown(session, entry, real, root) if left >= 0 else _closed(entry)
            found.append(entry)
        return found

    async def _shown(self, session: LinkReader, entry: Entry, folder: str, root: str) -> Entry:
        try:
            end = await _Walk(session, {f"{folder}/{entry.name}": entry}).go(folder, [entry.name])
            inner = self._within(end, root)[len(root) :] or "/"
        except FaultError as error:
            if error.fault.scope is not FaultScope.FILE:
                raise
            return _closed(entry)
        return entry._replace(link_target=inner)

    async def _real_root(self, session: LinkReader) -> str:
        if not session.tells_links:
            raise LinksNotReportedError
        if (known := self._recall(self._root)) is not None:
            return known
        path = self._root
        if path == "/~" or path.startswith("/~/"):
            path = session.home.rstrip("/") + path[2:]
        return self._keep(self._root, await _Walk(session, lenient=True).go("", path.split("/")))

    async def _real_folder(self, session: LinkReader, folder: str, root: str) -> str:
        if (known := self._recall(folder)) is not None:
            return known
        names = folder[len(self._root) + 1 :].split("/")
        return self._keep(folder, _inside(await _Walk(session).go(root, names), root))

    def _recall(self, folder: str) -> str | None:
        known = self._known.get(folder)
        if known is None or asyncio.get_running_loop().time() - known.since > MAX_AGE:
            return None
        self._known.move_to_end(folder)
        return known.real

    def _keep(self, folder: str, real: str) -> str:
        self._known[folder] = _Known(real, asyncio.get_running_loop().time())
        self._known.move_to_end(folder)
        while len(self._known) > MAX_KNOWN:
            self._known.popitem(last=False)
        return real


class _Walk:
    """Resolves one path, name by name, following links.

    lenient: a name that may not be examined is taken for a folder. For the path to the root only: a mistake there makes
    the shared folder smaller, never larger, because targets of links are compared by their resolved path.
    """

    def __init__(
        self, session: LinkReader, seen: dict[str, Entry | None] | None = None, *, lenient: bool = False
    ) -> None:
        self._session = session
        self._seen = seen or {}
        self._lenient = lenient
        self._links = MAX_LINKS

    async def go(self, start: str, names: Sequence[str]) -> str:
        """start: a folder without links in its path and without a slash at its end; "" is the server's root."""
        await self._look_ahead(start, names)
        here, ahead = start, list(reversed(names))
        while ahead:
            name = ahead.pop()
            if name in ("", "."):
                continue
            if name == "..":
                here = _parent(here)
                continue
            entry = await self._look(f"{here}/{name}")
            if entry is None:
                return _named(f"{here}/{name}", reversed(ahead))
            if not entry.is_link:
                here = f"{here}/{name}"
            elif not entry.link_target:
                raise LeadsOutError
            elif self._session.resolves_links:
                here = _absolute(entry.link_target)
            else:
                ahead += reversed(self._text(entry.link_target))
        return here

    def _text(self, target: str) -> list[str]:
        self._links -= 1
        if target.startswith("/") or self._links < 0:
            raise LeadsOutError
        return target.split("/")

    async def _look_ahead(self, start: str, names: Sequence[str]) -> None:
        """Most paths contain no link: examine all names in one round trip."""
        paths, here = [], start
        for name in list(filter(None, names))[:AT_ONCE]:
            here = f"{here}/{name}"
            paths.append(here)
        if len(paths) > 1:
            found = await asyncio.gather(*map(self._ask, paths), return_exceptions=True)
            for path, entry in zip(paths, found, strict=True):
                # A failed request is repeated when the walk needs it: behind a link it concerns another path.
                if not isinstance(entry, BaseException):
                    self._seen[path] = entry

    async def _look(self, path: str) -> Entry | None:
        if path not in self._seen:
            self._seen[path] = await self._ask(path)
        return self._seen[path]

    async def _ask(self, path: str) -> Entry | None:
        """None: the path does not exist."""
        try:
            return await self._session.stat(path)
        except FaultError as error:
            if error.fault.kind in _GONE:
                return None
            if self._lenient and error.fault.kind is Kind.PERMISSION_DENIED:
                return Entry(path.rpartition("/")[2], "dir")
            raise


def resolved_path(path: str, places: Mapping[str, str], *, follow: bool = True) -> str:
    """The path without links on the way to the allowed folder that contains it.

    places: from `Confinement.confine`. The longest name is used; a path in none of the folders is returned unchanged.
    follow False: for an operation on the last name itself, which may be a link.
    """
    if not places:
        return path
    inner = f"{path}/" if follow else path.rstrip("/")
    name = max((name for name in places if inner.startswith(f"{name}/")), key=len, default=None)
    return path if name is None else places[name] + path[len(name) :] or "/"


def _inside(real: str, root: str) -> str:
    """The path, if it is the root or below it. Raises LeadsOutError."""
    if not f"{real}/".startswith(f"{root}/"):
        raise LeadsOutError
    return real


def _parent(folder: str) -> str:
    """Raises LeadsOutError above the root of the server."""
    if not folder:
        raise LeadsOutError
    return folder.rpartition("/")[0]


def _absolute(target: str) -> str:
    """The final target of a link, as a server reports it. Raises LeadsOutError when it is not an absolute path."""
    names = target.split("/")
    if not target.startswith("/") or ".." in names or "." in names or "//" in target:
        raise LeadsOutError
    return target.rstrip("/")


def _named(path: str, names: Iterable[str]) -> str:
    """Names below a path that does not exist are kept. Raises LeadsOutError for ".."."""
    rest = [name for name in names if name not in ("", ".")]
    if ".." in rest:
        raise LeadsOutError
    return "/".join([path, *rest])


def _closed(entry: Entry) -> Entry:
    return Entry(entry.name, "link")
