"""The events of a task, and the reasons of its waits and plans, in the language of the reader."""

from __future__ import annotations

import re
from datetime import UTC, datetime

import pytest

from endpoints.gridftp.faults import Fault, Kind, Side, make_fault
from endpoints.models import Endpoint
from identity.gsi.sentences import Sentence
from identity.models import User
from tests.integration.cast import later, submit, take
from tests.integration.pages import Browser
from transferapi.tasks import events, moves, queries
from transferapi.tasks.events import NewEvent
from transferapi.tasks.managers import actions
from transferapi.tasks.models import Event, Item, Task
from transferapi.tasks.records import (
    CLEAR,
    DIRECT,
    DataProtection,
    DataWay,
    FaultedFile,
    FileRow,
    FoundFile,
    SettledFile,
    Settlement,
)
from transferapi.tasks.worker import (
    deletion_requests,
    measurements,
    protection,
    scan_results,
    settling,
    slice_end,
    troubles,
)
from transferapi.tasks.worker.leases import Grant
from workers.engine.tuning.opening import Caps, opening_plan
from workers.engine.tuning.plan import ChunkSummary

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("alice", "passwords")]
#: Words of English that are none of German, and stand in almost every English sentence.
ENGLISH = re.compile(r"\b(?:the|and|is|are|of|with|again|failed|has|have|to|by|on|at|not|files|tried)\b", re.IGNORECASE)
DENIED = make_fault(Kind.PERMISSION_DENIED, "550 nicht erlaubt", side=Side.SOURCE)
FULL = make_fault(Kind.NO_SPACE_LEFT, "452 voll", side=Side.DESTINATION)


@pytest.fixture
def reader(alice: User) -> Browser:
    browser = Browser(HTTP_ACCEPT_LANGUAGE="de")
    browser.sign_in(alice)
    return browser


@pytest.fixture
def task(alice: User, ep1: Endpoint, ep2: Endpoint) -> Task:
    return submit(alice, ep1, ep2, ("/von/", "/nach/"), label="Lauf 1", options={"skip_source_errors": True})


def find(grant: Grant, *names: str) -> list[FileRow]:
    item = Item.objects.get(task=grant.task_id)
    found = [FoundFile(f"/von/{name}", f"/nach/{name}", 10, None) for name in names]
    return scan_results.add_found(grant.task_id, grant.epoch, item.pk, found)


def both(reader: Browser, task: Task) -> None:
    """Show the log and the overview of the task, one after the other, as one page."""
    reader.get(f"/activity/{task.pk}?part=log")
    log = reader.page
    reader.get(f"/activity/{task.pk}")
    reader.page += log


def english_in(page: str) -> set[str]:
    """The English words of the page, but for those that are marked as English, and for commands."""
    body = re.sub(r'<(\w+)[^>]*\blang="en".*?</\1>|<(pre|code|script|svg)\b.*?</\2>', " ", page, flags=re.DOTALL)
    attributes = re.findall(r'\b(?:title|aria-label|placeholder|data-confirm[\w-]*)="([^"]*)"', body)
    return set(ENGLISH.findall(" ".join([re.sub(r"<[^>]+>", " ", body), *attributes])))


def test_a_german_page_of_a_troubled_task_has_no_english_sentence(reader: Browser, task: Task) -> None:
    grant = take(task)
    moved, denied, full, given_up = find(grant, "a", "b", "c", "d")
    plan = opening_plan(ChunkSummary(4, 4_000_000_000, 10**9), {"perf_cc": 3}, Caps(lanes=2), 0.2)
    text = Sentence("The transfer has begun.", reason=plan.reason)
    details = {"concurrency": 2, "parallelism": 8, "pipelining": 5, "reason": plan.reason}
    measurements.add_event(task.pk, grant.epoch, NewEvent("STARTED", text, details))
    protection.note(task.pk, grant.epoch, DataProtection(CLEAR, Side.SOURCE, Sentence("could not be measured")))
    protection.note_way(task.pk, grant.epoch, DataWay(DIRECT, ""))
    for _ in range(2):
        troubles.endpoint_failed(task.pk, grant.epoch, Fault(Kind.CONNECT_FAILED, Side.SOURCE), later(30))
    faulted = [
        FaultedFile(denied, DENIED, None, skipped=True),
        FaultedFile(full, FULL, later(60)),
        FaultedFile(given_up, DENIED, None),
    ]
    settling.write(task.pk, grant.epoch, Settlement(settled=[SettledFile(moved, 0)], faulted=faulted))
    both(reader, task)
    for words in (
        "Zugriff verweigert an der Quelle bei 1 Datei: übersprungen.",
        "Kein Platz mehr am Ziel bei 1 Datei: neuer Versuch ab",
        "Die Übertragung hat begonnen.",
        "mehr erlauben die Endpunkte nicht",
        "Die Daten gehen direkt",
    ):
        assert words in reader.text, (words, re.findall(r"<li[^>]*>(.*?)</li>", reader.page))
    assert english_in(reader.page) == set()


def test_a_german_page_of_a_task_that_waits_or_has_ended_has_no_english_sentence(
    reader: Browser, task: Task, alice: User, ep1: Endpoint, ep2: Endpoint
) -> None:
    actions.pause_own(alice, task.pk)
    both(reader, task)
    assert "Der Besitzer hat diesen Auftrag angehalten." in reader.text
    actions.resume_own(alice, task.pk)
    grant = take(task)
    slice_end.suspend(task.pk, grant.epoch, make_fault(Kind.NO_CREDENTIALS, side=Side.SOURCE))
    both(reader, task)
    assert "Der Auftrag wartet auf Zugangsdaten für" in reader.text
    assert english_in(reader.page) == set()
    moves.cancel(alice, task.pk)
    mirrored = submit(alice, ep1, ep2, ("/x/", "/y/"))
    grant = take(mirrored)
    deletion_requests.ask(mirrored.pk, grant.epoch, 12, 34)
    for one, words in ((task, "von seinem Besitzer abgebrochen"), (mirrored, "würden 12 der 34 Einträge am Ziel")):
        both(reader, one)
        assert words in reader.text
        assert english_in(reader.page) == set()


def test_a_failed_task_says_why_in_the_language_of_its_reader(reader: Browser, task: Task) -> None:
    grant = take(task)
    lost, other = find(grant, "lost", "other")
    settling.write(
        task.pk, grant.epoch, Settlement(faulted=[FaultedFile(lost, DENIED, None), FaultedFile(other, DENIED, None)])
    )
    Task.objects.filter(pk=task.pk).update(items_scanned=1)
    slice_end.finish(task.pk, grant.epoch)
    both(reader, task)
    assert "2 von 2 Dateien sind fehlgeschlagen" in reader.text
    assert english_in(reader.page) == set()


def test_an_event_is_english_for_programs_and_of_an_earlier_version_as_it_was_stored(
    reader: Browser, task: Task, alice: User
) -> None:
    submitted = queries.events(alice, task.pk, limit=10).rows[-1]
    assert submitted.description == "The task was accepted, with 1 item(s)."
    Event.objects.filter(task=task).update(sentence=None)
    events.append(task.pk, [NewEvent("PROGRESS", "An old <sentence>.")], datetime.now(UTC))
    both(reader, task)
    assert "The task was accepted, with 1 item(s)." in reader.text
    assert "An old &lt;sentence&gt;." in reader.page


def test_what_a_server_says_is_text_in_every_part_of_a_sentence(reader: Browser, task: Task) -> None:
    grant = take(task)
    evil = "<img src=x onerror=alert(1)>\x00 100 %s"
    fault = Fault(Kind.CONNECT_FAILED, Side.SOURCE, advice=f"{evil} %(x)s", raw=evil, server="<img src=x>")
    troubles.endpoint_failed(task.pk, grant.epoch, fault, later(30))
    for path in ("/activity", f"/activity/{task.pk}?events=errors"):
        assert reader.get(path).status_code == 200
        assert "<img src=x" not in reader.page
    assert reader.page.count("&lt;img src=x onerror=alert(1)&gt;") >= 2
    assert "100 %s %(x)s" in reader.text
