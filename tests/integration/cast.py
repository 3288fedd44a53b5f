"""The cast of the tests (alice owns, bob shares, charlie must see nothing) and short ways to what they do."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from django.db import connection

from endpoints import registry
from endpoints.models import Endpoint
from identity.models import User
from transferapi.tasks import submission
from transferapi.tasks.items import spool
from transferapi.tasks.models import Task
from transferapi.tasks.worker import leases
from transferapi.tasks.worker.leases import Grant


def make_user(name: str) -> User:
    return User.objects.create(username=name)


def make_endpoint(
    owner: User, name: str, *, public: bool = False, max_sessions: int = 32, scheme: str = "ftp"
) -> Endpoint:
    """scheme: what decides on the credential that is needed; "ftp": none."""
    # A host key that is given is not read from the host.
    subject = f"SHA256:{'A' * 43}" if scheme in ("ssh", "sftp") else ""
    spec = registry.ServerSpec.parse(f"{scheme}://{name}.example.org:2811", subject)
    endpoint = registry.create(owner, {"name": name, "display_name": name, "public": public}, [spec])
    Endpoint.objects.filter(pk=endpoint.pk).update(max_sessions=max_sessions)
    return endpoint


#: The paths at the source and the destination, and `recursive`.
Item = tuple[str, str] | tuple[str, str, bool]


def transfer_request(source: Endpoint, destination: Endpoint, *items: Item, **more: Any) -> submission.TransferRequest:
    """A transfer of these (source, destination) paths."""
    more.setdefault("submission_id", uuid.uuid4())
    return submission.TransferRequest(
        source_endpoint=str(source.pk),
        destination_endpoint=str(destination.pk),
        items=[submission.TransferItem(*item) for item in items or [("/from", "/to")]],
        **more,
    )


def submit(user: User, source: Endpoint, destination: Endpoint, *items: Item, **more: Any) -> Task:
    """A new transfer task."""
    now = more.pop("now", None)
    task, created = submission.submit_transfer(user, transfer_request(source, destination, *items, **more), now)
    assert created
    return task


def submit_delete(user: User, endpoint: Endpoint, *paths: str, **more: Any) -> Task:
    """A new delete task."""
    request = submission.DeleteRequest(uuid.uuid4(), str(endpoint.pk), paths or ["/old"], **more)
    task, created = submission.submit_delete(user, request)
    assert created
    return task


def take(task: Task, worker: str = "worker", *, now: datetime | None = None) -> Grant:
    """The lease of a task, which must be granted. Without `now` it lasts longer than a test on a busy machine."""
    grant = leases.acquire(task.pk, worker, now=now)
    assert isinstance(grant, Grant), grant
    if now is None:
        leases.heartbeat(task.pk, grant.epoch, ttl=timedelta(minutes=10))
    return grant


def octets_on_disk() -> int:
    """The octets of all lists of this process on the disk (`items/spool.py`)."""
    return spool._disk._of_user.total()


def later(seconds: float) -> datetime:
    return datetime.now(UTC) + timedelta(seconds=seconds)


def all_at_once(actions: Sequence[Callable[[], Any]]) -> list[Any]:
    """Run all actions at the same moment, each with its own connection. Return the result or exception of each."""
    start = threading.Barrier(len(actions))
    results: list[Any] = [TimeoutError()] * len(actions)

    def run(number: int) -> None:
        start.wait(30)
        try:
            results[number] = actions[number]()
        except Exception as error:
            results[number] = error
        finally:
            connection.close()

    threads = [threading.Thread(target=run, args=(number,)) for number in range(len(actions))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    return results
