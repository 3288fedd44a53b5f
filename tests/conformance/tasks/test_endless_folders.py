"""Tasks from and to servers whose folders have no end: they fail by a limit, and leave nothing behind."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from django.db.models import Sum

from endpoints import registry
from endpoints.gridftp.server import GridFtpServer
from endpoints.models import Endpoint
from endpoints.registry import ServerSpec
from identity.models import User
from tests.conformance.tasks.slices import run
from tests.conformance.tasks.test_shares import _instance  # noqa: F401 (the fixture of the gate)
from tests.gridftp import endless_ftp
from tests.gridftp.endless_ftp import EndlessServer, Listing
from tests.integration.cast import submit, submit_delete
from transferapi.tasks.models import Event, File, Item, Space, Task
from transferapi.tasks.upkeep import retention
from workers.engine.bounds import Memory

pytestmark = pytest.mark.django_db(transaction=True)

FILES = 3000


@pytest.fixture
def alice() -> User:
    return User.objects.create(username="alice")


@pytest.fixture
def home(alice: User, tmp_path: Path, serve: Callable[..., GridFtpServer]) -> Endpoint:
    return registry.create(alice, {"name": "home"}, [ServerSpec("127.0.0.1", serve(tmp_path).port, "ftp")])


@pytest.fixture
def endless(alice: User) -> Iterator[Callable[..., Endpoint]]:
    servers: list[EndlessServer] = []

    def start(listing: Listing, **more: bool) -> Endpoint:
        servers.append(EndlessServer(listing, **more))
        return registry.create(alice, {"name": "endless"}, [ServerSpec("127.0.0.1", servers[-1].port, "ftp")])

    yield start
    for server in servers:
        assert server.lines < 200 * FILES, "it is not listened to for ever"
        with server:
            pass


@pytest.fixture(autouse=True)
def limits(settings: Any) -> None:
    settings.LIMITS = replace(settings.LIMITS, task_files=FILES, scan_memory=1 << 20)


def ends_by(task: Task, name: str) -> None:
    """The task fails by this limit, names it to its owner, and keeps at most FILES rows and no memory."""
    assert run(task) == "FAILED"
    event = Event.objects.filter(task=task).latest("id")
    assert (task.fatal_error_code, event.code) == ("LIMIT_EXCEEDED", "LIMIT_EXCEEDED")
    assert name in str(task.fatal_error_description)
    assert File.objects.filter(task=task).count() <= FILES
    assert Memory.all_held == 0
    assert retention.give_back() == 1
    unseen = File.objects.filter(task=task, state=0, error_code=None)
    assert Item.objects.filter(task=task).count() <= retention.KEPT_ITEMS
    assert not unseen.exists()
    assert Space.objects.aggregate(rows=Sum("rows"))["rows"] == File.objects.count() + Item.objects.count()


@pytest.mark.parametrize(
    ("listing", "name", "by_data"),
    [
        (endless_ftp.files, "WAYBILL_MAX_TASK_FILES", False),
        (endless_ftp.files, "WAYBILL_MAX_TASK_FILES", True),
        (endless_ftp.one_file, "WAYBILL_MAX_TASK_FILES", False),
        (endless_ftp.folders, "WAYBILL_MAX_", False),
        (endless_ftp.tree, "WAYBILL_MAX_", False),
    ],
)
def test_a_transfer_of_a_folder_without_end_fails_by_a_limit(
    alice: User, home: Endpoint, endless: Callable[..., Endpoint], listing: Listing, name: str, by_data: bool
) -> None:
    ends_by(submit(alice, endless(listing, by_data=by_data), home, ("/from/", "/to/")), name)


@pytest.mark.parametrize("listing", [endless_ftp.files, endless_ftp.folders, endless_ftp.tree])
def test_a_delete_of_a_folder_without_end_fails_by_a_limit(
    alice: User, endless: Callable[..., Endpoint], listing: Listing
) -> None:
    ends_by(submit_delete(alice, endless(listing), "/old/", options={"recursive": True}), "WAYBILL_MAX_")


@pytest.mark.parametrize("options", [{"filter_rules": [{"method": "exclude", "name": "*"}]}, {"sync_level": 1}])
def test_what_is_filtered_out_or_is_compared_counts_too(
    alice: User, home: Endpoint, endless: Callable[..., Endpoint], options: dict[str, object], tmp_path: Path
) -> None:
    (tmp_path / "from").mkdir()
    (tmp_path / "from" / "one").write_bytes(b"1")
    there = endless(endless_ftp.files)
    source, destination = (home, there) if "sync_level" in options else (there, home)
    ends_by(submit(alice, source, destination, ("/from/", "/to/"), options=options), "WAYBILL_MAX_TASK_FILES")


def test_a_name_that_no_file_system_has_is_a_fault_of_its_folder(
    alice: User, home: Endpoint, endless: Callable[..., Endpoint]
) -> None:
    names = ("x" * 1025, "x" * 15_000)
    task = submit(alice, endless(lambda _: (f"{endless_ftp.FILE} {name}" for name in names)), home, ("/from/", "/to/"))
    assert run(task) == "FAILED"
    assert task.fatal_error_code == "INVALID_PATH_NAME"
