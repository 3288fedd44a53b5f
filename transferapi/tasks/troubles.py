"""What a person reads first of a task that does not get on: the cause, the side, the endpoint, and the next try.

A fault of a whole endpoint (it cannot be reached, it shows a wrong certificate) counts, and shows as the status of the
task until its server is reached again. However often it is met, few events tell it: the first, second, fourth, eighth.
"""

from __future__ import annotations

import uuid
from datetime import datetime, timedelta
from typing import Any

from django.db.models import F

from endpoints.registry import canonical_name

from . import events
from .leases import hold
from .models import Task
from .rows import Trouble

#: A cause that was not met for so long is told as a new one.
FORGET = timedelta(hours=1)
#: Causes that are kept in mind; characters of a server's words in a sentence.
MOST_CAUSES, MAX_WORDS = 16, 400
WITH_ENDS = ("source__owner", "destination__owner")

_TITLES = {
    "AUTH": "The login was refused",
    "CONNECT_FAILED": "No connection",
    "CONNECTION_BROKEN": "The connection was lost",
    "CONNECTION_RESET": "The connection was lost",
    "ENDPOINT_ERROR": "An error of the server",
    "ENDPOINT_TOO_BUSY": "The server has too much to do",
    "GSI_DN_MISMATCH": "The certificate of another host",
    "INSECURE_SERVER": "The control channel is not protected",
    "INTERNAL_ERROR": "An error of this service",
    "INVALID_SERVICE_CREDENTIAL": "The server's certificate is not accepted",
    "NO_CREDENTIALS": "No credential",
    "TIMEOUT": "No answer in time",
    "UNKNOWN": "An error",
}


def sentence(task: Task, trouble: Trouble, retry_at: datetime | None, *, what: str = "") -> str:
    """In words. task: with WITH_ENDS. what: that met it, such as "3 files"; "": the endpoint itself."""
    parts = [_title(trouble.code), _where(task, trouble), f" on {what}" if what else ""]
    words = _shortened(events.printable(trouble.raw))
    head = f"{''.join(parts)}: {words}" if words else "".join(parts)
    then = f" It is tried again at {retry_at:%Y-%m-%d %H:%M:%S} UTC." if retry_at else ""
    advice = f" {trouble.advice}" if trouble.advice and trouble.advice != trouble.raw else ""
    return events.printable(f"{head.rstrip('.')}.{then}{advice}")


def endpoint_failed(
    task_id: uuid.UUID,
    epoch: int,
    trouble: Trouble,
    retry_at: datetime,
    *,
    lanes: bool = False,
    now: datetime | None = None,
) -> None:
    """An endpoint is of no use until `retry_at`: this is the task's status until it is reached again.

    lanes: sessions for looking can be had, and none to move files. Raises LeaseLostError.
    """
    with hold(task_id, epoch, now) as now:
        task = Task.objects.select_related(*WITH_ENDS).get(pk=task_id)
        text = sentence(task, trouble, retry_at)
        seen, tries, since = _seen(task.trouble or {}, trouble, now)
        status = {"code": trouble.code, "side": trouble.side, "lanes": lanes, "until": retry_at.isoformat()}
        Task.objects.filter(pk=task_id).update(
            faults=F("faults") + 1, nice_status=trouble.code, nice_status_details=text, trouble={**status, "seen": seen}
        )
        if tries & (tries - 1) == 0:
            often = f" Met {tries} times since {since:%Y-%m-%d %H:%M:%S} UTC." if tries > 1 else ""
            details = "\n".join(filter(None, (trouble.advice, trouble.raw)))
            events.append_bounded(task_id, [events.NewEvent(trouble.code, text + often, details, is_error=True)], now)


def reached(
    task_id: uuid.UUID, epoch: int, sides: tuple[str, ...], *, lanes: bool, now: datetime | None = None
) -> None:
    """Servers of these sides were reached; lanes: to move files. What `endpoint_failed` has shown is over.

    Raises LeaseLostError.
    """
    with hold(task_id, epoch, now):
        task = Task.objects.only("nice_status", "trouble").get(pk=task_id)
        known = task.trouble or {}
        over = (lanes or not known.get("lanes")) and known.get("side") in (*sides, "unknown")
        if over and task.nice_status == known.get("code"):
            Task.objects.filter(pk=task_id).update(nice_status=None, nice_status_details=None)


def seconds_to_next_try(task: Task, now: datetime) -> int:
    """For so long an endpoint is left alone, where that is what the status of the task shows; else -1."""
    known = task.trouble or {}
    if task.nice_status is None or known.get("code") != task.nice_status:
        return -1
    return max(0, round((datetime.fromisoformat(str(known["until"])) - now).total_seconds()))


def _seen(known: dict[str, Any], trouble: Trouble, now: datetime) -> tuple[dict[str, Any], int, datetime]:
    """What was met lately, with this; how often this was, and since when."""
    past = known.get("seen", {}).items()
    lately = {cause: met for cause, met in past if now - datetime.fromisoformat(met[2]) < FORGET}
    cause = f"{trouble.code} {trouble.side} {trouble.server}"
    tries, since, _ = lately.pop(cause, (0, now.isoformat(), ""))
    newest = dict(list(lately.items())[-(MOST_CAUSES - 1) :])
    return {**newest, cause: (tries + 1, since, now.isoformat())}, tries + 1, datetime.fromisoformat(since)


def _shortened(text: str) -> str:
    """The beginning and the end: servers tell the cause in the last of many lines."""
    if len(text) <= MAX_WORDS:
        return text
    end = MAX_WORDS * 2 // 3
    return f"{text[: MAX_WORDS - end]} ... {text[-end:]}"


def _title(code: str) -> str:
    return _TITLES.get(code) or code.replace("_", " ").capitalize()


def _where(task: Task, trouble: Trouble) -> str:
    end = task.destination if trouble.side == "destination" else task.source
    if trouble.side not in ("source", "destination") or end is None:
        return ""
    server = f" ({trouble.server})" if trouble.server else ""
    return f" at the {trouble.side} {canonical_name(end)}{server}"
