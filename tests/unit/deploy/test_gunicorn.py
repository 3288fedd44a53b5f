"""The parts of gunicorn that our worker replaces and relies on are still those of the version it was written for."""

from __future__ import annotations

import inspect
import tomllib
from importlib import metadata
from types import FunctionType

import pytest
from gunicorn.config import Config  # type: ignore[import-untyped]
from gunicorn.http.message import Request  # type: ignore[import-untyped]
from gunicorn.http.unreader import IterUnreader  # type: ignore[import-untyped]
from gunicorn.workers.gthread import PollableMethodQueue, ThreadWorker  # type: ignore[import-untyped]

from deploy.web.worker import StreamWorker
from transferapi.config import CHECKOUT

OVERRIDDEN = (
    "__init__",
    "accept",
    "enqueue_req",
    "handle",
    "init_process",
    "load_wsgi",
    "murder_keepalived",
    "set_accept_enabled",
)
#: Methods of gunicorn, with names that they use: a method that gunicorn no longer calls would be overridden in vain.
USED = [
    (ThreadWorker.run, "murder_keepalived"),
    (ThreadWorker.run, "set_accept_enabled"),
    (ThreadWorker.run, "nr_conns"),
    (ThreadWorker.run, "tpool"),
    (ThreadWorker.run, "sockets"),
    (ThreadWorker.set_accept_enabled, "accept"),
    (ThreadWorker.wait_for_and_dispatch_events, "fileobj"),
    (ThreadWorker.init_process, "tpool"),
    (ThreadWorker.init_process, "poller"),
    (ThreadWorker.handle_request, "wsgi"),
    (ThreadWorker.handle_request, "should_close"),
    (PollableMethodQueue.run_callbacks, "_queue"),
]


def pinned() -> str:
    project = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["project"]
    [pin] = [one for one in project["dependencies"] if one.startswith("gunicorn")]
    name, version = pin.split("==")
    assert name == "gunicorn"
    return str(version)


def test_gunicorn_is_the_version_that_the_worker_was_written_for() -> None:
    assert metadata.version("gunicorn") == pinned()


@pytest.mark.parametrize("lock", ["requirements.lock", "requirements-test.lock"])
def test_the_lock_has_the_pinned_version(lock: str) -> None:
    assert f"\ngunicorn=={pinned()} " in (CHECKOUT / lock).read_text()


def test_the_worker_overrides_these_methods_and_no_others() -> None:
    ours = {name for name, one in vars(StreamWorker).items() if isinstance(one, FunctionType)}
    assert {name for name in ours if hasattr(ThreadWorker, name)} == set(OVERRIDDEN)


@pytest.mark.parametrize("name", OVERRIDDEN[1:])
def test_an_overridden_method_has_the_parameters_of_gunicorn(name: str) -> None:
    ours, theirs = (list(inspect.signature(getattr(kind, name)).parameters) for kind in (StreamWorker, ThreadWorker))
    assert ours == theirs


@pytest.mark.parametrize(("method", "name"), USED, ids=[f"{method.__qualname__}-{name}" for method, name in USED])
def test_gunicorn_still_uses_what_the_worker_relies_on(method: FunctionType, name: str) -> None:
    assert name in method.__code__.co_names


def test_the_parser_has_the_private_attribute_that_the_worker_changes() -> None:
    head = b"POST / HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n"
    request = Request(Config(), IterUnreader([head]), ("127.0.0.1", 1), 1)
    assert request._expected_100_continue is True
    assert request.body.reader.length == 5
    assert not request.should_close()
    request.force_close()
    assert request.should_close()
