"""Timers: when they run, what a run does, and what keeps them from it. The clock is given, or the database's."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import pytest
from django.db import DataError, OperationalError, connection, transaction

from endpoints import registry
from endpoints.errors import EndpointNotFoundError, NotPermittedError
from endpoints.models import Endpoint
from identity.error_categories import NotFoundError
from identity.models import User
from tests.integration.cast import all_at_once, make_endpoint, make_user, submit, transfer_request
from tests.integration.shared import give, make_share
from tests.refusals import raises_refusal
from transferapi.tasks import doorbell, moves, submission
from transferapi.tasks.errors import RequestError
from transferapi.tasks.models import Event, Item, Task
from transferapi.tasks.submission import TransferItem
from transferapi.tasks.upkeep import space
from transferapi.timers import running, schedule, services
from transferapi.timers.errors import TIMER_ENDED, TOO_MANY_TIMERS, TimerInvalidError
from transferapi.timers.models import Timer
from transferapi.timers.schedule import Schedule

NOON = datetime(2026, 1, 15, 12, 0, 0, tzinfo=UTC)
DAY = 86400


def at(hours: float = 0, seconds: float = 0) -> datetime:
    return NOON + timedelta(hours=hours, seconds=seconds)


@pytest.fixture
def make(alice: User, ep1: Endpoint, ep2: Endpoint) -> Callable[..., Timer]:
    """A timer of alice's, made at noon."""

    def made(plan: Schedule | None = None, *items: tuple[str, str], **more: Any) -> Timer:
        request = transfer_request(ep1, ep2, *items, **more)
        return services.create(alice, name="nightly", plan=plan or Schedule(NOON, DAY), request=request, now=NOON)

    return made


def run(now: datetime, limit: int = 10) -> int:
    return running.run_due(limit, now)


def fresh(timer: Timer) -> Timer:
    return services.get(timer.owner, timer.pk)


def finish(user: User) -> None:
    """Mark all tasks of the user as done."""
    Task.objects.filter(owner=user).update(phase="done", status="SUCCEEDED", completion_time=NOON)


def refusal(timer: Timer) -> str:
    """Return the error code of the refusal of the last run."""
    error = fresh(timer).last_error
    assert error is not None
    return str(error["code"])


def labels() -> list[str | None]:
    return list(Task.objects.order_by("request_time").values_list("label", flat=True))


@contextmanager
def a_submission_of(user: User) -> Iterator[None]:
    """Another submission of the user is under way, and holds the row of what the user's tasks take."""
    held, done = threading.Event(), threading.Event()

    def submission() -> None:
        with transaction.atomic():
            space.take_task(user.pk)
            held.set()
            done.wait(30)
        connection.close()

    other = threading.Thread(target=submission)
    other.start()
    assert held.wait(30)
    try:
        yield
    finally:
        done.set()
        other.join(30)


# ---- the plan alone


def test_once_is_once() -> None:
    plan = Schedule(at(1))
    assert plan.after(NOON, 0) == at(1)
    assert plan.after(NOON, 1) is None
    assert schedule.read(plan.document()) == plan


@pytest.mark.parametrize(("hours", "following"), [(-5, 0), (0, 24), (0.5, 24), (23.99, 24), (24, 48), (1000, 1008)])
def test_a_grid_begins_at_its_start(hours: float, following: float) -> None:
    assert Schedule(NOON, DAY).after(at(hours), 3) == at(following)


def test_a_grid_ends_at_a_time_or_after_so_many_runs() -> None:
    until = Schedule(NOON, DAY, end=at(48))
    assert (until.after(at(24), 9), until.after(at(48), 9)) == (at(48), None)
    times = Schedule(NOON, DAY, iterations=2)
    assert (times.after(at(24), 1), times.after(at(24), 2)) == (at(48), None)
    for plan in (until, times, Schedule(NOON, DAY)):
        assert schedule.read(plan.document()) == plan


@pytest.mark.parametrize(
    ("plan", "field"),
    [
        (Schedule(NOON, 59), "interval_seconds"),
        (Schedule(NOON, schedule.MAX_INTERVAL + 1), "interval_seconds"),
        (Schedule(NOON, 60, iterations=0), "end.iterations"),
        (Schedule(NOON, 60, iterations=schedule.MAX_ITERATIONS + 1), "end.iterations"),
        (Schedule(at(2), 60, end=at(1)), "end.datetime"),
        (Schedule(at(-2), 60, end=at(-1)), "end.datetime"),
        (Schedule(datetime(9999, 12, 31, tzinfo=UTC), 60), "start"),
        (Schedule(datetime(1, 1, 1, tzinfo=UTC)), "start"),
        (Schedule(NOON, 60, end=datetime(9999, 12, 31, tzinfo=UTC)), "end.datetime"),
    ],
)
def test_a_plan_that_makes_no_sense_is_refused(plan: Schedule, field: str) -> None:
    with pytest.raises(TimerInvalidError) as caught:
        plan.check(NOON)
    assert caught.value.field == f"schedule.{field}"


# ---- making one


def test_what_could_never_be_submitted_is_refused_now(
    alice: User, bob: User, ep1: Endpoint, ep2: Endpoint, public: Endpoint
) -> None:
    def made(user: User, source: Endpoint, *items: tuple[str, str], **more: Any) -> Timer:
        request = transfer_request(source, ep2, *items, **more)
        return services.create(user, name=None, plan=Schedule(NOON), request=request, now=NOON)

    with pytest.raises(EndpointNotFoundError):
        made(bob, public)
    refused: list[dict[str, Any]] = [
        {"label": "x" * 129},
        {"options": {"sync_level": 9}},
        {"deadline": at(48)},
    ]
    for more in refused:
        with pytest.raises(RequestError):
            made(alice, ep1, **more)
    for items in ([("/a", "/b"), ("/c", "/b")], [("a", "/b")]):
        with pytest.raises(RequestError):
            made(alice, ep1, *items)
    assert not Timer.objects.exists()


def test_a_shared_right_is_asked_for_at_once(alice: User, bob: User, ep1: Endpoint, public: Endpoint) -> None:
    mine = make_endpoint(bob, "mine")
    services.create(bob, name=None, plan=Schedule(NOON), request=transfer_request(public, mine), now=NOON)
    registry.update(bob, "public", {"public": False})
    with pytest.raises((EndpointNotFoundError, NotPermittedError)):
        services.create(alice, name=None, plan=Schedule(NOON), request=transfer_request(public, ep1), now=NOON)


def test_there_are_only_so_many(alice: User, make: Callable[..., Timer], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(services, "MAX_TIMERS", 2)
    monkeypatch.setattr(services, "MAX_ENDED", 1)
    made = [make(), make()]
    with raises_refusal(TOO_MANY_TIMERS):
        make()
    Timer.objects.update(status="ended", next_run=None)
    make()
    assert Timer.objects.filter(pk__in=[one.pk for one in made]).count() == 1


def test_a_timer_that_has_ended_runs_again_within_the_limit_only(
    alice: User, make: Callable[..., Timer], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(services, "MAX_TIMERS", 1)
    ended = make(Schedule(NOON))
    run(NOON)
    assert fresh(ended).status == "ended"
    other = make()
    with raises_refusal(TOO_MANY_TIMERS):
        services.update(alice, ended.pk, plan=Schedule(at(1)), now=at(0.5))
    assert fresh(ended).status == "ended"
    services.update(alice, ended.pk, name="still ended")
    services.delete(alice, other.pk)
    assert services.update(alice, ended.pk, plan=Schedule(at(1)), now=at(0.5)).status == "loaded"
    services.update(alice, ended.pk, plan=Schedule(at(2)), now=at(0.5))


def test_names_and_bodies_are_bounded(make: Callable[..., Timer], alice: User, monkeypatch: pytest.MonkeyPatch) -> None:
    timer = make()
    for name in ("x" * 257, "a\nb"):
        with pytest.raises(TimerInvalidError):
            services.update(alice, timer.pk, name=name)
    monkeypatch.setattr(services, "MAX_BODY", 100)
    with pytest.raises(TimerInvalidError, match="body"):
        make()


def test_the_transfers_of_all_timers_of_a_user_together_are_bounded(
    make: Callable[..., Timer], monkeypatch: pytest.MonkeyPatch
) -> None:
    first = make()
    monkeypatch.setattr(services, "MAX_BODIES", 2 * len(first.body) + 1)
    second = make()
    with pytest.raises(TimerInvalidError, match="all your timers"):
        make()
    services.delete(first.owner, second.pk)
    make()


# ---- running


def test_a_run_submits_the_transfer_as_it_was_asked_for(alice: User, ep1: Endpoint, ep2: Endpoint) -> None:
    request = submission.TransferRequest(
        uuid.uuid4(), "ep1", "alice#ep2",
        [
            TransferItem("/a/\udcff", "/b", external_checksum="0" * 32),
            TransferItem("/c", "/d", True),
            TransferItem("/e", "/f", symlink=True),
        ],
        options={"sync_level": 2, "notify_on_failed": False, "label": None},
    )  # fmt: skip
    timer = services.create(alice, name="nightly", plan=Schedule(NOON, DAY), request=request, now=NOON)
    assert run(at(seconds=-1)) == 0
    assert run(NOON) == 1
    task = Task.objects.get()
    assert (task.owner, task.source, task.destination, task.label) == (alice, ep1, ep2, "nightly, run 1")
    assert (task.options["sync_level"], task.options["notify_on_failed"]) == (2, False)
    assert task.submission_id == uuid.uuid5(timer.pk, "1")
    assert (task.request_time, task.deadline) == (NOON, at(24))
    rows = Item.objects.order_by("position").values_list("source_path", "destination_path", "recursive", "extra")
    assert [tuple(map(str, row[:3])) for row in rows] == [
        ("/a/\udcff", "/b", "None"), ("/c", "/d", "True"), ("/e", "/f", "None"),
    ]  # fmt: skip
    assert [extra for *_, extra in rows] == [
        {"checksum_algorithm": "MD5", "external_checksum": "0" * 32}, {}, {"symlink": True},
    ]  # fmt: skip
    after = fresh(timer)
    assert (after.status, after.number_of_runs, after.number_of_errors) == ("loaded", 1, 0)
    assert (after.last_ran_at, after.next_run, after.last_task) == (NOON, at(24), task)


def test_a_timer_runs_until_its_end(alice: User, make: Callable[..., Timer]) -> None:
    timer = make(Schedule(NOON, DAY, iterations=3), label="as I say")
    ran = 0
    for hours in range(0, 24 * 5, 6):
        ran += run(at(hours))
        finish(alice)
    assert ran == 3
    assert labels() == ["as I say, run 1", "as I say, run 2", "as I say, run 3"]
    after = fresh(timer)
    assert (after.status, after.next_run, after.number_of_runs) == ("ended", None, 3)


def test_once_is_run_once_also_when_its_time_was_before(alice: User, make: Callable[..., Timer]) -> None:
    timer = make(Schedule(at(-3)))
    assert run(NOON) == 1
    assert run(at(48)) == 0
    assert fresh(timer).status == "ended"


def test_missed_runs_are_made_up_for_once_and_the_grid_goes_on(alice: User, make: Callable[..., Timer]) -> None:
    timer = make()
    assert run(at(24 * 10 + 1)) == 1
    finish(alice)
    assert run(at(24 * 10 + 2)) == 0
    assert fresh(timer).next_run == at(24 * 11)


def test_a_run_that_was_due_before_the_end_is_made_up_for(alice: User, make: Callable[..., Timer]) -> None:
    timer = make(Schedule(NOON, DAY, end=at(1)))
    assert run(at(5)) == 1
    assert fresh(timer).status == "ended"


@pytest.mark.parametrize("waits", [False, True], ids=["done", "under way"])
def test_a_timer_that_ran_while_the_clock_was_ahead_runs_by_its_schedule_again(
    alice: User, make: Callable[..., Timer], waits: bool
) -> None:
    """Else it would rest until the clock is there again: here for a year."""
    timer, year = make(), 366 * 24.0
    run(NOON)
    if not waits:
        finish(alice)
    assert run(at(year)) == 1, "the clock is a year ahead"
    finish(alice)
    assert run(at(30)) == 0
    assert running.correct_times(at(30)) == 1
    assert fresh(timer).next_run == at(48)
    assert (run(at(48)), running.correct_times(at(48))) == (1, 0)


def test_no_run_of_a_sound_schedule_is_moved(alice: User, make: Callable[..., Timer]) -> None:
    plans = (
        Schedule(at(500)),
        Schedule(at(500), DAY),
        Schedule(NOON, DAY),
        Schedule(NOON, DAY, end=at(1)),
        Schedule(NOON),
    )
    timers = [make(plan) for plan in plans]
    paused = make()
    services.pause(alice, paused.pk)
    unreadable = make(Schedule(at(900)))
    Timer.objects.filter(pk=unreadable.pk).update(schedule={"interval_seconds": "soon"})
    run(NOON)
    before = [one.next_run for one in map(fresh, (*timers, paused, unreadable))]
    assert running.correct_times(at(1)) == 0
    assert [one.next_run for one in map(fresh, (*timers, paused, unreadable))] == before


def test_a_run_waits_for_the_one_before(alice: User, make: Callable[..., Timer]) -> None:
    timer = make(Schedule(NOON, 3600))
    run(NOON)
    for minutes in (60, 61, 90):
        run(at(minutes / 60))
        assert fresh(timer).number_of_runs == 1
    finish(alice)
    assert run(at(1.6)) == 1
    after = fresh(timer)
    assert (after.number_of_runs, after.next_run) == (2, at(2))


def test_long_names_make_labels_that_are_short_enough(alice: User, make: Callable[..., Timer]) -> None:
    timer = make(None, label="x" * 128)
    Timer.objects.filter(pk=timer.pk).update(number_of_runs=99_999)
    run(NOON)
    assert labels() == ["x" * 116 + ", run 100000"]
    services.update(alice, make().pk, name="")


@pytest.mark.django_db(transaction=True)
def test_a_run_rings_the_doorbell(alice: User, make: Callable[..., Timer], monkeypatch: pytest.MonkeyPatch) -> None:
    rung: list[list[uuid.UUID]] = []
    monkeypatch.setattr(doorbell, "ring", lambda ids: rung.append(list(ids)))
    make()
    run(NOON)
    assert rung == [[Task.objects.get().pk]]


@pytest.mark.django_db(transaction=True)
def test_workers_beside_each_other_run_each_once(alice: User, make: Callable[..., Timer]) -> None:
    timers = [make() for _ in range(6)]
    found = all_at_once([partial(run, NOON, 6) for _ in range(4)])
    assert sum(found) == 6
    assert Task.objects.count() == 6
    assert {fresh(timer).number_of_runs for timer in timers} == {1}


@pytest.mark.django_db(transaction=True)
def test_a_crash_between_submission_and_note_leaves_neither(
    alice: User, make: Callable[..., Timer], monkeypatch: pytest.MonkeyPatch
) -> None:
    timer = make()
    saved = Timer.save

    def crash(self: Timer, **more: Any) -> None:
        saved(self, **more)
        raise OperationalError("the server closed the connection")

    with monkeypatch.context() as broken:
        broken.setattr(Timer, "save", crash)
        assert run(NOON) == 1
    assert not Task.objects.exists()
    assert not Event.objects.exists()
    assert fresh(timer).number_of_runs == 0
    assert run(NOON) == 0, "it is tried again a minute later"
    assert run(NOON + running.AFTER_ERROR) == 1
    assert Task.objects.count() == 1


def test_a_run_that_was_submitted_before_is_the_same_task(alice: User, make: Callable[..., Timer]) -> None:
    """The state after a restore of only the timers' rows from a backup."""
    timer = make()
    run(NOON)
    finish(alice)
    Timer.objects.filter(pk=timer.pk).update(number_of_runs=0, next_run=NOON, last_task=None)
    run(NOON)
    assert Task.objects.count() == 1
    assert fresh(timer).last_task == Task.objects.get()


def test_the_database_gives_the_time_where_nobody_does(alice: User, ep1: Endpoint, ep2: Endpoint) -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT clock_timestamp()")
        [(now,)] = cursor.fetchall()
    for start in (now, now + timedelta(days=1)):
        services.create(alice, name=None, plan=Schedule(start), request=transfer_request(ep1, ep2))
    assert running.run_due(10) == 1
    assert labels() == [None]


# ---- what keeps it from running


def test_refusals_are_reported_and_counted_and_the_third_in_a_row_ends_it(
    alice: User, ep1: Endpoint, make: Callable[..., Timer]
) -> None:
    timer = make()
    registry.delete(alice, "ep1")
    for number in (1, 2, 3):
        run(at(24 * number))
        after = fresh(timer)
        assert (after.number_of_runs, after.number_of_errors) == (number, number)
        assert refusal(timer) == "EndpointNotFound"
        assert after.status == ("loaded" if number < 3 else "inactive")
    assert after.inactive_reason == {"cause": "refused", "detail": after.last_error}
    assert after.next_run is None
    assert not Task.objects.exists()


def test_a_run_that_is_accepted_forgives_those_before(alice: User, make: Callable[..., Timer]) -> None:
    timer = make()
    for day, public in enumerate((False, False, True, False, False)):
        Endpoint.objects.filter(name="ep1").update(deleted_at=None if public else NOON)
        run(at(24 * day))
        finish(alice)
    after = fresh(timer)
    assert (after.status, after.number_of_runs, after.number_of_errors, after.refused_in_a_row) == ("loaded", 5, 4, 2)


def test_a_refused_single_run_can_be_done_again(alice: User, make: Callable[..., Timer]) -> None:
    timer = make(Schedule(NOON))
    Endpoint.objects.filter(name="ep1").update(deleted_at=NOON)
    run(NOON)
    assert fresh(timer).status == "inactive"
    Endpoint.objects.filter(name="ep1").update(deleted_at=None)
    services.resume(alice, timer.pk, at(2))
    assert (fresh(timer).next_run, fresh(timer).status) == (at(2), "loaded")
    run(at(2))
    after = fresh(timer)
    assert (after.status, after.number_of_runs, after.number_of_errors, after.last_error) == ("ended", 2, 1, None)


def test_without_a_credential_nothing_is_submitted(alice: User, ep1: Endpoint, gsi: Endpoint) -> None:
    def made(**options: object) -> Timer:
        request = transfer_request(gsi, ep1, options=options)
        return services.create(alice, name=None, plan=Schedule(NOON), request=request, now=NOON)

    refused, waiting = made(), made(skip_activation_check=True)
    run(NOON)
    assert refusal(refused) == "NoCredException"
    assert fresh(waiting).last_task == Task.objects.get()


def test_too_many_tasks_refuse_a_run_too(
    alice: User, make: Callable[..., Timer], ep1: Endpoint, ep2: Endpoint, settings: Any
) -> None:
    settings.LIMITS = replace(settings.LIMITS, pending_tasks=1)
    submit(alice, ep1, ep2)
    timer = make()
    run(NOON)
    assert refusal(timer) == "ClientError.LimitExceeded"


@pytest.mark.parametrize(
    ("limits", "variable"),
    [({"user_tasks": 1}, "WAYBILL_MAX_USER_TASKS"), ({"user_files": 1}, "WAYBILL_MAX_USER_FILES")],
)
def test_a_run_above_a_limit_of_the_user_names_the_limit(
    alice: User,
    make: Callable[..., Timer],
    ep1: Endpoint,
    ep2: Endpoint,
    settings: Any,
    limits: dict[str, int],
    variable: str,
) -> None:
    submit(alice, ep1, ep2)
    finish(alice)
    timer = make()
    settings.LIMITS = replace(settings.LIMITS, **limits)
    run(NOON)
    error = fresh(timer).last_error
    assert error is not None
    assert error["code"] == "ClientError.LimitExceeded"
    assert variable in error["message"]
    assert Task.objects.count() == 1


def test_a_path_that_no_rule_gives_any_more_is_named(ep1: Endpoint, bob: User) -> None:
    share = make_share(ep1, "share")
    rule = give(share, bob, "/")
    request = transfer_request(share, make_endpoint(bob, "bobs"), ("/data/x", "/x"))
    timer = services.create(bob, name=None, plan=Schedule(NOON, DAY), request=request, now=NOON)
    rule.delete()
    give(share, bob, "/other/")
    run(NOON)
    assert fresh(timer).last_error == {
        "code": "EndpointPermissionDenied",
        "message": "No access rule gives you '/data/x'",
    }


def test_what_is_public_no_more_is_used_no_more(bob: User, public: Endpoint) -> None:
    dora = make_user("dora")
    mine = make_endpoint(dora, "mine")
    timer = services.create(dora, name=None, plan=Schedule(NOON, DAY), request=transfer_request(public, mine), now=NOON)
    registry.update(bob, "public", {"public": False})
    run(NOON)
    assert refusal(timer) == "EndpointNotFound"
    assert not Task.objects.exists()


def test_a_user_who_was_shut_out_runs_nothing(alice: User, make: Callable[..., Timer]) -> None:
    timer = make()
    User.objects.filter(pk=alice.pk).update(is_active=False)
    run(NOON)
    assert fresh(timer).number_of_errors == 1
    assert not Task.objects.exists()


def test_with_their_owner_timers_go(make: Callable[..., Timer], bob: User, public: Endpoint) -> None:
    dora = make_user("dora")
    services.create(dora, name=None, plan=Schedule(NOON), request=transfer_request(public, public, ("/a", "/b")))
    dora.delete()
    assert not Timer.objects.exists()


def test_one_that_we_cannot_run_holds_up_no_other(alice: User, make: Callable[..., Timer]) -> None:
    broken, good = make(Schedule(at(-1), DAY)), make()
    Timer.objects.filter(pk=broken.pk).update(body='{"label": null}')
    assert run(NOON) == 2
    assert fresh(broken).last_error == {"code": "InternalError", "message": "The service failed to submit this."}
    assert fresh(good).last_task is not None


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(
    "error", [OperationalError("canceling statement"), DataError("too long"), OverflowError("late")]
)
def test_one_whose_run_raises_is_put_off_and_the_others_run_in_the_same_round(
    make: Callable[..., Timer], monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    broken, good = make(Schedule(at(-1), DAY)), make()
    known = running._run

    def raise_for_one(timer: Timer, now: datetime) -> None:
        known(timer, now)
        if timer.pk == broken.pk:
            raise error

    monkeypatch.setattr(running, "_run", raise_for_one)
    assert run(NOON) == 2
    assert fresh(broken).next_run == NOON + running.AFTER_ERROR
    assert fresh(broken).number_of_runs == 0
    assert fresh(good).last_task == Task.objects.get()


@pytest.mark.django_db(transaction=True)
def test_a_submission_of_the_same_user_that_is_under_way_holds_up_no_timer_of_others(
    alice: User, bob: User, public: Endpoint, make: Callable[..., Timer], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It holds the row of what the user's tasks take, which a run waits for."""
    monkeypatch.setattr(running, "LOCK_MILLISECONDS", 100)
    waiting = make(Schedule(at(-1), DAY))
    request = transfer_request(public, public, ("/a", "/b"))
    good = services.create(bob, name=None, plan=Schedule(NOON, DAY), request=request, now=NOON)
    with a_submission_of(alice):
        assert run(NOON) == 2
    assert fresh(good).last_task is not None
    assert (fresh(waiting).last_task, fresh(waiting).next_run) == (None, NOON + running.AFTER_ERROR)
    assert run(NOON + running.AFTER_ERROR) == 1
    assert fresh(waiting).last_task is not None


@pytest.mark.django_db(transaction=True)
def test_a_user_whose_submissions_hold_the_lock_has_one_turn_in_a_round(
    alice: User, bob: User, public: Endpoint, make: Callable[..., Timer], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each of the timers would wait for the lock, with the timers of all others behind it."""
    monkeypatch.setattr(running, "LOCK_MILLISECONDS", 100)
    for hours in (3, 2, 1):
        make(Schedule(at(-hours), DAY))
    request = transfer_request(public, public, ("/a", "/b"))
    good = services.create(bob, name=None, plan=Schedule(NOON, DAY), request=request, now=NOON)
    with a_submission_of(alice):
        assert run(NOON) == 2
    assert fresh(good).last_task is not None
    assert Timer.objects.filter(owner=alice, next_run__lte=NOON).count() == 2
    assert run(NOON) == 2
    assert Task.objects.filter(owner=alice).count() == 2


def test_users_take_turns(alice: User, bob: User, public: Endpoint, make: Callable[..., Timer]) -> None:
    for hours in (4, 3, 2, 1):
        make(Schedule(at(-hours), DAY))
    request = transfer_request(public, public, ("/a", "/b"))
    for _ in range(2):
        services.create(bob, name=None, plan=Schedule(NOON, DAY), request=request, now=NOON)
    assert run(NOON, limit=4) == 4
    assert Task.objects.filter(owner=alice).count() == Task.objects.filter(owner=bob).count() == 2
    assert [run(NOON), run(NOON)] == [2, 0]


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("change", ["a new schedule", "a run of another worker"])
def test_what_was_changed_after_a_run_that_failed_is_not_put_off(
    alice: User, make: Callable[..., Timer], monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    """A timer would run a minute later, whatever its schedule says."""
    timer = make()
    known, later = running._run, at(12)

    def fail(timer: Timer, now: datetime) -> None:
        raise OperationalError("canceling statement")

    def meanwhile(execute: Any, sql: str, *rest: Any) -> Any:
        if sql.startswith('UPDATE "timers_timer"') and not changed:
            changed.append(sql)
            monkeypatch.setattr(running, "_run", known)
            if change == "a new schedule":
                services.update(alice, timer.pk, plan=Schedule(later, DAY), now=NOON)
            else:
                assert run(NOON, limit=1) == 1
        return execute(sql, *rest)

    changed: list[str] = []
    monkeypatch.setattr(running, "_run", fail)
    with connection.execute_wrapper(meanwhile):
        assert run(NOON, limit=1) == 1
    assert changed
    assert fresh(timer).next_run == (later if change == "a new schedule" else at(24))


def test_a_database_that_is_away_is_no_fault_of_a_timer(
    make: Callable[..., Timer], monkeypatch: pytest.MonkeyPatch
) -> None:
    timer = make()

    def away(*_: object) -> Timer:
        raise OperationalError("the server closed the connection")

    monkeypatch.setattr(running, "_claim", away)
    with pytest.raises(OperationalError):
        run(NOON)
    assert fresh(timer).next_run == NOON


def test_a_beat_runs_so_many(make: Callable[..., Timer]) -> None:
    for _ in range(3):
        make()
    assert [run(NOON, 2), run(NOON, 2), run(NOON, 2)] == [2, 1, 0]


# ---- pause, resume, change, delete


def test_a_paused_timer_does_not_run_and_goes_on_at_its_grid(alice: User, make: Callable[..., Timer]) -> None:
    timer = make()
    services.pause(alice, timer.pk)
    assert services.pause(alice, timer.pk).inactive_reason == services.PAUSED
    assert run(at(30)) == 0
    services.resume(alice, timer.pk, at(30))
    assert services.resume(alice, timer.pk, at(31)).next_run == at(48)
    after = fresh(timer)
    assert (after.status, after.inactive_reason, after.next_run) == ("new", None, at(48))


def test_a_single_run_that_was_paused_past_its_time_runs_at_once(alice: User, make: Callable[..., Timer]) -> None:
    late, early = make(Schedule(at(1))), make(Schedule(at(9)))
    for timer in (late, early):
        services.pause(alice, timer.pk)
        services.resume(alice, timer.pk, at(5))
    assert (fresh(late).next_run, fresh(early).next_run) == (at(5), at(9))


def test_resumed_after_its_end_it_has_ended(alice: User, make: Callable[..., Timer]) -> None:
    timer = make(Schedule(NOON, DAY, end=at(24)))
    services.pause(alice, timer.pk)
    assert services.resume(alice, timer.pk, at(25)).status == "ended"
    for call in (services.pause, services.resume):
        with raises_refusal(TIMER_ENDED):
            call(alice, timer.pk)


def test_a_new_plan_counts_the_runs_that_there_were(alice: User, make: Callable[..., Timer]) -> None:
    timer = make(Schedule(NOON, DAY, iterations=1))
    run(NOON)
    assert fresh(timer).status == "ended"
    again = services.update(alice, timer.pk, plan=Schedule(NOON, DAY, iterations=3), now=at(1))
    assert (again.status, again.next_run) == ("loaded", at(24))
    once = services.update(alice, timer.pk, plan=Schedule(at(7)), now=at(1))
    assert (once.status, once.next_run) == ("loaded", at(7))
    services.pause(alice, timer.pk)
    paused = services.update(alice, timer.pk, name="new", plan=Schedule(at(8), DAY), now=at(1))
    assert (paused.name, paused.status, paused.next_run) == ("new", "inactive", None)
    with pytest.raises(TimerInvalidError):
        services.update(alice, timer.pk, plan=Schedule(at(8), 1), now=at(1))


def test_a_timer_of_another_does_not_exist(bob: User, make: Callable[..., Timer], alice: User) -> None:
    timer = make()
    calls: list[Callable[[User, uuid.UUID], object]] = [
        services.get, services.update, services.pause, services.resume, services.delete,
    ]  # fmt: skip
    for call in calls:
        with pytest.raises(NotFoundError):
            call(bob, timer.pk)
    assert services.all_of(bob) == []
    assert services.delete(alice, timer.pk).name == "nightly"
    with pytest.raises(NotFoundError):
        services.get(alice, timer.pk)


def test_a_deleted_timer_leaves_its_tasks(alice: User, make: Callable[..., Timer]) -> None:
    timer = make()
    run(NOON)
    services.delete(alice, timer.pk)
    assert moves.cancel(alice, Task.objects.get().pk)
