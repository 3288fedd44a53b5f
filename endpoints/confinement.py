"""What a path on a shared endpoint leads to lies in what is shared with the user: symbolic links are no way out.

Rules are about names; a server follows links. What keeps a session inside is the server itself, whatever becomes of a
link meanwhile (`GridFTPSession.restrict`). Here is what it does not do: say beforehand, and in our words, that a path
leads out; and tell nothing in listings of what lies outside, which servers do when they follow a link to tell its size.

Each name of a path below the root is looked at. Three kinds of servers:
- It tells of a link where it leads to in the end (the toolkit's, `resolves_links`): that path is compared.
- It tells the link's text: the text is followed here. An absolute text is refused, and so is one that climbs above the
  server's own root: such a server may serve another tree than it names.
- It does not tell links (`tells_links` is false): nobody knows, and so nothing is allowed, but where the whole server
  is shared.

A dangling link is not told by the toolkit's server in any way. Nothing can be read through one.

The folders that a session is kept in are resolved here, too (`enter`), anew for each session: a rule is about a name,
and what stands under that name may be a link, or may have become one.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from .gridftp.facts import Entry
from .gridftp.faults import Fault, FaultError, Kind, Scope
from .gridftp.restriction import TOO_MANY_GROUNDS, not_restricted
from .gridftp.restriction import Ground as Fence

#: Folders that are remembered, and seconds for which: a link may have taken the place of one.
MAX_KNOWN, MAX_AGE = 4096, 30.0
#: Links that are followed for one path, as on Linux; and links of one listing whose ends are looked for.
MAX_LINKS, MAX_LISTED = 40, 200
#: Names of one path that are looked at in one go.
AT_ONCE = 32
#: Folders that a session is kept in; no server could be told of more in one command.
MAX_FENCES = 500

_GONE = frozenset({Kind.FILE_NOT_FOUND, Kind.NOT_A_DIRECTORY})
#: What a server says of one folder, and not of how it fares itself at the moment.
_OF_A_FOLDER = _GONE | {Kind.PERMISSION_DENIED, Kind.INVALID_PATH_NAME}


class Looker(Protocol):
    """What is needed of a session."""

    @property
    def tells_links(self) -> bool: ...
    @property
    def resolves_links(self) -> bool: ...
    @property
    def home(self) -> str: ...
    async def stat(self, path: str) -> Entry: ...


class Enterable(Looker, Protocol):
    """A session that can be kept in folders."""

    async def restrict(self, grounds: Iterable[Fence]) -> None: ...


class LeadsOutError(FaultError):
    """A path leads out of the folder that is shared, or nobody can tell. Says nothing of where to."""

    def __init__(self, why: str = "A symbolic link on this path leads out of the folder that is shared.") -> None:
        super().__init__(Fault(Kind.PERMISSION_DENIED, scope=Scope.FILE, retryable=False, advice=why))


class LinksUntoldError(LeadsOutError):
    """The server tells of no symbolic link, so that it is not known where a path leads."""

    def __init__(self) -> None:
        super().__init__(
            "This endpoint's servers do not tell symbolic links, so that nobody could be kept in the folder that is"
            " shared."
        )


@dataclass(frozen=True, slots=True)
class _Known:
    """Where a folder lies in truth, and since when (of the loop's clock) that is known."""

    real: str
    since: float


class Confinement:
    """Keeps the users of one shared folder in it. Paths are the host's (`Access.real`); one for each host and root.

    root: as `Access.root`, without a slash at its end; "": all of the server is shared. allows: whether a path of the
    share is among what this user is given, where that is not all of it.
    """

    def __init__(self, root: str, allows: Callable[[str], bool] | None = None) -> None:
        self._root = root
        self._allows = allows
        self._known: OrderedDict[str, _Known] = OrderedDict()

    async def check(self, session: Looker, path: str, *, follow: bool = True) -> None:
        """follow False: it is about the last name itself, as of a rename or a delete. -> FaultError, LeadsOutError"""
        await self.place(session, path, follow=follow)

    async def place(self, session: Looker, path: str, *, follow: bool = True) -> str:
        """The same; and the path that this one leads to, without links. -> FaultError, LeadsOutError"""
        return path if self._is_open else await self.real(session, path, follow=follow) or "/"

    @property
    def _is_open(self) -> bool:
        return not self._root and self._allows is None

    async def real(self, session: Looker, path: str, *, follow: bool = True) -> str:
        """Where a path leads to, without links and without a slash at its end; what is not there is where its name
        says. -> FaultError, LeadsOutError"""
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

    async def link_target(self, session: Looker, path: str, place: str) -> str | None:
        """Of a path that leads to this place: None when it is no link, else where it leads on the share."""
        if self._is_open or await self.real(session, path, follow=False) == place.rstrip("/"):
            return None
        return place[len(await self._real_root(session)) :] or "/"

    async def enter(self, session: Enterable, wanted: Sequence[Fence]) -> Mapping[str, str]:
        """Keep a session that sees all, for good, in these folders; where those behind links lie, for `placed`.

        Raises FaultError; LeadsOutError when each of them leads out of what is given.
        """
        if self._is_open:
            await session.restrict(wanted)
            return {}
        places = {self._root: await self._real_root(session)}
        fences = await self.fences(session, wanted)
        if not fences:
            raise LeadsOutError
        await session.restrict(fences.values())
        for name, fence in fences.items():
            real = fence.path.rstrip("/")
            if placed(name, places) != (real or "/"):
                places[name] = real
        return {name: real for name, real in places.items() if name != real}

    async def fences(self, session: Looker, wanted: Sequence[Fence]) -> dict[str, Fence]:
        """These folders by name, without links in their paths: a server compares paths as it resolves them. Those that
        lead out are none, nor are those that the server refuses to look at while another one is left.

        Raises FaultError; a passing one in any case, so that the session is tried again.
        """
        names = [fence.path.rstrip("/") for fence in wanted]
        if len(wanted) > MAX_FENCES:
            raise not_restricted(Kind.LIMIT_EXCEEDED, TOO_MANY_GROUNDS)
        answers = await asyncio.gather(*(self._fence(session, fence) for fence in wanted))
        found = {name: fence for name, fence in zip(names, answers, strict=True) if isinstance(fence, Fence)}
        refusal = next((one for one in answers if isinstance(one, FaultError)), None)
        if refusal is not None and not found:
            raise refusal
        return found

    async def _fence(self, session: Looker, fence: Fence) -> Fence | FaultError | None:
        """None: it leads out. A fault that is about this folder is given back."""
        try:
            return Fence(await self.real(session, fence.path) + "/", fence.write)
        except LeadsOutError:
            return None
        except FaultError as error:
            if error.fault.scope is not Scope.FILE or error.fault.kind not in _OF_A_FOLDER:
                raise
            return error

    def _within(self, real: str, root: str) -> str:
        """-> LeadsOutError"""
        inner = _inside(real, root)[len(root) :] or "/"
        if self._allows is not None and not self._allows(inner):
            raise LeadsOutError
        return real

    async def shown(self, session: Looker, folder: str, entries: Sequence[Entry]) -> list[Entry]:
        """The entries of a folder as users of the share see them: links that stay inside lead to a path of the share,
        and of all others nothing is told but that they are links."""
        if self._is_open or not any(_is_link(entry) for entry in entries):
            return list(entries)
        root, real = await self._real_root(session), await self.real(session, folder)
        found: list[Entry] = []
        left = MAX_LISTED
        for entry in entries:
            if _is_link(entry):
                left -= not session.resolves_links
                entry = await self._shown(session, entry, real, root) if left >= 0 else _closed(entry)
            found.append(entry)
        return found

    async def _shown(self, session: Looker, entry: Entry, folder: str, root: str) -> Entry:
        try:
            end = await _Walk(session, {f"{folder}/{entry.name}": entry}).go(folder, [entry.name])
            inner = self._within(end, root)[len(root) :] or "/"
        except FaultError as error:
            if error.fault.scope is not Scope.FILE:
                raise
            return _closed(entry)
        return replace(entry, link_target=inner)

    async def _real_root(self, session: Looker) -> str:
        if not session.tells_links:
            raise LinksUntoldError
        if (known := self._recall(self._root)) is not None:
            return known
        path = self._root
        if path == "/~" or path.startswith("/~/"):
            path = session.home.rstrip("/") + path[2:]
        return self._keep(self._root, await _Walk(session, lenient=True).go("", path.split("/")))

    async def _real_folder(self, session: Looker, folder: str, root: str) -> str:
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
    """One path, name by name, with the links in it followed.

    lenient: what may not be looked at is taken for no link. For the way to the root: a mistake there makes the folder
    smaller, never larger, since what a link leads to is compared by its true name.
    """

    def __init__(self, session: Looker, seen: dict[str, Entry | None] | None = None, *, lenient: bool = False) -> None:
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
            if not _is_link(entry):
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
        """Most paths have no link in them: all names at once are one round trip."""
        paths, here = [], start
        for name in list(filter(None, names))[:AT_ONCE]:
            here = f"{here}/{name}"
            paths.append(here)
        if len(paths) > 1:
            found = await asyncio.gather(*map(self._ask, paths), return_exceptions=True)
            for path, entry in zip(paths, found, strict=True):
                # What failed is asked again if the walk comes by: behind a link it is about another place.
                if not isinstance(entry, BaseException):
                    self._seen[path] = entry

    async def _look(self, path: str) -> Entry | None:
        if path not in self._seen:
            self._seen[path] = await self._ask(path)
        return self._seen[path]

    async def _ask(self, path: str) -> Entry | None:
        """None: nothing is there."""
        try:
            return await self._session.stat(path)
        except FaultError as error:
            if error.fault.kind in _GONE:
                return None
            if self._lenient and error.fault.kind is Kind.PERMISSION_DENIED:
                return Entry(path.rpartition("/")[2], "dir")
            raise


def placed(path: str, places: Mapping[str, str], *, follow: bool = True) -> str:
    """A path of the host by the name of the folder that it is in, as one without links on the way to that folder.

    places: of `Confinement.enter`. The longest name counts; a path in none of the folders stays as it is.
    follow False: it is about the last name itself, which may be a link.
    """
    if not places:
        return path
    inner = f"{path}/" if follow else path.rstrip("/")
    name = max((name for name in places if inner.startswith(f"{name}/")), key=len, default=None)
    return path if name is None else places[name] + path[len(name) :] or "/"


def _is_link(entry: Entry) -> bool:
    return entry.link_target is not None or entry.kind == "link"


def _inside(real: str, root: str) -> str:
    """-> LeadsOutError"""
    if not f"{real}/".startswith(f"{root}/"):
        raise LeadsOutError
    return real


def _parent(folder: str) -> str:
    """-> LeadsOutError above the root of the server"""
    if not folder:
        raise LeadsOutError
    return folder.rpartition("/")[0]


def _absolute(target: str) -> str:
    """What a server says of where a link leads to in the end. -> LeadsOutError for what is no such thing"""
    names = target.split("/")
    if not target.startswith("/") or ".." in names or "." in names or "//" in target:
        raise LeadsOutError
    return target.rstrip("/")


def _named(path: str, names: Iterable[str]) -> str:
    """Below what is not there, names are what they say. -> LeadsOutError for those that climb"""
    rest = [name for name in names if name not in ("", ".")]
    if ".." in rest:
        raise LeadsOutError
    return "/".join([path, *rest])


def _closed(entry: Entry) -> Entry:
    return Entry(entry.name, "link")
