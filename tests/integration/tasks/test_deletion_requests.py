"""A mirror that asks before it deletes: its owner answers over REST, in the shell or on the page."""

from __future__ import annotations

from functools import partial

import pytest

from endpoints.models import Endpoint
from identity.models import User
from tests.integration.cast import all_at_once, submit, take
from tests.integration.pages import Browser
from tests.integration.rest import Api, assert_error
from tests.integration.tasks.test_paused_tasks import codes, state
from tests.refusals import kind_of
from tests.shell_context import Shell
from transferapi.tasks import moves
from transferapi.tasks.errors import NOTHING_TO_CONFIRM
from transferapi.tasks.managers import actions
from transferapi.tasks.models import Mail, Task
from transferapi.tasks.moves import FAILED, QUEUED, SUSPENDED
from transferapi.tasks.records import ANSWER, CONFIRMED, REFUSED
from transferapi.tasks.worker import deletion_requests, renewal

pytestmark = pytest.mark.django_db
MIRROR = {"delete_destination_extra": True, "confirm_deletion_above": 50}


@pytest.fixture
def task(alice: User, ep1: Endpoint, ep2: Endpoint) -> Task:
    """A task that waits for its answer."""
    alice.email = "alice@example.org"
    alice.save()
    task = submit(alice, ep1, ep2, options=MIRROR)
    deletion_requests.ask(task.pk, take(task).epoch, 90, 100)
    return task


def answer(task: Task) -> object:
    return Task.objects.get(pk=task.pk).options.get(ANSWER)


def test_a_task_that_asks_is_inactive_and_says_what_it_would_delete(alice: User, task: Task) -> None:
    seen = Api(alice).get(f"/task/{task.pk}").body
    assert (seen["status"], seen["nice_status"], seen["confirm_deletion_above"]) == (
        "INACTIVE",
        deletion_requests.WAITS,
        50,
    )
    assert "90 of the 100 entries" in seen["nice_status_details"]
    assert codes(task) == ["SUBMITTED", deletion_requests.WAITS]
    (mail,) = Mail.objects.filter(task=task)
    assert "asks before it deletes" in mail.subject
    assert "90 of the 100 entries" in mail.body


@pytest.mark.parametrize(
    ("word", "code", "stored"), [("confirm", "Confirmed", CONFIRMED), ("refuse", "Refused", REFUSED)]
)
def test_the_answer_over_rest_queues_the_task_once(alice: User, task: Task, word: str, code: str, stored: str) -> None:
    api = Api(alice)
    assert api.post(f"/task/{task.pk}/{word}_deletion").body["code"] == code
    assert (state(task), answer(task)) == (QUEUED, stored)
    for other in ("confirm", "refuse"):
        assert_error(api.post(f"/task/{task.pk}/{other}_deletion"), 409, "NothingToConfirm")
    assert answer(task) == stored
    assert codes(task)[-1] == deletion_requests.ANSWERED
    assert api.get(f"/task/{task.pk}").body["nice_status"] == "Queued"


@pytest.mark.parametrize(("word", "stored"), [("confirm", CONFIRMED), ("refuse", REFUSED)])
def test_the_answer_in_the_shell(alice: User, task: Task, word: str, stored: str) -> None:
    shell = Shell(alice)
    assert shell.ok(f"{word}-deletion {task.pk}") == ""
    assert (state(task), answer(task)) == (QUEUED, stored)
    assert "does not wait for an answer" in shell.fails(f"{word}-deletion {task.pk}")


@pytest.mark.parametrize(("word", "stored"), [("confirm", CONFIRMED), ("refuse", REFUSED)])
def test_the_answer_on_the_page(alice: User, task: Task, word: str, stored: str) -> None:
    browser = Browser()
    browser.client.force_login(alice)
    browser.get(f"/activity/{task.pk}")
    assert "90 of the 100 entries" in browser.page
    browser.post(f"/activity/{task.pk}/{word}-deletion")
    assert (state(task), answer(task)) == (QUEUED, stored)
    browser.get(f"/activity/{task.pk}")
    assert "confirm-deletion" not in browser.page


def test_nobody_else_answers(bob: User, task: Task) -> None:
    for word in ("confirm", "refuse"):
        assert_error(Api(bob).post(f"/task/{task.pk}/{word}_deletion"), 404, "ClientError.NotFound")
        assert "No such task id" in Shell(bob).fails(f"{word}-deletion {task.pk}")
    assert (state(task), answer(task)) == (SUSPENDED, None)


def test_a_task_that_asks_nothing_takes_no_answer(alice: User, ep1: Endpoint, ep2: Endpoint) -> None:
    task = submit(alice, ep1, ep2, options=MIRROR)
    assert_error(Api(alice).post(f"/task/{task.pk}/confirm_deletion"), 409, "NothingToConfirm")
    assert (state(task), answer(task)) == (QUEUED, None)


def test_no_credential_and_no_pause_answers_for_the_owner(alice: User, task: Task) -> None:
    renewal.resume_waiting()
    actions.pause_own(alice, task.pk)
    actions.resume_own(alice, task.pk)
    assert (state(task), answer(task)) == (SUSPENDED, None)


def test_an_answer_cannot_be_submitted_in_advance(alice: User, ep1: Endpoint, ep2: Endpoint) -> None:
    assert answer(submit(alice, ep1, ep2, options={**MIRROR, ANSWER: CONFIRMED})) is None


def test_a_task_that_asks_can_be_canceled_and_one_that_was_canceled_does_not_ask(
    alice: User, task: Task, ep1: Endpoint, ep2: Endpoint
) -> None:
    moves.cancel(alice, task.pk)
    assert state(task) == FAILED
    other = submit(alice, ep1, ep2, options=MIRROR)
    grant = take(other)
    moves.cancel(alice, other.pk)
    deletion_requests.ask(other.pk, grant.epoch, 1, 1)
    assert state(other) == FAILED


def test_the_same_request_again_asks_again(alice: User, task: Task) -> None:
    deletion_requests.answer(alice, task.pk, delete=True)
    moves.cancel(alice, task.pk)
    again = Api(alice).post(f"/task/{task.pk}/run_again", {}).body["task_id"]
    assert Task.objects.get(pk=again).options.get(ANSWER) is None
    assert Task.objects.get(pk=again).options["confirm_deletion_above"] == 50


@pytest.mark.django_db(transaction=True)
def test_of_two_answers_at_once_one_counts(alice: User, ep1: Endpoint, ep2: Endpoint) -> None:
    for _ in range(5):
        task = submit(alice, ep1, ep2, options=MIRROR)
        deletion_requests.ask(task.pk, take(task).epoch, 90, 100)
        results = all_at_once(
            [partial(deletion_requests.answer, alice, task.pk, delete=delete) for delete in (True, False)]
        )
        assert [kind_of(one) for one in results if one is not None] == [NOTHING_TO_CONFIRM]
        assert state(task) == QUEUED
        moves.cancel(alice, task.pk)
