"""A task that its owner pauses and resumes: over REST, on the page, and beside the pauses of managers."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import partial

import pytest

from endpoints import pause_rules
from endpoints.models import Endpoint
from identity.models import User
from tests.integration.cast import all_at_once, later, submit, take
from tests.integration.pages import Browser
from tests.integration.rest import Api, assert_error
from tests.integration.tasks.test_paused_tasks import DAY, codes, state
from tests.refusals import kind_of
from transferapi.tasks import moves
from transferapi.tasks.errors import TASK_COMPLETE
from transferapi.tasks.managers import actions, pauses
from transferapi.tasks.models import Task
from transferapi.tasks.moves import PAUSED, QUEUED, RUNNING
from transferapi.tasks.worker import leases, slice_end

pytestmark = pytest.mark.django_db


@pytest.fixture
def task(alice: User, ep1: Endpoint, ep2: Endpoint) -> Task:
    return submit(alice, ep1, ep2)


def test_the_owner_pauses_and_resumes_a_queued_task(alice: User, task: Task) -> None:
    api = Api(alice)
    for _ in range(2):
        assert api.post(f"/task/{task.pk}/pause").body["code"] == "Paused"
    seen = api.get(f"/task/{task.pk}").body
    assert (seen["status"], seen["is_paused"], seen["nice_status"]) == ("ACTIVE", True, "PAUSED_BY_OWNER")
    assert api.get(f"/task/{task.pk}/pause_info").body["source_pause_message"] is None
    for _ in range(2):
        assert api.post(f"/task/{task.pk}/resume").body["code"] == "Resumed"
    assert state(task) == QUEUED
    assert codes(task) == ["SUBMITTED", "PAUSED", "UNPAUSED"]


def test_a_running_task_pauses_at_its_heartbeat(alice: User, task: Task) -> None:
    grant = take(task)
    actions.pause_own(alice, task.pk)
    assert state(task) == RUNNING
    assert leases.heartbeat(task.pk, grant.epoch).pause_requested
    slice_end.release(task.pk, grant.epoch, datetime.now(UTC))
    assert state(task) == PAUSED
    assert leases.acquire(task.pk, "worker") is leases.LeaseRefusal.NOT_RUNNABLE
    actions.resume_own(alice, task.pk)
    assert not leases.heartbeat(task.pk, take(task).epoch).pause_requested


def test_nobody_else_may(alice: User, bob: User, task: Task) -> None:
    for word in ("pause", "resume"):
        assert_error(Api(bob).post(f"/task/{task.pk}/{word}"), 404, "ClientError.NotFound")
    assert state(task) == QUEUED
    actions.pause_own(alice, task.pk)
    assert_error(Api(bob).post(f"/task/{task.pk}/resume"), 404, "ClientError.NotFound")
    assert state(task) == PAUSED


def test_what_is_done_is_refused(alice: User, task: Task) -> None:
    moves.cancel(alice, task.pk)
    for word in ("pause", "resume"):
        assert_error(Api(alice).post(f"/task/{task.pk}/{word}"), 409)


def test_it_goes_on_when_all_pauses_are_over(alice: User, task: Task) -> None:
    """alice manages the endpoint, too: the pause of its manager is another one."""
    actions.pause_own(alice, task.pk)
    actions.pause(alice, [task.pk], "The disk is full.")
    rule = pause_rules.create(alice, str(task.source_id), {"message": "Maintenance."})
    pauses.settle()
    why = Task.objects.get(pk=task.pk).nice_status_details or ""
    assert "The owner has paused" in why
    assert "The disk is full." in why
    actions.resume_own(alice, task.pk)
    assert state(task) == PAUSED
    actions.resume(alice, [task.pk])
    assert state(task) == PAUSED
    pause_rules.delete(alice, str(rule.pk))
    pauses.settle()
    assert state(task) == QUEUED


def test_a_manager_cannot_end_the_pause_of_the_owner(alice: User, task: Task) -> None:
    actions.pause_own(alice, task.pk)
    actions.resume(alice, [task.pk])
    assert state(task) == PAUSED


def test_the_pause_does_not_count_against_the_deadline(alice: User, task: Task) -> None:
    actions.pause_own(alice, task.pk)
    paused = Task.objects.get(pk=task.pk)
    assert paused.deadline > later(80 * 24 * 3600)
    actions.resume_own(alice, task.pk, later(30 * 24 * 3600))
    assert Task.objects.get(pk=task.pk).deadline - later(30 * 24 * 3600) > DAY - DAY / 24


@pytest.mark.django_db(transaction=True)
def test_pauses_and_cancels_at_once_leave_one_end(alice: User, ep1: Endpoint, ep2: Endpoint) -> None:
    for _ in range(5):
        task = submit(alice, ep1, ep2)
        calls = [actions.pause_own, actions.resume_own, actions.pause_own, moves.cancel]
        results = all_at_once([*(partial(call, alice, task.pk) for call in calls), pauses.settle])
        moves.cancel(alice, task.pk)
        assert not [one for one in results if isinstance(one, Exception) and kind_of(one) is not TASK_COMPLETE]
        assert Task.objects.get(pk=task.pk).fatal_error_code == "CANCELED"
        assert codes(task).count("CANCELED") == 1


def test_a_task_that_is_done_is_run_again_once_for_each_id(alice: User, task: Task) -> None:
    api, one = Api(alice), {"submission_id": "6e7bd3b4-3d5b-4f0a-8a52-0c5a1b7e7d40"}
    assert_error(api.post(f"/task/{task.pk}/run_again", one), 400)
    moves.cancel(alice, task.pk)
    first = api.post(f"/task/{task.pk}/run_again", one)
    assert (first.status, first.body["code"]) == (202, "Accepted")
    again = api.post(f"/task/{task.pk}/run_again", one).body
    assert (again["code"], again["task_id"]) == ("Duplicate", first.body["task_id"])
    new = Task.objects.get(pk=first.body["task_id"])
    assert (new.source_id, new.destination_id, new.items_total) == (task.source_id, task.destination_id, 1)
    assert_error(Api().post(f"/task/{task.pk}/run_again", one), 401)


def test_the_page_offers_what_can_be_done(alice: User, task: Task) -> None:
    browser = Browser()
    browser.client.force_login(alice)
    browser.get(f"/activity/{task.pk}")
    assert f"/activity/{task.pk}/pause" in browser.page
    browser.post(f"/activity/{task.pk}/pause")
    browser.get(f"/activity/{task.pk}")
    assert "Paused by its owner." in browser.page
    assert f"/activity/{task.pk}/pause" not in browser.page
    browser.post(f"/activity/{task.pk}/resume")
    assert state(task) == QUEUED
