"""Mails about a host key that changed: to the endpoint's owner, who must act, and to the owner of the task."""

from __future__ import annotations

import hashlib
from datetime import datetime

from django.conf import settings
from django.utils.translation import gettext as _

from endpoints.gridftp.faults import Fault
from endpoints.models import Endpoint
from endpoints.registry import canonical_name
from identity.languages import speaking_to
from identity.models import User
from transferapi.tasks.models import Task

from . import task as task_mails

PAGE = "/endpoints/{}"


def changed(task: Task, endpoint: Endpoint, fault: Fault, why: str, now: datetime) -> None:
    """Write the mails, once for each user and new key. The owner of the host alone reads its name and the keys."""
    host = endpoint.host or endpoint
    with speaking_to(host.owner):
        name = {"endpoint": canonical_name(host)}
        first = _("A server of your endpoint %(endpoint)s shows another host key than the registered one.") % name
        act = _("Tasks wait, and nothing is sent to this server. Compare the keys, and accept the new one:")
        lines = [first, "", fault.advice, "", act, f"{settings.PUBLIC_URL}{PAGE.format(host.pk)}"]
        _once(host.owner, None, host, fault, _("the host key of %(endpoint)s has changed") % name, lines, now)
    if task.owner_id != host.owner_id:
        with speaking_to(task.owner):
            lines = [_("A task of yours waits: %(way)s.") % {"way": task_mails.way(task)}, "", why, ""]
            lines.append(_("%(user)s must act.") % {"user": host.owner.username})
            subject = _("a task waits for %(endpoint)s") % {"endpoint": canonical_name(endpoint)}
            _once(task.owner, task, host, fault, subject, lines, now)


def _once(
    user: User, task: Task | None, host: Endpoint, fault: Fault, subject: str, lines: list[str], now: datetime
) -> None:
    digest = hashlib.sha256(fault.raw.encode()).hexdigest()[:32]
    task_mails.put(user, task, f"host key:{user.pk}:{host.pk}:{digest}", subject, lines, now)
