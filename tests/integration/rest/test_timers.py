"""The routes of the Timers API: documents as the SDK and the command line read and write them."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from endpoints.models import Endpoint
from identity.models import User
from identity.provider import bearer, scopes
from identity.provider.bearer import Bearer
from tests.integration.cast import make_endpoint
from tests.integration.rest import Answer, Api, assert_error
from transferapi.rest.openapi import components
from transferapi.tasks.models import Task
from transferapi.timers import running, services
from transferapi.timers.models import Timer

pytestmark = pytest.mark.django_db

START = "2036-01-15T02:00:00+00:00"
ITEM = {"source_path": "/a", "destination_path": "/b"}
CALLBACK = "https://actions.automate.globus.org/transfer/transfer/run"


@pytest.fixture
def api(alice: User) -> Api:
    return Api(alice, root="")


@pytest.fixture
def body(ep1: Endpoint, ep2: Endpoint) -> dict[str, Any]:
    return {"source_endpoint": "ep1", "destination_endpoint": str(ep2.pk), "DATA": [ITEM]}


@pytest.fixture
def create(api: Api, body: dict[str, Any]) -> Callable[..., Answer]:
    """POST a timer with this schedule; other fields replace those of the timer."""

    def post(plan: Any, **more: Any) -> Answer:
        timer = {"timer_type": "transfer", "name": "nightly", "schedule": plan, "body": body, **more}
        return api.post("/v2/timer", {"timer": timer})

    return post


def recurring(**more: Any) -> dict[str, Any]:
    return {"type": "recurring", "interval_seconds": 86400, "start": START, **more}


# ---- documents


def test_a_timer_is_reported_in_the_words_of_both_versions(
    create: Callable[..., Answer], ep1: Endpoint, ep2: Endpoint, api: Api
) -> None:
    made = create(recurring(end={"condition": "iterations", "count": 3}))
    assert made.status == 201
    timer = made.body["timer"]
    assert timer == {
        "job_id": timer["job_id"], "name": "nightly", "timer_type": "transfer", "status": "new",
        "inactive_reason": None, "activity": {"code": "awaiting_next_run", "start_timestamp": None},
        "schedule": {
            "type": "recurring", "start": START, "interval_seconds": 86400,
            "end": {"condition": "iterations", "iterations": 3, "count": 3},
        },
        "submitted_at": timer["submitted_at"], "next_run": START, "last_ran_at": None, "number_of_runs": 0,
        "number_of_errors": 0, "last_task_id": None, "last_error": None,
        "body": {
            "DATA_TYPE": "transfer", "source_endpoint": str(ep1.pk), "destination_endpoint": str(ep2.pk),
            "label": None, "DATA": [{"DATA_TYPE": "transfer_item", **ITEM}],
        },
        "callback_url": CALLBACK, "callback_body": None, "scope": None, "start": START, "interval": 86400,
        "stop_after": {"date": None, "n_runs": 3}, "n_runs": 0, "n_errors": 0,
    }  # fmt: skip
    where = f"/jobs/{timer['job_id']}"
    assert api.get(where).body == timer
    assert api.get("/jobs/", order="submitted_at asc").body == {"jobs": [{**timer, "body": None}]}
    assert api.delete(where).body == timer
    assert_error(api.get(where), 404, "ClientError.NotFound")
    assert_error(api.get("/jobs/no-id"), 404, "ClientError.NotFound")


@pytest.mark.parametrize(
    ("plan", "told"),
    [
        ({"type": "once", "datetime": "2036-01-15 03:00:00+01:00"}, {"type": "once", "datetime": START}),
        (recurring(), recurring(end=None)),
        (recurring(end=None), recurring(end=None)),
        (
            recurring(end={"condition": "time", "datetime": "2036-02-01T00:00:00Z"}),
            recurring(end={"condition": "time", "datetime": "2036-02-01T00:00:00+00:00"}),
        ),
        (
            recurring(end={"condition": "iterations", "iterations": 7}),
            recurring(end={"condition": "iterations", "iterations": 7, "count": 7}),
        ),
        (recurring(end={"count": 2}), recurring(end={"condition": "iterations", "iterations": 2, "count": 2})),
    ],
)
def test_schedules_are_taken_as_their_clients_write_them(
    create: Callable[..., Answer], plan: dict[str, Any], told: dict[str, Any]
) -> None:
    timer = create(plan).body["timer"]
    assert timer["schedule"] == told
    assert timer["next_run"] == START


@pytest.mark.parametrize("plan", [{"type": "once"}, {"type": "recurring", "interval_seconds": 60}])
def test_what_says_no_time_begins_now(create: Callable[..., Answer], plan: dict[str, Any]) -> None:
    timer = create(plan, name=None, timer_type=None).body["timer"]
    begins = datetime.fromisoformat(timer["next_run"])
    assert abs(begins - datetime.now(UTC)) < timedelta(minutes=5)
    assert timer["name"] == ""


@pytest.mark.parametrize(
    "plan",
    [
        None, [], {}, {"type": "weekly"}, {"type": "once", "datetime": "tomorrow"}, {"type": "once", "datetime": 7},
        {"type": "once", "datetime": "9999-12-31"}, {"type": "recurring"}, recurring(interval_seconds=59),
        recurring(interval_seconds=0.5), recurring(interval_seconds=10**12), recurring(interval_seconds="86400"),
        recurring(end=[]), recurring(end={}), recurring(end={"condition": "time"}),
        recurring(end={"condition": "never"}),
        recurring(end={"condition": "iterations", "iterations": 0}), recurring(end={"iterations": 10**7}),
        recurring(end={"condition": "time", "datetime": "2020-01-01"}),
    ],
)  # fmt: skip
def test_a_schedule_that_makes_no_sense_is_refused(create: Callable[..., Answer], plan: Any) -> None:
    assert_error(create(plan), 400, "ClientError.BadRequest")


def test_what_could_never_be_submitted_is_refused_now(
    create: Callable[..., Answer], body: dict[str, Any], api: Api, ep1: Endpoint, bob: User
) -> None:
    make_endpoint(bob, "hidden")
    plan = {"type": "once"}
    assert_error(create(plan, body={**body, "source_endpoint": "bob#hidden"}), 404, "EndpointNotFound")
    assert_error(create(plan, body={**body, "DATA": []}), 400, "ClientError.BadRequest.NoTransferItems")
    wrong: dict[str, Any]
    for wrong in ({"sync_level": 9}, {"deadline": "2040-01-01"}, {"label": "a\nb"}, {"DATA": [{"source_path": "/a"}]}):
        assert_error(create(plan, body={**body, **wrong}), 400, "ClientError.BadRequest")
    for wrong in ({"body": None}, {"body": []}, {"name": 7}, {"name": "x" * 257}):
        assert_error(create(plan, **wrong), 400, "ClientError.BadRequest")
    assert_error(create(plan, timer_type="flow"), 400, "ClientError.BadRequest.NotSupported")
    assert_error(api.post("/v2/timer", {}), 400, "ClientError.BadRequest")
    assert_error(api.post("/v2/timer", {"timer": []}), 400, "ClientError.BadRequest")
    assert not Timer.objects.exists()


def test_limits_are_reported(create: Callable[..., Answer], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(services, "MAX_BODY", 200)
    assert_error(create({"type": "once"}), 400, "ClientError.BadRequest")
    monkeypatch.undo()
    monkeypatch.setattr(services, "MAX_TIMERS", 0)
    assert_error(create({"type": "once"}), 409, "ClientError.LimitExceeded")


# ---- what happens to one


def test_a_timer_reports_how_it_goes(create: Callable[..., Answer], api: Api, alice: User) -> None:
    timer_id = create({"type": "once"}).body["timer"]["job_id"]
    assert running.run_due(1) == 1
    told = api.get(f"/jobs/{timer_id}").body
    task = Task.objects.get()
    assert (told["status"], told["n_runs"], told["number_of_runs"], told["activity"]) == ("ended", 1, 1, None)
    assert told["last_task_id"] == str(task.pk)
    for what in ("pause", "resume"):
        assert_error(api.post(f"/jobs/{timer_id}/{what}"), 409, "TimerEnded")


def test_a_run_in_progress_is_reported(create: Callable[..., Answer], api: Api) -> None:
    timer_id = create({"type": "recurring", "interval_seconds": 3600}).body["timer"]["job_id"]
    running.run_due(1)
    told = api.get(f"/jobs/{timer_id}").body
    assert told["activity"] == {"code": "run_in_progress", "start_timestamp": told["last_ran_at"]}
    assert api.get("/jobs/").body["jobs"][0]["activity"]["code"] == "run_in_progress"


def test_a_refusal_is_reported(create: Callable[..., Answer], api: Api, ep1: Endpoint) -> None:
    timer_id = create({"type": "once"}).body["timer"]["job_id"]
    Endpoint.objects.filter(pk=ep1.pk).update(deleted_at=datetime.now(UTC))
    running.run_due(1)
    told = api.get(f"/jobs/{timer_id}").body
    assert (told["status"], told["n_errors"], told["last_task_id"]) == ("inactive", 1, None)
    assert told["inactive_reason"]["cause"] == "refused"
    assert told["inactive_reason"]["detail"] == told["last_error"]
    assert told["last_error"]["code"] == "EndpointNotFound"


def test_pause_and_resume(create: Callable[..., Answer], api: Api) -> None:
    timer_id = create(recurring()).body["timer"]["job_id"]
    paused = api.post(f"/jobs/{timer_id}/pause")
    assert paused.body == {"message": f"Successfully paused job {timer_id}."}
    told = api.get(f"/jobs/{timer_id}").body
    assert (told["status"], told["next_run"]) == ("inactive", None)
    assert told["inactive_reason"] == {"cause": "user", "detail": None}
    assert told["activity"]["code"] == "paused"
    resumed = api.post(f"/jobs/{timer_id}/resume", {"update_credentials": False})
    assert resumed.body == {"message": f"Successfully resumed job {timer_id}."}
    assert api.get(f"/jobs/{timer_id}").body["next_run"] == START


@pytest.mark.parametrize(
    ("asked", "changed"),
    [
        ({"name": "new"}, {"name": "new"}),
        ({"unheard_of": 1}, {}),
        ({"interval": 3600}, {"interval": 3600}),
        ({"interval": 7200.0}, {"interval": 7200}),
        ({"start": "2037-01-01"}, {"start": "2037-01-01T00:00:00+00:00"}),
        ({"stop_after_n": 9}, {"stop_after": {"date": None, "n_runs": 9}}),
        ({"stop_after": {"date": None, "n_runs": 8}}, {"stop_after": {"date": None, "n_runs": 8}}),
        ({"stop_after": "2038-01-01"}, {"stop_after": {"date": "2038-01-01T00:00:00+00:00", "n_runs": None}}),
        ({"schedule": {"type": "once", "datetime": "2037-01-01"}}, {"interval": None}),
    ],
)
def test_what_is_sent_changes(
    create: Callable[..., Answer], api: Api, asked: dict[str, Any], changed: dict[str, Any]
) -> None:
    before = create(recurring(end={"condition": "iterations", "iterations": 3})).body["timer"]
    after = api.call("PATCH", f"/jobs/{before['job_id']}", asked).body
    assert {name: after[name] for name in changed} == changed
    untouched = {"name", "start", "interval", "stop_after"} - set(changed)
    if "schedule" not in asked:
        assert {name: after[name] for name in untouched} == {name: before[name] for name in untouched}


@pytest.mark.parametrize(
    "asked", [{"interval": 1}, {"interval": 0.5}, {"interval": 1e300}, {"start": "x"}, {"name": []}]
)
def test_a_change_that_makes_no_sense_is_refused(
    create: Callable[..., Answer], api: Api, asked: dict[str, Any]
) -> None:
    timer_id = create(recurring()).body["timer"]["job_id"]
    assert_error(api.call("PATCH", f"/jobs/{timer_id}", asked), 400, "ClientError.BadRequest")


# ---- the older form


def test_a_timer_of_the_older_form(api: Api, ep1: Endpoint, ep2: Endpoint) -> None:
    inner = {
        "source_endpoint_id": str(ep1.pk), "destination_endpoint_id": "ep2", "transfer_items": [ITEM], "sync_level": 3,
        "label": "example",
    }  # fmt: skip
    asked = {
        "name": "example timer", "start": START, "interval": 864000, "callback_url": CALLBACK,
        "callback_body": {"body": inner}, "scope": None, "stop_after": None, "stop_after_n": 2,
    }  # fmt: skip
    made = api.post("/jobs/", asked)
    assert made.status == 201
    assert made.body["body"]["sync_level"] == 3
    assert made.body["body"]["source_endpoint"] == str(ep1.pk)
    assert (made.body["interval"], made.body["stop_after"]) == (864000, {"date": None, "n_runs": 2})
    once = api.post("/jobs/", {**asked, "interval": None, "stop_after_n": 1}).body
    assert once["schedule"] == {"type": "once", "datetime": START}
    assert_error(
        api.post("/jobs/", {**asked, "callback_url": "https://example.org/run"}),
        400,
        "ClientError.BadRequest.NotSupported",
    )
    for missing in ("callback_url", "callback_body"):
        assert_error(api.post("/jobs/", {**asked, missing: None}), 400, "ClientError.BadRequest")


# ---- beside the table of who may do what


def test_a_token_for_something_else_is_refused(api: Api, alice: User, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bearer, "authenticate", lambda token: Bearer(alice, scopes.covered(scopes.TRANSFER_ALL)))
    answer = api.get("/jobs/")
    assert answer.status == 403
    assert answer.body["required_scopes"] == [scopes.TIMERS_ALL]


def test_the_examples_that_are_shown_are_taken(api: Api, bob: User) -> None:
    go = User.objects.create(username="go")
    for name in ("ep1", "ep2"):
        make_endpoint(go, name, public=True)
    made = api.post("/v2/timer", components.REQUEST_EXAMPLES["timer"])
    assert made.status == 201
    assert api.post("/jobs/", components.REQUEST_EXAMPLES["timer_job"]).status == 201
    where = f"/jobs/{made.body['timer']['job_id']}"
    assert api.call("PATCH", where, components.REQUEST_EXAMPLES["timer_change"]).body["interval"] == 604800


def test_names_that_are_no_utf_8_come_back_as_they_went(create: Callable[..., Answer], body: dict[str, Any]) -> None:
    odd = {"source_path": "/a/\udcff", "destination_path": "/b"}
    made = create({"type": "once"}, body={**body, "DATA": [odd]})
    assert made.body["timer"]["body"]["DATA"] == [{"DATA_TYPE": "transfer_item", **odd}]
    assert json.dumps(made.body)
