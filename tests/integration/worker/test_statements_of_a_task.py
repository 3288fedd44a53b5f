"""The messages to PostgreSQL of one task of one small file, from its POST to its end: no more than these.

`python -m bench.database.statements` prints them for this code and for another commit.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.test import Client

from bench.database.statements import Messages, move_file
from endpoints import registry
from endpoints.gridftp.server import GridFtpServer
from identity import tokens
from identity.models import User
from tests.conformance.tasks import slices
from tests.integration.cast import make_user
from transferapi.tasks.models import Task
from transferapi.tasks.worker import leases
from workers import runtime

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("loopback_opened", "redis_server")]

#: The most messages by place and function. A function that is not named here has none.
MOST = {
    ("web", "bearer.authenticate"): 1,
    ("web", "submission.submit_transfer"): 12,
    ("web", "overlaps.warning"): 1,
    ("worker", "leases.acquire"): 10,
    ("worker", "leases.heartbeat"): 1,
    ("worker", "status.activation_statuses"): 1,
    ("worker", "scan_results.unscanned"): 1,
    ("worker", "scan_results.file_items_scanned"): 5,
    ("worker", "protection.note"): 5,
    ("worker", "measurements.add_event"): 4,
    ("worker", "settling.write"): 4,
    ("worker", "pending_files.counts"): 1,
    ("worker", "slice_end.finish"): 8,
    ("worker", "measurements.learn"): 1,
    ("worker", "leases.next_runnable"): 2,
}


@pytest.fixture
def files(tmp_path: Path) -> Path:
    return tmp_path


@pytest.fixture
def port(files: Path) -> Iterator[int]:
    server = GridFtpServer(files)
    server.start()
    yield server.port
    server.stop()


def work(task_id: str) -> None:
    """The slice of a worker, and its look for the next tasks."""
    asyncio.run(slices.work(Task(pk=uuid.UUID(task_id))))
    slices.in_thread(lambda: leases.next_runnable(runtime.NEXT))


def test_a_task_of_one_file_has_few_messages(files: Path, port: int) -> None:
    alice = make_user("alice")
    ends = [_endpoint(alice, name, port) for name in ("a", "b")]
    client = Client(HTTP_AUTHORIZATION=f"Bearer {tokens.issue(alice)}")
    # The first task learns what is known of the path then.
    move_file(client, ends, files, "first", work)
    messages = Messages()
    with messages.counted():
        move_file(client, ends, files, "second", work)
    found = messages.by_function()
    # The test itself reads the status at the end.
    del found["worker", ""]
    assert {key: number for key, number in found.items() if number > MOST.get(key, 0)} == {}, messages.found
    assert found.total() <= sum(MOST.values())


def _endpoint(owner: User, name: str, port: int) -> str:
    return str(registry.create(owner, {"name": name}, [registry.ServerSpec("127.0.0.1", port, "ftp")]).pk)
