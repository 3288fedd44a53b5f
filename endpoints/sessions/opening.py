"""Sessions to the servers of an endpoint, with the credentials of a user."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import TypeVar

from django.conf import settings

from endpoints.activation import status as activation
from endpoints.activation.status import Logins
from endpoints.addresses import gate
from endpoints.connect.login import AGENT_PORT
from endpoints.errors import NotActivatedError
from endpoints.gridftp.client import LIST_FACTS, GridFTPSession
from endpoints.gridftp.faults import Fault, FaultError, FaultScope, Kind, make_fault
from endpoints.gridftp.wire.answering import by_answer
from endpoints.models import Server
from endpoints.sharing.access import Access
from endpoints.sharing.confinement import Confinement
from identity.models import User

from . import remote
from .remote import RemoteSession

_T = TypeVar("_T")


def logins_of(user: User, granted: Access) -> Logins:
    """The logins with which this user may open sessions. Raises NotActivatedError, VaultError."""
    try:
        return activation.logins(granted.actor_id, granted.host)
    except NotActivatedError:
        reason = activation.why_not_active(granted.endpoint, user.pk)
        raise NotActivatedError(granted.endpoint, reason) from None


async def addresses(server: Server, logins: Logins) -> list[str]:
    """Where to connect to a server: addresses that have passed the gate. A jump host resolves the names behind it.

    Raises TargetRefusedError.
    """
    if logins.through_jump_host:
        return [server.hostname]
    hosts = await asyncio.to_thread(gate.resolve_target, server.hostname, server.port, allow=settings.ALLOW_TARGETS)
    return await by_answer(hosts, server.port)


async def open_session(servers: Sequence[Server], logins: Logins) -> RemoteSession:
    """A session to the agent of the endpoint, or to the first address of a server that answers."""
    if logins.agent is not None:
        return await GridFTPSession.open("", AGENT_PORT, login=logins.agent, facts=LIST_FACTS)
    last = FaultError(Fault(Kind.CONNECT_FAILED, scope=FaultScope.ENDPOINT, advice="The endpoint has no server."))
    for server in servers:
        hosts = await addresses(server, logins)
        login = logins.at(server.hostname, server.port, server.subject)
        for host in hosts:
            try:
                return await remote.open_session(host, server.port, login, facts=LIST_FACTS)
            except FaultError as error:
                last = error
    raise FaultError(replace(last.fault, scope=FaultScope.ENDPOINT))


def confinement_of(granted: Access, *, write: bool) -> Confinement:
    """The confinement of one session to what the user may access."""
    allows = None if granted.allowed_paths is None else partial(granted.allows, write=write)
    return Confinement(granted.root, allows)


def hides_host(user: User, granted: Access) -> bool:
    """Whether the user may see only the share, and no path of its host."""
    return granted.shared and user.pk != granted.actor_id


@contextmanager
def host_paths_hidden(user: User, granted: Access) -> Iterator[None]:
    """Remove the server's own text, which contains its paths, from faults for users who may see only the share."""
    try:
        yield
    except FaultError as error:
        if hides_host(user, granted):
            error.fault = replace(error.fault, raw="")
        raise


async def within(seconds: float, work: Awaitable[_T]) -> _T:
    """The result of the work. Raises FaultError where the endpoint takes longer.

    By default it has less than the timeout of clients and reverse proxies (60 s for the Transfer API's own).
    """
    try:
        async with asyncio.timeout(seconds):
            return await work
    except TimeoutError:
        raise FaultError(make_fault(Kind.TIMEOUT, f"the endpoint did not finish within {seconds:g} s")) from None
