"""A user sets or changes the own mail address: by a link that is mailed to it, in the hands of this user alone."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from datetime import timedelta
from functools import partial
from typing import Any

import pytest
from django.db import connection

from identity import deactivation, mail_addresses, password_recovery, users
from identity.clock import moment
from identity.hidden import Secret
from identity.mail_addresses import TOO_MANY_CHANGES, AddressLinkLapsedError
from identity.models import AddressChange, AuditEvent, RecoveryLink, RecoveryRequest, ScimClient, ScimUser, User
from identity.sign_in_proof import RECENT
from identity.users import UserDetails
from tests.integration.cast import all_at_once
from tests.integration.pages import PASSWORD, Browser
from tests.integration.tasks.test_mails import configure
from tests.refusals import raises_refusal
from tests.servers.mail_server import MailServer
from transferapi.tasks.models import Mail
from transferapi.tasks.notify import mail_sender

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("passwords")]
NEW, FORM = "alice@new.example.org", "/account/mails/address"


@pytest.fixture
def server(settings: Any) -> Iterator[MailServer]:
    server = MailServer()
    configure(settings, f"smtp://127.0.0.1:{server.port}?starttls=no")
    settings.PUBLIC_URL = "http://testserver"
    yield server
    server.close()


@pytest.fixture
def browser(alice: User) -> Browser:
    """alice's, on her account page."""
    found = Browser()
    found.sign_in(alice)
    found.get("/account")
    return found


def recipients(server: MailServer) -> list[str]:
    return [address for one in server.recipients for address in re.findall(r"<(.+)>", str(one))]


def texts(server: MailServer) -> list[str]:
    return [str(mail.get_content()) for mail in server.mails]


def link_in(server: MailServer) -> str:
    """The path of the link in the newest mail."""
    [found] = re.findall(r"http://testserver(/account/address/link\?code=\S+)", texts(server)[-1])
    return str(found)


def confirm(browser: Browser, path: str) -> int:
    assert browser.get(path).headers["Location"] == "/account/address"
    browser.get("/account/address")
    return browser.post("/account/address").status_code


def email_of(user: User) -> str:
    return User.objects.get(pk=user.pk).email


def test_a_person_without_an_address_sets_one_and_gets_a_lost_password_back(
    browser: Browser, alice: User, server: MailServer
) -> None:
    assert "no mail address of you" in browser.text
    assert browser.post(FORM, email=f" {NEW.upper()} ").headers["Location"] == "/account#mails"
    assert email_of(alice) == ""
    mail_sender.send_due()
    path = link_in(server)
    assert recipients(server) == [NEW]
    assert confirm(browser, path) == 302
    browser.get("/account")
    assert f"They go to {NEW}." in browser.text
    assert email_of(alice) == NEW
    # Once.
    assert browser.get(path).status_code == 302
    assert browser.get("/account/address").status_code == 404
    RecoveryRequest.objects.create(name=NEW)
    password_recovery.answer_requests()
    mail_sender.send_due()
    assert recipients(server) == [NEW, NEW, NEW]
    assert "/recover/link?code=" in texts(server)[-1]


def test_the_former_address_gets_a_notice_and_its_links_end(browser: Browser, alice: User, server: MailServer) -> None:
    User.objects.filter(pk=alice.pk).update(email="alice@old.example.org")
    RecoveryLink.objects.create(user=alice, made_at=moment(), expires_at=moment() + timedelta(hours=1))
    browser.post(FORM, email=NEW)
    mail_sender.send_due()
    assert confirm(browser, link_in(server)) == 302
    mail_sender.send_due()
    sent = dict(zip(recipients(server), texts(server), strict=True)) | {"first": texts(server)[0]}
    assert "go to another address from now on" in sent["alice@old.example.org"]
    assert NEW not in sent["alice@old.example.org"]
    assert f"Your mail address was changed: {NEW}." in sent[NEW]
    assert not RecoveryLink.objects.exists()
    [row] = AuditEvent.objects.filter(what="address_changed")
    assert (row.username, row.details) == ("alice", {"name": NEW})


def test_an_address_of_another_account_gets_a_hint_and_nothing_changes(
    browser: Browser, alice: User, bob: User, server: MailServer
) -> None:
    User.objects.filter(pk=bob.pk).update(email="Bob@example.org")
    for address in (NEW, "bob@example.org"):
        # The page says nothing about other accounts.
        assert browser.post(FORM, email=address).headers["Location"] == "/account#mails"
        browser.get("/account")
        assert "is on its way to this address" in browser.text
    mail_sender.send_due()
    assert recipients(server) == ["bob@example.org"]
    assert "Your account bob has it already" in texts(server)[0]
    assert "code=" not in texts(server)[0]
    assert email_of(alice) == ""


def test_an_address_that_became_anothers_after_the_mail_is_not_set(alice: User, bob: User, server: MailServer) -> None:
    mail_addresses.ask(alice, NEW, "")
    code = mail_addresses.new_code(AddressChange.objects.get().pk)
    assert code is not None
    User.objects.filter(pk=bob.pk).update(email=NEW)
    with pytest.raises(AddressLinkLapsedError):
        mail_addresses.use(alice, code)
    assert email_of(alice) == ""


def test_a_stranger_to_whom_the_mail_goes_confirms_nothing(
    browser: Browser, alice: User, bob: User, server: MailServer
) -> None:
    browser.post(FORM, email="mistyped@example.org")
    mail_sender.send_due()
    path = link_in(server)
    stranger = Browser()
    stranger.get(path)
    assert stranger.get("/account/address").headers["Location"].startswith("/signin")
    bob.set_password(PASSWORD)
    bob.save()
    bobs = Browser()
    bobs.sign_in(bob)
    bobs.get(path)
    assert bobs.get("/account/address").status_code == 404
    assert (email_of(alice), email_of(bob)) == ("", "")


def test_an_old_session_asks_for_no_address(browser: Browser, alice: User, server: MailServer) -> None:
    session = browser.client.session
    session["signed_in_at"] -= RECENT + 1
    session.save()
    answer = browser.post(FORM, email="mallory@example.org")
    assert answer.headers["Location"] == "/signin?next=%2Faccount%23mails&again=1&fresh=required"
    assert not AddressChange.objects.exists()


def test_the_code_is_in_the_mail_and_nowhere_else(browser: Browser, server: MailServer) -> None:
    browser.post(FORM, email=NEW)
    mail_sender.send_due()
    path = link_in(server)
    browser.get(path)
    browser.get("/account/address")
    code = path.partition("code=")[2]
    assert code not in browser.page
    with connection.cursor() as cursor:
        for table in ("tasks_mail", "identity_addresschange", "identity_usersession"):
            cursor.execute(f"SELECT t::text FROM {table} t")
            assert code not in str(cursor.fetchall())
    cookie = browser.client.cookies["waybill-address"]
    assert (cookie["httponly"], cookie["path"]) == (True, "/account/address")


@pytest.mark.parametrize(
    ("address", "status", "words"),
    [("nonsense", 400, "This is no mail address."), ("x@example.org", 400, "This is your mail address already.")],
)
def test_an_address_that_does_not_do_is_refused_at_its_field(
    browser: Browser, alice: User, server: MailServer, address: str, status: int, words: str
) -> None:
    User.objects.filter(pk=alice.pk).update(email="X@example.org")
    assert browser.post(FORM, email=address).status_code == status
    assert words in browser.text
    assert f'value="{address}"' in browser.page
    assert not Mail.objects.exists()


def test_a_directory_sets_the_address_of_its_users(browser: Browser, alice: User, server: MailServer) -> None:
    ScimUser.objects.create(user=alice, client=ScimClient.objects.create(name="lab", max_users=10))
    assert browser.post(FORM, email=NEW).status_code == 403
    assert "A directory manages your account" in browser.text


def taken_over(user: User) -> None:
    ScimUser.objects.create(user=user, client=ScimClient.objects.create(name="lab", max_users=10))


def recovered(user: User) -> None:
    link = RecoveryLink.objects.create(user=user, made_at=moment(), expires_at=moment() + timedelta(hours=1))
    code = password_recovery.new_code(link.pk)
    assert code is not None
    password_recovery.use(code, Secret("another long one 2"))


def shut_out_and_let_in(user: User) -> None:
    deactivation.deactivate(None, user)
    deactivation.activate(None, user)


def corrected(user: User) -> None:
    users.change(user, UserDetails(email="alice@right.example.org"))


@pytest.mark.parametrize("then", [taken_over, recovered, shut_out_and_let_in, corrected])
def test_a_wish_of_somebody_else_ends_when_the_account_is_taken_back(
    alice: User, server: MailServer, then: Callable[[User], None]
) -> None:
    """A stranger who had the account for a moment asked for a link to another mailbox. It serves for a day."""
    mail_addresses.ask(alice, "mallory@evil.example", "")
    change = AddressChange.objects.get().pk
    code = mail_addresses.new_code(change)
    assert code is not None
    then(alice)
    alice.refresh_from_db()
    for use in (mail_addresses.find, mail_addresses.use):
        with pytest.raises(AddressLinkLapsedError):
            use(alice, code)
    if then is not taken_over:
        # Nor does a mail that waits for its server get a link.
        assert mail_addresses.new_code(change) is None
    assert email_of(alice) in ("", "alice@right.example.org")


def test_who_changes_the_password_and_the_address_in_one_visit_has_both(
    browser: Browser, alice: User, server: MailServer
) -> None:
    browser.post(FORM, email=NEW)
    mail_sender.send_due()
    new = "another long one 2"
    assert browser.post("/account/password", old=PASSWORD, new=new, repeated=new).status_code == 302
    assert confirm(browser, link_in(server)) == 302
    assert email_of(alice) == NEW


def test_a_service_without_mails_says_so(browser: Browser, settings: Any) -> None:
    settings.EMAIL_BACKEND = "django.core.mail.backends.console.EmailBackend"
    assert browser.post(FORM, email=NEW).status_code == 409
    assert "its operator sets your address" in browser.text


def test_mails_to_an_address_and_of_a_user_are_bounded(alice: User, server: MailServer) -> None:
    for _ in range(3):
        mail_addresses.ask(alice, NEW, "")
    assert Mail.objects.count() == 1
    for number in range(mail_addresses.MOST_OF_A_USER - 1):
        mail_addresses.ask(alice, f"a{number}@example.org", "")
    with raises_refusal(TOO_MANY_CHANGES):
        mail_addresses.ask(alice, "another@example.org", "")
    mail_addresses.delete_expired()
    with raises_refusal(TOO_MANY_CHANGES):
        mail_addresses.ask(alice, "another@example.org", "")
    # The last wish alone has a link.
    mail_sender.send_due()
    assert recipients(server) == [f"a{mail_addresses.MOST_OF_A_USER - 2}@example.org"]
    later = moment() + timedelta(days=2)
    mail_addresses.delete_expired(later)
    assert not AddressChange.objects.exists()


def test_wishes_of_one_network_are_bounded(
    browser: Browser, server: MailServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mail_addresses, "MOST_OF_A_NETWORK", 0)
    assert browser.post(FORM, email=NEW).status_code == 429
    assert "Too many attempts" in browser.text


def test_a_link_that_is_too_old_is_over(alice: User, server: MailServer) -> None:
    mail_addresses.ask(alice, NEW, "")
    code = mail_addresses.new_code(AddressChange.objects.get().pk)
    assert code is not None
    assert mail_addresses.find(alice, code) == NEW
    for wrong in (Secret(""), Secret("x" * 200), Secret("nonsense")):
        with pytest.raises(AddressLinkLapsedError):
            mail_addresses.find(alice, wrong)
    with pytest.raises(AddressLinkLapsedError):
        mail_addresses.use(alice, code, moment() + mail_addresses.LIFETIME + timedelta(minutes=1))
    assert email_of(alice) == ""


@pytest.mark.django_db(transaction=True)
def test_two_uses_at_one_moment_are_one(alice: User, server: MailServer) -> None:
    mail_addresses.ask(alice, NEW, "")
    code = mail_addresses.new_code(AddressChange.objects.get().pk)
    assert code is not None
    ended = all_at_once([partial(mail_addresses.use, alice, code) for _ in range(4)])
    assert sorted(type(one).__name__ for one in ended) == ["AddressLinkLapsedError"] * 3 + ["User"]
    assert AuditEvent.objects.filter(what="address_changed").count() == 1


@pytest.mark.django_db(transaction=True)
def test_of_two_users_who_confirm_one_address_at_one_moment_one_has_it(
    alice: User, bob: User, server: MailServer
) -> None:
    uses = []
    for user in (alice, bob):
        mail_addresses.ask(user, NEW, "")
        code = mail_addresses.new_code(AddressChange.objects.get(user=user).pk)
        assert code is not None
        uses += [partial(mail_addresses.use, user, code)] * 2
    ended = all_at_once(uses)
    assert sorted(type(one).__name__ for one in ended) == ["AddressLinkLapsedError"] * 3 + ["User"]
    assert User.objects.filter(email=NEW).count() == 1
