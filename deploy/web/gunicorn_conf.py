"""Gunicorn's settings of the web server and of the events server: `waybill run` names them (`deploy.stack.roles`).

The command of the events server replaces the worker class and some of the numbers.
"""

from __future__ import annotations

import contextlib
import gc
import os
import resource
import ssl
import sys
from typing import Any

from deploy.stack.child import die_with_parent
from transferapi.config import load_or_exit
from transferapi.config.values import host_and_port

from .stopping import close_early
from .tls import ServerContext

#: Descriptors of a worker: for its connections, and its own files.
FILES = 4096

_config = load_or_exit()
workers = _config.web_processes
#: A thread has a client until it is answered: a server in front waits for slow ones (docs/operate/front-servers.md).
worker_class = "gthread"
threads = _config.web_threads
bind = [host_and_port(_config.web_host, _config.port)]
#: Load once and fork: half the time to start and half the memory.
preload_app = True
#: Seconds without a heartbeat of a worker's loop after which it is killed. A request may take longer.
timeout = 60
#: Seconds for requests under way when the server stops: less than the 10 s after which Docker kills it. At Ctrl-C the
#: supervisor of `make up` waits for a second only.
graceful_timeout = 8
keepalive = 5
#: The most octets that gunicorn allows. A path of 4,096 octets may be three times as long, percent-encoded.
limit_request_line = 8190
#: Gunicorn ignores headers about paths and schemes. The application trusts front servers (`rest.http.trusted_proxies`).
forwarder_headers = ""
secure_scheme_headers: dict[str, str] = {}
#: Of one process.
worker_connections = 1000
#: Its file would be in the user's home folder, which two instances can share.
control_socket_disable = True
logger_class = "deploy.web.logger.WebLogger"
#: The heartbeats of workers are files: in memory where that is possible.
worker_tmp_dir = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None  # noqa: S108

#: Where both are set, gunicorn ends TLS, and asks clients for an optional certificate.
certfile = os.environ.get("WAYBILL_TLS_CERTIFICATE") or None
keyfile = os.environ.get("WAYBILL_TLS_KEY") or None
_door = ServerContext()
#: Seconds for which a busy thread (as with a long listing) delays the other threads. Each of their requests needs the
#: interpreter about twenty times.
SWITCH = 0.001
#: Seconds for the ends of the streams of events of a worker that stops.
STREAMS_SECONDS = 1.0


def on_starting(server: object) -> None:
    """Stop the start where the files cannot be used. Gunicorn would read them with the first connection."""
    if certfile:
        _door.context()


def ssl_context(conf: object, default_ssl_context_factory: object) -> ssl.SSLContext:
    """Gunicorn calls this for each connection."""
    return _door.context()


def when_ready(server: object) -> None:
    """Before the fork: load what Django loads with the first request, once and not in every worker."""
    from django.urls import get_resolver

    from transferapi.rest import landing
    from transferapi.rest.metrics import requests as metrics

    _ = get_resolver().url_patterns
    landing.prepare()
    metrics.prepare()
    # Loaded objects stay: the garbage collector need not visit them, and so they are not copied into each worker.
    gc.collect()
    gc.freeze()


def pre_fork(server: Any, worker: Any) -> None:
    """In the master: the worker's slot of the shared counts, which no living worker has."""
    from transferapi.rest.metrics.shared_counts import COUNTS

    worker.slot = COUNTS.free_slot({one.slot for one in server.WORKERS.values()})


def child_exit(server: object, worker: Any) -> None:
    """In the master: a worker has ended, however that was."""
    from transferapi.rest.metrics.shared_counts import COUNTS

    COUNTS.leave(worker.slot)


def post_fork(server: object, worker: Any) -> None:
    """A worker ends with its master, also where the master is killed. It gets as many descriptors as it needs."""
    die_with_parent(os.getppid())
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, FILES)), hard))
    from transferapi.outages import database
    from transferapi.rest.metrics.shared_counts import COUNTS
    from transferapi.tasks import trace_switch
    from transferapi.tasks.upkeep.watch import Watch

    COUNTS.take_slot(worker.slot)
    kind, threads = ("events", _prepare_events(worker)) if _is_events(worker) else ("web", _prepare_web(worker))
    # Each thread, and the thread for streams, for the maintenance mode, for /metrics and for the checks of /readyz.
    database.watch(database.OF_REQUESTS, database.ConnectionBounds(kind, threads + 6))
    trace_switch.begin(kind)
    Watch(kind).start()


def post_worker_init(worker: Any) -> None:
    """After gunicorn has set its signal handlers."""
    if not _is_events(worker):
        from transferapi.rest.push import event_broadcaster

        close_early(worker, event_broadcaster.stop)


def post_request(worker: Any, request: object, environ: object, response: object) -> None:
    """In the thread of the request: close what Django has kept beyond its time, also where an answer broke off."""
    if not _is_events(worker):
        from django.db import close_old_connections

        close_old_connections()


def _is_events(worker: Any) -> bool:
    return bool(worker.cfg.worker_class_str == "asgi")


def _prepare_events(worker: Any) -> int:
    """Returns the threads for views."""
    from transferapi import asgi

    asgi.application.is_stopping = lambda: not worker.alive
    return asgi.THREADS


def _prepare_web(worker: Any) -> int:
    """Returns the threads of the worker."""
    sys.setswitchinterval(SWITCH)
    return _config.web_threads


def worker_exit(server: object, worker: Any) -> None:
    """A worker that has served its requests closes its streams, and ends: taking Django apart first needs 0.3 s."""
    if worker.booted:
        from transferapi.outages.bounded import within
        from transferapi.rest.push import event_broadcaster
        from transferapi.traces import exporting

        with contextlib.suppress(Exception):
            within(STREAMS_SECONDS, event_broadcaster.stop)
        exporting.stop()
        os._exit(0)
