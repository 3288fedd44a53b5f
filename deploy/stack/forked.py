"""The roles of `make up`, as children of a supervisor that has loaded all that they need.

Each does what `waybill run ROLE` does. Loaded once and forked, together they need the start time and most of the memory
of one, and one that crashed is there again at once.
"""

from __future__ import annotations

import gc
import importlib
import os
import runpy
import sys
from collections.abc import Mapping, Sequence

import django
from django.conf import settings

from transferapi.config import load_or_exit
from transferapi.schema_version import check_or_exit

from .roles import WEB, WORKER_OPTIONS

#: Loaded before the fork, because the roles would load it afterwards. Not `workers.celery`, which changes Celery for
#: its process, nor what asks the database, such as `transferapi.wsgi`.
LOADED = (
    "billiard.pool",
    "celery.app.amqp",
    "celery.app.control",
    "celery.app.events",
    "celery.app.log",
    "celery.apps.worker",
    "celery.backends.base",
    "celery.concurrency.thread",
    "celery.contrib.django.task",
    "celery.events.receiver",
    "celery.fixups.django",
    "celery.loaders.app",
    "celery.worker.autoscale",
    "celery.worker.consumer",
    "celery.worker.consumer.delayed_delivery",
    "celery.worker.strategy",
    "deploy.web.logger",
    "deploy.web.tls",
    "deploy.web.stopping",
    "gunicorn.app.wsgiapp",
    "gunicorn.workers.gthread",
    "kombu.mixins",
    "kombu.transport.redis",
    "oauth2_provider.contrib.rest_framework",
    "transferapi.relay.main",
    "transferapi.shell.server.main",
    "transferapi.urls",
    "workers.rounds",
    "workers.runtime",
)
WORKER_READY = "take messages"


def load(environment: Mapping[str, str]) -> None:
    """Load all roles, for this environment. The process may fork: it opens no connection and starts no thread."""
    os.environ.update(environment)
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "transferapi.settings")
    django.setup()
    from transferapi.tasks.upkeep import service_processes

    for name in (*LOADED, *(path.rpartition(".")[0] for path in settings.MIDDLEWARE)):
        importlib.import_module(name)
    # Each process reports the migrations of its code, which are a hundred modules.
    service_processes.known_changes()
    # Loaded objects stay: the garbage collector need not visit them, and so they are not copied into each role.
    gc.collect()
    gc.freeze()


def prepare(words: Sequence[str]) -> int:
    from . import prepare as preparation

    preparation.main(list(words))
    return 0


def web(*words: str) -> int:
    """The web server, with more arguments of gunicorn; it ends with SystemExit."""
    program, *given = WEB
    sys.argv = [program, *given, *words]
    runpy.run_module(program, run_name="__main__", alter_sys=True)
    return 0


def shell() -> int:
    from transferapi.shell.server.main import serve

    check_or_exit()
    return serve(load_or_exit())


def relay() -> int:
    from transferapi.relay.main import serve

    check_or_exit()
    return serve(load_or_exit())


def worker(name: str, threads: int) -> int:
    """One Celery worker, until SIGTERM; returns its exit status."""
    from celery.signals import worker_ready

    from workers.celery import app

    worker_ready.connect(_say_ready)
    made = app.Worker(hostname=f"{name}@%h", concurrency=threads, quiet=True, **WORKER_OPTIONS)
    made.start()
    return int(made.exitcode or 0)


def _say_ready(**_: object) -> None:
    # Celery turns sys.stdout into log messages, which a log level may hide.
    if sys.__stdout__ is not None:
        print(WORKER_READY, file=sys.__stdout__, flush=True)
