"""Operations on an endpoint without a task: list a folder, stat, make a folder, rename, make a symlink.

Each call opens a session of limited duration: with the user's own credential, or on a shared endpoint with that of its
owner, confined to what an access rule gives the user. Raises the registry's errors, PathNotPermittedError,
OperationPausedError, NotActivatedError, VaultError, TargetRefusedError of the gate, and FaultError for errors of the
endpoint (LeadsOutError when a link leads out of the shared folder). No error names a path of the host to users who may
see only the share.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing, nullcontext, suppress
from dataclasses import dataclass, replace
from typing import TypeVar

from django.conf import settings

from identity.error_categories import RefusedError
from identity.models import User

from . import concurrency_limits, pause_rules, registry
from .activation.status import Logins
from .concurrency_limits import RequestSlot
from .errors import SYMLINK_REFUSED, PathNotPermittedError
from .gridftp.facts import Entry
from .gridftp.faults import Fault, FaultError, Kind, make_fault
from .gridftp.listing import Allowance
from .listing_limits import MAX_ENTRIES, ListingAllowance
from .models import Endpoint, Server
from .pause_rules import PausableOperation
from .permissions import Permission
from .sessions import opening
from .sessions.remote import RemoteSession
from .sharing import access
from .sharing.access import Access
from .sharing.confinement import Confinement, LeadsOutError

_T = TypeVar("_T")

#: Folders that one call of `make_directories` creates; each takes a session.
MAX_LEVELS = 100


@dataclass(frozen=True, slots=True)
class Listing:
    """A folder of an endpoint. path: as requested, ending in "/"; absolute_path: as the server resolved it."""

    endpoint: Endpoint
    path: str
    absolute_path: str
    entries: Sequence[Entry]
    #: Whether symbolic links can be created here.
    links: bool = False
    #: Where asked for: the facts of the folder itself, and of the folder above it (of the root: the root again).
    around: Sequence[Entry] = ()
    #: Why entries are missing; "" where the listing is complete.
    incomplete: str = ""
    #: Whether access rules let the user change what is in it; the server may still refuse.
    writable: bool = True


@dataclass(frozen=True, slots=True)
class ListableFolder:
    """A folder that a user may list. path: as Listing.path."""

    path: str
    granted: Access

    def incomplete(self, user: User, allowance: Allowance) -> str:
        """Why entries are missing in its listing, as this user may see it; "" where the listing is complete."""
        fault = allowance.incomplete
        if fault is None:
            return ""
        return fault.advice if opening.hides_host(user, self.granted) else f"{fault.advice} ({fault.raw})"


#: The permission that each operation takes.
_PERMISSIONS = {
    PausableOperation.LS: Permission.BROWSE,
    PausableOperation.MKDIR: Permission.WRITE,
    PausableOperation.RENAME: Permission.WRITE,
    PausableOperation.SYMLINK: Permission.WRITE,
    PausableOperation.UPLOAD: Permission.TRANSFER_TO,
    PausableOperation.DOWNLOAD: Permission.TRANSFER_FROM,
}


def access_for(user: User, ref: str, operation: PausableOperation) -> Access:
    """The user's access to an endpoint for this operation. Raises the registry's errors, OperationPausedError."""
    verb = _PERMISSIONS[operation]
    endpoint = registry.resolve(user, ref, verb)
    pause_rules.check(user, endpoint, operation)
    return access.of(user, endpoint, verb)


def list_directory(
    user: User,
    ref: str,
    path: str | None,
    *,
    limit: int = MAX_ENTRIES,
    slot: RequestSlot | None = None,
    around: bool = False,
    partial: bool = False,
) -> Listing:
    """The entries of a folder. Raises FaultError(LIMIT_EXCEEDED) when there are more than `limit`.

    partial: where the server's listing is incomplete, return what it shows, with `Listing.incomplete`.
    slot: the slot of the request, which keeps it until it is answered; by default a slot for the duration of this call.
    Raises TooManyWaitingError when listings hold too much memory, and the errors of this module.
    """
    if slot is None:
        with concurrency_limits.RequestSlot(user.pk, concurrency_limits.OPERATIONS) as slot:
            return list_directory(user, ref, path, limit=limit, slot=slot, around=around, partial=partial)
    folder = folder_of(user, ref, path)
    granted = folder.granted

    async def work(session: RemoteSession, confinement: Confinement, resolved: Sequence[str]) -> Listing:
        entries: list[Entry] = []
        allowance = ListingAllowance(slot, limit, partial=partial)
        async with aclosing(batches(session, folder, confinement, resolved[0], allowance)) as found:
            async for batch in found:
                entries += batch
        beside = await _around(session, resolved) if around else ()
        incomplete = folder.incomplete(user, allowance)
        return replace(described(session, folder, resolved[0]), entries=entries, around=beside, incomplete=incomplete)

    paths = [folder.path, *_above(granted, folder.path)] if around else [folder.path]
    return _on_session(user, granted, paths, work, slot=slot)


def folder_of(user: User, ref: str, path: str | None) -> ListableFolder:
    """A folder that the user may list now; path None: where the endpoint begins. Raises the errors of this module."""
    granted = access_for(user, ref, PausableOperation.LS)
    asked = (path or granted.endpoint.default_directory).rstrip("/") + "/"
    granted.check(asked, write=False)
    return ListableFolder(asked, granted)


def described(session: RemoteSession, folder: ListableFolder, resolved: str) -> Listing:
    """The folder as its listing shows it, without entries. resolved: its path on the host."""
    endpoint = folder.granted.endpoint
    if folder.granted.shared:
        writable = folder.granted.allows(folder.path, write=True)
        return Listing(endpoint, folder.path, access.from_root(folder.path), (), writable=writable)
    absolute = session.encode_path(resolved.rstrip("/") + "/").decode("utf-8", "surrogateescape").rstrip("/") + "/"
    return Listing(endpoint, folder.path, absolute, (), _makes_links(session))


async def batches(
    session: RemoteSession, folder: ListableFolder, confinement: Confinement, resolved: str, allowance: Allowance
) -> AsyncGenerator[Sequence[Entry], None]:
    """The entries of a folder as the server sends them. Raises FaultError, also half-way.

    The links of a share come last: they are resolved by requests, which the server answers after the listing.
    """
    place = resolved.rstrip("/") + "/"
    own_name, shared, first = place.split("/")[-2], folder.granted.shared, True
    held: list[Entry] = []
    # "/folder/" follows a symlink and is refused for a file, as a listing requires ...
    async with aclosing(session.listing(place, allowance)) as found:
        async for batch in found:
            # ... but the toolkit's server lists a file nevertheless, as a folder that contains itself.
            itself = first and _holds_only(own_name, batch) and not batch[0].is_directory
            first = False
            later, now = (batch, ()) if itself else _links_and_others(batch) if shared else ((), batch)
            held += later
            if now:
                yield now
    if _holds_only(own_name, held):
        await _must_be_a_folder(session, place)
    if held:
        yield await confinement.shown(session, folder.granted.real(folder.path), held) if shared else held


def _holds_only(name: str, entries: Sequence[Entry]) -> bool:
    return len(entries) == 1 and entries[0].name == name


def _links_and_others(entries: Sequence[Entry]) -> tuple[Sequence[Entry], Sequence[Entry]]:
    return [one for one in entries if one.is_link], [one for one in entries if not one.is_link]


def _above(granted: Access, folder: str) -> list[str]:
    """The folder above this one; none above a root, and none that the user may not see."""
    path = folder.rstrip("/")
    parent = path.rpartition("/")[0] + "/"
    return [parent] if path not in ("", "/~") and granted.allows(parent, write=False) else []


async def _around(session: RemoteSession, resolved: Sequence[str]) -> tuple[Entry, Entry]:
    """The facts of the folder, and of the one above it. The server may refuse the latter; the folder stands for it."""
    own = above = await session.stat(resolved[0].rstrip("/") or "/")
    if len(resolved) > 1:
        with suppress(FaultError):
            above = await session.stat(resolved[1].rstrip("/") or "/")
    return own, above


async def _must_be_a_folder(session: RemoteSession, path: str) -> None:
    if not (await session.stat(path.rstrip("/"))).is_directory:
        raise FaultError(make_fault(Kind.NOT_A_DIRECTORY, path))


def stat(user: User, ref: str, path: str) -> tuple[Endpoint, Entry]:
    """The facts of one file, folder or link."""
    granted = access_for(user, ref, PausableOperation.LS)
    granted.check(path, write=False)

    async def work(session: RemoteSession, confinement: Confinement, resolved: Sequence[str]) -> Entry:
        entry = await session.stat(resolved[0])
        if not granted.shared:
            return entry
        # For a link, the resolved path is its target. The name of the shared root on its host is not shown.
        name = path.rstrip("/").rpartition("/")[2] if not _is_root(granted, path) else "/"
        target = await confinement.link_target(session, granted.real(path), resolved[0])
        return entry._replace(name=name, link_target=target or entry.link_target)

    return granted.endpoint, _on_session(user, granted, [path], work)


def make_directory(user: User, ref: str, path: str) -> Endpoint:
    """Create a folder. Raises FaultError(PATH_EXISTS) when the path exists."""
    granted = access_for(user, ref, PausableOperation.MKDIR)
    granted.check(path, write=True)

    async def work(session: RemoteSession, _: Confinement, resolved: Sequence[str]) -> None:
        await session.make_directory(resolved[0])

    _on_session(user, granted, [path], work, write=True)
    return granted.endpoint


def make_directories(user: User, ref: str, path: str) -> Endpoint:
    """Create a folder and the missing ones above it, at most MAX_LEVELS. Nothing is done where the folder exists.

    Raises FaultError(PATH_EXISTS) when the path exists and is no folder.
    """
    missing = [path.rstrip("/") or "/"]
    while not _made(user, ref, missing[-1], climb=len(missing) < MAX_LEVELS):
        missing.append(missing[-1].rpartition("/")[0])
    for level in reversed(missing[:-1]):
        _made(user, ref, level, climb=False)
    return registry.resolve(user, ref, Permission.WRITE)


def _made(user: User, ref: str, path: str, *, climb: bool) -> bool:
    """Create a folder if there is none. climb: return False where the folder above it is missing."""
    try:
        make_directory(user, ref, path)
    except FaultError as error:
        kind = error.fault.kind
        if climb and kind is Kind.FILE_NOT_FOUND and path.rpartition("/")[0] not in ("", "/~"):
            return False
        if kind is not Kind.PATH_EXISTS or not _is_folder(user, ref, path):
            raise
    return True


def _is_folder(user: User, ref: str, path: str) -> bool:
    return stat(user, ref, path)[1].is_directory


def rename(user: User, ref: str, old_path: str, new_path: str) -> Endpoint:
    """Rename on one endpoint. Links on a shared endpoint are not moved: a relative link would then lead elsewhere."""
    granted = access_for(user, ref, PausableOperation.RENAME)
    for path in (old_path, new_path):
        _may_move(granted, path)

    async def work(session: RemoteSession, _: Confinement, resolved: Sequence[str]) -> None:
        await session.rename(*resolved)

    _on_session(user, granted, [old_path, new_path], work, write=True, moves=True)
    return granted.endpoint


def _may_move(granted: Access, path: str) -> None:
    """Moving something also changes its folder, which must be writable; the root of a rule and that of the share stay.

    Raises PathNotPermittedError.
    """
    granted.check(path, write=True)
    if granted.shared:
        folder = path.rstrip("/").rpartition("/")[0] + "/"
        if _is_root(granted, path) or not granted.allows(folder, write=True):
            raise PathNotPermittedError(granted.endpoint, path)


def _is_root(granted: Access, path: str) -> bool:
    return granted.shown(granted.real(path).rstrip("/")) == "/"


async def _must_be_no_link(session: RemoteSession, path: str) -> None:
    """Raises LeadsOutError for a link. If the server does not report links, nothing on a share can be moved."""
    if not session.tells_links:
        raise LeadsOutError("This endpoint's servers do not report symbolic links, so nothing on a share can be moved.")
    entry = await session.stat(path.rstrip("/"))
    if entry.is_link:
        raise LeadsOutError("A symbolic link on a shared endpoint cannot be renamed: it could then lead elsewhere.")


def make_symlink(user: User, ref: str, target: str, path: str) -> Endpoint:
    """Create a symlink with the text `target`. Succeeds if it exists with this target already.

    Raises SYMLINK_REFUSED on a shared endpoint, FaultError(UNSUPPORTED) when no server creates links.
    """
    granted = access_for(user, ref, PausableOperation.SYMLINK)
    if granted.shared:
        raise RefusedError(SYMLINK_REFUSED)

    async def work(session: RemoteSession, _: Confinement, __: Sequence[str]) -> None:
        if not _makes_links(session):
            raise FaultError(Fault(Kind.UNSUPPORTED, retryable=False, advice="This endpoint makes no symbolic links."))
        await session.make_symlink(target, path)

    _on_session(user, granted, [path], work)
    return granted.endpoint


def _makes_links(session: RemoteSession) -> bool:
    """A server that reports links also creates them: both are the toolkit's extensions of the protocol."""
    return session.tells_links


#: The work on an open session, with the resolved paths on the host.
Work = Callable[[RemoteSession, Confinement, Sequence[str]], Awaitable[_T]]


def _on_session(
    user: User,
    granted: Access,
    paths: Sequence[str],
    work: Work[_T],
    *,
    write: bool = False,
    moves: bool = False,
    slot: RequestSlot | None = None,
) -> _T:
    """Run `work` on a session. paths: the paths of the operation as the user names them; on a share nothing else can be
    reached. moves: the first path means the link itself, not its target. slot: a slot that the request holds already.

    Raises NotActivatedError, VaultError, TooManyWaitingError, and the errors of this module.
    """
    logins = opening.logins_of(user, granted)
    servers = list(granted.host.servers.all())

    async def confined(session: RemoteSession) -> _T:
        confinement = opening.confinement_of(granted, write=write)
        resolved = paths
        if granted.shared:
            resolved = await enter(session, granted, confinement, paths, write=write, moves=moves)
        return await work(session, confinement, resolved)

    own_slot = nullcontext() if slot else concurrency_limits.RequestSlot(user.pk, concurrency_limits.OPERATIONS)
    with own_slot, opening.host_paths_hidden(user, granted):
        return asyncio.run(opening.within(settings.OPERATION_SECONDS, _run(servers, logins, confined)))


async def enter(
    session: RemoteSession,
    granted: Access,
    confinement: Confinement,
    paths: Sequence[str],
    *,
    write: bool,
    moves: bool = False,
) -> list[str]:
    """Confine the session to the shared folder; returns the paths on the host. Raises FaultError, LeadsOutError.

    Links are resolved before the session is confined, because its errors are then more precise.
    """
    real = [granted.real(path) for path in paths]
    resolved = [await confinement.resolve(session, path, follow=not moves) for path in real]
    if moves:
        await _must_be_no_link(session, real[0])
    await confinement.confine(
        session, [folder._replace(write=folder.write and write) for folder in granted.folders(paths)]
    )
    return resolved


async def _run(servers: Sequence[Server], logins: Logins, work: Callable[[RemoteSession], Awaitable[_T]]) -> _T:
    session = await opening.open_session(servers, logins)
    try:
        return await work(session)
    finally:
        await session.close()
