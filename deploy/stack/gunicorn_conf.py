"""Gunicorn's settings: `gunicorn --config python:deploy.stack.gunicorn_conf transferapi.wsgi`."""

from __future__ import annotations

import gc
import os
import resource
import ssl
import sys
from typing import Any

from .child import die_with_parent
from .tls import Door

#: Descriptors of a worker: its connections and its streams of events, and some for itself.
FILES = 4096

workers = 2
#: gthread, which can give connections away to streams of events.
worker_class = "deploy.stack.web.StreamWorker"
threads = 8
#: Load once and fork: half the time to start and half the memory.
preload_app = True
#: Seconds without a sign of life of a worker's loop; a request may take longer.
timeout = 60
#: Seconds that requests under way get when it is told to stop: Ctrl-C of `make up` ends everything within 2 s.
graceful_timeout = 1
keepalive = 5
#: Octets: the most that gunicorn can. A path of 4,096 octets may be three times as long, percent-encoded.
limit_request_line = 8190
#: Nobody's word about paths and schemes is taken here: a front server's is, by the application (`rest.front`).
forwarder_headers = ""
secure_scheme_headers: dict[str, str] = {}
#: The worker closes connections before gunicorn would stop to accept any (`StreamWorker.MOST_CONNECTIONS`).
worker_connections = 4000
#: Answers go through the worker's own hands.
sendfile = False
#: Its place is in the user's home folder, where two instances would meet.
control_socket_disable = True
#: Workers' heartbeats are files: in memory where there is such a place.
worker_tmp_dir = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None  # noqa: S108

#: Where both are set we end TLS ourselves, and ask clients for a certificate that they may have.
certfile = os.environ.get("WAYBILL_TLS_CERTIFICATE") or None
keyfile = os.environ.get("WAYBILL_TLS_KEY") or None
_door = Door()
#: Seconds for which a thread that is busy, as with a long listing, keeps the others waiting: each of their requests
#: needs the interpreter some twenty times.
SWITCH = 0.001


def on_starting(server: object) -> None:
    """Files that cannot be used stop the start; gunicorn would read them with the first connection."""
    if certfile:
        _door.context()


def ssl_context(conf: object, default_ssl_context_factory: object) -> ssl.SSLContext:
    """Asked at each connection."""
    return _door.context()


def when_ready(server: object) -> None:
    """Before the fork: load what Django loads with the first request, once instead of in every worker."""
    from django.urls import get_resolver

    _ = get_resolver().url_patterns
    # What is loaded stays: the collector of garbage need not look at it, nor copy its pages into each worker.
    gc.collect()
    gc.freeze()


def post_fork(server: object, worker: object) -> None:
    """A worker ends with its master, also when the master was killed; it may have as many connections as it takes."""
    die_with_parent(os.getppid())
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, FILES)), hard))
    sys.setswitchinterval(SWITCH)


def worker_exit(server: object, worker: Any) -> None:
    """A worker that has done its work ends at once: to take Django apart first takes 0.3 s, and gains nothing."""
    if worker.booted:
        os._exit(0)
