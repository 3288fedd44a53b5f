"""The rate of a slice, from the rows of all that run at its endpoints."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Any

import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext

from endpoints.models import Endpoint
from identity.models import User
from tests.integration.cast import all_at_once, make_endpoint, submit, submit_delete, take
from tests.integration.rest import Api
from transferapi.tasks.fair_rates import FLOOR
from transferapi.tasks.models import Event, Lease, Task
from transferapi.tasks.worker import bandwidth, slice_end
from transferapi.tasks.worker.leases import Grant
from workers import task_rates

pytestmark = pytest.mark.django_db(transaction=True)

MB = 1_000_000
BACKGROUND = {"priority": "background"}


def running(user: User, source: Endpoint, destination: Endpoint, **options: Any) -> Grant:
    return take(submit(user, source, destination, options=options))


def limit(endpoint: Endpoint, *rows: dict[str, Any]) -> None:
    Api(endpoint.owner).put(f"/endpoint/{endpoint.pk}", {"bandwidth_limits": list(rows)})


def rate(grant: Grant, now: datetime | None = None) -> tuple[float, str] | None:
    found = bandwidth.read(grant.task_id, None, now)
    return found and (found.octets, found.by)


def is_asked(user: User, source: Endpoint, destination: Endpoint, **options: Any) -> bool:
    """Whether the slice of such a task, which then ends, reads its rate."""
    grant = running(user, source, destination, **options)
    slice_end.fail(grant.task_id, grant.epoch, "CANCELED", "by the test")
    return task_rates.of(grant) is not None


def test_only_slices_that_something_may_limit_ask(alice: User, ep1: Endpoint, ep2: Endpoint) -> None:
    assert not is_asked(alice, ep1, ep2)
    assert is_asked(alice, ep1, ep2, bandwidth_limit=MB)
    assert is_asked(alice, ep1, ep2, **BACKGROUND)
    limit(ep2, {"limit": MB})
    assert is_asked(alice, ep1, ep2)
    assert is_asked(alice, ep2, ep1)
    assert task_rates.of(take(submit_delete(alice, ep2))) is None


def test_each_reading_is_one_statement(alice: User, ep1: Endpoint, ep2: Endpoint) -> None:
    grant = running(alice, ep1, ep2, bandwidth_limit=MB)
    with CaptureQueriesContext(
        connection,
    ) as asked:
        assert rate(grant) == (MB, "task")
    assert len(asked) == 1


def test_a_limit_is_shared_by_all_that_run_there(alice: User, bob: User, ep1: Endpoint, ep2: Endpoint) -> None:
    limit(ep1, {"limit": 9 * MB})
    first = running(alice, ep1, ep2)
    assert rate(first) == (9 * MB, "source")
    third = running(alice, make_endpoint(alice, "third"), ep1, bandwidth_limit=MB)
    submit(alice, ep1, ep2)  # waits
    take(submit_delete(alice, ep1))
    assert (rate(first), rate(third)) == ((8 * MB, "source"), (MB, "task"))
    Lease.objects.filter(pk=third.task_id).update(expires_at=datetime(2020, 1, 1, tzinfo=UTC))
    assert rate(first) == (9 * MB, "source")
    with pytest.raises(LookupError):
        rate(third)


def test_a_limit_holds_at_its_time_and_for_its_peer(alice: User, ep1: Endpoint, ep2: Endpoint) -> None:
    other = make_endpoint(alice, "other")
    night = {"from": "22:00", "to": "06:00", "time_zone": "Europe/Berlin"}
    limit(ep1, {"limit": 5 * MB, "peer": str(ep2.pk), **night})
    ours = running(alice, ep1, ep2)
    # The lease of the test lasts longer than its clock says.
    Lease.objects.update(expires_at=datetime(2036, 1, 1, tzinfo=UTC))
    assert rate(ours, datetime(2030, 7, 1, 20, 30, tzinfo=UTC)) == (5 * MB, "source")
    assert rate(ours, datetime(2030, 7, 1, 19, 30, tzinfo=UTC)) is None
    assert rate(running(alice, ep1, other)) is None


def test_the_background_gives_way_while_a_normal_one_runs(alice: User, ep1: Endpoint, ep2: Endpoint) -> None:
    background = running(alice, ep1, ep2, **BACKGROUND)
    assert rate(background) is None
    normal = running(alice, make_endpoint(alice, "other"), ep2)
    assert rate(background) == (FLOOR, "priority")
    assert rate(normal) is None
    slice_end.release(normal.task_id, normal.epoch, None)
    assert rate(background) is None


def test_the_task_shows_its_present_limit_and_has_one_event(alice: User, ep1: Endpoint, ep2: Endpoint) -> None:
    grant = running(alice, ep1, ep2, bandwidth_limit=2 * MB)
    held = task_rates.of(grant)
    assert held is not None
    held.refresh()
    assert not Event.objects.filter(code=bandwidth.CODE).exists(), "no lane has said how it is held to the rate"

    async def open_lane() -> None:
        held.pacer.begin("parts")
        assert held.pacer.rate == 2 * MB

    asyncio.run(open_lane())
    held.pacer._loop = None
    for _ in range(3):
        held.refresh()
    shown = Api(alice).get(f"/task/{grant.task_id}").body
    assert (shown["bandwidth_limit"], shown["present_bandwidth_limit"]) == (2 * MB, 2 * MB)
    [event] = Event.objects.filter(code=bandwidth.CODE)
    assert '"limited_by": "task"' in event.details
    slice_end.release(grant.task_id, grant.epoch, None)
    assert Api(alice).get(f"/task/{grant.task_id}").body["present_bandwidth_limit"] is None
    again = task_rates.of(take(Task.objects.get(pk=grant.task_id)))
    assert again is not None
    assert again._reported


def test_a_reading_waits_for_no_batch_of_the_worker(alice: User, ep1: Endpoint, ep2: Endpoint) -> None:
    grant = running(alice, ep1, ep2, bandwidth_limit=MB)
    with transaction.atomic():
        Task.objects.filter(pk=grant.task_id).update(bytes_transferred=1)
        [found] = all_at_once([lambda: bandwidth.read(grant.task_id, 5)])
        assert found.octets == MB
    assert Task.objects.get(pk=grant.task_id).present_bandwidth_limit is None


def test_the_forecast_is_not_shorter_than_the_limit_allows(alice: User, ep1: Endpoint, ep2: Endpoint) -> None:
    grant = running(alice, ep1, ep2, bandwidth_limit=MB)
    found = {"items_scanned": 1, "files": 1, "bytes_total": 600 * MB}
    Task.objects.filter(pk=grant.task_id).update(**found)
    assert Api(alice).get(f"/task/{grant.task_id}").body["forecast_seconds_left"]["low"] >= 600
    Task.objects.filter(pk=grant.task_id).update(present_bandwidth_limit=MB // 2)
    shown = Api(alice).get(f"/task/{grant.task_id}").body
    assert shown["forecast_seconds_left"]["low"] >= 1200
    assert shown["forecast_bytes_per_second"]["high"] <= MB // 2
