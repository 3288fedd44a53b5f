"""Tasks that wait for a credential: what they say, when they go on, and that nobody else's credential helps."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.conf import settings

from endpoints.gridftp.faults import Fault, Kind, Side
from endpoints.models import Endpoint
from identity.clock import moment
from identity.models import User
from identity.signals import credential_stored
from identity.vault import store as vault
from identity.vault.store import CredentialInfo, CredentialKind
from tests.integration.cast import all_at_once, later, make_endpoint, submit, submit_delete, take
from transferapi.tasks import doorbell, events, moves, queries
from transferapi.tasks.errors import LeaseLostError
from transferapi.tasks.forecast import services as forecasts
from transferapi.tasks.forecast.model import Forecast, ForecastWork
from transferapi.tasks.forecast.pace import Pace
from transferapi.tasks.models import Event, Task
from transferapi.tasks.records import SliceMeasurement
from transferapi.tasks.worker import leases, measurements, renewal, slice_end

#: Never used to log in: only its binding and its times matter here.
SECRET = b"not a proxy"
ENDED = Fault(Kind.NO_CREDENTIALS, Side.SOURCE, advice="The credential has expired.", raw="")


@pytest.fixture
def rings(monkeypatch: pytest.MonkeyPatch) -> list[uuid.UUID]:
    """Tasks for which the doorbell was rung."""
    rung: list[uuid.UUID] = []
    monkeypatch.setattr(doorbell, "ring", rung.extend)
    return rung


def share_myproxy(*endpoints: Endpoint) -> str:
    """They name one MyProxy server; its binding."""
    for endpoint in endpoints:
        Endpoint.objects.filter(pk=endpoint.pk).update(myproxy_server="myproxy.example.org:7512")
        endpoint.refresh_from_db()
    return vault.myproxy_binding("myproxy.example.org", 7512)


def give(
    user: User, place: Endpoint | str, *, seconds: float | None = 3600, now: datetime | None = None
) -> CredentialInfo:
    """Store a credential."""
    bound_to = place if isinstance(place, str) else vault.endpoint_binding(place.pk)
    expires_at = None if seconds is None else (now or moment()) + timedelta(seconds=seconds)
    return vault.store(user, bound_to, CredentialKind.X509, SECRET, subject="/CN=Test", expires_at=expires_at, now=now)


def unchecked(user: User, *endpoints: Endpoint, options: Mapping[str, object] | None = None, **more: Any) -> Task:
    """A new task, whatever credentials there are; a deletion where it has one endpoint."""
    wanted = {**(options or {}), "skip_activation_check": True}
    if len(endpoints) == 1:
        return submit_delete(user, *endpoints, options=wanted, **more)
    source, destination = endpoints
    return submit(user, source, destination, options=wanted, **more)


def put_to_bed(
    user: User,
    source: Endpoint,
    destination: Endpoint,
    trouble: Fault = ENDED,
    *,
    had: CredentialInfo | None = None,
    **more: Any,
) -> Task:
    """A task that a worker has suspended. had: the credential that was of no use."""
    task = unchecked(user, source, destination, **more)
    grant = take(task)
    slice_end.suspend(grant.task_id, grant.epoch, trouble, had.stored_at if had else None)
    task.refresh_from_db()
    return task


def status(task: Task) -> str:
    return Task.objects.get(pk=task.pk).status


def codes(task: Task) -> list[str]:
    return list(Event.objects.filter(task=task).order_by("id").values_list("code", flat=True))


@pytest.mark.parametrize(("side", "name", "other"), [(Side.SOURCE, "gsi1", "gsi2"), (Side.DESTINATION, "gsi2", "gsi1")])
def test_a_waiting_task_says_at_which_endpoint_and_how_to_renew(
    alice: User, gsi1: Endpoint, gsi2: Endpoint, side: Side, name: str, other: str
) -> None:
    share_myproxy(gsi1, gsi2)
    given = {"gsi1": gsi1, "gsi2": gsi2}
    give(alice, given[other])
    task = put_to_bed(alice, gsi1, gsi2, Fault(Kind.NO_CREDENTIALS, side, advice="The credential has expired.", raw=""))
    assert (task.status, task.waits_at) == ("INACTIVE", given[name])
    event = queries.events(alice, task.pk).rows[0]
    assert (event.code, event.is_error) == ("NO_CREDENTIALS", True)
    told = f"The task waits for a credential for alice#{name} (the {side}). The credential has expired. Activate "
    assert event.description.startswith(told)
    assert f"POST {settings.PUBLIC_URL}/v0.10/endpoint/{given[name].pk}/activate" in event.description
    assert "MyProxy server myproxy.example.org:7512" in event.description
    assert f"alice#{other}" not in event.description
    assert queries.get(alice, task.pk).nice_status_details == event.description


def test_where_both_endpoints_lack_one_both_are_named(alice: User, gsi1: Endpoint, gsi2: Endpoint) -> None:
    task = put_to_bed(alice, gsi1, gsi2)
    text = queries.events(alice, task.pk).rows[0].description
    assert "alice#gsi1 (the source)" in text
    assert "alice#gsi2 (the destination)" in text


def test_a_refused_login_names_the_endpoint_and_keeps_the_words_of_the_server(
    alice: User, gsi1: Endpoint, gsi2: Endpoint
) -> None:
    give(alice, gsi2)
    task = put_to_bed(alice, gsi1, gsi2, Fault(Kind.AUTH, Side.SOURCE, advice="Check it.", raw="530 No local mapping"))
    event = queries.events(alice, task.pk).rows[0]
    assert event.description.startswith("alice#gsi1 (the source) refused the login")
    assert event.details == "530 No local mapping"


@pytest.mark.django_db(transaction=True)
def test_a_stored_credential_lets_all_that_waits_for_it_go_on(
    alice: User, gsi1: Endpoint, gsi2: Endpoint, rings: list[uuid.UUID]
) -> None:
    give(alice, gsi2)
    waiting = [put_to_bed(alice, gsi1, gsi2) for _ in range(5)]
    rings.clear()
    give(alice, gsi1)
    assert [status(task) for task in waiting] == ["ACTIVE"] * 5
    assert sorted(rings) == sorted(task.pk for task in waiting)
    task = Task.objects.get(pk=waiting[0].pk)
    assert (task.waits_at, task.suspended_at, task.nice_status) == (None, None, None)
    assert codes(task)[-1] == "UNPAUSED"


def test_the_sweep_finds_what_the_signal_has_missed(alice: User, gsi1: Endpoint, gsi2: Endpoint) -> None:
    give(alice, gsi2)
    task = put_to_bed(alice, gsi1, gsi2)
    give(alice, gsi1)  # its transaction is the test's: no signal
    assert status(task) == "INACTIVE"
    assert renewal.resume_waiting() == 1
    assert status(task) == "ACTIVE"
    assert renewal.resume_waiting() == 0


def test_an_old_credential_does_not_wake_a_task_whose_login_was_refused(
    alice: User, gsi1: Endpoint, gsi2: Endpoint
) -> None:
    held = give(alice, gsi1)
    give(alice, gsi2)
    task = put_to_bed(alice, gsi1, gsi2, Fault(Kind.AUTH, Side.SOURCE, advice="", raw="530"), had=held)
    assert renewal.resume_waiting() == 0
    give(alice, gsi1)
    assert renewal.resume_waiting() == 1
    assert status(task) == "ACTIVE"


def test_a_credential_that_came_while_the_task_went_to_bed_is_not_missed(
    alice: User, gsi1: Endpoint, gsi2: Endpoint
) -> None:
    give(alice, gsi2)
    task = unchecked(alice, gsi1, gsi2)
    grant = take(task)
    had = give(alice, gsi1)
    give(alice, gsi1)
    slice_end.suspend(grant.task_id, grant.epoch, ENDED, had.stored_at)
    assert renewal.resume_waiting() == 1


def test_one_that_has_expired_by_now_wakes_nobody(alice: User, gsi1: Endpoint, gsi2: Endpoint) -> None:
    give(alice, gsi2)
    task = put_to_bed(alice, gsi1, gsi2)
    give(alice, gsi1, seconds=60)
    assert renewal.resume_waiting(now=later(61)) == 0
    assert status(task) == "INACTIVE"


def test_a_task_goes_on_only_when_both_its_endpoints_have_one(alice: User, gsi1: Endpoint, gsi2: Endpoint) -> None:
    task = put_to_bed(alice, gsi1, gsi2)
    give(alice, gsi1)
    assert renewal.resume_waiting() == 0
    task.refresh_from_db()
    assert (task.status, task.waits_at) == ("INACTIVE", gsi2)
    assert task.nice_status_details is not None
    assert task.nice_status_details.startswith("The task waits for a credential for alice#gsi2 (the destination)")
    before = codes(task)
    assert renewal.resume_waiting() == 0
    assert codes(task) == before, "it is told once"
    give(alice, gsi2)
    assert renewal.resume_waiting() == 1


def test_one_shared_credential_wakes_the_tasks_of_every_endpoint_that_names_its_server(
    alice: User, gsi1: Endpoint, gsi2: Endpoint
) -> None:
    shared = share_myproxy(gsi1, gsi2)
    anonymous = make_endpoint(alice, "plain", scheme="ftp")
    tasks = [put_to_bed(alice, gsi1, anonymous), put_to_bed(alice, gsi2, anonymous), put_to_bed(alice, gsi1, gsi2)]
    give(alice, shared)
    assert renewal.resume_waiting() == 3
    assert [status(task) for task in tasks] == ["ACTIVE"] * 3


@pytest.mark.django_db(transaction=True)
def test_nobody_elses_credential_wakes_a_task(
    alice: User, bob: User, charlie: User, gsi1: Endpoint, gsi2: Endpoint
) -> None:
    for user in (alice, bob):
        give(user, gsi2)
    tasks = {user.username: put_to_bed(user, gsi1, gsi2) for user in (alice, bob)}
    give(charlie, gsi1)
    give(bob, gsi1)
    assert (status(tasks["alice"]), status(tasks["bob"])) == ("INACTIVE", "ACTIVE")


def test_where_the_endpoint_needs_none_any_more_the_task_goes_on(alice: User, gsi1: Endpoint, gsi2: Endpoint) -> None:
    give(alice, gsi2)
    task = put_to_bed(alice, gsi1, gsi2)
    gsi1.servers.update(scheme="ftp")
    assert renewal.resume_waiting() == 1
    assert status(task) == "ACTIVE"


def test_a_deletion_waits_and_goes_on_too(alice: User, gsi1: Endpoint) -> None:
    task = unchecked(alice, gsi1)
    grant = take(task)
    slice_end.suspend(grant.task_id, grant.epoch, ENDED)
    assert "alice#gsi1 (the source)" in queries.events(alice, task.pk).rows[0].description
    give(alice, gsi1)
    assert renewal.resume_waiting() == 1


def test_the_deadline_ends_a_task_that_waits(alice: User, gsi1: Endpoint, gsi2: Endpoint) -> None:
    task = put_to_bed(alice, gsi1, gsi2, deadline=later(60))
    assert moves.expire_overdue(now=later(59)) == 0
    assert moves.expire_overdue(now=later(61)) == 1
    task.refresh_from_db()
    assert (task.status, task.fatal_error_code, task.waits_at) == ("FAILED", "EXPIRED", None)
    give(alice, gsi1)
    assert renewal.resume_waiting() == 0


@pytest.mark.django_db(transaction=True)
def test_of_many_that_wake_it_at_once_one_does(alice: User, gsi1: Endpoint, gsi2: Endpoint) -> None:
    give(alice, gsi2)
    task = put_to_bed(alice, gsi1, gsi2)
    # As by a process that is killed at that moment.
    credential_stored.disconnect(dispatch_uid="tasks that wait for it go on")
    try:
        give(alice, gsi1)
    finally:
        credential_stored.connect(renewal.stored, dispatch_uid="tasks that wait for it go on")
    results = all_at_once([renewal.resume_waiting] * 6)
    assert sum(results) == 1
    assert codes(task).count("UNPAUSED") == 1


# ---- looking ahead


@pytest.fixture
def forecast(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Seconds that the rest of any task is said to take."""
    seconds = [100.0]
    monkeypatch.setattr(
        forecasts,
        "during",
        lambda task, now=None: Forecast(ForecastWork(1, 1), seconds[0] / 2, seconds[0], seconds[0] * 2, "a test", 0),
    )
    return seconds


def test_a_credential_that_ends_before_the_task_does_is_reported_once(
    alice: User, gsi1: Endpoint, gsi2: Endpoint, forecast: list[float]
) -> None:
    held = give(alice, gsi1, seconds=60)
    give(alice, gsi2, seconds=None)
    task = unchecked(alice, gsi1, gsi2)
    grant = take(task)
    for _ in range(3):
        assert renewal.foresee(task.pk, grant.epoch, gsi1, held)
    assert codes(task).count(renewal.EXPIRES_SOON) == 1
    event = Event.objects.get(task=task, code=renewal.EXPIRES_SOON)
    assert "alice#gsi1 (the source)" in event.description
    assert "takes about 100 seconds" in event.description
    assert f"/endpoint/{gsi1.pk}/activate" in event.description
    renewed = give(alice, gsi1, seconds=90)
    assert renewal.foresee(task.pk, grant.epoch, gsi1, renewed)
    assert codes(task).count(renewal.EXPIRES_SOON) == 2


def test_one_that_lasts_long_enough_is_nothing_to_report(
    alice: User, gsi1: Endpoint, gsi2: Endpoint, forecast: list[float]
) -> None:
    held, forever = give(alice, gsi1, seconds=200), give(alice, gsi2, seconds=None)
    task = unchecked(alice, gsi1, gsi2)
    grant = take(task)
    assert not renewal.foresee(task.pk, grant.epoch, gsi1, held)
    assert not renewal.foresee(task.pk, grant.epoch, gsi2, forever)
    assert codes(task) == ["SUBMITTED"]


def test_a_worker_that_lost_its_lease_reports_nothing(
    alice: User, gsi1: Endpoint, gsi2: Endpoint, forecast: list[float]
) -> None:
    held = give(alice, gsi1, seconds=60)
    task = unchecked(alice, gsi1, gsi2)
    grant = take(task)
    slice_end.release(task.pk, grant.epoch, moment())
    with pytest.raises(LeaseLostError):
        renewal.foresee(task.pk, grant.epoch, gsi1, held)
    assert codes(task) == ["SUBMITTED"]


MB = 10**6
HOUR = 3600.0
HISTORY = 50 * MB
Law = Callable[[float], float]


@pytest.fixture
def fast_before(alice: User, gsi1: Endpoint, gsi2: Endpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    """All that ran between the two went at 50 MB/s."""
    monkeypatch.setattr(forecasts, "_models", {})
    earlier = unchecked(alice, gsi1, gsi2)
    for number in range(1, 13):
        facts = SliceMeasurement(1 + number * 20.0, number * 10, int(number * 20 * HISTORY), 0, 0.05, 4, 2, 20, True)
        measurements.learn(earlier.pk, None, facts)


def warned(
    user: User, *ends: Endpoint, size: int, pace: Law, life: float = 4 * HOUR, step: float = 60.0
) -> tuple[float, str] | None:
    """Seconds before the end of the credential at which a task of 1,000 files is first said to outlive it, and how.

    pace: octets a second at so many seconds after the start of the task, which is when the credential was given.
    """
    begun = moment()
    held = give(user, ends[0], seconds=life, now=begun)
    task = unchecked(user, *ends)
    grant = leases.acquire(task.pk, "worker", ttl=timedelta(days=1))
    assert isinstance(grant, leases.Grant)
    events.append(task.pk, [events.NewEvent("STARTED", "The task has started.")], begun)
    seen, done, clock = Pace(), 0.0, 3.0
    while done < size and clock < life:
        share = min(1.0, done / size)
        moved = {"files": 1000, "files_transferred": int(1000 * share), "items_scanned": 1}
        Task.objects.filter(pk=task.pk).update(bytes_total=size, bytes_transferred=int(done), **moved)
        if renewal.foresee(task.pk, grant.epoch, ends[0], held, begun + timedelta(seconds=clock), seen):
            return life - clock, Event.objects.get(task=task, code=renewal.EXPIRES_SOON).description
        done, clock = done + step * pace(clock), clock + step
    return None


def test_a_task_that_is_slower_than_history_is_reported_by_its_own_pace(
    alice: User, gsi1: Endpoint, gsi2: Endpoint, fast_before: None
) -> None:
    found = warned(alice, gsi1, gsi2, size=20_000 * MB, pace=lambda _: MB)
    assert found is not None
    left, text = found
    assert left > 3.9 * HOUR, "as soon as its pace is known, hours ahead"
    assert "takes about 5 hours" in text or "takes about 6 hours" in text
    assert "The task will wait then" in text


def test_a_task_that_becomes_slow_on_the_way_is_reported_half_an_hour_before_the_end(
    alice: User, gsi1: Endpoint, gsi2: Endpoint, fast_before: None
) -> None:
    slow_from = 3 * HOUR
    found = warned(alice, gsi1, gsi2, size=130_000 * MB, pace=lambda at: 10 * MB if at < slow_from else MB)
    assert found is not None
    assert 0.5 * HOUR <= found[0] < HOUR


def test_one_that_will_only_just_be_done_in_time_is_reported_half_an_hour_before_the_end(
    alice: User, gsi1: Endpoint, gsi2: Endpoint, fast_before: None
) -> None:
    found = warned(alice, gsi1, gsi2, size=int(3.9 * HOUR * MB), pace=lambda _: MB)
    assert found is not None
    left, text = found
    assert 0.5 * HOUR <= left < 0.6 * HOUR
    assert "If it gets slower, it will wait then" in text


def test_what_is_done_in_good_time_is_nothing_to_report(
    alice: User, gsi1: Endpoint, gsi2: Endpoint, fast_before: None
) -> None:
    assert warned(alice, gsi1, gsi2, size=int(3.5 * HOUR * MB), pace=lambda _: MB, step=300) is None


def test_a_credential_of_few_minutes_is_reported_when_half_of_it_is_left(
    alice: User, gsi1: Endpoint, gsi2: Endpoint, fast_before: None
) -> None:
    found = warned(alice, gsi1, gsi2, life=1200, size=5_000 * MB, pace=lambda at: 8 * MB if at < 400 else 0, step=10)
    assert found is not None
    assert 600 <= found[0] <= 800


def test_a_deletion_is_reported_too(alice: User, gsi1: Endpoint) -> None:
    found = warned(alice, gsi1, size=20_000 * MB, pace=lambda _: MB)
    assert found is not None
    assert found[0] > 3.9 * HOUR


def test_a_task_without_an_endpoint_to_wait_at_is_only_resumed_by_hand(
    alice: User, gsi1: Endpoint, gsi2: Endpoint
) -> None:
    task = put_to_bed(alice, gsi1, gsi2)
    Task.objects.filter(pk=task.pk).update(waits_at=None)
    give(alice, gsi1)
    assert renewal.resume_waiting() == 0
    assert moves.resume(alice, task.pk)


def test_leases_are_free_while_tasks_wait(alice: User, gsi1: Endpoint, gsi2: Endpoint) -> None:
    task = put_to_bed(alice, gsi1, gsi2)
    assert leases.acquire(task.pk, "worker") is leases.LeaseRefusal.NOT_RUNNABLE


def test_when_the_endpoints_own_credential_has_ended_an_older_shared_one_serves(
    alice: User, gsi1: Endpoint, gsi2: Endpoint
) -> None:
    shared = share_myproxy(gsi1)
    give(alice, shared, seconds=36_000)
    give(alice, gsi2, seconds=None)
    own = give(alice, gsi1, seconds=60)
    task = put_to_bed(alice, gsi1, gsi2, had=own)
    assert renewal.resume_waiting() == 0
    assert renewal.resume_waiting(now=later(61)) == 1
    assert status(task) == "ACTIVE"
