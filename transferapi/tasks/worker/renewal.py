"""Tasks that wait for a credential: how they are suspended and resumed, and early warnings (truth 4).

A task waits at one endpoint, `waits_at`, for another credential than the one it had (`had_credential`: the time when
that one was stored). So a credential that is stored while the task is being suspended is not missed, and one that was
refused is not tried again.

At a shared endpoint, the owner of that endpoint must give the credential, for the host: a mail asks for it, and the
task says so.
"""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Iterable
from datetime import datetime, timedelta
from functools import partial

from django.conf import settings
from django.db import transaction
from django.db.models import Q

from endpoints.activation import status as activation
from endpoints.gridftp.faults import Fault, Kind, Side
from endpoints.models import Endpoint
from endpoints.registry import canonical_name
from identity.clock import moment
from identity.gsi.sentences import Sentence, joined
from identity.languages import translated
from identity.vault.store import CredentialInfo
from transferapi.tasks import events, moves, queries
from transferapi.tasks.forecast import services as forecasts
from transferapi.tasks.forecast.pace import Pace
from transferapi.tasks.models import Event, Task
from transferapi.tasks.notify.mails import task as task_mails
from transferapi.tasks.states import Phase

from . import host_keys, troubles
from .leases import hold

EXPIRES_SOON = "CREDENTIAL_EXPIRES_SOON"
#: The time that a user should have to renew a credential, where its lifetime allows.
NOTICE = timedelta(minutes=30)
#: The longest time between two checks of a worker, with some reserve.
LOOKS = timedelta(minutes=1)
#: A forecast may be too short by this factor.
DOUBT = 4.0
NONE_VALID = Sentence("There is none that is valid now.")
#: The page that activates an endpoint, and the path of the API.
PAGE = "/endpoints/{}/activate"
ACTIVATE = "/v0.10/endpoint/{}/activate"


# ---- suspend


def suspend(task: Task, fault: Fault, had_credential: datetime | None, now: datetime) -> None:
    """Move a running task to INACTIVE; its worker holds the lease."""
    if fault.kind is Kind.HOST_KEY_CHANGED:
        host_keys.suspend(task, fault, now)
        return
    waits_at = _endpoint(task, fault.side)
    text = _why(task, waits_at, fault)
    # A server's reply about another user's credential is not shown to this one.
    raw = fault.raw if task_mails.giver(task, waits_at).pk == task.owner_id else ""
    event = events.NewEvent(fault.kind, text, raw, is_error=True)
    changes = {
        "nice_status": fault.kind,
        "nice_status_details": events.printable(text),
        "suspended_at": now,
        "waits_at": waits_at,
        "had_credential": had_credential,
    }
    moves.move(task.pk, moves.RUNNING, moves.SUSPENDED, now=now, event=event, changes=changes)
    _tell(task, waits_at, fault, now)


def _tell(task: Task, waits_at: Endpoint, fault: Fault, now: datetime) -> None:
    """Write the mails, each in the language of its reader."""
    why, how = _why(task, waits_at, fault), how_to_renew(_host(waits_at))
    task_mails.waiting(task, waits_at, partial(translated, why), partial(translated, how), now)


def _endpoint(task: Task, side: str) -> Endpoint:
    """The endpoint whose credential is missing; where the side is not known, the first that needs a credential."""
    if side in task.ends:
        return task.ends[side]
    return next((end for end in task.ends.values() if activation.need(_host(end)).required), task.source)


def _host(endpoint: Endpoint) -> Endpoint:
    """The endpoint that a credential is given for."""
    return endpoint.host or endpoint


def _why(task: Task, waits_at: Endpoint, fault: Fault) -> Sentence:
    where = _where(task, waits_at)
    if fault.kind is Kind.AUTH:
        texts = [Sentence("%(endpoint)s refused the login; the task waits for another credential.", endpoint=where)]
    else:
        waits = Sentence("The task waits for a credential for %(endpoint)s.", endpoint=where)
        texts = [waits, Sentence(fault.advice or NONE_VALID)]
    texts.append(_who_renews(task, waits_at))
    for end in task.ends.values():
        if end.pk != waits_at.pk and not _active(task, end):
            texts.append(Sentence("%(endpoint)s needs one, too.", endpoint=_where(task, end)))
            texts.append(_who_renews(task, end))
    return joined(" ", [*texts])


def _where(task: Task, endpoint: Endpoint) -> Sentence:
    """The name of the endpoint, with its side in the task."""
    sides = [side for side, end in task.ends.items() if end.pk == endpoint.pk]
    return troubles.named(endpoint, Side(sides[0]) if len(sides) == 1 else Side.UNKNOWN)


def _active(task: Task, endpoint: Endpoint) -> bool:
    return activation.activation_status(task_mails.giver(task, endpoint).pk, _host(endpoint)).active


def _who_renews(task: Task, endpoint: Endpoint) -> Sentence:
    """Instructions for the owner of the task, without details of the host of a shared endpoint."""
    giver = task_mails.giver(task, endpoint)
    if giver.pk == task.owner_id:
        return how_to_renew(_host(endpoint))
    return Sentence("%(user)s, the owner of this shared endpoint, must activate its host.", user=giver.username)


def how_to_renew(endpoint: Endpoint) -> Sentence:
    """Instructions to give a credential for the endpoint."""
    page, call = (f"{settings.PUBLIC_URL}{path.format(endpoint.pk)}" for path in (PAGE, ACTIVATE))
    text = Sentence(
        "Activate %(endpoint)s at %(page)s or by POST %(call)s",
        endpoint=canonical_name(endpoint), page=page, call=call,
    )  # fmt: skip
    ways: list[Sentence] = []
    if server := endpoint.myproxy_server:
        ways.append(Sentence("your name and passphrase at the MyProxy server %(server)s", server=server))
    if server := endpoint.oauth_server:
        ways.append(Sentence("a login at %(server)s", server=server))
    if not ways:
        return Sentence("%(what)s.", what=text)
    way = ways[0] if len(ways) == 1 else Sentence("%(first)s or %(second)s", first=ways[0], second=ways[1])
    return Sentence("%(activate)s, with %(ways)s.", activate=text, ways=way)


# ---- resume


def resume_waiting(user_id: uuid.UUID | None = None, now: datetime | None = None) -> int:
    """Queue every suspended task whose endpoints have a new credential; return the number of tasks.

    user_id: only tasks that wait for a credential of this user: their own, and others' at endpoints that they share.
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
    """Resume tasks that wait at these endpoints for a credential of this user."""
    rows = Endpoint.objects.select_related("owner", "host__owner").prefetch_related("servers", "host__servers")
    endpoints = rows.in_bulk([*endpoint_ids])
    hosts = {_host(endpoint).pk: _host(endpoint) for endpoint in endpoints.values()}
    activation_statuses = activation.activation_statuses(giver_id, hosts.values(), now)
    resumed = 0
    for endpoint in endpoints.values():
        activation_status = activation_statuses[_host(endpoint).pk]
        if not activation_status.active:
            continue
        waiting = Task.objects.filter(phase=Phase.SUSPENDED, waits_at=endpoint)
        if endpoint.host_id is None:
            waiting = waiting.filter(owner=giver_id)
        if activation_status.credential is not None:
            waiting = waiting.filter(Q(had_credential=None) | ~Q(had_credential=activation_status.credential.stored_at))
        found = list(waiting.select_related("owner"))
        queries.read_endpoints(found)
        for user_id in {giver_id, *(task.owner_id for task in found)} if found else ():
            task_mails.end_wave(user_id, endpoint)
        resumed += sum(_go_on(task, endpoint, now) for task in found)
    return resumed


def _go_on(task: Task, renewed: Endpoint, now: datetime | None) -> bool:
    """Resume the task, unless its other endpoint has no credential: then it waits there."""
    other = next((end for end in task.ends.values() if end.pk != renewed.pk and not _active(task, end)), None)
    if other is None:
        return moves.resume(task.owner, task.pk, now)
    fault = Fault(Kind.NO_CREDENTIALS, advice=NONE_VALID)
    with transaction.atomic():
        now = moment(now)
        text = _why(task, other, fault)
        changes = {"waits_at": other, "had_credential": None, "nice_status_details": events.printable(text)}
        changed = Task.objects.filter(pk=task.pk, phase=Phase.SUSPENDED, waits_at=renewed)
        if changed.update(nice_status=fault.kind, **changes):
            events.append(task.pk, [events.NewEvent(fault.kind, text, is_error=True)], now)
            _tell(task, other, fault, now)
    return False


def stored(sender: object, user_id: uuid.UUID, **_: object) -> None:
    """Resume tasks when a user has stored a credential. The sweep finds tasks that this call misses."""
    resume_waiting(user_id)


# ---- warn


def foresee(
    task_id: uuid.UUID,
    epoch: int,
    endpoint: Endpoint,
    held: CredentialInfo,
    now: datetime | None = None,
    pace: Pace | None = None,
) -> bool:
    """Warn the owner, once for each credential, where it will or may expire before the task ends.

    Returns whether that is so. endpoint: as the task names it; the owner of a shared one gets the mail. pace: the same
    object for a whole slice. Raises LeaseLostError.
    """
    task = Task.objects.get(pk=task_id)
    now = moment(now)
    rest = forecasts.rest(task, pace or Pace(), now)
    if held.expires_at is None or not _is_too_short(task, held.expires_at - now, rest, _notice(held)):
        return False
    details = {"endpoint": canonical_name(endpoint), "expires_at": held.expires_at.isoformat(timespec="seconds")}
    soon = _expires_soon(task, endpoint, held.expires_at, rest, now)
    new = events.NewEvent(EXPIRES_SOON, soon, details)
    with hold(task_id, epoch) as at:
        if not Event.objects.filter(task=task_id, code=EXPIRES_SOON, details=events.text(details)).exists():
            events.append(task_id, [new], at)
            how = partial(translated, how_to_renew(_host(endpoint)))
            task_mails.expiring(task, endpoint, held, partial(translated, soon), how, at)
    return True


def _expires_soon(task: Task, endpoint: Endpoint, ends: datetime, rest: float | None, now: datetime) -> Sentence:
    where = _where(task, endpoint)
    first = Sentence("The credential for %(endpoint)s expires at %(time)s, and", endpoint=where, time=ends)
    return joined(" ", [first, _how_long(rest, ends - now), _who_renews(task, endpoint)])


def _notice(held: CredentialInfo) -> timedelta:
    """The time before its expiry at which the owner is warned: NOTICE, or half of a shorter lifetime."""
    life = held.expires_at - held.stored_at if held.expires_at else NOTICE
    return (NOTICE if life > NOTICE else life / 2) + LOOKS


def _is_too_short(task: Task, left: timedelta, rest: float | None, notice: timedelta) -> bool:
    """Whether a person should renew it. When little time is left, a doubtful forecast also counts."""
    if left > notice:
        return rest is not None and left.total_seconds() < rest
    return rest is None or task.is_scanning or left.total_seconds() < DOUBT * rest


def _how_long(rest: float | None, left: timedelta) -> Sentence:
    if rest is None:
        return Sentence("the time that the task takes is not known yet. If it is not done by then, it will wait.")
    duration = _duration(rest)
    if rest <= left.total_seconds():
        return Sentence(
            "the rest of the task takes about %(duration)s. If it gets slower, it will wait then.", duration=duration
        )
    return Sentence("the rest of the task takes about %(duration)s. The task will wait then.", duration=duration)


def _duration(seconds: float) -> Sentence:
    """The duration in words."""
    if seconds >= 7200:
        return Sentence("%(count)s hours", count=f"{seconds / 3600:.0f}")
    if seconds >= 120:
        return Sentence("%(count)s minutes", count=f"{seconds / 60:.0f}")
    return Sentence("%(count)s seconds", count=f"{seconds:.0f}")
