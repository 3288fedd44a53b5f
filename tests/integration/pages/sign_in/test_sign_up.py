"""The pages of sign-up: the form, the link, the account, the invitation; the codes leave the address at once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from identity import sign_up
from identity.models import SignUpRequest, User
from identity.sign_up_policy import parse
from tests.integration.identity.test_sign_up import ADDRESS, code_in
from tests.integration.pages import Browser
from tests.integration.tasks.test_mails import configure
from tests.servers.mail_server import MailServer
from transferapi.tasks.notify.mails import sign_up as sign_up_mails

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("passwords")]
NEW = "wet paper on a roof 7"


@pytest.fixture
def server(settings: Any) -> Iterator[MailServer]:
    server = MailServer()
    configure(settings, f"smtp://127.0.0.1:{server.port}?starttls=no")
    settings.PUBLIC_URL = "http://testserver"
    settings.SIGN_UP = parse("open")
    yield server
    server.close()


def ask(browser: Browser, email: str = ADDRESS) -> int:
    browser.get("/signup")
    return browser.post("/signup", email=email).status_code


def fill(browser: Browser, **more: str) -> Any:
    fields = {"username": "carol", "full_name": "Carol Doe", "new": NEW, "repeated": NEW}
    return browser.post("/signup/account", **{**fields, **more})


def test_from_the_sign_in_page_to_an_account(server: MailServer) -> None:
    browser = Browser()
    browser.get("/signin")
    assert 'href="/signup"' in browser.page
    assert ask(browser) == 200
    assert "A mail is on its way" in browser.text
    sign_up_mails.send_due()
    code = code_in(server).value
    answer = browser.get(f"/signup/link?code={code}")
    assert answer.headers["Location"] == "/signup/account"
    cookie = browser.client.cookies["waybill-signup"]
    assert (cookie["httponly"], cookie["path"], cookie["samesite"]) == (True, "/signup", "Lax")
    browser.get("/signup/account")
    assert ADDRESS in browser.text
    assert code not in browser.page
    assert fill(browser).headers["Location"] == "/signin?username=carol"
    browser.get("/signin?username=carol")
    assert "Your account carol is ready." in browser.text
    assert browser.post("/signin", username="carol", password=NEW).status_code == 302
    assert User.objects.get(username="carol").email == ADDRESS
    # Once.
    assert Browser().get(f"/signup/link?code={code}").status_code == 302
    again = Browser()
    again.get(f"/signup/link?code={code}")
    assert again.get("/signup/account").status_code == 404
    assert "This link is over" in again.text


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"repeated": "another one altogether"}, "are not the same"),
        ({"new": "short", "repeated": "short"}, "too short"),
        ({"new": "carol-carol-carol", "repeated": "carol-carol-carol"}, "made of the name"),
        ({"username": "root"}, "is taken"),
        ({"username": "Carol Doe"}, "small letters"),
    ],
)
def test_what_does_not_do_is_said_at_its_field_and_the_rest_stays(
    server: MailServer, fields: dict[str, str], words: str
) -> None:
    browser = Browser()
    ask(browser)
    sign_up_mails.send_due()
    browser.get(f"/signup/link?code={code_in(server).value}")
    browser.get("/signup/account")
    assert fill(browser, **fields).status_code == 400
    assert words in browser.text
    assert 'value="Carol Doe"' in browser.page
    assert not User.objects.filter(username="carol").exists()
    assert fill(browser).status_code == 302


def test_the_form_says_nothing_about_accounts(alice: User, server: MailServer) -> None:
    alice.email = "alice@example.org"
    alice.save()
    pages = []
    for email in ("alice@example.org", "nobody@example.org"):
        browser = Browser()
        assert ask(browser, email) == 200
        pages.append(browser.text)
    assert pages[0] == pages[1]
    assert Browser().get("/signup").status_code == 200


def test_an_invitation_is_kept_by_the_browser_and_leaves_the_address(server: MailServer, settings: Any) -> None:
    settings.SIGN_UP = parse("invitation")
    browser = Browser()
    assert ask(browser) == 403
    assert "You need an invitation" in browser.text
    _, link = sign_up.invite(None)
    code = link.value.partition("code=")[2]
    answer = browser.get(link.value.removeprefix("http://testserver"))
    assert answer.headers["Location"] == "/signup"
    assert code not in answer.headers["Location"]
    assert ask(browser) == 200
    assert code not in browser.page
    sign_up_mails.send_due()
    browser.get(f"/signup/link?code={code_in(server).value}")
    browser.get("/signup/account")
    assert fill(browser).status_code == 302
    other = Browser()
    other.get(link.value.removeprefix("http://testserver"))
    assert ask(other, "dave@example.org") == 403
    assert "This invitation was used" in other.text


@pytest.mark.parametrize(("policy", "mail"), [("closed", "file:///tmp"), ("open", "console:")])
def test_there_is_no_sign_up_where_it_is_closed_or_no_mail_is_sent(settings: Any, policy: str, mail: str) -> None:
    configure(settings, mail)
    settings.SIGN_UP = parse(policy)
    browser = Browser()
    assert browser.get("/signup").status_code == 404
    browser.get("/signin")
    assert "/signup" not in browser.page


def test_a_form_from_elsewhere_and_too_many_requests_are_refused(server: MailServer) -> None:
    assert Browser().post("/signup", email=ADDRESS).status_code == 403
    assert not SignUpRequest.objects.exists()
    browser = Browser()
    for number in range(sign_up.MOST_OF_A_NETWORK):
        assert ask(browser, f"c{number}@example.org") == 200
    assert ask(browser) == 429
    assert "Too many attempts" in browser.text
    assert ask(Browser(REMOTE_ADDR="198.51.100.9"), "no address") == 400


@pytest.mark.parametrize("code", ["", "x", "x" * 43, "x" * 9000, "%00", "%ff", "a%0d%0aSet-Cookie:b"])
def test_a_code_that_is_none_leads_nowhere(server: MailServer, code: str) -> None:
    browser = Browser()
    assert browser.get(f"/signup/link?code={code}").status_code == 302
    assert browser.get("/signup/account").status_code == 404
