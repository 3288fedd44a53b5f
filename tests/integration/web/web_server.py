"""A real web server for a test: gunicorn with the settings of the product, over the test database."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path

from django.conf import settings
from django.db import connections

from deploy.stack.child import spawn, stop
from deploy.stack.free_ports import free_port
from deploy.stack.postgres import Postgres
from deploy.stack.redis import Redis
from tests.waiting import eventually
from transferapi.config import CHECKOUT


@contextmanager
def web_server(
    postgres: Postgres,
    redis: Redis,
    folder: Path,
    *words: str,
    application: str = "transferapi.wsgi",
    **environ: str,
) -> Iterator[int]:
    """Gives its port. words: more for gunicorn; environ: more of the service's settings.

    At the end it is killed after 5 s, or after the `--graceful-timeout` of the words.
    """
    port, log = free_port(), folder / "web.log"
    given = {
        **{name: value for name, value in os.environ.items() if not name.startswith("WAYBILL_")},
        "DATABASE_URL": postgres.url(str(connections["default"].settings_dict["NAME"])),
        "REDIS_URL": redis.url(),
        "WAYBILL_SECRET_KEY": settings.SECRET_KEY,
        "WAYBILL_HOME": str(folder),
        "WAYBILL_RATE_LIMIT": "0",
        **environ,
    }
    command = [sys.executable, "-m", "gunicorn", "--config", "python:deploy.web.gunicorn_conf"]
    command += ["--bind", f"127.0.0.1:{port}", *words, application]
    process = spawn(command, log=log, env=given, cwd=CHECKOUT)
    try:
        eventually(lambda: "Booting worker" in log.read_text() or process.poll() is not None, seconds=90)
        assert process.poll() is None, log.read_text()
        yield port
    finally:
        graceful = dict(pairwise(words)).get("--graceful-timeout")
        stop(process, timeout=float(graceful or 0) + 5)
    # One of a test may have answers that break off.
    assert application != "transferapi.wsgi" or "Traceback" not in log.read_text(), log.read_text()
