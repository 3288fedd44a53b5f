"""The web server is gunicorn's own worker, in a range of versions; the names that its hooks call are there."""

from __future__ import annotations

import re
import tomllib
from types import FunctionType

import pytest
from gunicorn.workers.gthread import PollableMethodQueue, ThreadWorker  # type: ignore[import-untyped]

from deploy.web import gunicorn_conf
from transferapi.config import CHECKOUT


def test_the_worker_is_gunicorns_own() -> None:
    assert gunicorn_conf.worker_class == "gthread"


def test_gunicorn_has_a_range_of_versions() -> None:
    project = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["project"]
    [pin] = [one for one in project["dependencies"] if one.startswith("gunicorn")]
    assert re.fullmatch(r"gunicorn>=[\d.]+,<\d+", pin)


@pytest.mark.parametrize(
    ("method", "name"),
    [
        (ThreadWorker.run, "sockets"),
        (ThreadWorker.run, "set_accept_enabled"),
        (ThreadWorker.run, "alive"),
        (ThreadWorker.set_accept_enabled, "accept"),
        (ThreadWorker.handle_exit, "method_queue"),
        (PollableMethodQueue.defer, "_queue"),
    ],
    ids=lambda one: getattr(one, "__qualname__", one),
)
def test_gunicorn_has_what_the_end_of_a_worker_relies_on(method: FunctionType, name: str) -> None:
    """`deploy.web.stopping`; tests/integration/web/test_stopping.py shows that it works."""
    assert name in method.__code__.co_names
