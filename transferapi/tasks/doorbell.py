"""Notify the workers, by task name, that there is work (truth 1). A lost message delays a task by seconds, no more."""

from __future__ import annotations

import functools
import logging
import uuid
from collections.abc import Iterable, Sequence
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any

import redis
from django.conf import settings
from kombu.exceptions import ChannelError, KombuError, OperationalError

from transferapi.config.servers import broker_options, broker_tls, broker_url
from transferapi.outages import redis_link
from transferapi.outages.bounded import within
from transferapi.outages.outage import is_watching

if TYPE_CHECKING:
    from celery import Celery

log = logging.getLogger(__name__)

#: The Celery task of the workers; its one argument is the task id as a string.
TASK_NAME = "workers.run"
#: Seconds for a connection, and for a reply of the broker; for the first message and all that comes before it, and for
#: each message after it.
TIMEOUT, FIRST, EACH = 0.3, 0.25, 0.02
#: Messages of one call, and of a sweep: those of new tasks wait behind them. The end of each slice rings for the next
#: ones (docs/decisions/work-and-messages.md).
MOST = 30
#: Seconds after which a message expires: the sweep has sent another by then, and messages do not pile up.
EXPIRES = 60
#: Messages that wait in Redis, with expired ones: beyond, no worker takes them, and they are of no use.
MOST_WAITING = 10_000


def ring(task_ids: Iterable[uuid.UUID]) -> bool:
    """Send one message for each task, MOST at most; return whether the broker accepted all. Never raises.

    None is sent where MOST_WAITING wait already, as when no worker runs for days: Redis must not fill its memory.

    A process that serves waits for FIRST seconds at most with one task, and not at all while Redis is away. The sweep
    finds the other tasks, because it reads the database and not the broker.
    """
    texts = [str(task_id) for task_id in islice(task_ids, MOST)]
    if not texts:
        return True
    outage = redis_link.outage_of(_address())
    if outage.is_on:
        outage.refused()
        return False
    app, limit = _producer(settings.CELERY_BROKER_URL), FIRST + EACH * len(texts)
    try:
        return within(limit if is_watching() else 10 * limit, partial(_send, app, texts))
    except (KombuError, OperationalError, OSError) as error:
        # The text of the error may hold the broker's address, and so its password.
        if not outage.met(error):
            log.warning("the doorbell does not ring: %s", type(error).__name__)
        return False


def _address() -> str:
    """The address of the broker, as the other clients of the same Redis have it."""
    broker: str = settings.CELERY_BROKER_URL
    return str(settings.REDIS_URL) if broker == broker_url(settings.REDIS_URL) else broker


def _send(app: Celery, texts: Sequence[str]) -> bool:
    """Send a message for each of these tasks; return False where too many wait.

    Raises KombuError, OperationalError, OSError.
    """
    with app.producer_pool.acquire(block=True) as producer:
        if _waiting(producer.channel, app.conf.task_default_queue) >= MOST_WAITING:
            return False
        for text in texts:
            app.send_task(TASK_NAME, [text], ignore_result=True, retry=False, expires=EXPIRES, producer=producer)
    return True


def _waiting(channel: Any, queue: str) -> int:
    """The messages that wait in this queue. Raises OperationalError."""
    try:
        return int(channel.queue_declare(queue, passive=True).message_count)
    except ChannelError:
        return 0  # an empty queue does not exist
    except redis.RedisError as error:
        raise OperationalError from error


@functools.lru_cache(maxsize=4)
def _producer(broker_url: str) -> Celery:
    """A Celery app that only sends, ready to send."""
    from celery import Celery

    app = Celery("doorbell", broker=broker_url, set_as_current=False)
    app.conf.update(
        task_ignore_result=True,
        broker_connection_retry=False,
        broker_use_ssl=broker_tls(settings.REDIS_URL),
        broker_transport_options={
            **broker_options(settings.REDIS_URL, TIMEOUT),
            "socket_connect_timeout": TIMEOUT,
            "socket_timeout": TIMEOUT,
            # Without this limit, kombu retries the connection for four seconds or more.
            "max_retries": 0,
        },
    )
    # Celery would load these with the first message, in the time of the broker.
    app.finalize()
    app.amqp.Producer  # noqa: B018
    app.connection_for_write().get_transport_cls()
    return app
