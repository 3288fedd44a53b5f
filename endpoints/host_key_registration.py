"""Host keys of servers that are known by a fingerprint, read when a server is registered.

The owner sees the key that is kept, compares it with what `ssh-keygen -lf` prints on the host, and confirms it; until
then it is shown as unconfirmed. Where the owner gives the fingerprint at registration, nothing is read.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Collection
from dataclasses import replace

from django.conf import settings

from identity.error_categories import InvalidFieldError
from identity.models import User
from identity.vault.errors import VaultError

from . import concurrency_limits, protocols
from .activation import status as activation
from .addresses import gate
from .errors import NotActivatedError
from .gridftp.faults import FaultError
from .gridftp.wire.answering import by_answer
from .models import Endpoint
from .protocols import PROTOCOLS, KeyReader, ServerAddress
from .server_spec import ServerSpec

#: Seconds to look up the name of a server that is not connected to.
LOOKUP_SECONDS = 2.0


def pinned(user: User, spec: ServerSpec, jump_host: Endpoint | None) -> ServerSpec:
    """The spec with the host key that the server shows now, where it has none and its protocol reads one.

    Connects to the server, through the gate. A server of another scheme, or with a key, is not connected to, but its
    address passes the gate, too. Raises InvalidFieldError, TargetRefusedError, TooManyWaitingError.
    """
    if jump_host is not None:
        _require_jump_schemes({spec.scheme})
    read_key = PROTOCOLS[spec.scheme].read_key
    if read_key is None or spec.subject:
        if jump_host is None:
            _check_target(spec)
        return spec
    with concurrency_limits.RequestSlot(user.pk, concurrency_limits.OPERATIONS):
        try:
            return replace(spec, subject=asyncio.run(_read(read_key, user, spec, jump_host)), confirmed=False)
        except (FaultError, NotActivatedError, VaultError) as error:
            why = error.fault.advice or error.fault.raw if isinstance(error, FaultError) else str(error)
            reason = f"The host key of {spec.hostname} cannot be read now; give its fingerprint (SHA256:...). {why}"
            raise InvalidFieldError("subject", reason) from None


def _check_target(spec: ServerSpec) -> None:
    """Raises TargetRefusedError, but not for a name that has no address now: the server may be set up later."""
    with contextlib.suppress(gate.LookupFailedError):
        gate.resolve_target(spec.hostname, spec.port, allow=settings.ALLOW_TARGETS, timeout=LOOKUP_SECONDS)


async def _read(read_key: KeyReader, user: User, spec: ServerSpec, jump_host: Endpoint | None) -> str:
    jump = await asyncio.to_thread(activation.jump, user.pk, jump_host)
    host = spec.hostname
    if jump is None:
        hosts = await asyncio.to_thread(gate.resolve_target, host, spec.port, allow=settings.ALLOW_TARGETS)
        host, *_ = await by_answer(hosts, spec.port)
    return await read_key(ServerAddress(host, spec.port, spec.hostname, jump))


def check_jump_host(endpoint: Endpoint, jump_host: Endpoint | None) -> None:
    """Raises InvalidFieldError where a server cannot be reached through this endpoint."""
    if jump_host is None:
        return
    protocol = protocols.of_endpoint(jump_host)
    fits = protocol is not None and protocol.can_be_jump_host
    if jump_host.pk == endpoint.pk or jump_host.jump_host_id or not fits:
        reason = "A jump host is another endpoint with an ssh server, which is reached without a jump host."
        raise InvalidFieldError("jump_host", reason)
    _require_jump_schemes({server.scheme for server in endpoint.servers.all()})


def _require_jump_schemes(schemes: Collection[str]) -> None:
    """Raises InvalidFieldError where a server of these would be connected to directly all the same."""
    others = sorted(scheme for scheme in schemes if not protocols.of_scheme(scheme).uses_jump_host)
    if others:
        fitting = protocols.listed(protocols.schemes(lambda row: row.uses_jump_host), "and")
        reason = (
            f"Only {fitting} servers are reached through a jump host: {others[0]} servers would be connected to "
            "directly."
        )
        raise InvalidFieldError("jump_host", reason)
