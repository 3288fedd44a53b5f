"""Whether agents are connected. Relay processes write it; everyone else reads it here, and not from the rows.

A row of `Agent` names the relay process that holds its tunnel. A relay that is killed leaves its rows as they are, so a
row counts only while that process beats (`RelayProcess`), by the database's clock.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from django.db import connection, transaction
from django.db.models import DateTimeField, Func, OuterRef, QuerySet, Subquery
from django.db.models.functions import MD5

from endpoints.models import Agent, RelayedOctets, RelayProcess
from identity.clock import moment

#: Seconds between two beats of a relay process, and while it holds no tunnel; the time after the last one for which its
#: agents count as connected.
BEAT_SECONDS, IDLE_BEAT_SECONDS = 1.0, 2.0
LEASE = timedelta(seconds=4)
#: How long a relay that has ended is remembered, and how long what it has passed on.
FORGET, METER_DAYS = timedelta(days=1), 90


class Presence(NamedTuple):
    """last_seen_at: None where the agent was never connected."""

    connected: bool
    paused: bool
    last_seen_at: datetime | None


class _Now(Func):
    """The time of the statement, also within a transaction."""

    function = "clock_timestamp"
    output_field = DateTimeField()


def presence_of(endpoint_ids: Iterable[uuid.UUID]) -> dict[uuid.UUID, Presence]:
    """The presence of the agents of these endpoints, in one query. Endpoints without an agent are left out."""
    beat = RelayProcess.objects.filter(address=OuterRef("relay")).values("heartbeat_at")
    rows = Agent.objects.filter(endpoint__in=list(endpoint_ids)).annotate(beat=Subquery(beat), now=_Now())
    columns = ("endpoint_id", "paused", "last_seen_at", "relay", "beat", "now")
    return {row[0]: _presence(*row[1:]) for row in rows.values_list(*columns)}


def _presence(
    paused: bool, last_seen_at: datetime | None, relay: str, beat: datetime | None, now: datetime
) -> Presence:
    held = beat if relay else None
    connected = held is not None and held > now - LEASE
    # An agent that is connected was seen with the last beat; one of a dead relay, with the last one before its end.
    seen = max(filter(None, (last_seen_at, held)), default=None)
    return Presence(connected, paused, seen)


def away_since(endpoint_id: uuid.UUID) -> datetime | None:
    """Since when the agent is away: when it was last seen, or the beginning of time. None if it is connected."""
    found = presence_of([endpoint_id]).get(endpoint_id)
    if found is not None and found.connected:
        return None
    return (found and found.last_seen_at) or datetime.min.replace(tzinfo=UTC)


def is_connected(endpoint_id: uuid.UUID) -> bool:
    """Whether the agent is connected; where it is not, none becomes so before the caller's transaction ends."""
    list(Agent.objects.select_for_update(no_key=True).filter(endpoint=endpoint_id).values_list("pk"))
    return away_since(endpoint_id) is None


def holder(endpoint_id: uuid.UUID) -> str | None:
    """The address of the relay process that holds the tunnel of this agent; None if it is away."""
    alive = RelayProcess.objects.filter(heartbeat_at__gt=_Now() - LEASE).values("address")
    rows = Agent.objects.filter(endpoint=endpoint_id, relay__in=alive)
    return rows.values_list("relay", flat=True).first()


# ---- for workers


def forget_old() -> None:
    """Delete the rows of relays that are gone, and of octets of long ago. A relay may run for years."""
    RelayProcess.objects.filter(heartbeat_at__lt=_Now() - FORGET).delete()
    RelayedOctets.objects.filter(day__lt=moment().date() - timedelta(days=METER_DAYS)).delete()


# ---- for relay processes


def begin(address: str) -> None:
    """A relay process begins: it holds no tunnel, whatever an earlier one with its address has left."""
    with transaction.atomic():
        _beat(address)
        _leave(Agent.objects.filter(relay=address))


def end(address: str) -> None:
    """A relay process ends in order."""
    with transaction.atomic():
        _leave(Agent.objects.filter(relay=address))
        RelayProcess.objects.filter(address=address).delete()


class Held(NamedTuple):
    """A tunnel as the rows have it. key: the MD5 of the agent's public key, which another setup replaces."""

    endpoint_id: uuid.UUID
    epoch: int
    key: str


def beat(address: str, *, holds: bool = True) -> Collection[Held]:
    """Renew the lease of a relay process. Returns the tunnels that it may keep: not those of agents that were revoked
    or set up anew, whose endpoints were deleted, whose owners may not sign in, or that another relay has accepted.

    holds: whether it has any tunnel.
    """
    _beat(address)
    if not holds:
        return ()
    kept = _usable().filter(relay=address).values_list("endpoint_id", "epoch", MD5("public_key"))
    return {Held(*row) for row in kept}


def _usable() -> QuerySet[Agent]:
    return Agent.objects.filter(
        revoked_at__isnull=True, endpoint__deleted_at__isnull=True, endpoint__owner__is_active=True
    )


class Arrival(NamedTuple):
    """The words of an agent about itself when it connects."""

    version: str
    platform: str
    paused: bool


def accept(endpoint_id: uuid.UUID, address: str, arrival: Arrival) -> Held | None:
    """An agent has connected: its tunnel with its epoch. None if it was revoked meanwhile."""
    with transaction.atomic():
        rows = _usable().select_for_update(no_key=True, of=("self",)).filter(endpoint=endpoint_id)
        row = rows.values_list("epoch", MD5("public_key")).first()
        if row is None:
            return None
        Agent.objects.filter(endpoint=endpoint_id).update(
            relay=address, epoch=row[0] + 1, connected_at=_Now(), last_seen_at=_Now(), **arrival._asdict()
        )
    return Held(endpoint_id, row[0] + 1, row[1])


def leave(endpoint_id: uuid.UUID, epoch: int) -> None:
    """This tunnel of an agent has ended."""
    _leave(Agent.objects.filter(endpoint=endpoint_id, epoch=epoch))


def pause(endpoint_id: uuid.UUID, epoch: int, paused: bool) -> None:
    """The person at the machine has paused the agent, or not any more."""
    Agent.objects.filter(endpoint=endpoint_id, epoch=epoch).update(paused=paused)


def meter(octets: Mapping[uuid.UUID, int]) -> None:
    """Add to what the relay has passed on today for these endpoints."""
    if not octets:
        return
    with connection.cursor() as cursor:
        cursor.execute(_METER, {"endpoints": sorted(octets), "octets": [octets[one] for one in sorted(octets)]})


#: An endpoint may have been deleted, with its row, since the octets were passed on.
_METER = """
    INSERT INTO endpoints_relayedoctets AS old (endpoint_id, day, octets)
    SELECT e.id, (clock_timestamp() AT TIME ZONE 'UTC')::date, octets
    FROM unnest(%(endpoints)s::uuid[], %(octets)s::bigint[]) AS more (id, octets) JOIN endpoints_endpoint e USING (id)
    ON CONFLICT (endpoint_id, day) DO UPDATE SET octets = old.octets + excluded.octets"""


def _beat(address: str) -> None:
    if not RelayProcess.objects.filter(address=address).update(heartbeat_at=_Now()):
        RelayProcess.objects.update_or_create(address=address, defaults={"heartbeat_at": moment()})


def _leave(rows: QuerySet[Agent]) -> None:
    rows.exclude(relay="").update(relay="", connected_at=None, last_seen_at=_Now())
