"""Removal of what this service has left in ssh accounts: the cached copy of our server."""

from __future__ import annotations

import asyncio

from identity.error_categories import InvalidFieldError
from identity.models import User

from . import concurrency_limits, protocols, registry
from .models import Endpoint
from .permissions import Permission
from .sessions import opening
from .sharing import access


def remove_programs(user: User, ref: str) -> tuple[Endpoint, bool]:
    """Remove it from the user's accounts on the endpoint's servers; also, whether the cache folders are gone now.

    A folder with other files stays, with these files. Raises the errors of `operations`.
    """
    from .ssh.accounts.account_login import AccountLogin, remove_program

    endpoint = registry.resolve(user, ref, Permission.BROWSE)
    servers = registry.servers(endpoint)
    # The ssh accounts of a share belong to the owner of its host.
    protocol = protocols.of_endpoint(endpoint)
    if endpoint.host_id is not None or protocol is None or not protocol.runs_program:
        fitting = protocols.listed(protocols.schemes(lambda row: row.runs_program), "and")
        raise InvalidFieldError("endpoint", f"Only accounts of {fitting} servers have a program of this service.")
    logins = opening.logins_of(user, access.of(user, endpoint, Permission.BROWSE))

    async def remove() -> bool:
        gone = True
        for server in servers:
            login = logins.at(server.hostname, server.port, server.subject)
            assert isinstance(login, AccountLogin)
            host, *_ = await opening.addresses(server, logins)
            gone = await remove_program(login, host, server.port) and gone
        return gone

    with concurrency_limits.RequestSlot(user.pk, concurrency_limits.OPERATIONS):
        return endpoint, asyncio.run(remove())
