"""Forecasts as clients see them, before a transfer and while it runs."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pytest_django import DjangoAssertNumQueries

from endpoints.models import Endpoint
from identity.models import User
from tests.integration.cast import make_endpoint, submit, submit_delete, take
from tests.integration.rest import Answer, Api, assert_error
from transferapi.tasks.forecast import services as forecasts
from transferapi.tasks.models import Event, Item, Run, Task
from transferapi.tasks.records import SliceMeasurement
from transferapi.tasks.worker import measurements

pytestmark = pytest.mark.django_db

MB = 10**6


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    """Clear the models in memory: they belong to the previous test."""
    monkeypatch.setattr(forecasts, "_models", {})


@pytest.fixture
def api(alice: User) -> Api:
    return Api(alice)


@pytest.fixture
def task(alice: User, ep1: Endpoint, ep2: Endpoint) -> Task:
    return submit(alice, ep1, ep2)


def seconds_for(files: int, octets: int) -> float:
    """Duration of a run between the endpoints of these tests: 1 s to begin, 10 ms a file, 50 MB/s."""
    return 1 + 0.01 * files + octets / (50 * MB)


def remember(task: Task, count: int = 20) -> None:
    """So many runs between the endpoints of this task, all of an earlier one."""
    for number in range(1, count + 1):
        files, octets = number * 7 % 40 + 1, number * 13 % 30 * 20 * MB
        facts = SliceMeasurement(seconds_for(files, octets), files, octets, 0, 0.05, 4, 2, 20, True)
        measurements.learn(task.pk, None, facts)
    assert task.destination is not None
    Run.objects.filter(task=task).update(task=submit(task.owner, task.source, task.destination))


def ask(api: Api, source: str = "ep1", destination: str = "ep2", **query: Any) -> Answer:
    return api.get("/forecast", source_endpoint=source, destination_endpoint=destination, **query)


def test_without_any_history_a_rule_of_thumb_is_reported_as_such(api: Api, ep1: Endpoint, ep2: Endpoint) -> None:
    body = ask(api, files=10, bytes=100 * MB).body
    assert (body["DATA_TYPE"], body["files"], body["bytes"], body["runs"]) == ("forecast", 10, 100 * MB, 0)
    assert (body["source_endpoint_id"], body["destination_endpoint_id"]) == (str(ep1.pk), str(ep2.pk))
    assert body["basis"] == "from a rule of thumb: nothing has run here yet"
    assert body["seconds"]["low"] < body["seconds"]["expected"] < body["seconds"]["high"]


def test_what_has_run_between_two_endpoints_is_what_is_forecast(api: Api, task: Task) -> None:
    remember(task)
    body = ask(api, files=30, bytes=1000 * MB).body
    truth = seconds_for(30, 1000 * MB)
    assert body["seconds"]["expected"] == pytest.approx(truth, rel=0.05)
    assert body["seconds"]["low"] <= body["seconds"]["expected"] <= body["seconds"]["high"]
    assert body["bytes_per_second"]["expected"] == pytest.approx(1000 * MB / truth, rel=0.05)
    assert (body["basis"], body["runs"]) == ("from 20 runs between these endpoints", 20)


def test_the_way_back_is_another_way_but_better_than_nothing(api: Api, task: Task) -> None:
    remember(task)
    body = ask(api, "ep2", "ep1", files=30, bytes=1000 * MB).body
    assert (body["basis"], body["runs"]) == ("from 20 runs between other endpoints", 0)
    assert body["seconds"]["expected"] == pytest.approx(seconds_for(30, 1000 * MB), rel=0.05)
    assert body["seconds"]["high"] > 1.5 * body["seconds"]["expected"]


def test_one_file_is_meant_when_nobody_says_how_many(api: Api, ep1: Endpoint, ep2: Endpoint) -> None:
    assert ask(api, bytes=5).body["files"] == 1
    assert ask(api, bytes=0, files=0).body["bytes_per_second"] == {"low": 0, "expected": 0, "high": 0}
    assert ask(api, bytes=5, fields="seconds").body.keys() == {"DATA_TYPE", "seconds"}


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ({}, "bytes"), ({"bytes": ""}, "bytes"), ({"bytes": "1.5"}, "bytes"), ({"bytes": "-1"}, "bytes"),
        ({"bytes": "9" * 30}, "bytes"), ({"bytes": 1, "files": "many"}, "files"),
        ({"bytes": 1, "source": ""}, "source_endpoint"),
        ({"bytes": 1, "destination": ""}, "destination_endpoint"),
    ],
)  # fmt: skip
def test_a_question_that_is_not_understood_is_refused(
    api: Api, ep1: Endpoint, ep2: Endpoint, query: dict[str, Any], field: str
) -> None:
    answer = ask(api, **query)
    assert_error(answer, 400, "ClientError.BadRequest")
    assert answer.body["message"].startswith(field)


def test_both_ends_must_be_ones_that_the_user_may_use(
    bob: User, charlie: User, ep1: Endpoint, public: Endpoint
) -> None:
    """ep1 is alice's, public is bob's and everybody's."""
    mine = make_endpoint(charlie, "mine")
    for source, destination in (("alice#ep1", "mine"), ("mine", str(ep1.pk)), ("mine", "nothing")):
        assert_error(ask(Api(charlie), source, destination, bytes=1), 404, "EndpointNotFound")
    assert ask(Api(charlie), "bob#public", "mine", bytes=1).status == 200
    assert_error(ask(Api(bob), "public", str(mine.pk), bytes=1), 404, "EndpointNotFound")


# ---- while it runs


def started(task: Task, seconds: float, **counters: Any) -> None:
    """The task has run for so long, and has come so far; its scan is over unless something else is said."""
    take(task)
    begun = datetime.now(UTC) - timedelta(seconds=seconds)
    Event.objects.create(task=task, time=begun, code="STARTED", description="", details="")
    counters.setdefault("items_scanned", task.items_total)
    Task.objects.filter(pk=task.pk).update(**counters)


def left(api: Api, task: Task) -> dict[str, Any]:
    document = api.get(f"/task/{task.pk}").body
    return {name: value for name, value in document.items() if name.startswith("forecast_")}


NOTHING = dict.fromkeys(
    ("forecast_seconds_left", "forecast_bytes_per_second", "forecast_completion_time", "forecast_basis")
)


def test_a_running_task_reports_how_long_it_will_still_take(api: Api, task: Task) -> None:
    remember(task)
    truth = seconds_for(40, 2000 * MB) - 1
    started(task, 1 + truth / 2, files=40, files_transferred=20, bytes_total=2000 * MB, bytes_transferred=1000 * MB)
    found = left(api, task)
    expected = found["forecast_seconds_left"]["expected"]
    assert expected == pytest.approx(truth / 2, rel=0.1)
    assert found["forecast_bytes_per_second"]["expected"] == pytest.approx(1000 * MB / expected, rel=0.01)
    end = datetime.fromisoformat(found["forecast_completion_time"])
    assert abs((end - datetime.now(UTC)).total_seconds() - expected) < 5
    assert found["forecast_basis"] == "from 20 runs between these endpoints"


def test_a_task_that_is_slower_than_its_forerunners_is_believed(api: Api, task: Task) -> None:
    remember(task)
    started(task, 1000.0, files=40, files_transferred=20, bytes_total=2000 * MB, bytes_transferred=1000 * MB)
    assert left(api, task)["forecast_seconds_left"]["expected"] > 300


def test_earlier_slices_say_how_fast_a_task_is_and_its_pauses_do_not(api: Api, task: Task) -> None:
    remember(task)
    started(task, 30 * 86400, files=40, files_transferred=20, bytes_total=2000 * MB, bytes_transferred=1000 * MB)
    measurements.learn(
        task.pk, None, SliceMeasurement(seconds_for(20, 1000 * MB), 20, 1000 * MB, 0, 0.05, 4, 2, 20, False)
    )
    assert left(api, task)["forecast_seconds_left"]["expected"] < 60


def test_while_the_scan_goes_on_the_range_says_so(api: Api, task: Task) -> None:
    remember(task)
    started(task, 1.0, files=40, bytes_total=2000 * MB, items_scanned=0)
    found = left(api, task)
    assert found["forecast_basis"].endswith("; the scan goes on and may find more")
    assert found["forecast_seconds_left"]["high"] > 3 * found["forecast_seconds_left"]["expected"]


def test_before_anything_is_found_and_when_all_is_over_nothing_is_forecast(api: Api, alice: User, task: Task) -> None:
    assert left(api, task) == NOTHING
    started(task, 5.0, files=2, bytes_total=10)
    assert left(api, task)["forecast_basis"]
    Task.objects.filter(pk=task.pk).update(status="INACTIVE", phase="suspended")
    assert left(api, task) == NOTHING
    api.post(f"/task/{task.pk}/cancel")
    assert left(api, task) == NOTHING
    assert left(api, submit_delete(alice, task.source, "/old")) == NOTHING


def test_what_would_end_after_all_calendars_has_no_date(api: Api, task: Task) -> None:
    started(task, 5.0, files=10**15, bytes_total=2**63 - 1)
    found = left(api, task)
    assert found["forecast_seconds_left"]["expected"] > 10**9
    assert found["forecast_completion_time"] is None


def test_a_forecast_asks_the_database_little_and_a_list_nothing(
    api: Api, task: Task, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    remember(task, 6)
    started(task, 5.0, files=2, bytes_total=10)
    assert Item.objects.filter(task=task).count() == 1
    api.get("/submission_id")
    with django_assert_num_queries(6):  # the token, the task, its own runs, its begin, the pair's last run, all of them
        assert left(api, task)["forecast_seconds_left"]
    with django_assert_num_queries(5):
        left(api, task)
    with django_assert_num_queries(2):
        api.get(f"/task/{task.pk}", fields="status,files")
    with django_assert_num_queries(3):
        assert api.get("/task_list").body["DATA"][1]["forecast_seconds_left"] is None


def test_a_process_keeps_few_models(monkeypatch: pytest.MonkeyPatch, api: Api, alice: User) -> None:
    monkeypatch.setattr(forecasts, "MODELS_KEPT", 3)
    for number in range(5):
        make_endpoint(alice, f"more{number}")
        assert ask(api, f"more{number}", "more0", bytes=1).status == 200
    assert len(forecasts._models) == 3


def test_what_has_just_run_is_known_at_once(api: Api, task: Task) -> None:
    assert ask(api, bytes=1).body["runs"] == 0
    remember(task)
    assert ask(api, bytes=1).body["runs"] == 20


def test_what_has_run_elsewhere_is_known_after_a_while(api: Api, task: Task, monkeypatch: pytest.MonkeyPatch) -> None:
    assert ask(api, "ep2", "ep1", bytes=1).body["basis"].startswith("from a rule of thumb")
    remember(task)
    assert ask(api, "ep2", "ep1", bytes=1).body["basis"].startswith("from a rule of thumb")
    monkeypatch.setattr(
        forecasts, "_models", {pair: old._replace(expires=0) for pair, old in forecasts._models.items()}
    )
    assert ask(api, "ep2", "ep1", bytes=1).body["basis"] == "from 20 runs between other endpoints"
