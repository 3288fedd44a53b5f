"""Prepares a slice from its lease: its sessions, its credentials, the guards of shared endpoints, and its store."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, NamedTuple

from django.conf import settings

from endpoints.connect import dial
from endpoints.gridftp.faults import Side
from endpoints.gridftp.wire.fence import Fence
from endpoints.sharing.access import Access
from identity.clock import CarriedClock
from transferapi.tasks.worker import leases
from transferapi.tasks.worker.endpoint_access import present_access

from . import task_rates
from .credentials import VaultCredentials
from .engine.slice import SliceResult, run_slice
from .engine.trace import NO_TRACE, Trace
from .session_factory import RealSessions
from .sessions import address_gate
from .sessions.pool import SessionPool
from .sessions.server_addresses import ServersBySide
from .sessions.share_access_guard import ShareAccessGuard
from .store import PostgresTaskStore, bounds
from .streaming.host import StreamingHost, TaskStreams

#: Seconds before the end of the lease after which nothing leaves towards servers: what left before is on its way, and
#: is executed before another worker begins.
MARGIN = 1.5
#: Seconds that a worker holds a task before other tasks of the same user get their turn.
SLICE_SECONDS = 300.0
#: Seconds for which a lane may open relayed data connections: longer than any slice.
TOKEN_SECONDS = 3600.0


def prepare(
    grant: leases.Grant,
    pool: SessionPool,
    stop: asyncio.Event,
    streams: TaskStreams | None = None,
    trace: Trace = NO_TRACE,
) -> PreparedSlice:
    spec, ends = grant.spec, grant.accesses
    credential_provider = VaultCredentials(grant, ends, pool.forget)
    guards = {side: _access_guard(grant, side, end) for side, end in ends.items() if end.shared}
    rate = task_rates.of(grant)
    if rate is not None:
        streams = streams or StreamingHost().task(spec.task_id)
        streams.pacer = rate.pacer
    fence = Fence(leases.TTL.total_seconds() - MARGIN)
    sessions = RealSessions(
        spec,
        ServersBySide(
            {side: address_gate.places(end.host) for side, end in ends.items()},
            data_hosts={side: end.host.data_hosts for side, end in ends.items()},
        ),
        pool,
        fence,
        session_key=credential_provider.session_key,
        resolve=address_gate.resolve,
        accept_address=address_gate.accepts,
        look_up=address_gate.look_up,
        guards=guards,
        streams=streams,
        new_token=lambda: _relay_token(grant),
        listing_seconds=settings.LISTING_SECONDS,
    )
    beats = [access_guard.refresh for access_guard in guards.values()]
    assert grant.reading is not None, "acquire has read it"
    clock = SystemClock(grant.reading)
    kinds = (address_gate.kind(ends.get(Side.SOURCE)), address_gate.kind(ends.get(Side.DESTINATION)))
    store = PostgresTaskStore(grant, beats, kinds, trace, clock, rate)
    slice_ = run_slice(
        spec,
        store,
        sessions,
        credential_provider,
        clock,
        slice_seconds=SLICE_SECONDS,
        stop=stop,
        bounds=bounds(),
        trace=trace,
    )
    return PreparedSlice(slice_, credential_provider, store, fence)


def _access_guard(grant: leases.Grant, side: Side, found: Access) -> ShareAccessGuard:
    """The guard of a shared endpoint; it reads the rules again with each heartbeat."""
    is_delete = grant.spec.is_delete
    return ShareAccessGuard(
        found,
        side,
        lambda: present_access(grant.owner_id, found.endpoint.pk, side, is_delete=is_delete),
        write=is_delete or side is Side.DESTINATION,
        foreign=found.actor_id != grant.owner_id,
    )


def _relay_token(grant: leases.Grant) -> str:
    """A token by which the two ends of this task are joined at the relay, for the share of its owner.

    They are two agents, or an agent and a server.
    """
    source, destination = (grant.accesses[side].host for side in (Side.SOURCE, Side.DESTINATION))
    if not source.personal:
        return dial.new_entrance_token(destination.pk, user_id=grant.owner_id, seconds=TOKEN_SECONDS)
    return dial.new_data_token([source.pk, destination.pk], user_id=grant.owner_id, seconds=TOKEN_SECONDS)


class PreparedSlice(NamedTuple):
    """A slice, to run on the loop of the pool, and its parts.

    credentials: to be cleared afterwards. store, fence: of its lease.
    """

    slice_: Coroutine[Any, Any, SliceResult]
    credentials: VaultCredentials
    store: PostgresTaskStore
    fence: Fence


class SystemClock(CarriedClock):
    """The engine's clock: the database's time, as read with the lease and with each heartbeat."""

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
