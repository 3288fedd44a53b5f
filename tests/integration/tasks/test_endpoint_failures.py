"""Endpoints that begin to fail and answer again: one line of log each, whichever task it is, and a mark in lists."""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import AbstractContextManager
from datetime import timedelta

import pytest

from endpoints.gridftp.faults import Fault, Kind, Side
from endpoints.models import Endpoint
from endpoints.registry import canonical_name
from identity.clock import moment
from identity.models import User
from tests.integration.cast import submit, take
from tests.integration.tasks.test_operator_holds import waybill
from transferapi.tasks import endpoint_failures
from transferapi.tasks.managers import endpoint_health
from transferapi.tasks.models import EndpointFailure
from transferapi.tasks.upkeep import figures
from transferapi.tasks.worker import troubles
from transferapi.tasks.worker.leases import Grant

pytestmark = pytest.mark.django_db

AWAY = Fault(Kind.CONNECT_FAILED, Side.SOURCE, raw="the words of a server", server="dtn1.example.org:2811")
BOTH = (Side.SOURCE, Side.DESTINATION)
Lines = Callable[[], list[str]]


@pytest.fixture
def lines(caplog: pytest.LogCaptureFixture) -> Lines:
    """The lines of the log about endpoints since the last call."""
    caplog.set_level(logging.INFO)

    def read() -> list[str]:
        found = [one.getMessage() for one in caplog.records if one.name.endswith("endpoint_failures")]
        caplog.clear()
        return found

    return read


@pytest.fixture
def commits(
    django_capture_on_commit_callbacks: Callable[..., AbstractContextManager[object]],
) -> Callable[[], AbstractContextManager[object]]:
    return lambda: django_capture_on_commit_callbacks(execute=True)


Commits = Callable[[], AbstractContextManager[object]]


def fails(grant: Grant, fault: Fault = AWAY) -> None:
    troubles.endpoint_failed(grant.task_id, grant.epoch, fault, moment() + timedelta(minutes=1))


def answers(grant: Grant) -> None:
    troubles.reached(grant.task_id, grant.epoch, BOTH, lanes=True)


def test_many_tasks_that_fail_write_one_line_and_one_that_succeeds_the_other(
    alice: User, ep1: Endpoint, ep2: Endpoint, lines: Lines, commits: Commits
) -> None:
    one, two = take(submit(alice, ep1, ep2)), take(submit(alice, ep1, ep2))
    with commits():
        for grant in (one, two, one, two):
            fails(grant)
    name = canonical_name(ep1)
    assert lines() == [f"endpoint {name} (dtn1.example.org:2811) begins to fail: CONNECT_FAILED"]
    assert figures._failing() == {"endpoints_failing": {(): 1.0}}
    with commits():
        answers(two)
        answers(one)
    assert lines() == [f"endpoint {name} answers again after 0 s"]
    assert figures._failing() == {"endpoints_failing": {(): 0.0}}


def test_a_task_that_begins_while_its_endpoint_fails_reports_that_it_answers(
    alice: User, ep1: Endpoint, ep2: Endpoint
) -> None:
    fails(take(submit(alice, ep1, ep2)))
    assert take(submit(alice, ep1, ep2)).spec.troubled
    assert not take(submit(alice, ep2, ep2)).spec.troubled


@pytest.mark.parametrize("kind", [Kind.AUTH, Kind.NO_CREDENTIALS, Kind.PERMISSION_DENIED, Kind.INTERNAL_ERROR])
def test_what_concerns_one_user_or_this_service_is_no_failure_of_the_endpoint(
    alice: User, ep1: Endpoint, ep2: Endpoint, kind: Kind, lines: Lines, commits: Commits
) -> None:
    with commits():
        fails(take(submit(alice, ep1, ep2)), Fault(kind, Side.SOURCE))
    assert lines() == []
    assert not EndpointFailure.objects.exists()


def test_a_failure_that_no_task_tries_any_more_is_not_known(
    alice: User, ep1: Endpoint, ep2: Endpoint, lines: Lines, commits: Commits
) -> None:
    grant = take(submit(alice, ep1, ep2))
    fails(grant)
    old = moment() - endpoint_failures.KNOWN - timedelta(seconds=1)
    EndpointFailure.objects.update(since=old, seen_at=old)
    assert endpoint_failures.of([ep1]) == {}
    assert figures._failing() == {"endpoints_failing": {(): 0.0}}
    with commits():
        fails(grant)
    assert "begins to fail" in lines()[0], "after so long it is a new one"
    EndpointFailure.objects.update(seen_at=old)
    assert endpoint_failures.forget_old() == 1
    assert not EndpointFailure.objects.exists()


def test_lists_of_operators_and_managers_mark_an_endpoint_that_fails(
    alice: User, ep1: Endpoint, ep2: Endpoint, capsys: pytest.CaptureFixture[str], commands_here: object
) -> None:
    fails(take(submit(alice, ep1, ep2)))
    assert waybill("endpoint", "list") == 0
    marked = [line for line in capsys.readouterr().out.splitlines() if "FAILS since" in line]
    assert [line.split()[0] for line in marked] == [str(ep1.pk)]
    assert "CONNECT_FAILED" in marked[0]
    assert waybill("endpoint", "show", str(ep1.pk)) == 0
    assert "CONNECT_FAILED, last tried" in capsys.readouterr().out
    found = {seen.endpoint.pk: seen.failure for seen in endpoint_health.of_managed(alice)}
    assert found[ep2.pk] is None
    failure = found[ep1.pk]
    assert failure is not None
    assert failure.code == "CONNECT_FAILED"
