"""The section "Ssh keys" of the account page."""

from __future__ import annotations

import pytest

from endpoints.models import Endpoint
from identity import ssh_keys
from identity.models import User
from tests.integration.identity.test_ssh_keys import new_line
from tests.integration.pages import Browser

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("passwords")]


@pytest.fixture
def browser(alice: User) -> Browser:
    browser = Browser()
    browser.sign_in(alice)
    browser.get("/account")
    return browser


def test_a_key_is_added_shown_and_removed(alice: User, browser: Browser) -> None:
    assert "You have no ssh keys." in browser.text
    assert browser.post("/account/ssh-keys", public_key=f"{new_line()} laptop", days="90").status_code == 302
    [key] = ssh_keys.list_of(alice)
    assert key.expires_at is not None
    browser.get("/account")
    assert key.fingerprint in browser.text
    assert "laptop" in browser.text
    browser.post(f"/account/ssh-keys/{key.id}/remove", confirmed="yes")
    assert ssh_keys.list_of(alice) == []
    browser.get("/account")
    assert browser.post(f"/account/ssh-keys/{key.id}/remove", confirmed="yes").status_code == 404


def test_restrictions_are_lists_of_names(alice: User, browser: Browser, ep1: Endpoint) -> None:
    line = new_line()
    browser.post("/account/ssh-keys", public_key=line, label="b", days="0", commands="ls, wait", endpoints="ep1")
    [key] = ssh_keys.list_of(alice)
    assert (key.label, key.expires_at) == ("b", None)
    assert (key.restrictions.sorted_commands, key.restrictions.endpoints) == (["ls", "wait"], frozenset({ep1.pk}))
    browser.get("/account")
    assert "only ls, wait; only 1 endpoint" in browser.text


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"public_key": ""}, "No key was given."),
        ({"public_key": "-----BEGIN OPENSSH PRIVATE KEY-----\nc2VjcmV0"}, "This is a private key."),
        ({"days": "7000"}, "That is none of the times"),
        ({"commands": "ls;rm"}, "A command is a name"),
        ({"endpoints": "nowhere"}, "No such endpoint 'nowhere'."),
        ({"label": "x" * 129}, "A label is one line"),
    ],
)
def test_a_key_that_cannot_be_is_refused(alice: User, browser: Browser, given: dict[str, str], words: str) -> None:
    fields = {"public_key": new_line(), "days": "0", **given}
    assert browser.post("/account/ssh-keys", **fields).status_code == 400
    assert words in browser.text
    assert "c2VjcmV0" not in browser.page
    assert ssh_keys.list_of(alice) == []


def test_the_keys_of_others_are_neither_shown_nor_removed(alice: User, bob: User, browser: Browser) -> None:
    key = ssh_keys.add(bob, new_line(), "of bob")
    browser.get("/account")
    assert "of bob" not in browser.text
    assert browser.post(f"/account/ssh-keys/{key.id}/remove", confirmed="yes").status_code == 404
    assert ssh_keys.list_of(bob) == [key]
