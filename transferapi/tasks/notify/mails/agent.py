"""Mails about agents: a second computer uses the key of one."""

from __future__ import annotations

import uuid
from datetime import datetime, timedelta

from django.conf import settings
from django.db.models import Q
from django.utils.translation import gettext as _

from endpoints.models import Agent
from endpoints.registry import canonical_name
from identity.clock import moment
from identity.languages import speaking_to

from . import task as task_mails

#: A clone tries again and again; its endpoint's owner gets one mail in this time.
QUIET = timedelta(days=1)


def clone_refused(endpoint_id: uuid.UUID, address: str, now: datetime | None = None) -> None:
    """Write the mail that a second computer with the key of an agent was refused; at most one for each `QUIET`.

    address: of that computer, as the relay sees it; "" when unknown.
    """
    time = moment(now)
    due = Q(clone_reported_at__isnull=True) | Q(clone_reported_at__lte=time - QUIET)
    if not Agent.objects.filter(due, pk=endpoint_id).update(clone_reported_at=time):
        return
    endpoint = Agent.objects.select_related("endpoint__owner").get(pk=endpoint_id).endpoint
    with speaking_to(endpoint.owner):
        name = {"endpoint": canonical_name(endpoint), "address": address}
        refused = _("The second one at %(address)s was refused; the first goes on.")
        lines = [
            _("Two computers use the key of your endpoint %(endpoint)s.") % name,
            (refused if address else _("The second one was refused; the first goes on.")) % name,
            "",
            _(
                "If you copied the folder of the program to another computer, or restored a backup there, set "
                "that one up by a setup key of its own. If you did not, somebody has read the key: revoke it, "
                "and set your computer up again. Both are done here:"
            ),
            f"{settings.PUBLIC_URL}/endpoints/{endpoint.pk}#agent",
        ]
        key = f"clone:{endpoint.pk}:{time.isoformat()}"
        task_mails.put(
            endpoint.owner, None, key, _("a second computer uses the key of %(endpoint)s") % name, lines, time
        )
