"""Host keys of `ssh`, `sftp` and `ftpes` servers, read when a server is registered.

The owner sees the key that is kept, compares it with what `ssh-keygen -lf` prints on the host, and confirms it; until
then it is shown as unconfirmed. Where the owner gives the fingerprint at registration, nothing is read.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from dataclasses import replace

from django.conf import settings

from identity.models import User
from identity.vault.errors import VaultError

from . import concurrency_limits
from .activation import status as activation
from .addresses import gate
from .errors import EndpointInvalidError, NotActivatedError
from .gridftp.connection import CONNECT_TIMEOUT
from .gridftp.faults import FaultError
from .gridftp.ftp_tls.login import shown_key
from .gridftp.wire.answering import by_answer
from .models import Endpoint
from .server_spec import JUMP_SCHEMES, SSH_SCHEMES, ServerSpec


def pinned(user: User, spec: ServerSpec, jump_host: Endpoint | None) -> ServerSpec:
    """The spec with the host key that the server shows now, where an `ssh`, `sftp` or `ftpes` server has none.

    An `ftpes` server whose certificate is trusted, and for its name, needs none.

    Connects to the server, through the gate. Raises EndpointInvalidError, TargetRefusedError, TooManyWaitingError.
    """
    if jump_host is not None:
        _require_jump_schemes({spec.scheme})
    if spec.scheme not in ("ssh", "sftp", "ftpes") or spec.subject:
        return spec
    with concurrency_limits.RequestSlot(user.pk, concurrency_limits.OPERATIONS):
        try:
            return replace(spec, subject=asyncio.run(_read(user, spec, jump_host)), confirmed=False)
        except (FaultError, NotActivatedError, VaultError) as error:
            why = error.fault.advice or error.fault.raw if isinstance(error, FaultError) else str(error)
            reason = f"The host key of {spec.hostname} cannot be read now; give its fingerprint (SHA256:...). {why}"
            raise EndpointInvalidError("subject", reason) from None


async def _read(user: User, spec: ServerSpec, jump_host: Endpoint | None) -> str:
    from .ssh.connection import shown_host_key

    jump = await asyncio.to_thread(activation.jump, user.pk, jump_host)
    if jump is not None:
        return await shown_host_key(spec.hostname, spec.port, timeout=CONNECT_TIMEOUT, jump=jump)
    hosts = await asyncio.to_thread(gate.resolve_target, spec.hostname, spec.port, allow=settings.ALLOW_TARGETS)
    host, *_ = await by_answer(hosts, spec.port)
    if spec.scheme == "ftpes":
        return await shown_key(host, spec.port, spec.hostname, settings.CERTIFICATES, timeout=CONNECT_TIMEOUT)
    return await shown_host_key(host, spec.port, timeout=CONNECT_TIMEOUT)


def check_jump_host(endpoint: Endpoint, jump_host: Endpoint | None) -> None:
    """Raises EndpointInvalidError where a server cannot be reached through this endpoint."""
    if jump_host is None:
        return
    schemes = {server.scheme for server in jump_host.servers.all()}
    if jump_host.pk == endpoint.pk or jump_host.jump_host_id or not schemes or schemes - SSH_SCHEMES:
        reason = "A jump host is another endpoint with an ssh server, which is reached without a jump host."
        raise EndpointInvalidError("jump_host", reason)
    _require_jump_schemes({server.scheme for server in endpoint.servers.all()})


def _require_jump_schemes(schemes: Collection[str]) -> None:
    """Raises EndpointInvalidError where a server of these would be connected to directly all the same."""
    others = sorted(set(schemes) - JUMP_SCHEMES)
    if others:
        reason = (
            f"Only ssh servers are reached through a jump host; an {others[0]} server would be connected to directly."
        )
        raise EndpointInvalidError("jump_host", reason)
