"""The Transfer page without scripts: names that are no text, and forms that are refused."""

from __future__ import annotations

import uuid

import pytest
from django.template.loader import render_to_string

from endpoints.gridftp.facts import Entry
from identity.models import User
from tests.integration.cast import make_endpoint
from tests.integration.pages import Browser
from transferapi.tasks.models import Task
from webui.transfer import Pane

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("passwords", "redis_server")]


@pytest.fixture
def browser(alice: User) -> Browser:
    made = Browser()
    made.sign_in(alice)
    return made


def test_a_name_that_turns_text_or_is_no_text_is_escaped_in_labels_too(alice: User) -> None:
    entries = [Entry("photo\u202egnp.exe", "file", 1), Entry("caf\udce9", "file", 1)]
    pane = Pane("origin", path="/", endpoint=make_endpoint(alice, "ep"), entries=entries, marked={"fcaf%E9"})
    page = render_to_string("webui/transfer/plain.html", {"pane": pane, "panes": [pane]})
    assert "\u202e" not in page
    page.encode()
    assert 'value="fcaf%E9" checked' in page
    assert 'value="fphoto%E2%80%AEgnp.exe" aria-label' in page


def test_a_refused_form_keeps_all_that_was_chosen(browser: Browser, alice: User) -> None:
    left, right = make_endpoint(alice, "left"), make_endpoint(alice, "right")
    places = {"origin_id": str(left.pk), "origin_path": "/a/", "destination_id": str(right.pk)}
    browser.get("/transfer?plain=1")
    choice = {"encrypt_data": "on", "sync_level": "3", "deadline_days": "7", "label": "my label"}
    submission = str(uuid.uuid4())
    answer = browser.post("/transfer", copy="destination", submission_id=submission, **places, **choice)
    assert answer.status_code == 400
    assert "Nothing is marked." in browser.text
    assert f'value="{submission}"' in browser.page
    assert 'value="my label"' in browser.page
    assert '<option value="3" selected>' in browser.page
    assert '<option value="7" selected>' in browser.page
    assert 'id="opt-encrypt_data" checked' in browser.page
    assert 'id="opt-verify_checksum" checked' not in browser.page
    assert not Task.objects.exists()


def test_a_form_without_its_id_is_refused_in_words(browser: Browser) -> None:
    browser.get("/transfer?plain=1")
    assert browser.post("/transfer", origin_item="fx", origin_path="/", destination_path="/").status_code == 400
    assert "Load the page again, then try once more." in browser.text
