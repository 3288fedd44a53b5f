"""Tasks and the credentials of their owners: what a task says that waits for one, and how it goes on (truth 4).

A task waits at one endpoint, `waits_at`, for another credential than the one it had (`had_credential`: when that was
stored): so none is missed that comes while the task is on its way to bed, and none that was refused is tried again.

At a shared endpoint it is the owner of that who has to give one, for the host: he is told, and the task says so.
"""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Iterable
from datetime import datetime, timedelta

from django.conf import settings
from django.db import transaction
from django.db.models import Q

from endpoints import activation
from endpoints.models import Endpoint
from endpoints.registry import canonical_name
from identity.vault import Held

from . import events, mails, moves, outlook
from .clock import moment
from .leases import hold
from .models import Event, Task
from .pace import Pace
from .rows import Trouble
from .states import Phase

EXPIRES_SOON = "CREDENTIAL_EXPIRES_SOON"
#: Who renews credentials is to have so much time for it, where there is as much.
NOTICE = timedelta(minutes=30)
#: A worker looks so often at least, and a little more.
LOOKS = timedelta(minutes=1)
#: How many times longer than expected the rest may take in the end.
DOUBT = 4.0
NONE_VALID = "There is none that is valid now."
#: Where an endpoint is activated.
ACTIVATE = "/v0.10/endpoint/{}/activate"
WITH_ENDS = ("source__owner", "source__host__owner", "destination__owner", "destination__host__owner", "owner")


# ---- going to bed


def suspend(task: Task, trouble: Trouble, had_credential: datetime | None, now: datetime) -> None:
    """Move a running task to INACTIVE; its worker holds the lease."""
    waits_at = _endpoint(task, trouble.side)
    text = _why(task, waits_at, trouble)
    # What a server says of another user's credential is not this one's to read.
    raw = trouble.raw if mails.giver(task, waits_at).pk == task.owner_id else ""
    told = events.NewEvent(trouble.code, text, raw, is_error=True)
    changes = {
        "nice_status": trouble.code,
        "nice_status_details": events.printable(text),
        "suspended_at": now,
        "waits_at": waits_at,
        "had_credential": had_credential,
    }
    moves.move(task.pk, moves.RUNNING, moves.SUSPENDED, now=now, event=told, changes=changes)
    mails.waiting(task, waits_at, text, how_to_renew(_host(waits_at)), now)


def _endpoint(task: Task, side: str) -> Endpoint:
    """Where the credential is missing; of two that it could be, the first that needs any."""
    ends = _ends(task)
    if side in ends:
        return ends[side]
    return next((end for end in ends.values() if _needs(end)), task.source)


def _ends(task: Task) -> dict[str, Endpoint]:
    ends = {"source": task.source}
    if task.destination is not None:
        ends["destination"] = task.destination
    return ends


def _needs(endpoint: Endpoint) -> bool:
    return activation.need(_host(endpoint)) is not activation.Need.NONE


def _host(endpoint: Endpoint) -> Endpoint:
    """Where a credential for it is given."""
    return endpoint.host or endpoint


def _why(task: Task, waits_at: Endpoint, trouble: Trouble) -> str:
    where = _where(task, waits_at)
    if trouble.code == "AUTH":
        text = f"{where} refused the login; the task waits for another credential."
    else:
        text = f"The task waits for a credential for {where}. {trouble.advice or NONE_VALID}"
    others = [end for end in _ends(task).values() if end.pk != waits_at.pk and not _active(task, end)]
    more = [f" {_where(task, end)} needs one, too. {_who_renews(task, end)}" for end in others]
    return f"{text} {_who_renews(task, waits_at)}{''.join(more)}"


def _where(task: Task, endpoint: Endpoint) -> str:
    """The endpoint in words, with its part in the task."""
    sides = [side for side, end in _ends(task).items() if end.pk == endpoint.pk]
    return f"{canonical_name(endpoint)} (the {' and the '.join(sides)})"


def _active(task: Task, endpoint: Endpoint) -> bool:
    return activation.standing(mails.giver(task, endpoint).pk, _host(endpoint)).active


def _who_renews(task: Task, endpoint: Endpoint) -> str:
    """What has to be done, for the owner of the task; of the host of a shared endpoint he is told nothing."""
    giver = mails.giver(task, endpoint)
    if giver.pk == task.owner_id:
        return how_to_renew(_host(endpoint))
    return f"That is for {giver.username} to do, whose shared endpoint it is: he must activate the host of it."


def how_to_renew(endpoint: Endpoint) -> str:
    """What its user does to give a credential."""
    text = f"Activate {canonical_name(endpoint)} by POST {settings.PUBLIC_URL}{ACTIVATE.format(endpoint.pk)}"
    ways = []
    if endpoint.myproxy_server:
        ways.append(f"your name and passphrase at the MyProxy server {endpoint.myproxy_server}")
    if endpoint.oauth_server:
        ways.append(f"a login at {endpoint.oauth_server}")
    return f"{text}, with {' or '.join(ways)}." if ways else f"{text}."


# ---- getting up


def resume_waiting(user_id: uuid.UUID | None = None, now: datetime | None = None) -> int:
    """Queue every suspended task whose endpoints have a credential that it may go on with; how many.

    user_id: only those that wait for one of this user's: his own, and those of others at what he shares.
    """
    waiting = Task.objects.filter(phase=Phase.SUSPENDED, waits_at__isnull=False)
    if user_id is not None:
        shared = Q(waits_at__host__isnull=False, waits_at__owner=user_id)
        waiting = waiting.filter(Q(waits_at__host__isnull=True, owner=user_id) | shared)
    places: dict[uuid.UUID, set[uuid.UUID]] = defaultdict(set)
    columns = ("owner_id", "waits_at_id", "waits_at__host_id", "waits_at__owner_id")
    for owner_id, endpoint_id, host_id, sharer_id in waiting.values_list(*columns).distinct():
        places[owner_id if host_id is None else sharer_id].add(endpoint_id)
    return sum(_resume_at(giver_id, endpoint_ids, now) for giver_id, endpoint_ids in places.items())


def _resume_at(giver_id: uuid.UUID, endpoint_ids: Iterable[uuid.UUID], now: datetime | None) -> int:
    """Those that wait at these endpoints for a credential of this user's."""
    rows = Endpoint.objects.select_related("owner", "host__owner").prefetch_related("servers", "host__servers")
    endpoints = rows.in_bulk([*endpoint_ids])
    hosts = {_host(endpoint).pk: _host(endpoint) for endpoint in endpoints.values()}
    standings = activation.standings(giver_id, hosts.values(), now)
    resumed = 0
    for endpoint in endpoints.values():
        standing = standings[_host(endpoint).pk]
        if not standing.active:
            continue
        waiting = Task.objects.filter(phase=Phase.SUSPENDED, waits_at=endpoint)
        if endpoint.host_id is None:
            waiting = waiting.filter(owner=giver_id)
        if standing.held is not None:
            waiting = waiting.filter(Q(had_credential=None) | ~Q(had_credential=standing.held.stored_at))
        found = list(waiting.select_related(*WITH_ENDS))
        for user_id in {giver_id, *(task.owner_id for task in found)} if found else ():
            mails.end_wave(user_id, endpoint)
        resumed += sum(_go_on(task, endpoint, now) for task in found)
    return resumed


def _go_on(task: Task, renewed: Endpoint, now: datetime | None) -> bool:
    """Resume it, unless its other endpoint has no credential: then it waits there."""
    other = next((end for end in _ends(task).values() if end.pk != renewed.pk and not _active(task, end)), None)
    if other is None:
        return moves.resume(task.owner, task.pk, now)
    trouble = Trouble("NO_CREDENTIALS", "", NONE_VALID, "")
    with transaction.atomic():
        now = moment(now)
        text = _why(task, other, trouble)
        changes = {"waits_at": other, "had_credential": None, "nice_status_details": events.printable(text)}
        changed = Task.objects.filter(pk=task.pk, phase=Phase.SUSPENDED, waits_at=renewed)
        if changed.update(nice_status=trouble.code, **changes):
            events.append(task.pk, [events.NewEvent(trouble.code, text, is_error=True)], now)
            mails.waiting(task, other, text, how_to_renew(_host(other)), now)
    return False


def stored(sender: object, user_id: uuid.UUID, **_: object) -> None:
    """A user has stored a credential: what waits for it goes on at once. What is missed here, the sweep finds."""
    resume_waiting(user_id)


# ---- looking ahead


def foresee(
    task_id: uuid.UUID,
    epoch: int,
    endpoint: Endpoint,
    held: Held,
    now: datetime | None = None,
    pace: Pace | None = None,
) -> bool:
    """Tell the owner, once for each credential, when it will or may end before the task does; whether so.

    endpoint: as the task names it. Of a shared one its own owner is told by mail. pace: the same one for a whole slice.
    Raises LeaseLostError.
    """
    task = Task.objects.select_related(*WITH_ENDS).get(pk=task_id)
    now = moment(now)
    rest = outlook.rest(task, pace or Pace(), now)
    if held.expires_at is None or not _is_too_short(task, held.expires_at - now, rest, _notice(held)):
        return False
    details = {"endpoint": canonical_name(endpoint), "expires_at": held.expires_at.isoformat(timespec="seconds")}
    text = (
        f"The credential for {_where(task, endpoint)} ends at {held.expires_at:%Y-%m-%d %H:%M:%S} UTC, and "
        f"{_how_long(rest, held.expires_at - now)} {_who_renews(task, endpoint)}"
    )
    new = events.NewEvent(EXPIRES_SOON, text, details)
    with hold(task_id, epoch) as at:
        if not Event.objects.filter(task=task_id, code=EXPIRES_SOON, details=events.text(details)).exists():
            events.append(task_id, [new], at)
            mails.expiring(task, endpoint, held, text, how_to_renew(_host(endpoint)), at)
    return True


def _notice(held: Held) -> timedelta:
    """Before its end: NOTICE; of one that is given for less than that, half of its life."""
    life = held.expires_at - held.stored_at if held.expires_at else NOTICE
    return (NOTICE if life > NOTICE else life / 2) + LOOKS


def _is_too_short(task: Task, left: timedelta, rest: float | None, notice: timedelta) -> bool:
    """Whether a person should renew it. At the last moment for that every doubt counts: later nobody may be there."""
    if left > notice:
        return rest is not None and left.total_seconds() < rest
    return rest is None or outlook.is_scanning(task) or left.total_seconds() < DOUBT * rest


def _how_long(rest: float | None, left: timedelta) -> str:
    if rest is None:
        return "nobody can say yet how long the task takes. If it is not done by then, it will wait."
    if rest <= left.total_seconds():
        return f"the rest of the task takes about {_duration(rest)}. If it gets slower, it will wait then."
    return f"the rest of the task takes about {_duration(rest)}. The task will wait then."


def _duration(seconds: float) -> str:
    """In words for people."""
    for unit, size in (("hours", 3600), ("minutes", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} seconds"
