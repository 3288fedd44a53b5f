"""The status of a task that makes no progress: the cause, the side, the endpoint, and the time of the next attempt.

A fault of a whole endpoint (unreachable, wrong certificate) is counted, and is shown as the status of the task until a
server of the endpoint is reached again. Of repeated faults, few get an event: the first, second, fourth, eighth.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from django.db.models import F

from endpoints.gridftp.faults import Fault, Kind, Side
from endpoints.models import Endpoint
from endpoints.registry import canonical_name
from identity.gsi.sentences import ErrorName, Sentence, Value, joined
from transferapi.tasks import endpoint_failures, events, standstill
from transferapi.tasks.models import WITH_ENDS, Task

from .leases import hold

#: A cause that has not occurred for this long counts as a new one.
FORGET = timedelta(hours=1)
#: Causes that are remembered; characters of a server's reply in a sentence.
MOST_CAUSES, MAX_WORDS = 16, 400

_AN_ENDPOINT = Sentence("an endpoint")
#: The names of errors of endpoints in English.
_TITLES = {
    "AUTH": "The login was refused",
    "CONNECT_FAILED": "No connection",
    "CONNECTION_BROKEN": "The connection was lost",
    "CONNECTION_RESET": "The connection was lost",
    "ENDPOINT_ERROR": "An error of the server",
    "ENDPOINT_TOO_BUSY": "The server has too much to do",
    "GSI_DN_MISMATCH": "The certificate of another host",
    "HOST_KEY_CHANGED": "Another host key than the registered one",
    "INSECURE_SERVER": "The control channel is not protected",
    "INTERNAL_ERROR": "An error of this service",
    "INVALID_SERVICE_CREDENTIAL": "The server's certificate is not accepted",
    "NO_CREDENTIALS": "No credential",
    "TIMEOUT": "No answer in time",
    "UNKNOWN": "An error",
}


def of_files(task: Task, fault: Fault, retry_at: datetime, now: datetime) -> dict[str, str]:
    """The record of a fault of files that keeps the task from going on, for the key OF_FILES of `Task.trouble`."""
    code = fault.kind.value
    since = standstill.since(task, code, now)
    return {"code": code, "side": fault.side.value, "since": since.isoformat(), "until": retry_at.isoformat()}


def sentence(
    task: Task, fault: Fault, retry_at: datetime | None, *, files: int = 0, since: datetime | None = None
) -> Sentence:
    """The fault as a sentence. task: with WITH_ENDS. files: their number; 0: the endpoint itself.

    since: the time of the first attempt that failed, where there were several.
    """
    head: Value = ErrorName(fault.kind.value, _title(fault.kind))
    if where := _where(task, fault):
        head = Sentence("%(error)s at %(endpoint)s", error=head, endpoint=where)
    if files:
        head = Sentence.counted("%(what)s on %(number)s file", "%(what)s on %(number)s files", files, what=head)
    if words := _shortened(events.printable(fault.raw)):
        head = Sentence("%(what)s: %(message)s", what=head, message=words.rstrip("."))
    parts: list[str] = [Sentence("%(what)s.", what=head)]
    if retry_at and since:
        parts.append(
            Sentence("It has failed since %(since)s, and is tried again at %(time)s.", since=since, time=retry_at)
        )
    elif retry_at:
        parts.append(Sentence("It is tried again at %(time)s.", time=retry_at))
    if fault.advice and fault.advice != fault.raw:
        parts.append(Sentence(fault.advice))
    return joined(" ", parts)


def endpoint_failed(
    task_id: uuid.UUID,
    epoch: int,
    fault: Fault,
    retry_at: datetime,
    *,
    lanes: bool = False,
    now: datetime | None = None,
) -> None:
    """Record that an endpoint cannot be used until `retry_at`: the status of the task until it is reached again.

    lanes: control sessions are possible, but none that move files. Raises LeaseLostError.
    """
    with hold(task_id, epoch, now) as now:
        task = Task.objects.select_related(*WITH_ENDS).get(pk=task_id)
        begun = standstill.since(task, fault.kind, now)
        text = sentence(task, fault, retry_at, since=begun if begun < now else None)
        seen, tries, first = _seen(task.trouble or {}, fault, now)
        away = (task.trouble or {}).get("away", {})
        status = {"code": fault.kind, "side": fault.side, "lanes": lanes, "until": retry_at.isoformat(), "away": away}
        status["since"] = begun.isoformat()
        endpoint_failures.failed(task, fault, now)
        Task.objects.filter(pk=task_id).update(
            faults=F("faults") + 1,
            nice_status=fault.kind,
            nice_status_details=events.printable(text),
            trouble={**status, "seen": seen},
        )
        if tries & (tries - 1) == 0:
            if tries > 1:
                often = Sentence("Met %(tries)s times since %(time)s.", tries=tries, time=first)
                text = joined(" ", [text, often])
            details = "\n".join(filter(None, (fault.advice, fault.raw)))
            events.append_bounded(task_id, [events.NewEvent(fault.kind, text, details, is_error=True)], now)


def reached(task_id: uuid.UUID, epoch: int, sides: Sequence[Side], *, lanes: bool, now: datetime | None = None) -> None:
    """Clear the status of `endpoint_failed`: servers of these sides were reached; lanes: with sessions that move files.

    Raises LeaseLostError.
    """
    with hold(task_id, epoch, now) as now:
        task = Task.objects.select_related(*WITH_ENDS).get(pk=task_id)
        known = task.trouble or {}
        _agents_back(task, sides, now)
        endpoint_failures.answered(task, sides, now)
        over = (lanes or not known.get("lanes")) and known.get("side") in (*sides, Side.UNKNOWN)
        if over and task.nice_status == known.get("code"):
            Task.objects.filter(pk=task_id).update(nice_status=None, nice_status_details=None)


def agent_gone(task: Task, fault: Fault, since: datetime, look_at: datetime, now: datetime) -> None:
    """Record that the agent of the fault's side is away; an event only where the task did not know. No fault counts.

    task: with WITH_ENDS. Call it inside the transaction that ends the slice.
    """
    known = task.trouble or {}
    away = known.get("away", {})
    text = _away_text(task, fault, datetime.fromisoformat(away.get(fault.side, since.isoformat())))
    status = {"code": fault.kind, "side": fault.side, "lanes": False, "until": look_at.isoformat()}
    status["since"] = away.get(fault.side, since.isoformat())
    there = {"seen": known.get("seen", {}), "away": {fault.side: since.isoformat(), **away}}
    Task.objects.filter(pk=task.pk).update(**_status(fault, text), trouble={**status, **there})
    if fault.side not in away:
        events.append_bounded(task.pk, [events.NewEvent(fault.kind, text, fault.raw)], now)


def _status(fault: Fault, text: str) -> dict[str, str]:
    return {"nice_status": fault.kind, "nice_status_details": events.printable(text)}


def _away_text(task: Task, fault: Fault, since: datetime) -> Sentence:
    where = _where(task, fault) or _AN_ENDPOINT
    if fault.kind is Kind.AGENT_PAUSED:
        text = Sentence("The computer at %(endpoint)s is paused by its owner.", endpoint=where)
    else:
        text = Sentence("The computer at %(endpoint)s is not connected, since %(time)s.", endpoint=where, time=since)
    return joined(" ", [text, Sentence("The task waits, and goes on by itself when it is back.")])


def _agents_back(task: Task, sides: Sequence[Side], now: datetime) -> None:
    """Record that agents are back which the task has waited for."""
    known = task.trouble or {}
    back = [side for side in sides if side in known.get("away", {})]
    if not back:
        return
    away = {side: since for side, since in known["away"].items() if side not in back}
    Task.objects.filter(pk=task.pk).update(trouble={**known, "away": away})
    told = [_where(task, Fault(Kind.AGENT_AWAY, side)) or _AN_ENDPOINT for side in back]
    again = [
        Sentence("The computer at %(endpoint)s is connected again; the task goes on where it was.", endpoint=where)
        for where in told
    ]
    events.append_bounded(task.pk, [events.NewEvent("RESUMED", text) for text in again], now)


def _seen(known: dict[str, Any], fault: Fault, now: datetime) -> tuple[dict[str, Any], int, datetime]:
    """The recent causes with this one; how often this one has occurred, and since when."""
    past = known.get("seen", {}).items()
    lately = {cause: met for cause, met in past if now - datetime.fromisoformat(met[2]) < FORGET}
    cause = f"{fault.kind} {fault.side} {fault.server}"
    tries, since, _ = lately.pop(cause, (0, now.isoformat(), ""))
    newest = dict(list(lately.items())[-(MOST_CAUSES - 1) :])
    return {**newest, cause: (tries + 1, since, now.isoformat())}, tries + 1, datetime.fromisoformat(since)


def _shortened(text: str) -> str:
    """The beginning and the end of the text: servers give the cause in the last of many lines."""
    if len(text) <= MAX_WORDS:
        return text
    end = MAX_WORDS * 2 // 3
    return f"{text[: MAX_WORDS - end]} ... {text[-end:]}"


def _title(code: str) -> str:
    return _TITLES.get(code) or code.replace("_", " ").capitalize()


def _where(task: Task, fault: Fault) -> Sentence | None:
    """The endpoint of the fault, with its server; None where it is not known."""
    end = task.ends.get(fault.side)
    if end is None:
        return None
    name = f"{canonical_name(end)} ({fault.server})" if fault.server else canonical_name(end)
    if fault.side is Side.SOURCE:
        return Sentence("the source %(endpoint)s", endpoint=name)
    return Sentence("the destination %(endpoint)s", endpoint=name)


def named(endpoint: Endpoint, side: Side) -> Sentence:
    """The endpoint with its side in the task."""
    name = canonical_name(endpoint)
    if side is Side.UNKNOWN:
        return Sentence("%(endpoint)s (the source and the destination)", endpoint=name)
    if side is Side.SOURCE:
        return Sentence("%(endpoint)s (the source)", endpoint=name)
    return Sentence("%(endpoint)s (the destination)", endpoint=name)
