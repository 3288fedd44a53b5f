"""The console: managers see and control tasks at their endpoints, staff manage users, and others see nothing."""

from __future__ import annotations

import re

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from endpoints import pause_rules
from endpoints.models import Endpoint
from endpoints.sharing import roles
from identity.models import User
from tests.integration.cast import later, make_endpoint, make_user, submit
from tests.integration.pages import PASSWORD, Browser
from transferapi.tasks import events
from transferapi.tasks.events import NewEvent
from transferapi.tasks.managers import managed_tasks
from transferapi.tasks.models import Task
from transferapi.tasks.states import Phase
from webui.console import task_list, users

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("passwords")]
EVIL = '<img src=x onerror="alert(1)">\u202egnp.exe'
FAILED = {"status": "FAILED", "phase": "done", "fatal_error_code": "EXPIRED", "fatal_error_description": "Late."}
PAGES = ("/console", "/console/rules", "/console/health")


def sign_in(user: User, *, staff: bool = False) -> Browser:
    user.set_password(PASSWORD)
    user.is_staff = staff
    user.save()
    browser = Browser()
    browser.sign_in(user)
    return browser


@pytest.fixture
def task(alice: User, ep1: Endpoint, public: Endpoint) -> Task:
    """alice's, to bob's endpoint."""
    made = submit(alice, ep1, public, ("/secret/run 1/", "/to/"))
    # A label of an earlier version: today a submission refuses it.
    Task.objects.filter(pk=made.pk).update(label=EVIL)
    made.refresh_from_db()
    return made


@pytest.fixture
def bobs(bob: User) -> Browser:
    """bob runs `public`."""
    return sign_in(bob)


# ---- who sees what


def test_a_manager_sees_tasks_of_others_and_a_stranger_sees_nothing(bobs: Browser, charlie: User, task: Task) -> None:
    assert task.destination
    pause_rules.create(task.destination.owner, str(task.destination_id), {"message": "Repairs."})
    his = sign_in(charlie)
    for path in PAGES:
        assert bobs.get(path).status_code == his.get(path).status_code == 200
        assert 'href="/console"' in bobs.page
        assert "public" in bobs.page
        for word in ("public", "alice", str(task.pk), "Repairs."):
            assert word not in his.page, (path, word)
    his.get("/activity")
    assert 'href="/console"' not in his.page


def test_nobody_sees_the_console_without_a_session(task: Task) -> None:
    for path in (*PAGES, "/console/users"):
        assert Browser().get(path).headers["Location"].startswith("/signin")


def test_names_of_users_and_tasks_are_text(bobs: Browser, task: Task) -> None:
    bobs.get("/console")
    assert "<img src=x" not in bobs.page
    assert "&lt;img src=x" in bobs.page
    assert "\u202e" not in bobs.page


def test_the_path_on_the_other_side_is_not_shown(bobs: Browser, task: Task) -> None:
    Task.objects.update(nice_status="PERMISSION_DENIED", nice_status_details="550 /secret/run 1: no", faults=2)
    for path in ("/console", "/console/health"):
        bobs.get(path)
        assert "PERMISSION_DENIED" in bobs.text
        assert "secret" not in bobs.text


# ---- the list


def test_the_list_filters_by_endpoint_user_and_state(bobs: Browser, bob: User, charlie: User, task: Task) -> None:
    other = make_endpoint(bob, "other", public=True)
    second = submit(charlie, other, make_endpoint(charlie, "charlies"))
    Task.objects.filter(pk=second.pk).update(completion_time=later(0), **FAILED)
    assert task.destination
    here, there = task.destination_id, other.pk
    for query, found in {
        "": {task.pk},
        "?user=alice": {task.pk},
        "?user=charlie": set(),
        f"?endpoint={here}": {task.pk},
        f"?endpoint={there}": set(),
        f"?endpoint={there}&state=failed": {second.pk},
        f"?endpoint={there}&state=all&user=alice": set(),
        "?state=active": {task.pk},
        "?state=paused": set(),
        "?state=waiting": set(),
        "?state=nonsense&after=nonsense": {task.pk},
    }.items():
        assert bobs.get(f"/console{query}").status_code == 200, query
        assert set(re.findall(r'name="task" value="([^"]+)"', bobs.page)) == {str(pk) for pk in found}, query


@pytest.mark.parametrize(
    ("query", "status"),
    [("user=nobody", 400), ("endpoint=nowhere", 404), ("state=failed", 400), ("user=%00", 400), ("endpoint=%00", 404)],
)
def test_a_filter_that_makes_no_sense_is_refused_with_the_reason(
    bobs: Browser, task: Task, query: str, status: int
) -> None:
    assert bobs.get(f"/console?{query}").status_code == status
    assert 'role="alert"' in bobs.page
    assert str(task.pk) not in bobs.page


def test_an_endpoint_of_another_manager_is_refused(task: Task, charlie: User) -> None:
    browser = sign_in(charlie)
    assert browser.get(f"/console?endpoint={task.destination_id}").status_code == 403
    assert str(task.pk) not in browser.page


def test_pages_lead_from_one_to_the_next(
    bobs: Browser, alice: User, ep1: Endpoint, public: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(task_list, "ROWS", 2)
    wanted = {str(submit(alice, ep1, public).pk) for _ in range(3)}
    bobs.get("/console?user=alice")
    first = set(re.findall(r'name="task" value="([^"]+)"', bobs.page))
    found = re.search(r'href="(/console\?[^"]+)" rel="next"', bobs.page)
    assert found
    assert "user=alice" in found[1]
    bobs.get(found[1].replace("&amp;", "&"))
    second = set(re.findall(r'name="task" value="([^"]+)"', bobs.page))
    assert (len(first), len(second), first | second) == (2, 1, wanted)
    assert "First page" in bobs.text


# ---- actions


def test_a_manager_pauses_resumes_and_cancels_with_a_message(bobs: Browser, task: Task) -> None:
    bobs.get("/console?user=alice")
    answer = bobs.post("/console/tasks?user=alice", task=str(task.pk), action="pause", message="The disk is full.")
    assert answer.headers["Location"] == "/console?user=alice"
    task.refresh_from_db()
    assert (task.phase, list(task.admin_pauses.values())) == (Phase.PAUSED, ["The disk is full."])
    bobs.get("/console?state=paused")
    assert "1 task is paused." in bobs.text
    assert "The disk is full." in bobs.text
    bobs.post("/console/tasks", task=str(task.pk), action="resume")
    task.refresh_from_db()
    assert task.phase == Phase.QUEUED
    bobs.get("/console")
    bobs.post("/console/tasks", task=str(task.pk), action="cancel", message="Enough.")
    task.refresh_from_db()
    assert (task.phase, task.fatal_error_code) == (Phase.DONE, "CANCELED")


@pytest.mark.parametrize(
    ("fields", "status"),
    [
        ({"action": "pause"}, 400),
        ({"action": "pause", "task": "x"}, 400),
        ({"action": "explode", "task": "{task}"}, 400),
        ({"action": "pause", "task": "{task}", "message": "x" * 2001}, 400),
        ({"action": "cancel", "task": "00000000-0000-0000-0000-000000000000"}, 404),
    ],
)
def test_a_wrong_form_changes_nothing_and_shows_the_reason(
    bobs: Browser, task: Task, fields: dict[str, str], status: int
) -> None:
    bobs.get("/console")
    fields = {name: value.replace("{task}", str(task.pk)) for name, value in fields.items()}
    assert bobs.post("/console/tasks", **fields).status_code == status
    assert 'role="alert"' in bobs.page
    task.refresh_from_db()
    assert (task.phase, task.admin_pauses) == (Phase.QUEUED, {})


@pytest.mark.parametrize("action", ["pause", "resume", "cancel"])
def test_a_stranger_and_a_monitor_control_nothing(task: Task, charlie: User, action: str) -> None:
    browser = sign_in(charlie)
    browser.get("/console")
    assert browser.post("/console/tasks", task=str(task.pk), action=action).status_code == 404
    assert task.destination
    roles.create(task.destination.owner, str(task.destination_id), "identity", str(charlie.pk), "activity_monitor")
    browser.get("/console")
    assert str(task.pk) in browser.page
    assert browser.post("/console/tasks", task=str(task.pk), action=action).status_code == 403
    task.refresh_from_db()
    assert (task.phase, task.admin_pauses) == (Phase.QUEUED, {})


# ---- one task


def test_the_page_of_a_task_shows_a_manager_its_events_without_paths_of_the_other_side(
    bobs: Browser, charlie: User, task: Task
) -> None:
    fault = NewEvent("PERMISSION_DENIED", "550 /secret/run 1: no", "/secret/run 1", is_error=True)
    events.append(task.pk, [fault], later(0))
    bobs.get("/console")
    bobs.post("/console/tasks", task=str(task.pk), action="pause", message=EVIL)
    here = f"/console/tasks/{task.pk}"
    for path in (here, f"{here}?events=errors"):
        assert bobs.get(path).status_code == 200
        assert "PERMISSION_DENIED Permission denied." in bobs.text
        assert "Paused by a manager of an endpoint." in bobs.text
        assert "secret" not in bobs.text
        assert "<img src=x" not in bobs.page
    assert sign_in(charlie).get(here).status_code == 404
    assert bobs.get("/console/tasks/00000000-0000-0000-0000-000000000000").status_code == 404


# ---- rules and health


def test_pause_rules_of_all_endpoints_lead_to_their_endpoints(bobs: Browser, bob: User, charlie: User) -> None:
    for number in range(2):
        place = make_endpoint(bob, f"place{number}")
        fields = {"message": f"{EVIL}{number}", "identity_id": charlie.pk if number else None}
        pause_rules.create(bob, str(place.pk), fields)
        assert bobs.get("/console/rules").status_code == 200
        assert f'href="/endpoints/{place.pk}#pauses"' in bobs.page
    assert "All users" in bobs.text
    assert "charlie" in bobs.text
    assert "<img src=x" not in bobs.page


def test_health_counts_tasks_by_endpoint_in_few_queries(
    bobs: Browser, bob: User, alice: User, ep1: Endpoint, public: Endpoint
) -> None:
    tasks = [submit(alice, ep1, public) for _ in range(4)]
    submit(bob, public, public, ("/a", "/b"))
    Task.objects.filter(pk=tasks[0].pk).update(completion_time=later(0), **FAILED)
    Task.objects.filter(pk=tasks[1].pk).update(status="INACTIVE", phase="suspended")
    bobs.get("/console")
    bobs.post("/console/tasks", task=str(tasks[2].pk), action="pause")
    with CaptureQueriesContext(connection) as few:
        bobs.get("/console/health")
    states = {"active": 2, "paused": 1, "waiting": 1}
    for state, number in states.items():
        assert f'href="/console?endpoint={public.pk}&amp;state={state}">{number}</a>' in bobs.page
    for number in range(5):
        make_endpoint(bob, f"more{number}")
    with CaptureQueriesContext(connection) as more:
        bobs.get("/console/health")
    assert "more4" in bobs.text
    assert len(more) == len(few)


def test_a_list_and_counts_that_take_too_long_are_refused(
    bobs: Browser, task: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(managed_tasks, "_PAGE", f"SELECT pg_sleep(5), place.* FROM ({managed_tasks._PAGE}) AS place")
    monkeypatch.setattr(managed_tasks, "STATEMENT_TIMEOUT", 50)
    assert bobs.get("/console").status_code == 400
    assert "takes too long" in bobs.text


# ---- users


def test_staff_find_deactivate_and_reactivate_users(alice: User, bob: User, bobs: Browser) -> None:
    User.objects.filter(pk=bob.pk).update(first_name=EVIL, email="bob@lab.example.org")
    hers = sign_in(alice, staff=True)
    hers.get("/console/users?q=LAB.example")
    assert "bob" in hers.text
    assert "<img src=x" not in hers.page
    assert f"/console/users/{alice.pk}" not in hers.page
    answer = hers.post(f"/console/users/{bob.pk}/deactivate?q=bob")
    assert answer.headers["Location"] == "/console/users?q=bob"
    assert bobs.get("/console").headers["Location"].startswith("/signin")
    hers.get("/console/users?active=yes&q=bob")
    assert "No user matches" in hers.text
    hers.get("/console/users?active=no")
    hers.post(f"/console/users/{bob.pk}/activate")
    # The old session has ended.
    assert bobs.get("/console").headers["Location"].startswith("/signin")
    bobs.sign_in(bob)
    assert bobs.get("/console").status_code == 200


def test_staff_do_not_deactivate_themselves_or_users_who_are_not_there(alice: User) -> None:
    hers = sign_in(alice, staff=True)
    hers.get("/console/users")
    assert hers.post(f"/console/users/{alice.pk}/deactivate").status_code == 409
    assert 'role="alert"' in hers.page
    alice.refresh_from_db()
    assert alice.is_active
    assert hers.post("/console/users/00000000-0000-0000-0000-000000000000/deactivate").status_code == 404


def test_a_manager_who_is_not_staff_sees_and_changes_no_user(bobs: Browser, alice: User, public: Endpoint) -> None:
    bobs.get("/console")
    assert "/console/users" not in bobs.page
    assert bobs.post(f"/console/users/{alice.pk}/deactivate").status_code == 403
    assert bobs.get("/console/users").status_code == 403
    assert "alice" not in bobs.page
    alice.refresh_from_db()
    assert alice.is_active


def test_the_list_of_users_has_pages(alice: User, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(users, "ROWS", 2)
    for number in range(3):
        make_user(f"user{number}")
    hers = sign_in(alice, staff=True)
    hers.get("/console/users?q=user")
    assert "user2" not in hers.text
    assert 'href="/console/users?q=user&amp;page=2"' in hers.page
    hers.get("/console/users?q=user&page=2")
    assert "user2" in hers.text
    assert "Next page" not in hers.text
