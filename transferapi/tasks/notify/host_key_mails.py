"""Mails about a host key that changed: to the endpoint's owner, who must act, and to the owner of the task."""

from __future__ import annotations

import hashlib
from datetime import datetime

from django.conf import settings

from endpoints.gridftp.faults import Fault
from endpoints.models import Endpoint
from endpoints.registry import canonical_name
from identity.models import User
from transferapi.tasks.models import Task

from . import mails

PAGE = "/endpoints/{}"


def changed(task: Task, endpoint: Endpoint, fault: Fault, why: str, now: datetime) -> None:
    """Write the mails, once for each user and new key. The owner of the host alone reads its name and the keys."""
    host = endpoint.host or endpoint
    name, page = canonical_name(host), f"{settings.PUBLIC_URL}{PAGE.format(host.pk)}"
    lines = [f"A server of your endpoint {name} shows another host key than the registered one.", "", fault.advice, ""]
    lines += ["Tasks wait, and nothing is sent to this server. Compare the keys, and accept the new one:", page]
    _once(host.owner, None, host, fault, f"the host key of {name} has changed", lines, now)
    if task.owner_id != host.owner_id:
        lines = [f"A task of yours waits: {mails.way(task)}.", "", why, "", f"{host.owner.username} must act."]
        _once(task.owner, task, host, fault, f"a task waits for {canonical_name(endpoint)}", lines, now)


def _once(
    user: User, task: Task | None, host: Endpoint, fault: Fault, subject: str, lines: list[str], now: datetime
) -> None:
    digest = hashlib.sha256(fault.raw.encode()).hexdigest()[:32]
    mails.put(user, task, f"host key:{user.pk}:{host.pk}:{digest}", subject, lines, now)
