"""The status of a task: faults of its endpoints, since when, and the protection of its data channels."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from endpoints.gridftp.faults import Fault, Kind, Side
from endpoints.models import Endpoint
from identity.models import User
from tests.integration.cast import later, submit, take
from transferapi.rest.transfer import task_documents
from transferapi.tasks import queries, standstill
from transferapi.tasks.errors import LeaseLostError
from transferapi.tasks.models import WITH_OWNERS, Event, Task
from transferapi.tasks.records import DataProtection
from transferapi.tasks.upkeep import space
from transferapi.tasks.worker import protection, slice_end, troubles
from transferapi.tasks.worker.leases import Grant

DOWN = Fault(
    Kind.CONNECT_FAILED,
    Side.DESTINATION,
    advice="The server may be down.",
    raw="Connection refused",
    server="ep2.example.org:2811",
)
NOW = datetime(2026, 11, 22, 10, tzinfo=UTC)


@pytest.fixture
def task(alice: User, ep1: Endpoint, ep2: Endpoint) -> Task:
    return submit(alice, ep1, ep2)


@pytest.fixture
def grant(task: Task) -> Grant:
    return take(task)


def fail(grant: Grant, trouble: Fault = DOWN, seconds: float = 60, **more: Any) -> None:
    troubles.endpoint_failed(grant.task_id, grant.epoch, trouble, later(seconds), **more)


def reach(grant: Grant, *sides: Side, lanes: bool = False) -> None:
    troubles.reached(grant.task_id, grant.epoch, sides, lanes=lanes)


def document(grant: Grant) -> dict[str, Any]:
    return task_documents.task(Task.objects.select_related(*WITH_OWNERS).get(pk=grant.task_id))


def events(grant: Grant, code: str) -> list[Event]:
    return list(Event.objects.filter(task=grant.task_id, code=code).order_by("id"))


def test_cause_side_endpoint_server_and_next_try_are_what_a_person_reads_first(grant: Grant) -> None:
    at = later(60)
    troubles.endpoint_failed(grant.task_id, grant.epoch, DOWN, at)

    found = document(grant)

    text = (
        "No connection at the destination alice#ep2 (ep2.example.org:2811): Connection refused. "
        f"It is tried again at {at:%Y-%m-%d %H:%M:%S} UTC. The server may be down."
    )
    assert (found["nice_status"], found["nice_status_details"]) == ("CONNECT_FAILED", text)
    assert (found["is_ok"], found["faults"]) == (False, 1)
    assert found["nice_status_short_description"] == "connect failed"
    assert 55 <= found["nice_status_expires_in"] <= 60
    (event,) = events(grant, "CONNECT_FAILED")
    assert (event.description, event.is_error) == (text, True)
    assert event.details == "The server may be down.\nConnection refused"


def test_a_fault_that_lasts_keeps_the_time_at_which_it_began(grant: Grant) -> None:
    fail(grant)
    first = standstill.of(Task.objects.get(pk=grant.task_id))
    assert first is not None
    assert (first.code, first.side) == ("CONNECT_FAILED", "destination")
    fail(grant, seconds=90)
    again = standstill.of(Task.objects.get(pk=grant.task_id))
    assert again is not None
    assert again.since == first.since
    assert again.next_try != first.next_try
    assert "It has failed since " in document(grant)["nice_status_details"]
    reach(grant, Side.DESTINATION)
    assert standstill.of(Task.objects.get(pk=grant.task_id)) is None
    fail(grant)
    assert "It has failed since " not in document(grant)["nice_status_details"]


def test_a_queued_task_still_shows_it(grant: Grant) -> None:
    fail(grant)
    slice_end.release(grant.task_id, grant.epoch, later(60), 3)

    found = document(grant)

    assert (found["status"], found["nice_status"], found["is_ok"]) == ("ACTIVE", "CONNECT_FAILED", False)
    assert take_again(grant).spec.troubled


def take_again(grant: Grant) -> Grant:
    Task.objects.filter(pk=grant.task_id).update(next_run_at=later(-1))
    return take(Task.objects.get(pk=grant.task_id))


def test_one_that_is_met_again_and_again_counts_each_time_and_is_reported_ever_more_rarely(grant: Grant) -> None:
    for number in range(100):
        fail(grant, replace(DOWN, raw=f"Connection refused ({number})"))

    assert document(grant)["faults"] == 100
    told = events(grant, "CONNECT_FAILED")
    assert len(told) == 7
    assert " Met 64 times since " in told[-1].description
    assert "refused (99)" in document(grant)["nice_status_details"], "the status has the latest words"


def test_another_side_another_server_or_another_kind_is_another_cause(grant: Grant) -> None:
    for trouble in (DOWN, DOWN.at(Side.SOURCE), replace(DOWN, server="x:1"), replace(DOWN, kind=Kind.TIMEOUT)):
        fail(grant, trouble)
        for _ in range(2):
            fail(grant, trouble)

    assert len(events(grant, "CONNECT_FAILED")) == 6
    assert len(events(grant, "TIMEOUT")) == 2


def test_a_cause_of_long_ago_is_reported_as_a_new_one(grant: Grant) -> None:
    for minutes in (0, 1, 2, 70):
        now = NOW + timedelta(minutes=minutes)
        seen, tries, since = troubles._seen(Task.objects.get(pk=grant.task_id).trouble or {}, DOWN, now)
        Task.objects.filter(pk=grant.task_id).update(trouble={"seen": seen})

    assert (tries, since) == (1, NOW + timedelta(minutes=70))


def test_ever_new_causes_take_no_more_room(grant: Grant) -> None:
    for number in range(40):
        fail(grant, replace(DOWN, server=f"server-{number}:2811"))

    trouble = Task.objects.get(pk=grant.task_id).trouble
    assert trouble is not None
    assert len(trouble["seen"]) == troubles.MOST_CAUSES


@pytest.mark.parametrize(
    ("failed", "lanes", "sides", "by_lane", "over"),
    [
        (Side.DESTINATION, False, (Side.DESTINATION,), False, True),
        (Side.DESTINATION, False, (Side.SOURCE,), False, False),
        (Side.DESTINATION, False, (Side.SOURCE, Side.DESTINATION), True, True),
        (Side.DESTINATION, True, (Side.DESTINATION,), False, False),
        (Side.DESTINATION, True, (Side.SOURCE, Side.DESTINATION), True, True),
        (Side.UNKNOWN, False, (Side.SOURCE,), False, True),
    ],
)
def test_it_is_over_when_the_same_thing_succeeds(
    grant: Grant, failed: Side, lanes: bool, sides: tuple[Side, ...], by_lane: bool, over: bool
) -> None:
    fail(grant, DOWN.at(failed), lanes=lanes)

    reach(grant, *sides, lanes=by_lane)

    found = document(grant)
    assert found["is_ok"] is over
    assert found["nice_status"] == ("OK" if over else "CONNECT_FAILED")
    assert (found["nice_status_expires_in"] == -1) is over
    assert (found["nice_status_details"] is None) is over


def test_what_a_file_met_is_not_over_because_a_server_was_reached(grant: Grant) -> None:
    fail(grant)
    Task.objects.filter(pk=grant.task_id).update(nice_status="PERMISSION_DENIED", nice_status_details="550 no")

    reach(grant, Side.SOURCE, Side.DESTINATION, lanes=True)

    found = document(grant)
    assert (found["nice_status"], found["nice_status_expires_in"]) == ("PERMISSION_DENIED", -1)


def test_a_worker_that_has_lost_its_lease_writes_none_of_it(grant: Grant) -> None:
    for call in (
        lambda: troubles.endpoint_failed(grant.task_id, grant.epoch - 1, DOWN, NOW),
        lambda: troubles.reached(grant.task_id, grant.epoch - 1, (Side.SOURCE,), lanes=False),
        lambda: protection.note(grant.task_id, grant.epoch - 1, DataProtection("clear")),
    ):
        with pytest.raises(LeaseLostError):
            call()

    assert document(grant)["is_ok"]


def test_the_words_of_a_hostile_server_stay_short_and_keep_the_cause_at_their_end(grant: Grant) -> None:
    words = "530-\0" + "GSS failure / " * 100 + "the certificate has expired."
    fail(grant, Fault(Kind.INSECURE_SERVER, Side.SOURCE, advice="Tell its administrator.", raw=words))

    text = document(grant)["nice_status_details"]

    assert len(text) < 800
    assert "the certificate has expired. It is tried again at" in text
    assert "\0" not in text


# ---- data channels


def test_the_weakest_protection_shows_and_is_reported_with_its_reason(alice: User, grant: Grant) -> None:
    assert document(grant)["data_protection"] is None
    why, raw = "takes no key (DCSC)", "DCSC P: 500 no folder"
    refused = DataProtection("clear", Side.DESTINATION, why, "Make a folder.", raw)
    for held in (*[DataProtection("encrypted")] * 2, DataProtection("authenticated"), *[refused] * 3):
        protection.note(grant.task_id, grant.epoch, held)
    protection.note(grant.task_id, grant.epoch, DataProtection("encrypted"))

    assert document(grant)["data_protection"] == "clear"
    told = [row for row in reversed(queries.events(alice, grant.task_id).rows) if row.code == protection.CODE]
    assert [row.is_error for row in told] == [False] * 3
    assert told[0].description == "The data channels are authenticated and encrypted."
    assert "encrypt_data asks for that" in told[1].description
    assert told[2].description == (
        "The data channels are neither authenticated nor encrypted: the server of alice#ep2 (the destination) "
        "takes no key (DCSC). Make a folder."
    )
    assert told[2].details == "DCSC P: 500 no folder"


def test_events_of_an_endpoint_have_an_end_and_status_and_count_go_on(
    grant: Grant, monkeypatch: pytest.MonkeyPatch
) -> None:
    fail(grant)
    assert Task.objects.get(pk=grant.task_id).event_octets > 0
    monkeypatch.setattr(space, "MAX_EVENTS", 0)
    fail(grant)
    assert len(events(grant, "CONNECT_FAILED")) == 1
    found = document(grant)
    assert (found["nice_status"], found["faults"]) == ("CONNECT_FAILED", 2)
