"""The Celery app. A message is only a wake-up (truth 1): acknowledged early, without a result, without a retry.

`waybill run worker` starts a worker process (`deploy.stack.roles`): one per core, see docs/decisions.
"""

from __future__ import annotations

import os
from functools import partial
from typing import Any

import django
from celery import Celery
from celery.signals import setup_logging, worker_init, worker_shutdown, worker_shutting_down
from django.apps import apps
from django.conf import settings

from transferapi.outages import database, watchdog
from transferapi.schema_version import check_or_exit
from transferapi.tasks import trace_switch
from transferapi.traces import exporting

from . import broker

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "transferapi.settings")
# Django's checks are about the code, and load all pages and routes of the web server: the tests run them.
os.environ.setdefault("CELERY_SKIP_CHECKS", "1")

#: Connections of a worker to PostgreSQL at most: threads of `runtime`, `store` and `rounds` share them.
MOST_CONNECTIONS = 20

broker.install()
app = Celery("waybill")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.conf.update(
    task_ignore_result=True,
    task_acks_late=False,
    worker_prefetch_multiplier=1,
    worker_redirect_stdouts=False,
    broker_connection_retry_on_startup=True,
    # These two change nothing for messages that are acknowledged early, and spare lines of log in each outage of Redis.
    worker_cancel_long_running_tasks_on_connection_loss=True,
    worker_enable_prefetch_count_reduction=False,
    # No format that can run code when it is read, and no remote control of workers through Redis.
    task_serializer="json",
    accept_content=["json"],
    worker_enable_remote_control=False,
)
if not apps.ready:
    django.setup()
app.autodiscover_tasks(["workers"], related_name="jobs", force=True)


@setup_logging.connect
def keep_logging(**_: object) -> None:
    """Celery leaves logging alone where something listens to this signal: Django has set it up."""


@worker_init.connect
def begin(sender: Any, **_: object) -> None:
    """Check the schema and start the periodic jobs: every worker runs them, there is no process for them.

    Not at `worker_ready`, which comes with the first connection to Redis: a worker has work without it.
    """
    check_or_exit()
    bounds = database.ConnectionBounds("worker", MOST_CONNECTIONS, settings.DATABASE_RESERVE)
    database.watch(database.IN_BACKGROUND, bounds)
    trace_switch.begin("worker")
    from . import runtime
    from .rounds import Ticker

    runtime.begin(sender.concurrency, partial(_is_connected, sender))
    ticker = Ticker()
    worker_shutting_down.connect(lambda **_: ticker.stop(), weak=False)
    ticker.start()
    watchdog.watch()


def _is_connected(worker: Any) -> bool:
    """Whether Celery takes messages. After an outage it waits for up to 30 s between two attempts to connect."""
    consumer = getattr(worker, "consumer", None)
    return getattr(consumer, "connection", None) is not None


@worker_shutdown.connect
def send_last_spans(**_: object) -> None:
    """After all slices have released their tasks; Celery has waited for those of its threads."""
    from . import runtime

    runtime.join()
    exporting.stop()


@worker_shutting_down.connect
def yield_tasks(**_: object) -> None:
    """On SIGTERM every slice releases its task at once, for another worker to continue."""
    from . import runtime

    watchdog.stop()
    runtime.stop()
