"""What a user does to an endpoint at once, without a task: list, look, make a folder, rename, make a symlink.

Each call opens its own session, bounded in time: with the user's own credential, and on a shared endpoint with that of
its owner, for what a rule gives the user. Raises the registry's errors, PathNotPermittedError, OperationPausedError,
NotActivatedError, VaultError, `TargetRefused` of the gate, and FaultError for what the endpoint itself says:
LeadsOutError where a link leads out of what is shared. Nothing of all that names a path of the host to who only has the
share.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import aclosing, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeVar

from django.conf import settings

from identity.models import User

from . import access, activation, gate, patience, pausing, registry
from .access import Access
from .activation import Logins
from .confinement import Confinement, LeadsOutError
from .errors import NotActivatedError, PathNotPermittedError, SymlinkRefusedError
from .gridftp.client import LIST_FACTS, GridFTPSession
from .gridftp.facts import Entry
from .gridftp.faults import Fault, FaultError, Kind, Scope, make_fault
from .listings import MAX_ENTRIES, Kept
from .models import Endpoint, Server
from .patience import Seat
from .pausing import Operation
from .permissions import Verb

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Listing:
    """A folder of an endpoint. path: as asked, ending in "/"; absolute_path: what the server made of it."""

    endpoint: Endpoint
    path: str
    absolute_path: str
    entries: Sequence[Entry]
    #: Whether links can be made here.
    links: bool = False


def list_directory(
    user: User, ref: str, path: str | None, *, limit: int = MAX_ENTRIES, seat: Seat | None = None
) -> Listing:
    """The entries of a folder. FaultError(LIMIT_EXCEEDED) when there are more than `limit`.

    seat: of the request, which has it until it has been answered; by default one of its own, for as long as this takes.
    -> TooManyWaitingError where listings hold too much memory, and as this module
    """
    if seat is None:
        with patience.waiting(user.pk, patience.OPERATIONS) as seat:
            return list_directory(user, ref, path, limit=limit, seat=seat)
    endpoint = registry.resolve(user, ref, Verb.BROWSE)
    pausing.check(user, endpoint, Operation.LS)
    asked = (path or endpoint.default_directory).rstrip("/") + "/"
    ground = access.of(user, endpoint, Verb.BROWSE)
    ground.check(asked, write=False)

    async def work(session: GridFTPSession, confinement: Confinement, place: Sequence[str]) -> Listing:
        folder = place[0].rstrip("/") + "/"
        entries: list[Entry] = []
        # "/folder/" follows a symlink and is refused for a file, which is what a listing wants ...
        async with aclosing(session.listing(folder, Kept(seat, limit))) as batches:
            async for batch in batches:
                entries += batch
        # ... but the toolkit's server lists a file all the same, as if it were a folder with itself in it.
        if [entry.name for entry in entries] == [folder.split("/")[-2]] and not entries[0].is_directory:
            await _must_be_a_folder(session, folder)
        if ground.shared:
            shown = await confinement.shown(session, ground.real(asked), entries)
            return Listing(endpoint, asked, _from_root(asked), shown)
        absolute = session.encode_path(folder).decode("utf-8", "surrogateescape")
        return Listing(endpoint, asked, absolute, entries, _makes_links(session))

    return _on_session(user, ground, [asked], work, seat=seat)


async def _must_be_a_folder(session: GridFTPSession, path: str) -> None:
    if not (await session.stat(path.rstrip("/"))).is_directory:
        raise FaultError(make_fault(Kind.NOT_A_DIRECTORY, path))


def stat(user: User, ref: str, path: str) -> tuple[Endpoint, Entry]:
    """Facts of one thing."""
    endpoint = registry.resolve(user, ref, Verb.BROWSE)
    pausing.check(user, endpoint, Operation.LS)
    ground = access.of(user, endpoint, Verb.BROWSE)
    ground.check(path, write=False)

    async def work(session: GridFTPSession, confinement: Confinement, place: Sequence[str]) -> Entry:
        entry = await session.stat(place[0])
        if not ground.shared:
            return entry
        # Of a link, the place is what it leads to. The name of the root on its host is nobody's business.
        name = path.rstrip("/").rpartition("/")[2] if not _is_root(ground, path) else "/"
        target = await confinement.link_target(session, ground.real(path), place[0])
        return replace(entry, name=name, link_target=target or entry.link_target)

    return endpoint, _on_session(user, ground, [path], work)


def make_directory(user: User, ref: str, path: str) -> Endpoint:
    """Make a folder; FaultError(PATH_EXISTS) when something is there."""
    endpoint = registry.resolve(user, ref, Verb.WRITE)
    pausing.check(user, endpoint, Operation.MKDIR)
    ground = access.of(user, endpoint, Verb.WRITE)
    ground.check(path, write=True)

    async def work(session: GridFTPSession, _: Confinement, place: Sequence[str]) -> None:
        await session.make_directory(place[0])

    _on_session(user, ground, [path], work, write=True)
    return endpoint


def rename(user: User, ref: str, old_path: str, new_path: str) -> Endpoint:
    """Rename on one endpoint. On a shared one no link moves: a relative one would lead elsewhere then."""
    endpoint = registry.resolve(user, ref, Verb.WRITE)
    pausing.check(user, endpoint, Operation.RENAME)
    ground = access.of(user, endpoint, Verb.WRITE)
    for path in (old_path, new_path):
        _may_move(ground, path)

    async def work(session: GridFTPSession, _: Confinement, places: Sequence[str]) -> None:
        await session.rename(*places)

    _on_session(user, ground, [old_path, new_path], work, write=True, moves=True)
    return endpoint


def _may_move(ground: Access, path: str) -> None:
    """What moves changes the folder that it lies in, too. So the folder of a rule stays, and so does the one that is
    shared. -> PathNotPermittedError"""
    ground.check(path, write=True)
    if ground.shared:
        folder = path.rstrip("/").rpartition("/")[0] + "/"
        if _is_root(ground, path) or not ground.allows(folder, write=True):
            raise PathNotPermittedError(ground.endpoint, path, write=True)


def _is_root(ground: Access, path: str) -> bool:
    return ground.shown(ground.real(path).rstrip("/")) == "/"


async def _must_be_no_link(session: GridFTPSession, path: str) -> None:
    """-> LeadsOutError. Where the whole server is shared, links that nobody tells may be among what moves."""
    if not session.tells_links:
        raise LeadsOutError("This endpoint's servers do not tell symbolic links, so that nothing on a share moves.")
    entry = await session.stat(path.rstrip("/"))
    if entry.link_target is not None or entry.kind == "link":
        raise LeadsOutError("A symbolic link on a shared endpoint is not renamed: it could lead elsewhere then.")


def make_symlink(user: User, ref: str, target: str, path: str) -> Endpoint:
    """Make a symlink; target is its text. One that leads there already is fine.

    -> SymlinkRefusedError on a shared endpoint; FaultError(UNSUPPORTED) where no server makes links
    """
    endpoint = registry.resolve(user, ref, Verb.WRITE)
    pausing.check(user, endpoint, Operation.SYMLINK)
    if endpoint.host_id is not None:
        raise SymlinkRefusedError(endpoint)

    async def work(session: GridFTPSession, _: Confinement, __: Sequence[str]) -> None:
        if not _makes_links(session):
            raise FaultError(Fault(Kind.UNSUPPORTED, retryable=False, advice="This endpoint makes no symbolic links."))
        await session.make_symlink(target, path)

    _on_session(user, access.of(user, endpoint, Verb.WRITE), [path], work)
    return endpoint


def _makes_links(session: GridFTPSession) -> bool:
    """Who tells links makes them, too: both are the toolkit's additions to the protocol."""
    return session.tells_links


def _from_root(path: str) -> str:
    """On a share, `/~/` is its root."""
    return path[2:] if path.startswith("/~/") else path


#: What is done on a session, with the places on the host that it is about.
Work = Callable[[GridFTPSession, Confinement, Sequence[str]], Awaitable[_T]]


def _on_session(
    user: User,
    ground: Access,
    paths: Sequence[str],
    work: Work[_T],
    *,
    write: bool = False,
    moves: bool = False,
    seat: Seat | None = None,
) -> _T:
    """paths: what it is about, as the user names it; on a share all else is out of reach. moves: the first of them
    itself, and not what it leads to. seat: one that the request has already.

    -> NotActivatedError, VaultError, TooManyWaitingError, and as this module
    """
    logins = _logins(user, ground)
    servers = list(ground.host.servers.all())
    allows = None if ground.grounds is None else partial(ground.allows, write=write)

    async def confined(session: GridFTPSession) -> _T:
        confinement = Confinement(ground.root, allows)
        places = paths
        if ground.shared:
            places = await _enter(session, ground, confinement, paths, write=write, moves=moves)
        return await work(session, confinement, places)

    with nullcontext() if seat else patience.waiting(user.pk, patience.OPERATIONS):
        try:
            return asyncio.run(_run(servers, logins, confined))
        except FaultError as error:
            if ground.shared and user.pk != ground.actor_id:
                # The server's own words name its paths.
                error.fault = replace(error.fault, raw="")
            raise


async def _enter(
    session: GridFTPSession,
    ground: Access,
    confinement: Confinement,
    paths: Sequence[str],
    *,
    write: bool,
    moves: bool,
) -> list[str]:
    """Go into the folder that is shared, for good; the places that these paths mean. -> FaultError, LeadsOutError

    To look while the session sees all does no harm, and tells us more than a refusal later.
    """
    real = [ground.real(path) for path in paths]
    places = [await confinement.place(session, path, follow=not moves) for path in real]
    if moves:
        await _must_be_no_link(session, real[0])
    await confinement.enter(session, [fence._replace(write=fence.write and write) for fence in ground.fences(paths)])
    return places


def _logins(user: User, ground: Access) -> Logins:
    """-> NotActivatedError, VaultError"""
    try:
        return activation.logins(ground.actor_id, ground.host)
    except NotActivatedError:
        reason = activation.why_not_active(ground.endpoint, user.pk)
        raise NotActivatedError(ground.endpoint, reason) from None


async def _run(servers: Sequence[Server], logins: Logins, work: Callable[[GridFTPSession], Awaitable[_T]]) -> _T:
    try:
        # Below the time after which clients and servers in front give up (60 s of the Transfer API's own).
        async with asyncio.timeout(settings.OPERATION_SECONDS):
            session = await _open(servers, logins)
            try:
                return await work(session)
            finally:
                await session.close()
    except TimeoutError:
        raw = f"the endpoint did not finish within {settings.OPERATION_SECONDS:g} s"
        raise FaultError(make_fault(Kind.TIMEOUT, raw)) from None


async def _open(servers: Sequence[Server], logins: Logins) -> GridFTPSession:
    """A session to the first address of a server that answers."""
    last = FaultError(Fault(Kind.CONNECT_FAILED, scope=Scope.ENDPOINT, advice="The endpoint has no server."))
    for server in servers:
        hosts = await asyncio.to_thread(gate.resolve_target, server.hostname, server.port, allow=settings.ALLOW_TARGETS)
        login = logins.at(server.hostname, server.port, server.subject)
        for host in hosts:
            try:
                return await GridFTPSession.open(host, server.port, login=login, facts=LIST_FACTS)
            except FaultError as error:
                last = error
    raise FaultError(replace(last.fault, scope=Scope.ENDPOINT))
