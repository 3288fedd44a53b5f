"""Signing in by the page, and out; who guesses, and who is sent elsewhere."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from ipaddress import ip_network
from typing import Any
from urllib.parse import urlencode

import pytest
from django.contrib.auth import hashers
from django.test import Client

from identity import password_sign_in, sessions, tokens
from identity.hidden import Secret
from identity.models import User, UserSession
from identity.password_sign_in import (
    MAX_PASSWORD,
    MOST_OF_A_NAME,
    MOST_OF_A_PAIR,
    MOST_OF_AN_ADDRESS,
    PasswordRefusedError,
    TooManyAttemptsError,
    WrongPasswordError,
)
from identity.provider import applications
from identity.provider.applications import ApplicationSpec
from tests.integration.pages import PASSWORD, Browser
from webui.frame import first_page

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("passwords")]


def test_who_knows_the_password_is_signed_in_and_out_again(alice: User) -> None:
    browser = Browser()
    assert browser.get("/account").headers["Location"] == "/signin?next=%2Faccount"
    answer = browser.sign_in(alice)
    assert (answer.status_code, answer.headers["Location"]) == (302, first_page())
    cookie = browser.client.cookies["waybill-session"]
    assert cookie["httponly"]
    assert (cookie["samesite"], cookie["path"]) == ("Lax", "/")
    assert 12 * 3600 - 60 < cookie["max-age"] <= 12 * 3600
    assert browser.get("/account").status_code == 200
    assert "alice" in browser.text
    copy = Client(cookies=browser.client.cookies.copy())
    assert browser.post("/signout").headers["Location"] == "/signin"
    for client in (browser.client, copy):
        assert client.get("/account").headers["Location"] == "/signin?next=%2Faccount"


@pytest.mark.parametrize("who", ["alice", "nobody-known", "shut-out", "no-password", "Alice", "a\0b", "x" * 1000, ""])
def test_every_refusal_reads_the_same(alice: User, who: str) -> None:
    User.objects.create(username="shut-out", is_active=False, password=hashers.make_password(PASSWORD))
    User.objects.create(username="no-password", password=hashers.make_password(None))
    browser = Browser()
    browser.get("/signin")
    answer = browser.post("/signin", username=who, password="wrong" if who == "alice" else PASSWORD)
    assert answer.status_code == 400
    assert "This user name and this password do not belong together." in browser.text
    assert "waybill-session" not in browser.client.cookies


def test_an_unknown_user_costs_the_same_work(alice: User, monkeypatch: pytest.MonkeyPatch) -> None:
    """Django's own hasher runs once for each: for a wrong password, an unknown name, and one without a password."""
    work: list[str] = []
    encode = hashers.MD5PasswordHasher.encode

    def counted(self: Any, password: str, salt: str) -> str:
        work.append(password)
        return encode(self, password, salt)

    monkeypatch.setattr(hashers.MD5PasswordHasher, "encode", counted)
    User.objects.create(username="no-password", password=hashers.make_password(None))
    for name in ("alice", "nobody-known", "no-password"):
        with pytest.raises(WrongPasswordError):
            password_sign_in.sign_in(name, Secret("wrong"), "")
    assert len(work) == 3


def test_a_long_password_is_refused_before_it_is_hashed(alice: User) -> None:
    with pytest.raises(WrongPasswordError):
        password_sign_in.sign_in("alice", Secret("x" * (MAX_PASSWORD + 1)), "")


def guess(name: str, address: str, times: int) -> None:
    for _ in range(times):
        with pytest.raises(WrongPasswordError):
            password_sign_in.sign_in(name, Secret("guess"), address)


def test_guesses_of_one_name_from_one_address_are_bounded_and_keep_nobody_else_out(alice: User) -> None:
    guess("alice", "127.0.0.2", MOST_OF_A_PAIR)
    with pytest.raises(TooManyAttemptsError):
        password_sign_in.sign_in("alice", Secret(PASSWORD), "127.0.0.2")
    stranger = Browser(REMOTE_ADDR="127.0.0.2", HTTP_X_FORWARDED_FOR="127.0.0.1")
    answer = stranger.sign_in(alice)
    assert (answer.status_code, answer.headers["Retry-After"]) == (429, "300")
    assert "Too many attempts. Try again in 5 minutes." in stranger.text
    assert Browser(REMOTE_ADDR="127.0.0.1").sign_in(alice).status_code == 302
    # Further attempts from a blocked address do not use up the limit of all addresses together.
    for _ in range(MOST_OF_A_NAME):
        with pytest.raises(TooManyAttemptsError):
            password_sign_in.sign_in("alice", Secret("guess"), "127.0.0.2")
    assert password_sign_in.sign_in("alice", Secret(PASSWORD), "127.0.0.1") == alice


@pytest.mark.parametrize("network", ["192.0.2.{}", "2001:db8:{:x}::1"])
def test_guesses_of_one_name_are_bounded_wherever_they_come_from(alice: User, network: str) -> None:
    before = Browser(REMOTE_ADDR="198.51.100.1")
    assert before.sign_in(alice).status_code == 302
    before.get("/account")
    before.post("/signout")
    guess("alice", network.format(99), MOST_OF_A_PAIR - 1)
    for number in range(MOST_OF_A_NAME // MOST_OF_A_PAIR - 1):
        guess("alice", network.format(number), MOST_OF_A_PAIR)
    with pytest.raises(TooManyAttemptsError):
        password_sign_in.sign_in("alice", Secret(PASSWORD), network.format(200))
    assert Browser(REMOTE_ADDR="198.51.100.1").sign_in(alice).status_code == 429
    # A browser that she has signed in with knows no such bound, wherever it is, and has one of its own.
    before.client.defaults["REMOTE_ADDR"] = network.format(1)
    assert before.sign_in(alice).status_code == 302
    before.get("/account")
    before.post("/signout")
    for _ in range(MOST_OF_A_PAIR):
        assert before.sign_in(alice, "guess").status_code == 400
    assert before.sign_in(alice).status_code == 429


def test_the_device_of_one_user_is_nothing_to_another(alice: User, bob: User) -> None:
    token = password_sign_in.new_device(bob)
    assert password_sign_in.device_of(token, "bob")
    for other in (token[:-1], "", "x:y:z", token.replace(":", "")):
        assert password_sign_in.device_of(other, "bob") == ""
    assert password_sign_in.device_of(token, "alice") == ""


def test_who_signs_in_may_have_mistyped_before(alice: User) -> None:
    for _ in range(3):
        for _ in range(MOST_OF_A_PAIR - 1):
            with pytest.raises(WrongPasswordError):
                password_sign_in.sign_in("alice", Secret("mistyped"), "")
        assert password_sign_in.sign_in("alice", Secret(PASSWORD), "") == alice


@pytest.mark.parametrize("address", ["192.0.2.1", "2001:db8::{:x}"])
def test_guesses_from_one_address_are_bounded_whatever_the_name(alice: User, address: str) -> None:
    for number in range(MOST_OF_AN_ADDRESS):
        with pytest.raises(WrongPasswordError):
            password_sign_in.sign_in(f"user{number}", Secret("guess"), address.format(number))
    with pytest.raises(TooManyAttemptsError):
        password_sign_in.sign_in("alice", Secret(PASSWORD), address.format(9999))
    assert password_sign_in.sign_in("alice", Secret(PASSWORD), "198.51.100.1") == alice


def test_the_address_is_the_clients_where_a_front_server_says_so(alice: User, settings: Any) -> None:
    settings.FRONT_SERVERS = (ip_network("10.0.0.0/24"),)
    for number in range(MOST_OF_AN_ADDRESS + 1):
        # The first part is what the client itself claims.
        forwarded = f"198.51.100.{number}, 192.0.2.7, 10.0.0.9"
        browser = Browser(REMOTE_ADDR="10.0.0.1", HTTP_X_FORWARDED_FOR=forwarded)
        browser.get("/signin")
        answer = browser.post("/signin", username=f"user{number}", password="guess")
    assert answer.status_code == 429
    other = Browser(REMOTE_ADDR="10.0.0.1", HTTP_X_FORWARDED_FOR="192.0.2.8")
    assert other.sign_in(alice).status_code == 302
    claims = Browser(REMOTE_ADDR="192.0.2.7", HTTP_X_FORWARDED_FOR="192.0.2.8")
    assert claims.sign_in(alice).status_code == 429


def test_without_redis_nobody_signs_in(alice: User, settings: Any) -> None:
    backend = "django.core.cache.backends.redis.RedisCache"
    settings.CACHES = {"default": {"BACKEND": backend, "LOCATION": "unix:///nowhere/redis.sock"}}
    browser = Browser()
    assert browser.sign_in(alice).status_code == 503
    assert "Try again in a moment" in browser.text


@pytest.mark.parametrize(
    "elsewhere",
    [
        *("https://evil.example", "//evil.example", "/\\evil.example", "\\\\evil.example", "javascript:alert(1)"),
        *("account", "http:evil", "///evil.example", "/\t/evil.example", " //evil.example", "/" + "a" * 9000, "\n/x"),
    ],
)
def test_nobody_is_sent_elsewhere(alice: User, elsewhere: str) -> None:
    answer = Browser().sign_in(alice, after=elsewhere)
    assert (answer.status_code, answer.headers["Location"]) == (302, first_page())


@pytest.mark.parametrize("uri", ["http://[", "http://[::1", "https://x:99999/", "https://x:y/", "\ud7ff://", "%00"])
def test_an_address_that_is_none_is_no_part_of_the_policy(alice: User, uri: str) -> None:
    """It stands in a link that anybody may have written."""
    after = "/v2/oauth2/authorize?" + urlencode({"redirect_uri": uri})
    browser = Browser()
    answer = browser.get("/signin?" + urlencode({"next": after}))
    assert answer.status_code == 200
    assert answer.headers["Content-Security-Policy"].endswith("form-action 'self'")


def test_a_path_of_ours_is_where_one_goes_on(alice: User) -> None:
    browser = Browser()
    assert browser.sign_in(alice, after="/v0.10/task_list?limit=3").headers["Location"] == "/v0.10/task_list?limit=3"
    assert browser.get("/signin?next=/v0.10/task_list").headers["Location"] == "/v0.10/task_list"


def test_who_is_signed_in_gives_the_password_again_where_that_is_asked(alice: User) -> None:
    browser = Browser()
    browser.sign_in(alice)
    assert browser.get("/signin?next=/account&again=1").status_code == 200
    assert "needs that you sign in once more" in browser.text
    assert 'value="alice"' in browser.page


def test_a_form_without_its_token_does_nothing(alice: User) -> None:
    browser = Browser()
    answer = browser.post("/signin", username="alice", password=PASSWORD)
    assert answer.status_code == 403
    assert "did not come from us" in browser.text
    browser.sign_in(alice)
    browser.page = ""
    assert browser.post("/signout").status_code == 403
    assert browser.get("/account").status_code == 200


def test_a_session_ends_after_its_time_and_with_its_user(alice: User) -> None:
    browser = Browser()
    browser.sign_in(alice)
    session = browser.client.session
    assert 12 * 3600 - 60 < session.get_expiry_age() <= 12 * 3600
    User.objects.filter(pk=alice.pk).update(is_active=False)
    assert browser.get("/account").status_code == 302


def test_sessions_that_are_over_are_forgotten(alice: User) -> None:
    for _ in range(2):
        Browser().sign_in(alice)
    first, second = UserSession.objects.values_list("pk", flat=True)
    UserSession.objects.filter(pk=first).update(expire_date=datetime.now(UTC) - timedelta(minutes=1))
    sessions.delete_expired()
    assert [row.pk for row in UserSession.objects.all()] == [second]


def test_one_session_more_than_a_user_may_have_ends_the_oldest(
    alice: User, bob: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sessions, "MOST", 3)
    password_sign_in.set_password(bob, Secret(PASSWORD))
    other, *browsers = (Browser() for _ in range(5))
    other.sign_in(bob)
    for browser in browsers:
        browser.sign_in(alice)
    assert [browser.get("/account").status_code for browser in (other, *browsers)] == [200, 302, 200, 200, 200]
    assert UserSession.objects.filter(user=alice).count() == 3


def test_sessions_go_with_their_user(alice: User) -> None:
    browser = Browser()
    browser.sign_in(alice)
    assert UserSession.objects.get().user == alice
    browser.get("/account")
    browser.post("/signout")
    assert not UserSession.objects.exclude(user=None).exists()
    browser.sign_in(alice)
    alice.delete()
    assert not UserSession.objects.exclude(user=None).exists()
    assert browser.get("/account").status_code == 302


def test_a_password_that_is_easy_to_guess_is_refused(alice: User) -> None:
    for easy in ("short", "password1234", "x" * (MAX_PASSWORD + 1)):
        with pytest.raises(PasswordRefusedError):
            password_sign_in.set_password(alice, Secret(easy))
    assert password_sign_in.sign_in("alice", Secret(PASSWORD), "") == alice


def test_the_real_hasher_keeps_no_password(alice: User, settings: Any) -> None:
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.PBKDF2PasswordHasher"]
    password_sign_in.set_password(alice, Secret("another long one 2"))
    assert alice.password.startswith("pbkdf2_sha256$")
    assert password_sign_in.sign_in("alice", Secret("another long one 2"), "") == alice


def test_a_password_is_no_token_and_a_token_no_password(alice: User) -> None:
    token = tokens.issue(alice)
    with pytest.raises(WrongPasswordError):
        password_sign_in.sign_in("alice", Secret(token), "")
    assert tokens.authenticate(PASSWORD) is None


def test_a_link_to_the_sign_in_page_adds_no_address_to_its_policy(alice: User) -> None:
    """Only an address that a registered application has named may be where its form leads."""
    browser = Browser()
    evil = {"client_id": "x", "redirect_uri": "https://evil.example/take", "response_type": "code"}
    for query in (evil, {"redirect_uri": "https://evil.example/take"}):
        answer = browser.get("/signin?" + urlencode({"next": "/v2/oauth2/authorize?" + urlencode(query)}))
        assert answer.headers["Content-Security-Policy"].endswith("form-action 'self'")
    application, _ = applications.make(alice, ApplicationSpec("portal", redirect_uris=["https://portal.example/back"]))
    query = {**evil, "client_id": application.client_id}
    answer = browser.get("/signin?" + urlencode({"next": "/v2/oauth2/authorize?" + urlencode(query)}))
    assert "evil" not in answer.headers["Content-Security-Policy"]
    query["redirect_uri"] = "https://portal.example/back"
    answer = browser.get("/signin?" + urlencode({"next": "/v2/oauth2/authorize?" + urlencode(query)}))
    assert answer.headers["Content-Security-Policy"].endswith("form-action 'self' https://portal.example")
