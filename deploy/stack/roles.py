"""The programs of the roles, with their arguments: for `waybill run` (`deploy.commands.run`) and for `make up`."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

#: `python -m` of the web server. Its address, processes and threads are in `deploy.web.gunicorn_conf`.
WEB = ("gunicorn", "--config", "python:deploy.web.gunicorn_conf", "transferapi.wsgi")
#: That of the events server, with its own numbers: one process has all streams.
EVENTS = (
    *("gunicorn", "--config", "python:deploy.web.gunicorn_conf", "--worker-class", "asgi", "--workers", "1"),
    *("--threads", "1", "--graceful-timeout", "3", "transferapi.asgi"),
)
#: Celery's options of a worker, as `app.Worker` takes them: threads, and no messages between workers.
WORKER_OPTIONS: Mapping[str, Any] = MappingProxyType(
    {"pool": "threads", "without_gossip": True, "without_mingle": True, "without_heartbeat": True}
)
#: The advisory lock of PostgreSQL under which one process migrates the schema.
MIGRATING = 6501
#: Seconds that a supervisor gives a role between SIGTERM and SIGKILL: units, the compose file, docs/operate/roles.md.
STOP_SECONDS: Mapping[str, int] = MappingProxyType({"web": 10, "worker": 20, "shell": 10, "relay": 10, "events": 10})


def worker_words(threads: int) -> list[str]:
    """`python -m` of one worker process."""
    words = ["celery", "-A", "workers.celery:app", "worker", "--concurrency", str(threads)]
    for name, value in WORKER_OPTIONS.items():
        option = f"--{name.replace('_', '-')}"
        words += [option] if value is True else [option, str(value)]
    return words
