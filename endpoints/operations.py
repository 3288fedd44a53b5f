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
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import TypeVar

from django.conf import settings

from identity.models import User

from . import access, activation, gate, patience, pausing, registry
from .access import Access
from .activation import Logins
from .confinement import Confinement, LeadsOutError
from .errors import PathNotPermittedError, SymlinkRefusedError
from .gridftp.client import LIST_FACTS, GridFTPSession
from .gridftp.facts import Entry
from .gridftp.faults import Fault, FaultError, Kind, Scope, make_fault
from .models import Endpoint, Server
from .pausing import Operation
from .permissions import Verb

#: Seconds for a whole operation: below the 60 s after which the clients of the Transfer API give up.
OPERATION_TIMEOUT = 50.0
#: Entries of one listing; a longer one is refused (the Transfer API's limit, ExternalError.DirListingFailed.SizeLimit).
MAX_ENTRIES = 100_000

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


def list_directory(user: User, ref: str, path: str | None, *, limit: int = MAX_ENTRIES) -> Listing:
    """The entries of a folder. FaultError(LIMIT_EXCEEDED) when there are more than `limit`."""
    endpoint = registry.resolve(user, ref, Verb.BROWSE)
    pausing.check(user, endpoint, Operation.LS)
    asked = (path or endpoint.default_directory).rstrip("/") + "/"
    ground = access.of(user, endpoint, Verb.BROWSE)
    ground.check(asked, write=False)
    folder = ground.real(asked)

    async def work(session: GridFTPSession) -> Listing:
        confinement = Confinement(ground.root)
        await confinement.check(session, folder)
        entries: list[Entry] = []
        # "/folder/" follows a symlink and is refused for a file, which is what a listing wants ...
        async with aclosing(session.listing(folder)) as batches:
            async for batch in batches:
                entries += batch
                if len(entries) > limit:
                    raise FaultError(make_fault(Kind.LIMIT_EXCEEDED, f"more than {limit} entries in {asked}"))
        # ... but the toolkit's server lists a file all the same, as if it were a folder with itself in it.
        if [entry.name for entry in entries] == [folder.split("/")[-2]] and not entries[0].is_directory:
            await _must_be_a_folder(session, folder)
        if ground.shared:
            shown = await confinement.shown(session, folder, entries)
            return Listing(endpoint, asked, _from_root(asked), shown)
        absolute = session.encode_path(folder).decode("utf-8", "surrogateescape")
        return Listing(endpoint, asked, absolute, entries, _makes_links(session))

    return _on_session(user, ground, work)


async def _must_be_a_folder(session: GridFTPSession, path: str) -> None:
    if not (await session.stat(path.rstrip("/"))).is_directory:
        raise FaultError(make_fault(Kind.NOT_A_DIRECTORY, path))


def stat(user: User, ref: str, path: str) -> tuple[Endpoint, Entry]:
    """Facts of one thing."""
    endpoint = registry.resolve(user, ref, Verb.BROWSE)
    pausing.check(user, endpoint, Operation.LS)
    ground = access.of(user, endpoint, Verb.BROWSE)
    ground.check(path, write=False)

    async def work(session: GridFTPSession) -> Entry:
        confinement, real = Confinement(ground.root), ground.real(path)
        await confinement.check(session, real)
        entry = await session.stat(real)
        if not ground.shared:
            return entry
        if ground.shown(real.rstrip("/")) == "/":
            # The name of the folder on its host is nobody's business.
            return replace(entry, name="/", link_target=None)
        [entry] = await confinement.shown(session, real.rstrip("/").rpartition("/")[0], [entry])
        return entry

    return endpoint, _on_session(user, ground, work)


def make_directory(user: User, ref: str, path: str) -> Endpoint:
    """Make a folder; FaultError(PATH_EXISTS) when something is there."""
    endpoint = registry.resolve(user, ref, Verb.WRITE)
    pausing.check(user, endpoint, Operation.MKDIR)
    ground = access.of(user, endpoint, Verb.WRITE)
    ground.check(path, write=True)

    async def work(session: GridFTPSession) -> None:
        real = ground.real(path)
        await Confinement(ground.root).check(session, real)
        await session.make_directory(real)

    _on_session(user, ground, work)
    return endpoint


def rename(user: User, ref: str, old_path: str, new_path: str) -> Endpoint:
    """Rename on one endpoint. On a shared one no link moves: a relative one would lead elsewhere then."""
    endpoint = registry.resolve(user, ref, Verb.WRITE)
    pausing.check(user, endpoint, Operation.RENAME)
    ground = access.of(user, endpoint, Verb.WRITE)
    for path in (old_path, new_path):
        ground.check(path, write=True)

    async def work(session: GridFTPSession) -> None:
        old, new = ground.real(old_path), ground.real(new_path)
        if ground.shared:
            await _may_move(session, ground, old, new)
        await session.rename(old, new)

    _on_session(user, ground, work)
    return endpoint


async def _may_move(session: GridFTPSession, ground: Access, old: str, new: str) -> None:
    """-> PathNotPermittedError for the root of the share, LeadsOutError"""
    confinement = Confinement(ground.root)
    for path in (old, new):
        if ground.shown(path.rstrip("/")) == "/":
            raise PathNotPermittedError(ground.endpoint, "/", write=True)
        await confinement.check(session, path, follow=False)
    if not session.tells_links:
        raise LeadsOutError(_NO_LINKS_TOLD)
    entry = await session.stat(old.rstrip("/"))
    if entry.link_target is not None or entry.kind == "link":
        raise LeadsOutError("A symbolic link on a shared endpoint is not renamed: it could lead elsewhere then.")


_NO_LINKS_TOLD = "This endpoint's servers do not tell symbolic links, so that nothing on a share can be renamed."


def make_symlink(user: User, ref: str, target: str, path: str) -> Endpoint:
    """Make a symlink; target is its text. One that leads there already is fine.

    -> SymlinkRefusedError on a shared endpoint; FaultError(UNSUPPORTED) where no server makes links
    """
    endpoint = registry.resolve(user, ref, Verb.WRITE)
    pausing.check(user, endpoint, Operation.SYMLINK)
    if endpoint.host_id is not None:
        raise SymlinkRefusedError(endpoint)

    async def work(session: GridFTPSession) -> None:
        if not _makes_links(session):
            raise FaultError(Fault(Kind.UNSUPPORTED, retryable=False, advice="This endpoint makes no symbolic links."))
        await session.make_symlink(target, path)

    _on_session(user, access.of(user, endpoint, Verb.WRITE), work)
    return endpoint


def _makes_links(session: GridFTPSession) -> bool:
    """Who tells links makes them, too: both are the toolkit's additions to the protocol."""
    return session.tells_links


def _from_root(path: str) -> str:
    """On a share, `/~/` is its root."""
    return path[2:] if path.startswith("/~/") else path


def _on_session(user: User, ground: Access, work: Callable[[GridFTPSession], Awaitable[_T]]) -> _T:
    """-> NotActivatedError, VaultError, TooManyWaitingError, and as this module"""
    logins = activation.logins(ground.actor_id, ground.host)
    servers = list(ground.host.servers.all())
    with patience.waiting(user.pk, patience.OPERATIONS):
        try:
            return asyncio.run(_run(servers, logins, work))
        except FaultError as error:
            if ground.shared and user.pk != ground.actor_id:
                # The server's own words name its paths.
                error.fault = replace(error.fault, raw="")
            raise


async def _run(servers: Sequence[Server], logins: Logins, work: Callable[[GridFTPSession], Awaitable[_T]]) -> _T:
    try:
        async with asyncio.timeout(OPERATION_TIMEOUT):
            session = await _open(servers, logins)
            try:
                return await work(session)
            finally:
                await session.close()
    except TimeoutError:
        raw = f"the endpoint did not finish within {OPERATION_TIMEOUT:g} s"
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
