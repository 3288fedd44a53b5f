"""Activity: the list with its filters, the page of a task, its actions, and the downloads of its errors."""

from __future__ import annotations

import csv
import io
import json
import re
import uuid
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import urlencode

import pytest

from endpoints.models import Endpoint
from identity.gsi.printable import inert
from identity.models import User
from tests.integration.cast import later, submit, submit_delete, take
from tests.integration.pages import PASSWORD, Browser
from transferapi.tasks import events, moves, queries
from transferapi.tasks.display_state import CONDITIONS, DisplayState, display_state
from transferapi.tasks.events import NewEvent
from transferapi.tasks.models import File, Item, Task
from transferapi.tasks.queries import TaskFilter
from transferapi.tasks.states import FileState
from webui.activity import same_request, task_list, task_page

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("alice", "passwords")]
EVIL = '<img src=x onerror="alert(1)">\u202egnp.exe'


@pytest.fixture
def browser(alice: User) -> Browser:
    found = Browser()
    found.sign_in(alice)
    return found


@pytest.fixture
def task(alice: User, ep1: Endpoint, ep2: Endpoint) -> Task:
    return submit(alice, ep1, ep2, ("/from/run 1/", "/to/"), label="Run 1", options={"verify_checksum": True})


def add_file(task: Task, name: str, state: FileState = FileState.PENDING, code: str | None = None, **more: Any) -> File:
    settled = None if state is FileState.PENDING else datetime.now(UTC)
    return File.objects.create(
        task=task,
        item=Item.objects.filter(task=task)[0],
        source_path=f"/from/{name}",
        destination_path=f"/to/{name}",
        key=uuid.uuid4().bytes,
        state=state,
        error_code=code,
        error_details=more.pop("details", "550 no") if code else None,
        error_time=datetime.now(UTC) if code else None,
        settled_at=settled,
        **more,
    )


def ended(task: Task, status: str = "FAILED", **more: Any) -> None:
    more = {"fatal_error_code": "PERMISSION_DENIED", "fatal_error_description": "1 file failed.", **more}
    if status == "SUCCEEDED":
        more |= {"fatal_error_code": None, "fatal_error_description": None}
    Task.objects.filter(pk=task.pk).update(status=status, phase="done", completion_time=later(5), **more)


# ---- the list


def test_a_list_without_tasks_says_how_to_begin(browser: Browser) -> None:
    assert browser.get("/activity").status_code == 200
    assert "No tasks yet" in browser.text
    browser.get("/activity?q=nothing")
    assert "No task matches" in browser.text
    assert 'href="/activity"' in browser.page


def test_the_list_shows_each_task_with_its_state_as_a_word(browser: Browser, task: Task, alice: User) -> None:
    moves.cancel(alice, submit_delete(alice, task.source, label="old things").pk)
    browser.get("/activity")
    for words in ("Run 1", "Queued", "old things", "Canceled", "alice#ep1", "alice#ep2"):
        assert words in browser.text, words
    assert browser.page.count("data-task=") == 2


def test_each_task_is_in_exactly_the_state_that_the_filter_of_that_state_finds(
    alice: User, ep1: Endpoint, ep2: Endpoint
) -> None:
    changes: list[dict[str, Any]] = [
        {},
        {"phase": "running"},
        {"files": 1},
        {"status": "INACTIVE", "phase": "suspended"},
        {"phase": "paused", "paused_at": later(0), "deadline_before_pause": later(9)},
        {"status": "SUCCEEDED", "phase": "done", "completion_time": later(0)},
        {"status": "SUCCEEDED", "phase": "done", "completion_time": later(0), "skipped_errors": 1},
        {"status": "FAILED", "phase": "done", "completion_time": later(0), "fatal_error_code": "EXPIRED"},
        {"status": "FAILED", "phase": "done", "completion_time": later(0), "fatal_error_code": "CANCELED"},
    ]
    for change in changes:
        Task.objects.filter(pk=submit(alice, ep1, ep2).pk).update(**change)
    for state in DisplayState:
        found = queries.list_tasks(alice, TaskFilter(states=[state]), limit=100).rows
        assert found, state
        assert {display_state(row) for row in found} == {state}
        assert queries.state_counts(alice, TaskFilter())[state] == len(found)
    assert sum(Task.objects.filter(CONDITIONS[state]).count() for state in DisplayState) == len(changes)


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("", {"Run 1", "second"}),
        ("q=run", {"Run 1"}),
        ("q=%25", set()),
        ("q=*", {"Run 1", "second"}),
        ("state=canceled", {"second"}),
        ("state=canceled&state=queued", {"Run 1", "second"}),
        ("state=nonsense&page=99999999999&sort=secret&from=1-1-1&endpoint=x", {"Run 1", "second"}),
        ("from=2199-01-01", set()),
        ("to=2000-01-01", set()),
        ("from=2000-01-01&to=2199-01-01", {"Run 1", "second"}),
    ],
)
def test_filters_are_in_the_address_and_nonsense_is_left_out(
    browser: Browser, task: Task, alice: User, query: str, found: set[str]
) -> None:
    moves.cancel(alice, submit(alice, task.source, task.source, ("/a", "/b"), label="second").pk)
    assert browser.get(f"/activity?{query}").status_code == 200
    assert set(re.findall(r">(Run 1|second)</bdi></a>", browser.page)) == found


def test_a_task_is_found_by_its_id_and_by_its_endpoint(browser: Browser, task: Task, public: Endpoint) -> None:
    browser.get(f"/activity?q={task.pk}")
    assert browser.page.count("data-task=") == 1
    browser.get(f"/activity?endpoint={task.source_id}")
    assert browser.page.count("data-task=") == 1
    browser.get(f"/activity?endpoint={public.pk}")
    assert browser.page.count("data-task=") == 0


@pytest.mark.parametrize(
    ("text", "found"),
    [("RUN 1", True), ("m/run", True), ("to/", True), ("ALICE#EP2", True), ("ep3", False), ("m?run", True),
     ("\\", False), ("%", False), ("café", True), ("\0", False)],
)  # fmt: skip
def test_a_task_is_found_by_a_part_of_its_name_its_folders_or_its_endpoints(
    browser: Browser, alice: User, ep1: Endpoint, ep2: Endpoint, text: str, found: bool
) -> None:
    made = submit(alice, ep1, ep2, ("/from/run 1/café", "/to/café"))
    browser.get(f"/activity?{urlencode({'q': text})}")
    assert (f'data-task="{made.pk}"' in browser.page) == found


def test_a_row_has_the_folders_and_why_a_task_has_failed(browser: Browser, task: Task) -> None:
    ended(task)
    browser.get("/activity")
    row = browser.page[browser.page.index("<tbody>") :]
    for words in ("/from/", "Permission denied."):
        assert words in row, words
    assert 'class="trouble"' in row


def test_a_long_list_has_pages(
    browser: Browser, alice: User, ep1: Endpoint, ep2: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(task_list, "ROWS", 2)
    names = [submit(alice, ep1, ep2, label=f"task {number}").label for number in range(5)]
    seen, address = [], "/activity?sort=label"
    while address:
        browser.get(address)
        seen += re.findall(r">(task \d)</bdi></a>", browser.page)
        following = re.search(r'href="([^"]+)" rel="next"', browser.page)
        address = "/activity" + following[1].replace("&amp;", "&") if following else ""
    assert seen == names
    assert "Page 3 of 3, 5 in all" in browser.text


def test_others_see_nothing_of_it(task: Task, bob: User) -> None:
    browser = Browser()
    assert browser.get(f"/activity/{task.pk}").headers["Location"].startswith("/signin?next=%2Factivity")
    bob.set_password(PASSWORD)
    bob.save()
    browser.sign_in(bob)
    browser.get("/activity")
    assert "No tasks yet" in browser.text
    for path in ("", "/errors.csv", "/errors.json"):
        assert browser.get(f"/activity/{task.pk}{path}").status_code == 404
    browser.get("/account")
    for action in ("cancel", "rename", "extend", "again", "retry", "remove"):
        answer = browser.post(f"/activity/{task.pk}/{action}", label="x", days="1", submission_id=str(uuid.uuid4()))
        assert answer.status_code == 404, action
    task.refresh_from_db()
    assert (task.label, task.phase, Task.objects.count()) == ("Run 1", "queued", 1)


# ---- the page of a task


def test_the_page_says_what_happens_and_never_a_hundred_percent_before_the_end(browser: Browser, task: Task) -> None:
    Task.objects.filter(pk=task.pk).update(
        files=4,
        bytes_total=1000,
        bytes_transferred=1000,
        files_transferred=3,
        items_scanned=1,
        last_progress_at=later(2),
    )
    browser.get("/activity")
    assert 'value="99"' in browser.page
    browser.get(f"/activity/{task.pk}")
    for words in (
        "Scanning",
        "Transferring",
        "Verifying",
        "3 of 4 files",
        "alice#ep1",
        "Verify what arrives",
    ):
        assert words in browser.text, words
    assert re.search(r'data-phase="verify".*?value="75"', browser.page, re.DOTALL)


def test_while_the_scan_runs_no_percentage_is_shown(browser: Browser, task: Task) -> None:
    Task.objects.filter(pk=task.pk).update(files=12, bytes_total=5000, items_scanned=0, items_total=1)
    browser.get("/activity")
    assert "12 files found so far" in browser.text
    assert re.search(r'<progress class="thin" data-field="percent" data-total="5000" max="100" aria', browser.page)


def test_errors_are_grouped_by_cause_with_what_happens_next(browser: Browser, task: Task) -> None:
    for number in range(25):
        add_file(task, f"secret {number}", code="PERMISSION_DENIED", next_try_at=later(60))
    add_file(task, EVIL, FileState.SKIPPED, "FILE_NOT_FOUND", details=EVIL)
    Task.objects.filter(pk=task.pk).update(files=26)
    browser.get(f"/activity/{task.pk}")
    for words in (
        "Permission denied on 25 files",
        "They are tried again, until the deadline.",
        "Ask the owner of the endpoint for access",
        "and 5 more files",
        "File not found on 1 file",
        "They were passed over",
        "550 no",
    ):
        assert words in browser.text, words
    assert "<img src=x" not in browser.page
    assert "\u202e" not in browser.page


def test_each_part_of_the_page_has_what_belongs_to_it(browser: Browser, task: Task) -> None:
    add_file(task, "arrived.dat", FileState.DONE, size=2048)
    add_file(task, "lost.dat", FileState.FAILED, "PERMISSION_DENIED")
    own = {
        "": ("Mean rate", "Permission denied on 1 file"),
        "?part=files": ("Files that have arrived", "/from/run 1/", "/to/arrived.dat", "2.0 KiB", "/from/lost.dat"),
        "?part=log": ("The task was accepted, with 1 item(s).",),
        "?part=scripts": ("Each of these makes the same request", "globus transfer"),
    }
    for part, words in own.items():
        browser.get(f"/activity/{task.pk}{part}")
        assert browser.page.count('aria-current="page"') >= 1
        assert f'href="/activity/{task.pk}{part}" aria-current="page"' in browser.page
        assert "Run 1" in browser.text
        for text in words:
            assert text in browser.text, (part, text)
        assert [other for other, theirs in own.items() if theirs[0] in browser.text] == [part]


def test_a_part_that_is_none_is_the_overview_and_old_addresses_of_the_log_lead_to_it(
    browser: Browser, task: Task
) -> None:
    browser.get(f"/activity/{task.pk}?part=nonsense&marker=x")
    assert "Progress" in browser.text
    browser.get(f"/activity/{task.pk}?events=errors")
    assert f'href="/activity/{task.pk}?part=log" aria-current="page"' in browser.page
    browser.get(f"/activity/{task.pk}?part=files&marker=99999999999999999999")
    assert "/from/run 1/" in browser.text


def test_files_that_have_arrived_have_pages(browser: Browser, task: Task, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(task_page, "FILES", 2)
    for number in range(3):
        add_file(task, f"n{number}", FileState.DONE, size=1)
    browser.get(f"/activity/{task.pk}?part=files")
    found = re.search(r'href="\?part=files&amp;marker=(\d+)"', browser.page)
    assert "/to/n1" in browser.text
    assert "/to/n2" not in browser.text
    assert found
    browser.get(f"/activity/{task.pk}?part=files&marker={found[1]}")
    assert "/to/n2" in browser.text
    assert "/to/n1" not in browser.text


def test_the_plan_is_shown_with_its_reason_and_what_is_no_plan_is_not(browser: Browser, task: Task) -> None:
    plan = {"concurrency": 2, "parallelism": 4, "pipelining": 10, "reason": "an ordinary <chunk>"}
    for details in (plan, {"concurrency": "x"}, "nonsense", [1]):
        events.append(task.pk, [NewEvent("PROGRESS", "The plan has changed.", details)], datetime.now(UTC))
    browser.get(f"/activity/{task.pk}")
    assert "concurrency 2, parallelism 4, pipelining 10" in browser.text
    assert "an ordinary &lt;chunk&gt;" in browser.page
    assert browser.page.count("parallelism 4") == 1


def test_the_rate_is_drawn_from_the_arrivals_of_the_files(browser: Browser, task: Task) -> None:
    for number in range(5):
        add_file(task, str(number), FileState.DONE, size=10_000)
    Task.objects.filter(pk=task.pk).update(files_transferred=5, files=5, request_time=later(-10))
    browser.get(f"/activity/{task.pk}")
    assert '<svg class="plot"' in browser.page


def test_the_names_of_a_task_cannot_change_the_page(
    browser: Browser, alice: User, ep1: Endpoint, ep2: Endpoint
) -> None:
    task = submit(
        alice, ep1, ep2, ("/from/<b>x</b>", "/to/'; rm -rf $HOME; '"), label="</title><script>alert(1)</script>"
    )
    for path in ("/activity", f"/activity/{task.pk}"):
        browser.get(path)
        assert "<script>alert" not in browser.page
        assert "<b>x" not in browser.page


def test_a_task_with_a_name_that_is_no_text_has_its_page_and_the_requests_that_can_hold_it(
    browser: Browser, alice: User, ep1: Endpoint, ep2: Endpoint
) -> None:
    task = submit(alice, ep1, ep2, ("/from/caf\udce9", "/to/caf\udce9"))
    assert browser.get(f"/activity/{task.pk}").status_code == 200
    assert "caf \\xe9" in browser.text
    found = {command.key: command.text for command in same_request.commands(task, list(Item.objects.all()))}
    assert set(found) == {"curl", "python", "shell"}
    assert r"caf\udce9" in found["curl"]
    assert "caf%E9" in found["shell"]


# ---- actions


def test_a_task_is_renamed_extended_and_canceled_without_scripts(browser: Browser, task: Task) -> None:
    browser.get(f"/activity/{task.pk}")
    assert browser.post(f"/activity/{task.pk}/rename", label=" Run 2 ").status_code == 302
    browser.get(f"/activity/{task.pk}")
    assert "The task has another name." in browser.text
    assert browser.post(f"/activity/{task.pk}/extend", days="3").status_code == 302
    before, label = task.deadline, task.label
    task.refresh_from_db()
    assert abs(task.deadline - before - timedelta(days=3)) < timedelta(minutes=1)
    assert (label, task.label) == ("Run 1", "Run 2")
    browser.get(f"/activity/{task.pk}")
    assert browser.post(f"/activity/{task.pk}/cancel").status_code == 302
    browser.get(f"/activity/{task.pk}")
    assert "The task is canceled." in browser.text
    assert "What had arrived stays" in browser.text


@pytest.mark.parametrize(
    ("action", "fields"),
    [
        ("rename", {"label": "x" * 129}),
        ("extend", {"days": "4000"}),
        ("extend", {}),
        ("retry", {"submission_id": str(uuid.uuid4())}),
        ("again", {"submission_id": str(uuid.uuid4())}),
        ("remove", {}),
    ],
)
def test_what_cannot_be_done_is_refused_on_the_page_in_words(
    browser: Browser, task: Task, action: str, fields: dict[str, str]
) -> None:
    browser.get(f"/activity/{task.pk}")
    assert browser.post(f"/activity/{task.pk}/{action}", **fields).status_code == 409
    assert 'role="alert"' in browser.page
    assert Task.objects.count() == 1


def test_failed_files_are_sent_again_once_however_often_the_button_is_pressed(browser: Browser, task: Task) -> None:
    add_file(task, "lost", FileState.FAILED, "PERMISSION_DENIED")
    add_file(task, "moved", FileState.DONE)
    ended(task, files=2, files_failed=1, files_transferred=1, items_scanned=1)
    browser.get(f"/activity/{task.pk}")
    assert "Nothing: no repetition could help." in browser.text
    [submission_id] = set(re.findall(r'name="submission_id" value="([^"]+)"', browser.page))
    first = browser.post(f"/activity/{task.pk}/retry", submission_id=submission_id)
    second = browser.post(f"/activity/{task.pk}/retry", submission_id=submission_id)
    assert first.headers["Location"] == second.headers["Location"]
    new = Task.objects.exclude(pk=task.pk).get()
    assert first.headers["Location"] == f"/activity/{new.pk}"
    assert [(row.source_path, row.destination_path) for row in Item.objects.filter(task=new)] == [
        ("/from/lost", "/to/lost")
    ]
    assert new.options["verify_checksum"] is True


def filled(browser: Browser) -> dict[str, str]:
    """The fields of the form to run a task again, as the page has filled them."""
    form = re.search(r'<form method="post" action="/activity/[^"]+/again".*?</form>', browser.page, re.DOTALL)
    assert form is not None
    fields = dict(
        re.findall(r'<input[^>]* name="(submission_id|label|bandwidth_limit)"[^>]*? value="([^"]*)"', form[0])
    )
    fields |= dict.fromkeys(re.findall(r'<input type="checkbox" name="(\w+)"[^>]* checked', form[0]), "on")
    for name, inside in re.findall(r'<select[^>]* name="(\w+)">(.*?)</select>', form[0], re.DOTALL):
        chosen = re.search(r'value="([^"]*)" selected', inside)
        fields[name] = chosen[1] if chosen else re.findall(r'value="([^"]*)"', inside)[0]
    return fields


def test_run_again_opens_the_filled_form_and_takes_changes(
    browser: Browser, alice: User, ep1: Endpoint, ep2: Endpoint
) -> None:
    asked = {"sync_level": 2, "encrypt_data": True, "recursive_symlinks": "copy", "verify_checksum": False,
             "bandwidth_limit": 1_500_000, "priority": "background"}  # fmt: skip
    old = submit(alice, ep1, ep2, ("/from/data/", "/to/other/"), label="Weekly", options=asked)
    ended(old, "SUCCEEDED")
    browser.get(f"/activity/{old.pk}/again")
    assert Task.objects.count() == 1, "nothing is submitted before the form is sent"
    for words in ("/from/data/", "/to/other/", "Symbolic links in folders"):
        assert words in browser.text, words
    fields = filled(browser)
    assert (fields["label"], fields["sync_level"], fields["encrypt_data"]) == ("Weekly", "2", "on")
    assert (fields["bandwidth_limit"], fields["priority"]) == ("1.5", "background")
    assert "verify_checksum" not in fields

    browser.post(f"/activity/{old.pk}/again", **fields)
    same = Task.objects.exclude(pk=old.pk).get()
    assert (same.label, same.options) == (old.label, old.options)

    browser.get(f"/activity/{old.pk}/again")
    fields = {**filled(browser), "label": "Changed", "sync_level": "", "deadline_days": "7", "verify_checksum": "on"}
    fields |= {"bandwidth_limit": "", "priority": "normal"}
    browser.post(f"/activity/{old.pk}/again", **fields)
    new = Task.objects.exclude(pk__in=[old.pk, same.pk]).get()
    assert (new.label, new.options["sync_level"], new.options["verify_checksum"]) == ("Changed", None, True)
    assert new.options["recursive_symlinks"] == "copy"
    assert (new.options["bandwidth_limit"], new.options["priority"]) == (None, "normal")
    assert new.deadline_is_fixed


def test_a_mirror_runs_again_only_with_its_word(browser: Browser, alice: User, ep1: Endpoint, ep2: Endpoint) -> None:
    mirror = {"delete_destination_extra": True}
    old = submit(alice, ep1, ep2, ("/from/data/", "/to/data/"), options=mirror)
    ended(old, "SUCCEEDED")
    browser.get(f"/activity/{old.pk}/again")
    fields = filled(browser)
    assert browser.post(f"/activity/{old.pk}/again", **fields).status_code == 409
    assert "to confirm" in browser.text
    assert Task.objects.count() == 1
    assert filled(browser) == fields, "the form keeps what was chosen, and its id"
    assert browser.post(f"/activity/{old.pk}/again", **fields, typed="delete").status_code == 302
    assert Task.objects.exclude(pk=old.pk).get().options == old.options


def test_a_deletion_runs_again_after_its_form(browser: Browser, alice: User, ep1: Endpoint) -> None:
    old = submit_delete(alice, ep1, label="old things")
    ended(old, "SUCCEEDED")
    browser.get(f"/activity/{old.pk}/again")
    browser.post(f"/activity/{old.pk}/again", **filled(browser))
    new = Task.objects.exclude(pk=old.pk).get()
    assert (new.type, new.label, new.options) == ("DELETE", "old things", old.options)


def test_a_task_that_is_done_runs_again_and_leaves_the_list(browser: Browser, task: Task) -> None:
    ended(task, "SUCCEEDED")
    browser.get(f"/activity/{task.pk}")
    assert "Run again" in browser.text
    browser.get(f"/activity/{task.pk}/again")
    browser.post(f"/activity/{task.pk}/again", **filled(browser))
    new = Task.objects.exclude(pk=task.pk).get()
    assert (new.label, new.options, new.items_total) == (task.label, task.options, 1)
    assert browser.post(f"/activity/{task.pk}/remove").headers["Location"] == "/activity"
    assert browser.get(f"/activity/{task.pk}").status_code == 404


# ---- downloads


def test_errors_are_downloaded_as_csv_and_json_whatever_their_names_are(browser: Browser, task: Task) -> None:
    add_file(task, EVIL, FileState.FAILED, "PERMISSION_DENIED", details='=HYPERLINK("http://evil.example")')
    add_file(task, "again", code="TIMEOUT", next_try_at=later(5))
    answer: Any = browser.client.get(f"/activity/{task.pk}/errors.csv")
    assert answer.headers["Content-Disposition"] == f'attachment; filename="errors-{task.pk}.csv"'
    rows = list(csv.DictReader(io.StringIO(b"".join(answer.streaming_content).decode())))
    assert [row["outcome"] for row in rows] == ["failed", "retried"]
    assert rows[0]["source_path"] == f"/from/{inert(EVIL)}"
    assert "\\u202e" in rows[0]["source_path"]
    assert rows[0]["details"].startswith("'=HYPERLINK")
    answer = browser.client.get(f"/activity/{task.pk}/errors.json")
    found = json.loads(b"".join(answer.streaming_content))
    assert [row["cause"] for row in found] == ["Permission denied", "No answer in time"]
    assert browser.client.get(f"/activity/{task.pk}/errors.exe").status_code == 404


def test_a_task_without_errors_has_an_empty_download(browser: Browser, task: Task) -> None:
    answer: Any = browser.client.get(f"/activity/{task.pk}/errors.json")
    assert json.loads(b"".join(answer.streaming_content)) == []


# ---- what waits for the user


def test_every_page_says_which_credential_tasks_wait_for(browser: Browser, task: Task, alice: User) -> None:
    for number in range(2):
        row = task if number else submit(alice, task.source, task.source, ("/a", "/b"))
        take(row)
        Task.objects.filter(pk=row.pk).update(
            status="INACTIVE", phase="suspended", suspended_at=later(0), waits_at=task.source
        )
    for path in ("/account", "/activity", f"/activity/{task.pk}"):
        browser.get(path)
        assert "Renew the credential for alice#ep1 (2 tasks wait)" in browser.text
        assert f'href="/endpoints/{task.source_id}/activate"' in browser.page
        assert "<title>(2) " in browser.page


@pytest.mark.parametrize("phase", ["queued", "running", "paused"])
def test_a_bar_whose_end_is_not_known_moves_only_while_the_task_does(browser: Browser, task: Task, phase: str) -> None:
    changes = {"paused_at": later(0), "deadline_before_pause": later(9)} if phase == "paused" else {}
    Task.objects.filter(pk=task.pk).update(phase=phase, **changes)
    for path in ("/activity", f"/activity/{task.pk}"):
        browser.get(path)
        bars = re.findall(r"<progress[^>]*>", browser.page)
        assert bars
        assert all(("still" in bar) == (phase != "running") for bar in bars)


# ---- a task that does not go on


FULL = {"code": "NO_SPACE_LEFT", "side": "destination", "since": "2026-11-28T03:54:00+00:00"}


@pytest.fixture
def stalled(task: Task) -> Task:
    """A task whose destination is full: 62 of 63 octets have arrived, and it is tried again in a minute."""
    add_file(task, "large", code="NO_SPACE_LEFT", next_try_at=later(60), details="452 disk full")
    Task.objects.filter(pk=task.pk).update(
        phase="running",
        files=1,
        items_scanned=1,
        bytes_total=63,
        bytes_transferred=62,
        last_progress_at=later(0),
        nice_status="NO_SPACE_LEFT",
        nice_status_details="No space left: 452 disk full.",
        trouble={"files": {**FULL, "until": later(60).isoformat()}},
    )
    task.refresh_from_db()
    return task


@pytest.mark.parametrize("place", ["/activity", "/activity/latest", "/activity/{}"])
def test_a_task_that_does_not_go_on_says_so_first_wherever_it_is_shown(
    browser: Browser, stalled: Task, place: str
) -> None:
    browser.get(place.format(stalled.pk))
    for words in (
        "Stalled",
        "No space left at alice#ep2 since 2026-11-28 03:54:00 UTC",
        f"Next attempt at {datetime.fromisoformat((stalled.trouble or {})['files']['until']):%Y-%m-%d %H:%M:%S} UTC",
    ):
        assert words in browser.text, words
    assert " left</dd>" not in browser.page
    assert "remaining time" not in browser.text


def test_the_title_of_the_page_says_that_a_task_does_not_go_on(browser: Browser, stalled: Task) -> None:
    browser.get(f"/activity/{stalled.pk}")
    assert re.search(r"<title>No space left: .*Run 1", browser.page)
    assert "Time left" not in browser.text


def test_a_cause_is_shown_once_on_the_page_of_a_task(browser: Browser, stalled: Task) -> None:
    browser.get(f"/activity/{stalled.pk}")
    assert browser.page.count("452 disk full") == 1
    File.objects.filter(task=stalled).delete()
    browser.get(f"/activity/{stalled.pk}")
    assert browser.page.count("452 disk full") == 1
    assert "Make room at the destination." in browser.text


def test_an_attempt_whose_time_has_come_is_in_progress(browser: Browser, stalled: Task) -> None:
    trouble = {"files": {**FULL, "until": later(-1).isoformat()}}
    Task.objects.filter(pk=stalled.pk).update(trouble=trouble)
    browser.get("/activity")
    assert "An attempt is in progress." in browser.text


def test_a_task_that_waits_for_a_credential_says_since_when_and_has_its_button(
    browser: Browser, task: Task, alice: User
) -> None:
    Task.objects.filter(pk=task.pk).update(
        status="INACTIVE",
        phase="suspended",
        waits_at=task.source_id,
        suspended_at=datetime(2026, 11, 28, 3, 54, tzinfo=UTC),
        nice_status="NO_CREDENTIALS",
        nice_status_details="Activate alice#ep1, or by POST https://example.org/v0.10.",
    )
    browser.get(f"/activity/{task.pk}")
    assert "No credential at alice#ep1 since 2026-11-28 03:54:00 UTC" in browser.text
    assert "The task goes on by itself when this is solved." in browser.text
    assert f'class="button main" href="/endpoints/{task.source_id}/activate"' in browser.page
    assert browser.page.count("or by POST") == 1


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"bytes_transferred": 1}, "directly from the source to the destination"),
        ({"bytes_transferred": 1, "data_way": "streamed"}, "through a worker of this service"),
        ({"bytes_transferred": 1, "data_way": "relayed"}, "through this service"),
        ({"bytes_transferred": 0}, ""),
    ],
)
def test_the_data_path_is_the_one_that_the_task_has_taken(
    browser: Browser, task: Task, changes: dict[str, Any], words: str
) -> None:
    Task.objects.filter(pk=task.pk).update(**changes)
    browser.get(f"/activity/{task.pk}")
    assert ("Data path" in browser.text) is bool(words)
    assert words in browser.text
    assert "direct, from server to server" not in browser.text


def test_every_fold_of_the_page_has_an_id_by_which_it_stays_open(browser: Browser, stalled: Task) -> None:
    """A live page is read again: a fold without an id is known by its number, which others before it change."""
    found = []
    for code in (None, "TIMEOUT"):
        add_file(stalled, str(code), code=code, next_try_at=later(60) if code else None)
        browser.get(f"/activity/{stalled.pk}")
        live = browser.page[browser.page.index('id="live"') :]
        found += re.findall(r"<details[^>]*>", live)
    assert len(found) > 8
    assert [one for one in found if " id=" not in one] == []


def test_a_task_without_a_label_is_named_by_what_it_moves(
    browser: Browser, alice: User, ep1: Endpoint, ep2: Endpoint
) -> None:
    several = [("/share/godata/", "/~/results/godata/"), *((f"/share/{n}", f"/~/results/{n}") for n in range(3))]
    task = submit(alice, ep1, ep2, *several)
    for place in ("/activity", "/activity/latest", f"/activity/{task.pk}"):
        browser.get(place)
        assert "godata and 3 more to results" in browser.text, place
    assert re.search(r"<title>.?godata and 3 more to results", browser.page)


def test_the_list_of_tasks_reads_the_names_of_all_at_once(
    browser: Browser, alice: User, ep1: Endpoint, ep2: Endpoint, django_assert_max_num_queries: Any
) -> None:
    def queries_of(tasks: int) -> int:
        for number in range(tasks):
            submit(alice, ep1, ep2, (f"/from/{number}", f"/to/{number}"))
        with django_assert_max_num_queries(100) as found:
            browser.get("/activity")
        return len(found)

    assert queries_of(1) == queries_of(10)


def test_the_latest_tasks_are_for_their_owner_alone(task: Task) -> None:
    assert Browser().get("/activity/latest").headers["Location"].startswith("/signin")
