"""Submissions of lists that are too long for memory, and of tasks whose id the client has chosen."""

from __future__ import annotations

import tracemalloc
import uuid
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest

from endpoints.errors import PathNotPermittedError
from endpoints.models import Endpoint
from identity.models import User
from tests.integration.cast import all_at_once, octets_on_disk, submit, transfer_request
from tests.integration.shared import give, make_share
from transferapi.tasks import submission
from transferapi.tasks.errors import RequestError, TooMuchError
from transferapi.tasks.items import spool
from transferapi.tasks.items.rows import SeenTexts
from transferapi.tasks.items.spool import Spool, SpooledItems, SpooledPaths
from transferapi.tasks.models import Item, Task
from transferapi.tasks.submission import DeleteRequest, TransferRequest

ODD = "/not\udcffutf8/ü '\"\\#%41"


def spooled(user: User, items: Iterable[tuple[str, str]]) -> Spool:
    made = Spool(user.pk)
    for source, destination in items:
        made.add(source, destination, SpooledItems.FILE, "17")
    return made


def submit_list(user: User, items: Iterable[tuple[str, str]], to: str = "ep2", **more: Any) -> Task:
    with spooled(user, items) as made:
        task, created = submission.submit_transfer(
            user, TransferRequest(uuid.uuid4(), "ep1", to, SpooledItems(made), **more)
        )
    assert created
    return task


@pytest.mark.parametrize("block", [1, 10, spool.BLOCK])
def test_a_list_becomes_a_task_as_it_was_sent(
    alice: User, ep1: Endpoint, ep2: Endpoint, block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spool, "BLOCK", block)
    items = [(f"/from/{number}{ODD}", f"/to/{number}{ODD}") for number in range(300)]
    task = submit_list(alice, items)
    found = Item.objects.filter(task=task).order_by("position")
    assert [(item.position, item.source_path, item.destination_path, item.recursive) for item in found] == [
        (number, *item, False) for number, item in enumerate(items)
    ]
    task.refresh_from_db()
    assert (task.items_total, task.kept_rows) == (300, 300)
    assert task.kept_octets == sum(len(path.encode("utf-8", "surrogateescape")) for item in items for path in item)
    assert octets_on_disk() == 0


def test_of_paths_to_delete_each_is_deleted(alice: User, ep1: Endpoint) -> None:
    with Spool(alice.pk) as made:
        for path in ("/a", "/b/", ODD):
            made.add(path)
        task, _ = submission.submit_delete(alice, DeleteRequest(uuid.uuid4(), "ep1", SpooledPaths(made)))
    assert [item.source_path for item in task.items.order_by("position")] == ["/a", "/b/", ODD]


@pytest.mark.parametrize(
    ("items", "field"),
    [
        ([("/a", "/same"), ("/b", "/b"), ("/c", "//same/")], "DATA[2].destination_path"),
        ([("/a", "/b"), ("/c/../d", "/c")], "DATA[1].source_path"),
        ([], "DATA"),
    ],
)
def test_a_list_is_checked_like_any_other_submission(
    alice: User, ep1: Endpoint, ep2: Endpoint, items: list[tuple[str, str]], field: str
) -> None:
    with pytest.raises(RequestError) as refused:
        submit_list(alice, items)
    assert refused.value.field == field
    assert not Task.objects.exists()


def test_on_one_endpoint_nothing_of_a_list_goes_onto_itself(alice: User, ep1: Endpoint) -> None:
    with pytest.raises(RequestError) as refused:
        submit_list(alice, [("/a", "/b"), ("/c", "/c")], to="ep1")
    assert refused.value.field == "DATA[1].destination_path"


def test_a_list_reaches_nothing_that_is_not_shared(alice: User, bob: User, ep1: Endpoint, public: Endpoint) -> None:
    share = make_share(ep1, "share")
    give(share, bob, "/in/", write=True)
    with (
        spooled(bob, [("/f", "/in/f"), ("/g", "/out/g")]) as made,
        pytest.raises(PathNotPermittedError),
    ):
        submission.submit_transfer(bob, TransferRequest(uuid.uuid4(), "public", str(share.pk), SpooledItems(made)))
    assert not Task.objects.exists()


def test_the_common_folders_of_a_list_are_found(alice: User, ep1: Endpoint, ep2: Endpoint) -> None:
    items = [(f"/project/run/{number}", f"/copy/{number}/f") for number in range(100)]
    task = submit_list(alice, items, options={"store_base_path_info": True})
    assert (task.source_base_path, task.destination_base_path) == ("/project/run/", "/copy/")


def test_texts_with_the_same_hash_are_not_the_same(
    alice: User, ep1: Endpoint, ep2: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SeenTexts, "_MASK", 3)
    task = submit_list(alice, [(f"/a{number}", f"/b{number}") for number in range(50)])
    assert task.items_total == 50
    with pytest.raises(RequestError):
        submit_list(alice, [(f"/a{number}", f"/b{number % 49}") for number in range(50)])


def test_a_set_of_hashes_knows_each_text() -> None:
    seen = SeenTexts(10_000)
    assert not any(seen.add(f"/path/{number}") for number in range(10_000))
    assert all(seen.add(f"/path/{number}") for number in range(10_000))


# ---- bounds


def test_a_list_has_a_largest_number_of_lines(alice: User, settings: Any) -> None:
    settings.LIMITS = replace(settings.LIMITS, listed_items=2)
    with pytest.raises(RequestError, match="WAYBILL_MAX_LISTED_ITEMS"):
        spooled(alice, [("/a", "/b")] * 3)


def test_the_lists_of_one_user_and_of_all_have_a_largest_size(
    alice: User, bob: User, charlie: User, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spool, "BLOCK", 100)
    settings.LIMITS = replace(settings.LIMITS, user_lists=1000, lists=1400)
    line = ("/" + "a" * 100, "/" + "b" * 100)
    with spooled(alice, [line] * 4) as first:
        with pytest.raises(TooMuchError, match="WAYBILL_MAX_USER_LISTS"):
            first.add(*line)
        with spooled(bob, [line] * 2):
            with Spool(charlie.pk) as third, pytest.raises(TooMuchError, match=r"WAYBILL_MAX_LISTS\)"):
                third.add(*line)
            assert octets_on_disk() > 1000
        spooled(charlie, [line]).close()
    assert octets_on_disk() == 0


def test_a_full_disk_is_an_error_that_says_so(alice: User, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spool, "BLOCK", 10)

    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.pwrite", full)
    with Spool(alice.pk) as made, pytest.raises(TooMuchError, match="disk"):
        made.add("/a" * 10, "/b")
    assert octets_on_disk() == 0


def test_a_long_list_takes_little_memory(alice: User, ep1: Endpoint, ep2: Endpoint) -> None:
    """A list in memory would take 300 octets for each line, which is 15 MB here."""
    tracemalloc.start()
    try:
        task = submit_list(alice, ((f"/project/file{n:07}", f"/scratch/file{n:07}") for n in range(50_000)))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert task.items_total == 50_000
    assert peak < 8_000_000


def test_a_field_with_a_control_character_is_refused(alice: User) -> None:
    for field in ("/a\tb", "/a\nb"):
        with Spool(alice.pk) as made, pytest.raises(ValueError, match="control"):
            made.add(field, "/c")


def test_a_submission_of_rest_keeps_its_own_limit(alice: User, ep1: Endpoint, ep2: Endpoint, settings: Any) -> None:
    settings.LIMITS = replace(settings.LIMITS, items=2, listed_items=3)
    items = [(f"/a{number}", f"/b{number}") for number in range(3)]
    with pytest.raises(RequestError, match="WAYBILL_MAX_ITEMS"):
        submit(alice, ep1, ep2, *items)
    assert submit_list(alice, items).items_total == 3


# ---- ids of tasks


def test_a_task_has_the_id_that_its_client_has_chosen_and_is_made_once(
    alice: User, ep1: Endpoint, ep2: Endpoint
) -> None:
    chosen = uuid.uuid4()
    task = submit(alice, ep1, ep2, task_id=chosen, command="transfer (+1 input lines)")
    task.refresh_from_db()
    assert (task.pk, task.command) == (chosen, "transfer (+1 input lines)")
    again, created = submission.submit_transfer(alice, transfer_request(ep1, ep2, task_id=chosen))
    assert (again.pk, created) == (chosen, False)
    assert Task.objects.count() == 1


def test_an_id_of_another_users_task_is_refused_like_any_that_cannot_be_used(
    alice: User, bob: User, ep1: Endpoint, public: Endpoint
) -> None:
    task = submit(alice, ep1, public)
    refused = []
    for chosen in (task.pk, uuid.UUID(int=0)):
        with pytest.raises(RequestError) as error:
            submit(bob, public, public, ("/a", "/b"), task_id=chosen)
        refused.append(error.value.message)
    assert refused[0] == refused[1]
    assert Task.objects.count() == 1


@pytest.mark.django_db(transaction=True)
def test_of_two_users_who_choose_one_id_at_once_one_gets_it(alice: User, bob: User, public: Endpoint) -> None:
    chosen = uuid.uuid4()
    requests = [transfer_request(public, public, ("/a", f"/{user}"), task_id=chosen) for user in (alice, bob)]
    actions = [
        lambda user=user, request=request: submission.submit_transfer(user, request)
        for user, request in zip((alice, bob), requests, strict=True)
    ] * 3
    results = all_at_once(actions)
    errors = [one for one in results if isinstance(one, Exception)]
    assert len(errors) == 3
    assert {type(error) for error in errors} == {RequestError}
    assert Task.objects.count() == Item.objects.count() == 1
