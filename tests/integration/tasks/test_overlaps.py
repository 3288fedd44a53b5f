"""Two tasks that write to one place: the second says at its submission that the first is under way."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pytest_django import DjangoAssertNumQueries

from endpoints.models import Endpoint
from endpoints.permissions import restricted_to
from identity.models import User
from tests.integration.cast import make_endpoint, submit, transfer_request
from tests.integration.rest import Api
from tests.shell_context import Shell
from transferapi.tasks import moves, submission
from transferapi.tasks.items import overlaps
from transferapi.tasks.models import Task

pytestmark = pytest.mark.django_db
ITEM = tuple[str, str]


@pytest.fixture
def target(alice: User) -> Endpoint:
    return make_endpoint(alice, "target", public=True)


def said(user: User, source: Endpoint, target: Endpoint, *items: ITEM, **more: Any) -> str | None:
    task, made = submission.submit_transfer(user, transfer_request(source, target, *items, **more))
    assert made
    return overlaps.warning(user, task)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (("/a", "/to/f"), ("/b", "/to/f")),
        (("/a/", "/to/"), ("/b/", "/to/")),
        (("/a/", "/to/"), ("/b", "/to/deep/f")),
        (("/a", "/to/deep/f"), ("/b/", "/to/")),
        (("/a/", "/"), ("/b", "/to/f")),
        (("/a/", "/~/x/"), ("/b/", "/~/x/y/")),
    ],
)
def test_one_place_is_reported_with_the_task(
    alice: User, ep1: Endpoint, target: Endpoint, first: ITEM, second: ITEM
) -> None:
    one = submit(alice, ep1, target, first, label="the first")
    text = said(alice, ep1, target, second, ("/other", "/elsewhere/g"))
    assert text is not None
    assert f"Your task {one.pk}" in text
    assert '"the first"' in text
    assert f'"{second[1]}"' in text


@pytest.mark.parametrize("second", [("/b", "/to/g"), ("/b/", "/too/"), ("/b/", "/t/"), ("/b", "/to/fg")])
def test_another_place_is_no_reason(alice: User, ep1: Endpoint, target: Endpoint, second: ITEM) -> None:
    task, _ = submission.submit_transfer(alice, transfer_request(ep1, target, ("/a", "/to/f")))
    assert overlaps.warning(alice, task) is None
    assert said(alice, ep1, target, second) is None


def test_a_task_that_is_done_or_at_another_endpoint_is_no_reason(
    alice: User, ep1: Endpoint, ep2: Endpoint, target: Endpoint
) -> None:
    moves.cancel(alice, submit(alice, ep1, target, ("/a", "/to/f")).pk)
    submit(alice, ep1, ep2, ("/a", "/to/f"))
    assert said(alice, ep1, target, ("/b", "/to/f")) is None


def test_the_task_of_another_user_is_mentioned_without_its_name(
    alice: User, bob: User, ep1: Endpoint, target: Endpoint
) -> None:
    theirs = submit(alice, ep1, target, ("/secret", "/to/f"), label="secret")
    bobs = make_endpoint(bob, "bobs")
    text = said(bob, bobs, target, ("/b", "/to/f")) or ""
    assert text.startswith("Another task is under way")
    assert str(theirs.pk) not in text
    assert "secret" not in text
    assert alice.username not in text
    mine = Task.objects.get(owner=bob)
    assert str(mine.pk) in (said(bob, bobs, target, ("/c", "/to/f")) or ""), "the own one is named first"


def test_a_session_that_cannot_reach_the_first_task_does_not_see_its_id(
    alice: User, ep1: Endpoint, ep2: Endpoint, target: Endpoint
) -> None:
    one = submit(alice, ep1, target, ("/a", "/to/f"))
    with restricted_to([ep2.pk, target.pk]):
        text = said(alice, ep2, target, ("/b", "/to/f")) or ""
    assert text.startswith("Another task")
    assert str(one.pk) not in text


def test_a_home_is_another_place_for_another_user(alice: User, bob: User, ep1: Endpoint, target: Endpoint) -> None:
    submit(alice, ep1, target, ("/a", "/~/f"))
    assert said(bob, make_endpoint(bob, "bobs"), target, ("/b", "/~/f")) is None


def test_the_answers_of_rest_and_shell_have_it(alice: User, ep1: Endpoint, target: Endpoint) -> None:
    one = submit(alice, ep1, target, ("/a", "/to/f"))
    document = {
        "submission_id": str(uuid.uuid4()),
        "source_endpoint": str(ep1.pk),
        "destination_endpoint": str(target.pk),
        "DATA": [{"DATA_TYPE": "transfer_item", "source_path": "/b", "destination_path": "/to/f"}],
    }
    first = Api(alice).post("/transfer", document)
    assert (first.status, str(one.pk) in first.body["warning"]) == (202, True)
    ran = Shell(alice).run("transfer -- ep1/c target/to/f")
    assert ran.status == 0
    assert f"Warning: Your task {one.pk}" in ran.err
    assert ran.out.startswith("Task ID: ")
    document |= {"submission_id": str(uuid.uuid4())}
    document["DATA"] = [{"DATA_TYPE": "transfer_item", "source_path": "/b", "destination_path": "/other"}]
    assert Api(alice).post("/transfer", document).body["warning"] is None


def test_it_costs_two_queries_whatever_is_under_way(
    alice: User, ep1: Endpoint, target: Endpoint, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    start = datetime.now(UTC) - timedelta(hours=1)
    for number in range(60):
        # Each at a time of its own: the tasks that are compared are the first ones.
        now = start + timedelta(seconds=number)
        submit(alice, ep1, target, *((f"/a{n}", f"/to{number}/{n}") for n in range(20)), now=now)
    task, _ = submission.submit_transfer(alice, transfer_request(ep1, target, ("/b", "/to3/7")))
    with django_assert_max_num_queries(3):
        assert "under way" in (overlaps.warning(alice, task) or "")


def both_see_each_other(one: Task, two: Task) -> bool:
    seen = {overlaps.others_write(task.pk, 1) for task in (one, two)}
    assert len(seen) == 1, "of two tasks that begin at the same time at least one must see the other"
    return seen.pop()


@pytest.mark.parametrize(
    ("items", "expected"), [(("/to/f", "/to/f"), True), (("/to/", "/to/f"), True), (("/to/f", "/to/g"), False)]
)
def test_each_of_two_tasks_finds_that_the_other_one_writes_its_files(
    alice: User, bob: User, ep1: Endpoint, target: Endpoint, items: tuple[str, str], expected: bool
) -> None:
    one = submit(alice, ep1, target, ("/a" + "/" * items[0].endswith("/"), items[0]))
    two = submit(bob, make_endpoint(bob, "bobs"), target, ("/b", items[1]))
    assert both_see_each_other(one, two) is expected
    moves.cancel(bob, two.pk)
    assert not overlaps.others_write(one.pk, 1), "a task that has ended writes nothing"
