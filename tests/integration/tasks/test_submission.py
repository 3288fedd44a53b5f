"""Submissions: what is refused, what is written, and that nothing is written twice."""

from __future__ import annotations

import resource
import uuid
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from endpoints import registry
from endpoints.errors import EndpointNotFoundError
from endpoints.models import Endpoint
from identity.models import User
from tests.integration.cast import all_at_once, later, submit, submit_delete, transfer_request
from tests.integration.shared import make_share
from tests.refusals import kind_of
from transferapi.tasks import doorbell, moves, queries, submission
from transferapi.tasks.errors import TOO_MANY_PENDING, RequestError
from transferapi.tasks.models import Event, Item, Task
from transferapi.tasks.submission import DeleteRequest, TransferItem


def test_a_transfer_is_written_with_its_items_and_its_first_event(alice: User, ep1: Endpoint, public: Endpoint) -> None:
    odd = "/not\udcffutf8/\u00fc '\"\\#%41"
    task = submit(alice, ep1, public, ("/~/a//b", "/c/"), (odd, odd), label="first", options={"perf_cc": 4})
    task = queries.get(alice, task.pk)
    assert (task.status, task.phase, task.label, task.items_total) == ("ACTIVE", "queued", "first", 2)
    assert (task.source, task.destination) == (ep1, public)
    assert task.options["perf_cc"] == 4
    assert task.options["notify_on_failed"] is True
    assert task.deadline == task.request_time + timedelta(hours=24)
    assert not task.deadline_is_fixed
    items = [
        (item.position, item.source_path, item.destination_path, item.recursive)
        for item in task.items.order_by("position")
    ]
    assert items == [(0, "/~/a/b", "/c/", None), (1, odd, odd, None)]
    assert [event.code for event in Event.objects.filter(task=task)] == ["SUBMITTED"]


def test_a_delete_has_a_fixed_deadline_and_no_destination(alice: User, ep1: Endpoint) -> None:
    task = submit_delete(alice, ep1, "/a", "/b/", options={"recursive": True})
    assert task.destination is None
    assert task.deadline_is_fixed
    items = Item.objects.filter(task=task).order_by("position")
    assert [(item.source_path, item.destination_path, item.recursive) for item in items] == [
        ("/a", None, True),
        ("/b/", None, True),
    ]


@pytest.mark.parametrize(
    ("items", "field"),
    [
        ([("relative", "/b")], "DATA[0].source_path"),
        ([("/a", "/b"), ("/c", "/d/../e")], "DATA[1].destination_path"),
        ([("/a\n", "/b")], "DATA[0].source_path"),
        ([("/a", "/b\0")], "DATA[0].destination_path"),
        ([("/a", "/same"), ("/b", "//same/")], "DATA[1].destination_path"),
    ],
)
def test_bad_items_are_refused_by_their_field(
    alice: User, ep1: Endpoint, ep2: Endpoint, items: list[tuple[str, str]], field: str
) -> None:
    with pytest.raises(RequestError) as refused:
        submit(alice, ep1, ep2, *items)
    assert refused.value.field == field
    assert not Task.objects.exists()


@pytest.mark.parametrize(
    ("source", "destination"), [("/a", "/a"), ("/a/", "//a"), ("/a", "/a/b"), ("/", "/a"), ("/~/", "/~/a")]
)
def test_nothing_goes_onto_or_into_itself_on_one_endpoint(
    alice: User, ep1: Endpoint, ep2: Endpoint, source: str, destination: str
) -> None:
    with pytest.raises(RequestError) as refused:
        submit(alice, ep1, ep1, (source, destination))
    assert refused.value.field == "DATA[0].destination_path"
    submit(alice, ep1, ep2, (source, destination))
    submit(alice, ep1, ep1, ("/a", "/ab"), ("/a/b", "/a/c"))


def test_a_request_without_items_has_its_own_code(alice: User, ep1: Endpoint, ep2: Endpoint) -> None:
    request = submission.TransferRequest(uuid.uuid4(), "ep1", "ep2", [])
    with pytest.raises(RequestError) as refused:
        submission.submit_transfer(alice, request)
    assert refused.value.code == "ClientError.BadRequest.NoTransferItems"
    with pytest.raises(RequestError):
        submission.submit_delete(alice, DeleteRequest(uuid.uuid4(), "ep1", []))


@pytest.mark.parametrize("path", ["/", "//", "/~/", "/~", "relative", "/a/..", "/a\r\nDELE /b"])
def test_a_bad_path_or_a_root_is_not_deleted(alice: User, ep1: Endpoint, path: str) -> None:
    with pytest.raises(RequestError):
        submit_delete(alice, ep1, path)


@pytest.mark.parametrize(
    "more",
    [{"label": "x" * 129}, {"deadline": later(-1)}, {"options": {"sync_level": 9}}, {"options": {"perf_cc": 0}}],
)
def test_bad_options_are_refused(alice: User, ep1: Endpoint, ep2: Endpoint, more: dict[str, Any]) -> None:
    with pytest.raises(RequestError):
        submit(alice, ep1, ep2, **more)
    assert not Task.objects.exists()


def test_a_foreign_private_endpoint_does_not_exist(charlie: User, ep1: Endpoint, public: Endpoint) -> None:
    for source, destination in ((ep1, public), (public, ep1)):
        with pytest.raises(EndpointNotFoundError):
            submit(charlie, source, destination)
    with pytest.raises(EndpointNotFoundError):
        submit_delete(charlie, ep1)
    registry.delete(public.owner, "public")
    with pytest.raises(EndpointNotFoundError):
        submit(charlie, public, public, ("/a", "/b"))


def test_a_repeated_submission_gives_the_task_of_the_first(alice: User, ep1: Endpoint, ep2: Endpoint) -> None:
    request = transfer_request(ep1, ep2, deadline=later(60))
    task, created = submission.submit_transfer(alice, request)
    again, created_again = submission.submit_transfer(alice, request, now=later(120))
    assert (created, created_again) == (True, False)
    assert again == task
    assert Item.objects.count() == 1


def test_the_submission_id_of_somebody_else_reveals_nothing(
    alice: User, bob: User, ep1: Endpoint, public: Endpoint
) -> None:
    submission_id = uuid.uuid4()
    task = submit(alice, ep1, public, submission_id=submission_id)
    other = submit(bob, public, public, ("/a", "/b"), submission_id=submission_id)
    assert other != task
    assert other.owner == bob


@pytest.mark.django_db(transaction=True)
def test_one_submission_sent_many_times_at_once_makes_one_task(alice: User, ep1: Endpoint, ep2: Endpoint) -> None:
    request = transfer_request(ep1, ep2)
    results = all_at_once([lambda: submission.submit_transfer(alice, request)] * 8)
    assert not [result for result in results if isinstance(result, Exception)]
    assert sum(created for _, created in results) == 1
    assert len({task.pk for task, _ in results}) == 1
    assert Item.objects.count() == Event.objects.count() == 1


@pytest.mark.django_db(transaction=True)
def test_not_even_at_once_has_a_user_too_many_tasks(
    alice: User, bob: User, ep1: Endpoint, public: Endpoint, settings: Any
) -> None:
    settings.LIMITS = replace(settings.LIMITS, pending_tasks=5)
    for number in range(3):
        submit(alice, ep1, public, (f"/a{number}", "/b"))
    results = all_at_once([lambda: submit(alice, ep1, public)] * 6)
    refused = [result for result in results if kind_of(result) is TOO_MANY_PENDING]
    assert len(refused) == 4
    assert Task.objects.count() == 5
    submit(bob, public, public, ("/a", "/b"))
    moves.cancel(alice, Task.objects.filter(owner=alice).earliest("request_time").pk)
    submit(alice, ep1, public)


@pytest.mark.timeout(60)
@pytest.mark.django_db(transaction=True)
def test_a_hundred_thousand_items_are_written_in_little_memory(alice: User, ep1: Endpoint, ep2: Endpoint) -> None:
    """The bound is far above what is measured: about a second and 60 MB."""
    number = 100_000
    items = [
        TransferItem(f"/project/run/{n % 1000:04}/file{n:07}.dat", f"/scratch/run/{n % 1000:04}/file{n:07}.dat")
        for n in range(number)
    ]
    request = submission.TransferRequest(uuid.uuid4(), "ep1", "ep2", items)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    task, _ = submission.submit_transfer(alice, request)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 300_000
    assert task.items_total == number == Item.objects.filter(task=task).count()
    last = Item.objects.get(task=task, position=number - 1)
    assert (last.source_path, last.destination_path) == (items[-1].source_path, items[-1].destination_path)


def test_the_doorbell_rings_only_once_the_task_is_there(
    alice: User, ep1: Endpoint, ep2: Endpoint, django_capture_on_commit_callbacks: Any
) -> None:
    with django_capture_on_commit_callbacks() as callbacks:
        submit(alice, ep1, ep2)
    assert len(callbacks) == 1


def test_a_broker_that_is_down_fails_no_submission(settings: Any, transactional_db: None) -> None:
    settings.CELERY_BROKER_URL = "redis://127.0.0.1:1/0"
    user = User.objects.create(username="dora")
    ep1 = registry.create(user, {"name": "a"})
    task = submit(user, ep1, ep1, ("/a", "/b"))
    assert queries.get(user, task.pk).phase == "queued"
    assert not doorbell.ring([task.pk])


def demand(endpoint: Endpoint, **flags: bool) -> None:
    Endpoint.objects.filter(pk=endpoint.pk).update(**flags)


def test_what_an_endpoint_demands_holds_for_every_transfer(alice: User, ep1: Endpoint, ep2: Endpoint) -> None:
    demand(ep1, force_encryption=True, force_verify=True)
    for source, destination in ((ep1, ep2), (ep2, ep1)):
        task = submit(alice, source, destination, options={"encrypt_data": False, "verify_checksum": False})
        assert (task.options["encrypt_data"], task.options["verify_checksum"]) == (True, True)
    task = submit(alice, ep2, ep2, ("/a", "/b"))
    assert (task.options["encrypt_data"], task.options["verify_checksum"]) == (False, False)


def test_what_a_host_demands_holds_for_what_is_shared_of_it(alice: User, ep1: Endpoint, ep2: Endpoint) -> None:
    demand(ep1, force_encryption=True, disable_verify=True)
    share = make_share(ep1, "share")
    task = submit(alice, share, ep2, options={"verify_checksum": True})
    assert (task.options["encrypt_data"], task.options["verify_checksum"]) == (True, False)
    demand(share, force_verify=True)
    assert submit(alice, share, ep2).options["verify_checksum"] is True
