"""What a user does to an endpoint at once, without a task: list, look, make a folder, rename.

Each call opens its own session with the user's own credential, bounded in time. Raises the registry's errors,
NotActivatedError, VaultError, `TargetRefused` of the gate, and FaultError for what the endpoint itself says.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import TypeVar

from django.conf import settings

from identity.models import User

from . import activation, gate, patience, registry
from .activation import Logins
from .gridftp.client import LIST_FACTS, GridFTPSession
from .gridftp.facts import Entry
from .gridftp.faults import Fault, FaultError, Kind, Scope, make_fault
from .models import Endpoint, Server
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


def list_directory(user: User, ref: str, path: str | None, *, limit: int = MAX_ENTRIES) -> Listing:
    """The entries of a folder. FaultError(LIMIT_EXCEEDED) when there are more than `limit`."""
    endpoint = registry.resolve(user, ref, Verb.BROWSE)
    folder = (path or endpoint.default_directory).rstrip("/") + "/"

    async def work(session: GridFTPSession) -> Listing:
        entries: list[Entry] = []
        # "/folder/" follows a symlink and is refused for a file, which is what a listing wants ...
        async with aclosing(session.listing(folder)) as batches:
            async for batch in batches:
                entries += batch
                if len(entries) > limit:
                    raise FaultError(make_fault(Kind.LIMIT_EXCEEDED, f"more than {limit} entries in {folder}"))
        # ... but the toolkit's server lists a file all the same, as if it were a folder with itself in it.
        if [entry.name for entry in entries] == [folder.split("/")[-2]] and not entries[0].is_directory:
            await _must_be_a_folder(session, folder)
        return Listing(endpoint, folder, session.encode_path(folder).decode("utf-8", "surrogateescape"), entries)

    return _on_session(user, endpoint, work)


async def _must_be_a_folder(session: GridFTPSession, path: str) -> None:
    if not (await session.stat(path.rstrip("/"))).is_directory:
        raise FaultError(make_fault(Kind.NOT_A_DIRECTORY, path))


def stat(user: User, ref: str, path: str) -> tuple[Endpoint, Entry]:
    """Facts of one thing."""
    endpoint = registry.resolve(user, ref, Verb.BROWSE)
    return endpoint, _on_session(user, endpoint, lambda session: session.stat(path))


def make_directory(user: User, ref: str, path: str) -> Endpoint:
    """Make a folder; FaultError(PATH_EXISTS) when something is there."""
    endpoint = registry.resolve(user, ref, Verb.WRITE)
    _on_session(user, endpoint, lambda session: session.make_directory(path))
    return endpoint


def rename(user: User, ref: str, old_path: str, new_path: str) -> Endpoint:
    """Rename on one endpoint."""
    endpoint = registry.resolve(user, ref, Verb.WRITE)
    _on_session(user, endpoint, lambda session: session.rename(old_path, new_path))
    return endpoint


def _on_session(user: User, endpoint: Endpoint, work: Callable[[GridFTPSession], Awaitable[_T]]) -> _T:
    """-> NotActivatedError, VaultError, TooManyWaitingError, and as this module"""
    logins = activation.logins(user.pk, endpoint)
    servers = list(endpoint.servers.all())
    with patience.waiting(user.pk, patience.OPERATIONS):
        return asyncio.run(_run(servers, logins, work))


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
