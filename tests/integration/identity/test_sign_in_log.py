"""Log lines of sign-ins: the user and the result, never the text that was typed."""

from __future__ import annotations

import pytest

from identity.models import User
from tests.integration.pages import PASSWORD, Browser

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("passwords")]


def test_sign_ins_refusals_and_sign_outs_are_lines_of_the_log(alice: User, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "identity.audit")
    browser = Browser()
    for username, password in (("alice", "wrong words"), ("my password\nby mistake", "x"), ("alice", PASSWORD)):
        browser.get("/signin")
        browser.post("/signin", username=username, password=password)
    browser.get("/account")
    browser.post("/signout")
    told = [record.getMessage() for record in caplog.records if record.name == "identity.audit"]
    assert told == [
        "a password was refused: alice",
        "a password was refused: no such user",
        "signed in by password: alice",
        "signed out: alice",
    ]
    assert not any(secret in caplog.text for secret in ("wrong words", "by mistake", PASSWORD))
