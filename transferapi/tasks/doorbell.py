"""Notify the workers, by task name, that there is work (truth 1). A lost message delays a task by seconds, no more."""

from __future__ import annotations

import functools
import logging
import uuid
from collections.abc import Iterable

from celery import Celery
from django.conf import settings
from kombu.exceptions import KombuError, OperationalError

log = logging.getLogger(__name__)

#: The Celery task of the workers; its one argument is the task id as a string.
TASK_NAME = "workers.run"
#: Seconds for a connection, and for a reply of the broker.
PATIENCE = 0.3
#: Seconds after which a message expires: the sweep has sent another by then, and messages do not pile up.
EXPIRES = 60


def ring(task_ids: Iterable[uuid.UUID]) -> bool:
    """Send one message for each task; return whether the broker accepted all. Never raises, never takes a second.

    The sweep finds the other tasks, because it reads the database and not the broker.
    """
    app = _producer(settings.CELERY_BROKER_URL)
    try:
        for task_id in task_ids:
            app.send_task(TASK_NAME, [str(task_id)], ignore_result=True, retry=False, expires=EXPIRES)
    except (KombuError, OperationalError, OSError) as error:
        # The text of the error may hold the broker's address, and so its password.
        log.warning("the doorbell does not ring: %s", type(error).__name__)
        return False
    return True


@functools.lru_cache(maxsize=4)
def _producer(broker_url: str) -> Celery:
    """A Celery app that only sends."""
    app = Celery("doorbell", broker=broker_url, set_as_current=False)
    app.conf.update(
        task_ignore_result=True,
        broker_connection_retry=False,
        broker_transport_options={
            "socket_connect_timeout": PATIENCE,
            "socket_timeout": PATIENCE,
            # Without this limit, kombu retries the connection for four seconds or more.
            "max_retries": 0,
        },
    )
    return app
