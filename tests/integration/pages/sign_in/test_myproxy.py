"""Sign-in with the name and passphrase of a MyProxy server: the toolkit's own, and others that are no such server."""

from __future__ import annotations

import logging
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from deploy.endpoint.authority import CertificateFiles
from endpoints import concurrency_limits
from endpoints.addresses.openings import parse_openings
from identity import linked_identities, password_sign_in, sign_up
from identity.federation import myproxy
from identity.federation.myproxy import parse_servers
from identity.models import AuditEvent, LinkedIdentity, User, UserSession
from identity.proven_identities import Proven
from identity.sign_up_policy import parse
from tests.gridftp.authority import Authority
from tests.gridftp.myproxy import MyProxyServer
from tests.integration.pages import PASSWORD, Browser

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("passwords")]
PASSPHRASE = "correct horse of myproxy"
FORM = "/signin/myproxy/grid"
NAME = "alice@grid.example.org"


def configure(settings: Any, port: int) -> None:
    settings.MYPROXY_SIGN_IN = parse_servers(
        f"localhost:{port} name=grid domain=grid.example.org label=The Grid, other.example"
    )
    settings.ALLOW_PROVIDERS = parse_openings("127.0.0.0/8, ::1/128")
    settings.MYPROXY_SECONDS = 15


@pytest.fixture
def grid(
    myproxy_server: MyProxyServer, identity_of: Callable[..., CertificateFiles], authority: Authority, settings: Any
) -> MyProxyServer:
    """A server with a proxy of alice's, by which users of this service may sign in."""
    myproxy_server.keep("alice", PASSPHRASE, identity_of("alice"), hours=3)
    configure(settings, myproxy_server.port)
    settings.CERTIFICATES = authority.certificates
    return myproxy_server


def proven(authority: Authority, name: str = "alice", shown: str = NAME, port: int = 0) -> Proven:
    return Proven.of(f"myproxy:localhost:{port}", authority.user_subject(name), shown, time.time())


def given(browser: Browser, username: str = "alice", passphrase: str = PASSPHRASE, **more: str) -> Any:
    browser.get(f"{FORM}?next=/activity{'&link=1' if 'link' in more else ''}")
    return browser.post(FORM, username=username, passphrase=passphrase, next="/activity", **more)


def user_in(browser: Browser) -> str | None:
    return browser.client.session.get("_auth_user_id")


@pytest.mark.toolkit
def test_a_linked_identity_signs_in_and_its_passphrase_is_nowhere(
    grid: MyProxyServer, authority: Authority, alice: User, caplog: pytest.LogCaptureFixture
) -> None:
    row = linked_identities.link(alice, proven(authority, port=grid.port), time.time())
    browser = Browser()
    browser.get("/signin?next=/activity")
    assert "Sign in with The Grid" in browser.text
    with caplog.at_level(logging.DEBUG):
        seen = given(browser)
        refused = given(Browser(), passphrase="a wrong passphrase 123")
    assert (seen.status_code, seen.headers["Location"]) == (302, "/activity")
    assert user_in(browser) == str(alice.pk)
    assert UserSession.objects.get(user=alice).way == "provider"
    vouched = {"provider": f"myproxy:localhost:{grid.port}", "identity": NAME}
    assert AuditEvent.objects.get(what="signed_in", user_id=alice.pk).details == vouched
    # The passphrase was given just now, so this is a new sign-in.
    assert time.time() - float(browser.client.session["signed_in_at"]) < 300
    row.refresh_from_db()
    assert row.username == NAME
    assert refused.status_code == 400
    kept = str([dict(browser.client.session.items()), *AuditEvent.objects.values_list("details", flat=True)])
    for secret in (PASSPHRASE, "a wrong passphrase 123"):
        assert secret not in caplog.text + kept + browser.page + refused.content.decode()


@pytest.mark.toolkit
def test_a_wrong_passphrase_and_an_unknown_name_are_one_answer(
    grid: MyProxyServer, authority: Authority, alice: User
) -> None:
    linked_identities.link(alice, proven(authority, port=grid.port), time.time())
    answers = []
    for username, passphrase in (("alice", "wrong horse of all"), ("nobody", PASSPHRASE), ("alice", "")):
        seen = given(browser := Browser(), username, passphrase)
        assert (seen.status_code, user_in(browser)) == (400, None)
        answers.append(browser.text)
    assert answers[0] == answers[1] == answers[2]
    assert "did not accept this user name and this passphrase" in answers[0]
    refusals = AuditEvent.objects.filter(what="sign_in_refused", way="provider")
    assert [one.user_id for one in refusals.order_by("pk")] == [alice.pk, None, alice.pk]
    assert {one.details["provider"] for one in refusals} == {f"myproxy:localhost:{grid.port}"}


@pytest.mark.toolkit
def test_an_identity_that_nobody_linked_makes_an_account_only_where_the_rule_admits(
    grid: MyProxyServer, settings: Any
) -> None:
    browser = Browser()
    assert given(browser).status_code == 403
    assert NAME in browser.text
    assert user_in(browser) is None
    assert browser.post("/signup/identity", username="newcomer", next="/activity").status_code == 403
    assert not User.objects.filter(username="newcomer").exists()
    settings.SIGN_UP = parse("open")
    given(browser)
    assert browser.post("/signup/identity", username="newcomer", next="/activity").status_code == 403
    assert "Nobody has proven" in browser.text  # A MyProxy server knows no mail addresses.
    browser.get("/signup/invitation?code=" + sign_up.invite(None)[1].value.partition("code=")[2])
    given(browser)
    seen = browser.post("/signup/identity", username="newcomer", next="/activity")
    assert seen.status_code == 302, browser.text
    row = LinkedIdentity.objects.get(user__username="newcomer")
    assert (row.username, row.provider) == (NAME, f"myproxy:localhost:{grid.port}")
    assert user_in(browser) == str(row.user_id)


@pytest.mark.toolkit
def test_a_user_links_an_identity_just_after_a_sign_in(grid: MyProxyServer, alice: User, bob: User) -> None:
    browser = Browser()
    browser.sign_in(alice)
    browser.get("/account")
    assert "Link an identity of The Grid" in browser.text
    assert given(browser, link="1").headers["Location"] == "/account#identities"
    row = LinkedIdentity.objects.get(user=alice)
    assert row.username == NAME
    other = Browser()
    bob.set_password(PASSWORD)
    bob.save()
    other.sign_in(bob)
    assert given(other, link="1").status_code == 409
    assert "belongs to another user" in other.text
    assert not LinkedIdentity.objects.filter(user=bob).exists()


@pytest.mark.toolkit
def test_an_old_session_links_nothing_and_sends_nothing(grid: MyProxyServer, alice: User) -> None:
    browser = Browser()
    browser.sign_in(alice)
    session = browser.client.session
    session["signed_in_at"] = time.time() - linked_identities.MOST_AGE - 1
    session.save()
    grid.stop()  # It is not asked.
    assert given(browser, link="1").headers["Location"].startswith("/signin")
    assert given(Browser(), link="1").headers["Location"].startswith("/signin")
    assert not LinkedIdentity.objects.exists()


@pytest.mark.toolkit
def test_a_name_that_was_given_to_another_person_does_not_sign_in_the_first_one(
    grid: MyProxyServer, authority: Authority, alice: User
) -> None:
    """A server that keeps credentials gives a name to anybody, once the credential of that name was destroyed."""
    row = linked_identities.link(alice, proven(authority, "somebody else", port=grid.port), time.time())
    browser = Browser()
    assert given(browser).status_code == 403
    assert user_in(browser) is None
    row.refresh_from_db()
    assert row.user == alice


@pytest.mark.parametrize("username", ["Alice", "al ice", "alice\nCOMMAND=0", "", "a" * 129, "élise", "@x"])
def test_a_name_that_no_identity_can_have_is_not_sent(settings: Any, username: str) -> None:
    configure(settings, 1)
    seen = given(browser := Browser(), username)
    assert seen.status_code == 400
    assert "small letters" in browser.text


@pytest.mark.toolkit
def test_a_server_of_an_authority_that_is_not_trusted_gets_nothing(
    grid: MyProxyServer, other_authority: Authority, settings: Any
) -> None:
    settings.CERTIFICATES = other_authority.certificates
    seen = given(browser := Browser())
    assert seen.status_code == 502
    assert "not trusted here" in browser.text


def test_guesses_are_limited_by_account_but_not_for_the_browser_of_its_user(
    settings: Any, monkeypatch: pytest.MonkeyPatch, alice: User, authority: Authority
) -> None:
    """A stranger exhausts the attempts of a name, and its user still signs in where it was done before."""
    configure(settings, 1)
    monkeypatch.setattr(password_sign_in, "MOST_OF_A_NAME", 3)
    linked_identities.link(alice, proven(authority, port=1), time.time())
    known = Browser(REMOTE_ADDR="198.51.100.7")
    known.sign_in(alice, PASSWORD)
    known.client.cookies.pop("sessionid", None)
    for number in range(3):
        assert given(Browser(REMOTE_ADDR=f"203.0.113.{number}")).status_code == 502
    stranger = Browser(REMOTE_ADDR="203.0.113.9")
    assert (seen := given(stranger)).status_code == 429
    assert int(seen.headers["Retry-After"]) > 0
    assert given(known).status_code == 502


def test_guesses_are_limited_by_address(settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    configure(settings, 1)
    monkeypatch.setattr(password_sign_in, "MOST_OF_AN_ADDRESS", 3)
    seen = [given(Browser(REMOTE_ADDR="203.0.113.77"), f"user{number}").status_code for number in range(4)]
    assert seen == [502, 502, 502, 429]


@pytest.fixture
def silent(settings: Any, authority: Authority) -> Iterator[int]:
    """A server that accepts connections and says nothing."""
    with ExitStack() as kept, socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            while True:
                try:
                    kept.enter_context(server.accept()[0])
                except OSError:
                    return

        port = server.getsockname()[1]
        configure(settings, port)
        settings.MYPROXY_SIGN_IN = parse_servers(f"127.0.0.1:{port} name=grid domain=grid.example.org")
        settings.MYPROXY_SECONDS, settings.CERTIFICATES = 1.5, authority.certificates
        thread = threading.Thread(target=serve)
        thread.start()
        yield port
        server.shutdown(socket.SHUT_RDWR)
        thread.join(60)


def test_a_silent_server_is_an_error_in_bounded_time(silent: int) -> None:
    since = time.monotonic()
    seen = given(browser := Browser())
    assert seen.status_code == 502
    assert "did not answer in time" in browser.text
    assert time.monotonic() - since < 10


def test_a_silent_server_holds_few_threads_of_the_web_server(silent: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(concurrency_limits, "SIGN_INS", concurrency_limits.ConcurrencyLimit(0, 0))
    seen = given(Browser())
    assert seen.status_code == 429, seen


def test_a_private_address_is_reached_only_where_the_operator_says_so(settings: Any) -> None:
    configure(settings, 1)
    settings.ALLOW_PROVIDERS = ()
    seen = given(browser := Browser())
    assert seen.status_code == 502
    assert "has not allowed port 1" in browser.text


def test_an_unknown_server_is_not_found(settings: Any) -> None:
    configure(settings, 1)
    assert Browser().get("/signin/myproxy/none").status_code == 404


def test_a_page_that_demands_the_domain_names_it_and_offers_its_server_first(settings: Any) -> None:
    settings.MYPROXY_SIGN_IN = parse_servers("a.example label=First, b.example label=Second")
    browser = Browser()
    browser.get("/signin?next=/activity&domain=b.example&domain=evil.example")
    assert "b.example" in browser.text
    assert "evil.example" not in browser.text
    assert browser.text.index("Sign in with Second") < browser.text.index("Sign in with First")


def test_the_page_is_in_the_language_of_the_reader(settings: Any) -> None:
    configure(settings, 1)
    browser = Browser(HTTP_ACCEPT_LANGUAGE="de")
    given(browser, "Alice")
    assert "Ihre Passphrase geht einmal an localhost" in browser.text
    assert "nur kleine Buchstaben" in browser.text


def test_a_form_of_another_site_is_refused(settings: Any) -> None:
    configure(settings, 1)
    browser = Browser()
    assert browser.post(FORM, username="alice", passphrase=PASSPHRASE).status_code == 403


@pytest.mark.parametrize(
    "text",
    [
        "a b", "host:0", "host:70000", "host name=A", "h domain=-", "h what=x", "h, h", "h:1,h:2", "-h", "https://h",
        "h name=a, i name=b domain=h", ",".join(f"h{number}" for number in range(myproxy.MOST + 1)),
    ],
)  # fmt: skip
def test_servers_that_are_none_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"server|none|at most"):
        parse_servers(text)
