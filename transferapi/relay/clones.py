"""Two computers with one key: the second one is refused, and the owner of the endpoint gets a mail."""

from __future__ import annotations

import logging
import uuid

from transferapi.tasks.notify.mails import agent as agent_mails

log = logging.getLogger(__name__)


def report_clone(endpoint_id: uuid.UUID, address: str) -> None:
    """Write the mail to the owner; runs in a thread with a connection to the database."""
    log.warning("relay: a second computer at %s has the key of the agent of %s", address, endpoint_id)
    agent_mails.clone_refused(endpoint_id, address)
