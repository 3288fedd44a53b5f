"""The page of timers: timers are made, paused, resumed and deleted by their owner."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from identity.models import User
from tests.integration.cast import make_endpoint
from tests.integration.pages import PASSWORD, Browser
from transferapi.timers import services
from transferapi.timers.models import Timer

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("passwords")]
FORM = {
    "name": "nightly",
    "source": "alice#ep1:/data/",
    "destination": "alice#ep2:/copy/",
    "interval": "86400",
    "start": "2040-01-01T02:00",
    "sync_level": "3",
}


@pytest.fixture
def browser(alice: User) -> Browser:
    for name in ("ep1", "ep2"):
        make_endpoint(alice, name)
    found = Browser()
    found.sign_in(alice)
    found.get("/timers")
    return found


def test_a_timer_is_made_paused_resumed_and_deleted(browser: Browser, alice: User) -> None:
    assert "You have no timers" in browser.text
    assert browser.post("/timers", **FORM).headers["Location"] == "/timers"
    timer = Timer.objects.get()
    assert (timer.owner, timer.name) == (alice, "nightly")
    assert timer.next_run == datetime(2040, 1, 1, 2, 0, tzinfo=UTC)
    body = services.body_of(timer)
    assert body["sync_level"] == 3
    browser.get("/timers")
    assert "nightly" in browser.text
    browser.post(f"/timers/{timer.pk}/pause")
    assert Timer.objects.get().status == "inactive"
    browser.post(f"/timers/{timer.pk}/resume")
    assert Timer.objects.get().status == "new"
    browser.post(f"/timers/{timer.pk}/delete")
    assert "Delete this timer?" in browser.text
    assert Timer.objects.filter(pk=timer.pk).exists(), "a press alone deletes nothing"
    browser.post(f"/timers/{timer.pk}/delete", confirmed="yes")
    assert not Timer.objects.exists()


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("source", "no-colon", "Write it as ENDPOINT:/path"),
        ("source", "alice#nope:/x", "No such endpoint"),
        ("destination", "alice#ep2:../x", "path"),
        ("interval", "7", "There is no such interval."),
        ("start", "soon", "Expected a date with a time."),
        ("start", "9999-01-01T00:00", "Expected a time within some years"),
        ("end", "2039-01-01T00:00", "The end comes before the first run."),
    ],
)
def test_a_wrong_timer_is_refused_with_the_reason(browser: Browser, field: str, value: str, words: str) -> None:
    assert browser.post("/timers", **{**FORM, field: value}).status_code in (400, 404)
    assert words in browser.text
    assert 'value="nightly"' in browser.page
    assert not Timer.objects.exists()


def test_timers_of_others_are_out_of_reach(browser: Browser, bob: User) -> None:
    browser.post("/timers", **FORM)
    timer = Timer.objects.get()
    bob.set_password(PASSWORD)
    bob.save()
    his = Browser()
    his.sign_in(bob)
    his.get("/timers")
    assert "nightly" not in his.text
    for action in ("pause", "resume", "delete"):
        assert his.post(f"/timers/{timer.pk}/{action}", confirmed="yes").status_code == 404
    assert Timer.objects.get().status == "new"
