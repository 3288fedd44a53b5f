"""The way back for a lost password: a form that says nothing about users, a link by mail, and a new password."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from identity import one_time_codes, password_recovery, password_sign_in, tokens
from identity.clock import moment
from identity.hidden import Secret
from identity.models import RecoveryLink, RecoveryRequest, User, UserSession
from identity.password_recovery import RecoveryLinkLapsedError
from tests.integration.cast import all_at_once
from tests.integration.identity.test_one_time_codes import Phone
from tests.integration.pages import PASSWORD, Browser
from tests.integration.tasks.test_mails import configure
from tests.servers.mail_server import MailServer
from transferapi.tasks.models import Mail
from transferapi.tasks.notify import mail_preferences, mail_sender
from transferapi.tasks.notify.mails import account as account_mails

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("passwords")]
NEW = "an entirely new one 8"


@pytest.fixture
def alice(alice: User) -> User:
    alice.email = "Alice@example.org"
    alice.save()
    return alice


@pytest.fixture
def server(settings: Any) -> Iterator[MailServer]:
    server = MailServer()
    configure(settings, f"smtp://127.0.0.1:{server.port}?starttls=no")
    settings.PUBLIC_URL = "http://testserver"
    yield server
    server.close()


def ask(name: str, **environ: Any) -> Browser:
    browser = Browser(**environ)
    browser.get("/recover")
    browser.post("/recover", name=name)
    return browser


def work() -> None:
    """A worker's round of mails."""
    password_recovery.answer_requests()
    mail_sender.send_due()


def link_in(server: MailServer) -> str:
    """The path of the link in the newest mail."""
    [found] = re.findall(r"http://testserver(/recover/link\?code=\S+)", str(server.mails[-1].get_content()))
    return str(found)


def set_password(browser: Browser, path: str, new: str = NEW, repeated: str = NEW) -> int:
    assert browser.get(path).headers["Location"] == "/recover/password"
    browser.get("/recover/password")
    return browser.post("/recover/password", new=new, repeated=repeated).status_code


def test_a_lost_password_is_replaced_by_the_link_of_a_mail(alice: User, server: MailServer) -> None:
    other = Browser()
    other.sign_in(alice)
    browser = Browser()
    browser.get("/signin")
    assert 'href="/recover"' in browser.page
    browser = ask("alice")
    assert "If there is such a user" in browser.text
    work()
    assert server.recipients == [["rcpt TO:<Alice@example.org>"]]
    path = link_in(server)
    assert set_password(browser, path) == 302
    browser.get("/signin")
    assert "Your new password is set." in browser.text
    assert password_sign_in.sign_in("alice", Secret(NEW), "") == alice
    assert other.get("/account").status_code == 302
    assert not UserSession.objects.filter(user=alice).exists()
    work()
    assert "your password was changed" in str(server.mails[-1]["Subject"])
    # Once.
    assert Browser().get(path).status_code == 400


def test_the_link_is_in_the_mail_and_nowhere_else(alice: User, server: MailServer) -> None:
    ask("alice")
    work()
    browser = Browser()
    path = link_in(server)
    browser.get(path)
    browser.get("/recover/password")
    code = path.partition("code=")[2]
    assert code not in browser.page
    with connection.cursor() as cursor:
        for table in ("tasks_mail", "identity_recoverylink", "identity_recoveryrequest", "identity_usersession"):
            cursor.execute(f"SELECT t::text FROM {table} t")
            assert code not in str(cursor.fetchall())
    cookie = browser.client.cookies["waybill-recovery"]
    assert (cookie["httponly"], cookie["path"], cookie["samesite"]) == (True, "/recover", "Lax")


@pytest.mark.parametrize(
    "name", ["alice", "ALICE@example.org", "nobody", "nobody@example.org", "shut-out", "no-address"]
)
def test_the_answer_is_the_same_for_everybody_and_takes_the_same_work(alice: User, name: str) -> None:
    User.objects.create(username="shut-out", is_active=False, email="shut@example.org")
    User.objects.create(username="no-address")
    browser = Browser()
    browser.get("/recover")
    with CaptureQueriesContext(
        connection,
    ) as found:
        assert browser.post("/recover", name=name).status_code == 200
    assert "If there is such a user" in browser.text
    # Nothing is looked up before the answer: its duration says nothing.
    assert not any("identity_user" in query["sql"] for query in found.captured_queries)
    password_recovery.answer_requests()
    assert Mail.objects.count() == (1 if "alice" in name.lower() else 0)
    assert not RecoveryRequest.objects.exists()


def test_a_mailbox_is_not_flooded_and_the_first_link_still_serves(alice: User, server: MailServer) -> None:
    for number in range(20):
        ask("alice", REMOTE_ADDR=f"192.0.2.{number}")
    work()
    assert len(server.mails) == 1
    RecoveryLink.objects.update(made_at=moment(None) - password_recovery.SPACING - timedelta(seconds=1))
    ask("alice", REMOTE_ADDR="198.51.100.1")
    path = link_in(server)
    work()
    assert len(server.mails) == 2
    # Strangers lock nobody out: both links serve, until one is used.
    for one in (path, link_in(server)):
        assert Browser().get(one).status_code == 302
    assert set_password(Browser(), path) == 302
    assert Browser().get(link_in(server)).status_code == 400


def test_a_link_lasts_longer_than_the_pause_between_two_mails() -> None:
    assert password_recovery.LIFETIME > password_recovery.SPACING


def test_requests_of_one_network_are_bounded() -> None:
    for number in range(password_recovery.MOST_OF_A_NETWORK):
        assert "If there is" in ask(f"user{number}").text
    browser = ask("one more")
    assert "Too many attempts" in browser.text
    assert 'value="one more"' in browser.page


def test_requests_that_wait_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(password_recovery, "MOST_WAITING", 0)
    assert "The service is busy." in ask("alice").text


def test_a_link_lapses(alice: User, server: MailServer) -> None:
    ask("alice")
    work()
    path = link_in(server)
    RecoveryLink.objects.update(expires_at=moment(None) - timedelta(seconds=1))
    browser = Browser()
    assert browser.get(path).status_code == 400
    assert "This link is over" in browser.text
    password_recovery.delete_expired()
    assert not RecoveryLink.objects.exists()


@pytest.mark.parametrize("code", ["", "x", "x" * 43, "x" * 9000, "%00", "%ff"])
def test_a_code_that_is_none_leads_nowhere(alice: User, code: str) -> None:
    browser = Browser()
    assert browser.get(f"/recover/link?code={code}").status_code == 400
    assert browser.get("/recover/password").status_code == 400


def test_a_mail_that_is_sent_again_has_another_code(alice: User, server: MailServer) -> None:
    ask("alice")
    password_recovery.answer_requests()
    mail = Mail.objects.get()
    first, second = account_mails.letter_of(mail), account_mails.letter_of(mail)
    assert first is not None
    assert first != second
    RecoveryLink.objects.update(expires_at=moment(None) - timedelta(seconds=1))
    assert account_mails.letter_of(mail) is None


@pytest.mark.parametrize(
    ("new", "repeated", "words"),
    [
        ("short", "short", "too short"),
        ("password1234", "password1234", "too common"),
        ("alice-alice-alice", "alice-alice-alice", "made of the name"),
        ("waybill 2026 waybill", "waybill 2026 waybill", "made of the name"),
        (NEW, "another one altogether", "are not the same"),
    ],
)
def test_a_password_that_does_not_do_leaves_the_link_as_it_is(
    alice: User, server: MailServer, new: str, repeated: str, words: str
) -> None:
    ask("alice")
    work()
    browser = Browser()
    assert set_password(browser, link_in(server), new, repeated) == 400
    assert words in browser.text
    assert password_sign_in.sign_in("alice", Secret(PASSWORD), "") == alice
    assert browser.post("/recover/password", new=NEW, repeated=NEW).status_code == 302


def test_the_second_factor_is_asked_for_as_before(alice: User, server: MailServer) -> None:
    phone = Phone(one_time_codes.begin_enrolment(alice).secret)
    one_time_codes.confirm(alice, phone.code())
    ask("alice")
    work()
    browser = Browser()
    set_password(browser, link_in(server))
    assert browser.get("/account").status_code == 302
    browser.get("/signin")
    assert browser.post("/signin", username="alice", password=NEW).status_code == 200
    assert "Enter the code" in browser.text
    assert browser.get("/account").status_code == 302


@pytest.mark.django_db(transaction=True)
def test_of_concurrent_uses_of_one_link_one_succeeds(alice: User) -> None:
    link = RecoveryLink.objects.create(user=alice, made_at=moment(None), expires_at=moment(None) + timedelta(hours=1))
    code = password_recovery.new_code(link.pk)
    assert code is not None

    def use() -> bool:
        try:
            password_recovery.use(code, Secret(NEW))
        except RecoveryLinkLapsedError:
            return False
        return True

    assert sorted(all_at_once([use] * 4)) == [False, False, False, True]


def test_a_link_in_other_hands_ends_with_a_new_password(alice: User, server: MailServer) -> None:
    """Whoever reads the mailbox of a user has asked for a link; the user notices it, and takes a new password."""
    ask("alice")
    work()
    path = link_in(server)
    password_sign_in.set_password(alice, Secret(NEW))
    assert Browser().get(path).status_code == 400
    thief = Browser()
    assert thief.get(f"{path}x").status_code == 400
    assert password_sign_in.sign_in("alice", Secret(NEW), "") == alice
    assert not RecoveryLink.objects.filter(user=alice).exists()


def test_a_link_that_is_open_in_other_hands_ends_with_a_new_password(alice: User, server: MailServer) -> None:
    ask("alice")
    work()
    thief = Browser()
    assert thief.get(link_in(server)).headers["Location"] == "/recover/password"
    thief.get("/recover/password")
    password_sign_in.set_password(alice, Secret(NEW))
    stolen = "a password of the thief"
    assert thief.post("/recover/password", new=stolen, repeated=stolen).status_code == 400
    assert password_sign_in.sign_in("alice", Secret(NEW), "") == alice


@pytest.mark.parametrize("name", ["HTTP_HOST", "HTTP_X_FORWARDED_HOST", "HTTP_FORWARDED", "HTTP_X_HOST"])
def test_the_link_leads_to_this_service_whatever_the_request_names(
    alice: User, server: MailServer, settings: Any, name: str
) -> None:
    settings.ALLOWED_HOSTS = ["*"]
    evil = {name: "host=evil.example.org" if name == "HTTP_FORWARDED" else "evil.example.org"}
    ask("alice", **evil)
    work()
    assert link_in(server).startswith("/recover/link?code=")
    assert "evil.example.org" not in str(server.mails[-1])


def test_without_mail_there_is_no_such_way(alice: User, settings: Any) -> None:
    """The log of the worker must not get such a link."""
    configure(settings, "console:")
    browser = Browser()
    assert browser.get("/recover").status_code == 404
    assert browser.post("/recover", name="alice").status_code in (403, 404)
    browser.get("/signin")
    assert "/recover" not in browser.page
    assert "The operator of this service can give you a new one." in browser.text


def test_a_form_from_elsewhere_asks_for_nothing(alice: User) -> None:
    assert Browser().post("/recover", name="alice").status_code == 403
    assert not RecoveryRequest.objects.exists()


# ---- mails about the account


def test_mails_about_the_account_come_also_to_who_wants_none_about_tasks(alice: User) -> None:
    mail_preferences.choose(alice, enabled=False)
    tokens.make(alice, "backup")
    [mail] = Mail.objects.all()
    assert mail.subject == "Waybill: an API token was made"
    assert "An API token was made: backup." in mail.body
    assert mail.next_try_at is not None


def test_mails_about_the_account_are_bounded(alice: User, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(account_mails, "MOST_A_DAY", 2)
    for number in range(5):
        tokens.make(alice, f"token {number}")
    assert Mail.objects.count() == 2


def test_each_change_has_its_words(alice: User) -> None:
    for what in account_mails._SUBJECTS:
        account_mails.changed(alice, what, "it")
    assert Mail.objects.count() == len(account_mails._SUBJECTS)
