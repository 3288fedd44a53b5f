"""Passkeys: added on the account page, and asked for at sign-in, alone or after the password; and what is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.core.cache import cache

from identity import certificate_subjects, one_time_codes, passkeys, password_sign_in
from identity.error_categories import NotFoundError
from identity.hidden import Secret
from identity.models import Passkey, User, UserSession
from identity.passkeys import LAST_PASSKEY
from identity.password_sign_in import CodeRefusedError, CodeRequiredError
from identity.sign_in_proof import RECENT
from tests.browsers.authenticator import USER_PRESENT, USER_VERIFIED, Authenticator
from tests.integration.cast import all_at_once
from tests.integration.identity.test_one_time_codes import Phone
from tests.integration.pages import PASSWORD, Browser
from tests.refusals import raises_refusal
from transferapi.tasks.models import Mail
from webui.sign_in import passkey as passkey_pages

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("passwords", "site")]
ORIGIN, RP = "https://data.example.org", "data.example.org"


@pytest.fixture
def site(settings: Any) -> None:
    """The service has a name, by https."""
    settings.PUBLIC_URL, settings.ALLOWED_HOSTS = ORIGIN, ["*"]


@pytest.fixture
def browser(alice: User) -> Browser:
    """alice's, on her account page."""
    alice.email = "alice@example.org"
    alice.save()
    return at_account(alice)


@pytest.fixture
def key(browser: Browser) -> Authenticator:
    """alice's passkey."""
    return added(browser)


def at_account(user: User) -> Browser:
    found = Browser(SERVER_NAME=RP)
    found.sign_in(user)
    found.get("/account")
    return found


def asked(browser: Browser, path: str, **fields: str) -> Any:
    answer = browser.post(path, **fields)
    assert answer.status_code == 200, getattr(answer, "content", b"")
    return json.loads(answer.getvalue())


def added(browser: Browser, key: Authenticator | None = None, label: str = "laptop") -> Authenticator:
    key = key or Authenticator(ORIGIN, RP)
    answer = browser.post("/account/passkeys", label=label, credential=key.create(asked(browser, OPTIONS_NEW)))
    assert answer.status_code == 302, browser.text
    browser.get("/account")
    return key


OPTIONS_NEW, OPTIONS = "/account/passkeys/options", "/signin/passkey/options"


def begun(user: User | None = None) -> Browser:
    """A new browser on the sign-in page; with `user`, after the password."""
    found = Browser(SERVER_NAME=RP)
    found.get("/signin")
    if user is not None:
        assert found.post("/signin", username=user.username, password=PASSWORD).status_code == 200
    return found


def signed_in(browser: Browser) -> bool:
    return browser.get("/account").status_code == 200


def test_a_passkey_is_added_named_used_and_removed(browser: Browser, alice: User) -> None:
    options = asked(browser, OPTIONS_NEW)
    assert options["rp"] == {"id": RP, "name": "Waybill"}
    assert options["authenticatorSelection"]["userVerification"] == "required"
    assert options["authenticatorSelection"]["residentKey"] == "required"
    assert options["attestation"] == "none"
    key = added(browser)
    assert "laptop" in browser.text
    [row] = passkeys.of(alice)
    assert (bytes(row.credential_id), row.transports, row.last_used_at) == (key.credential_id, ["internal"], None)
    browser.post(f"/account/passkeys/{row.pk}/rename", label="the old laptop")
    browser.get("/account")
    assert "the old laptop" in browser.text

    other = begun()
    options = asked(other, OPTIONS)
    assert "allowCredentials" not in options or options["allowCredentials"] is None
    answer = other.post("/signin/passkey", credential=key.get(options), next="/account#passkeys")
    assert answer.headers["Location"] == "/account#passkeys"
    assert signed_in(other)
    assert "with a passkey" in other.text
    [row] = passkeys.of(alice)
    assert (row.sign_count, row.last_used_at is not None) == (1, True)

    browser.post(f"/account/passkeys/{row.pk}/remove", confirmed="yes")
    third = begun()
    assert third.post("/signin/passkey", credential=key.get(asked(third, OPTIONS))).status_code == 400
    assert "not known here" in third.text
    told = list(Mail.objects.order_by("pk").values_list("subject", flat=True))
    assert told == [
        "Waybill: a passkey was added to your account",
        "Waybill: a passkey of your account was removed",
    ]


def test_an_answer_serves_once(key: Authenticator) -> None:
    browser = begun()
    answer = key.get(asked(browser, OPTIONS))
    assert browser.post("/signin/passkey", credential=answer).status_code == 302
    browser.get("/account")
    browser.post("/signout")
    browser.get("/signin")
    assert browser.post("/signin/passkey", credential=answer).status_code == 400
    asked(browser, OPTIONS)
    assert browser.post("/signin/passkey", credential=answer).status_code == 400
    assert not signed_in(browser)


def test_a_challenge_belongs_to_its_session(key: Authenticator) -> None:
    browser, other = begun(), begun()
    answer = key.get(asked(browser, OPTIONS))
    asked(other, OPTIONS)
    assert other.post("/signin/passkey", credential=answer).status_code == 400
    assert not signed_in(other)


def test_a_challenge_lapses(key: Authenticator, monkeypatch: pytest.MonkeyPatch) -> None:
    browser = begun()
    answer = key.get(asked(browser, OPTIONS))
    monkeypatch.setattr(passkeys, "LIFETIME", -1)
    assert browser.post("/signin/passkey", credential=answer).status_code == 400
    assert "took too long" in browser.text


@pytest.mark.django_db(transaction=True)
def test_of_concurrent_takers_of_one_challenge_one_gets_it() -> None:
    session: dict[str, Any] = {}
    challenge = passkeys.new(session, "sign-in")

    def take() -> bytes | None:
        try:
            return passkeys.take(dict(session), "sign-in")
        except passkeys.PasskeyError:
            return None

    assert sorted(all_at_once([take] * 5), key=str).count(challenge) == 1


def another_site(key: Authenticator, options: dict[str, Any]) -> str:
    key.rp_id = "evil.example"
    return key.get(options)


def nobody_there(key: Authenticator, options: dict[str, Any]) -> str:
    key.flags = USER_VERIFIED
    return key.get(options)


def not_verified(key: Authenticator, options: dict[str, Any]) -> str:
    key.flags = USER_PRESENT
    return key.get(options)


def another_key(key: Authenticator, options: dict[str, Any]) -> str:
    thief = Authenticator(ORIGIN, RP)
    thief.credential_id, thief.user = key.credential_id, key.user
    return thief.get(options)


def another_user(key: Authenticator, options: dict[str, Any]) -> str:
    key.user = b"\x11" * 16
    return key.get(options)


LIES: list[Callable[[Authenticator, dict[str, Any]], str]] = [
    lambda key, options: key.get(options, origin="https://evil.example"),
    lambda key, options: key.get(options, origin="https://login.data.example.org"),
    lambda key, options: key.get(options, origin="http://data.example.org"),
    lambda key, options: key.get(options, type="webauthn.create"),
    lambda key, options: key.get({**options, "challenge": "A" * 43}),
    another_site,
    nobody_there,
    not_verified,
    another_key,
    another_user,
    lambda key, options: "",
    lambda key, options: "[]",
    lambda key, options: "{",
    lambda key, options: "[" * 8000,
    lambda key, options: key.get(options)[:-20],
    lambda key, options: key.get(options) + " " * 20_000,
    lambda key, options: key.get(options).replace('"rawId"', '"other"'),
]


@pytest.mark.parametrize("lie", LIES)
def test_an_answer_that_proves_nothing_signs_nobody_in(
    key: Authenticator, lie: Callable[[Authenticator, dict[str, Any]], str]
) -> None:
    browser = begun()
    assert browser.post("/signin/passkey", credential=lie(key, asked(browser, OPTIONS))).status_code == 400
    assert 'role="alert"' in browser.page
    assert not signed_in(browser)


@pytest.mark.parametrize(
    "lie",
    [
        lambda key, options: key.create(options, origin="https://evil.example"),
        lambda key, options: key.create(options, type="webauthn.get"),
        lambda key, options: key.create({**options, "challenge": "A" * 43}),
        lambda key, options: key.create(options)[:-30],
        lambda key, options: "",
    ],
)
def test_a_new_passkey_that_proves_nothing_is_not_added(
    browser: Browser, alice: User, lie: Callable[[Authenticator, dict[str, Any]], str]
) -> None:
    answer = lie(Authenticator(ORIGIN, RP), asked(browser, OPTIONS_NEW))
    assert browser.post("/account/passkeys", label="laptop", credential=answer).status_code == 400
    assert 'value="laptop"' in browser.page
    assert passkeys.of(alice) == []


def test_a_key_without_verification_is_not_added(browser: Browser, alice: User) -> None:
    key = Authenticator(ORIGIN, RP)
    key.flags = USER_PRESENT
    answer = key.create(asked(browser, OPTIONS_NEW))
    assert browser.post("/account/passkeys", label="laptop", credential=answer).status_code == 400


def test_a_counter_that_goes_back_means_a_copy(key: Authenticator, alice: User) -> None:
    key.count = 10
    first = begun()
    assert first.post("/signin/passkey", credential=key.get(asked(first, OPTIONS))).status_code == 302
    key.count = 5
    for _ in range(2):
        browser = begun()
        assert browser.post("/signin/passkey", credential=key.get(asked(browser, OPTIONS))).status_code == 400
        assert "copied" in browser.text
        key.count = 100
    first.get("/account")
    assert "seems to be copied" in first.text
    assert Mail.objects.filter(subject__contains="copied").count() == 1


def test_a_key_that_does_not_count_signs_in_again_and_again(browser: Browser) -> None:
    key = added(browser, Authenticator(ORIGIN, RP, count=None))
    for _ in range(2):
        other = begun()
        assert other.post("/signin/passkey", credential=key.get(asked(other, OPTIONS))).status_code == 302


def test_a_passkey_is_of_one_user_and_registered_once(key: Authenticator, browser: Browser, bob: User) -> None:
    password_sign_in.set_password(bob, Secret(PASSWORD))
    for again in (browser, at_account(bob)):
        answer = key.create(asked(again, OPTIONS_NEW))
        assert again.post("/account/passkeys", label="same", credential=answer).status_code == 409
    assert Passkey.objects.count() == 1


def test_nobody_touches_the_passkey_of_another(key: Authenticator, bob: User, alice: User) -> None:
    password_sign_in.set_password(bob, Secret(PASSWORD))
    [row] = passkeys.of(alice)
    other = at_account(bob)
    for form in ("rename", "remove"):
        assert other.post(f"/account/passkeys/{row.pk}/{form}", label="mine", confirmed="yes").status_code == 404
    with pytest.raises(NotFoundError):
        passkeys.remove(bob, "nonsense")
    assert passkeys.of(alice) == [row]


def test_a_user_has_so_many_and_no_more(
    key: Authenticator, browser: Browser, monkeypatch: pytest.MonkeyPatch, alice: User
) -> None:
    options = asked(browser, OPTIONS_NEW)
    monkeypatch.setattr(passkeys, "MOST", 1)
    answer = browser.post("/account/passkeys", label="x", credential=Authenticator(ORIGIN, RP).create(options))
    assert answer.status_code == 409
    assert browser.post(OPTIONS_NEW).status_code == 409
    assert len(passkeys.of(alice)) == 1


def test_a_session_that_is_not_recent_adds_no_way_to_sign_in(
    browser: Browser, alice: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stolen session is not enough: the user signs in once more."""
    session = browser.client.session
    session["signed_in_at"] -= 3600
    session.save()
    answer = browser.post(OPTIONS_NEW)
    assert answer.status_code == 403
    assert json.loads(answer.getvalue())["again"].startswith("/signin?next=%2Faccount%23passkeys&again=1")
    for path in ("/account/passkeys", "/account/passkeys/second-factor"):
        assert "again=1" in browser.post(path, label="x", wanted="yes").headers["Location"]
    assert passkeys.of(alice) == []


def test_after_the_password_a_passkey_is_asked_for_where_the_user_wants_it(
    key: Authenticator, browser: Browser, alice: User
) -> None:
    browser.post("/account/passkeys/second-factor", wanted="yes")
    other = begun(alice)
    assert "Your passkey is asked for, too." in other.text
    assert not signed_in(other)
    other = begun(alice)
    options = asked(other, OPTIONS, second="yes")
    assert [one["id"] for one in options["allowCredentials"]] != []
    answer = other.post("/signin/passkey/second", credential=key.get(options), next="/account")
    assert answer.headers["Location"] == "/account"
    assert signed_in(other)
    assert "with your password and a passkey" in other.text

    [row] = passkeys.of(alice)
    assert browser.post(f"/account/passkeys/{row.pk}/remove", confirmed="yes").status_code == 409
    assert "this is the last" in browser.text
    browser.post("/account/passkeys/second-factor", wanted="no", confirmed="yes")
    assert Browser().sign_in(alice).status_code == 302


def test_the_last_way_to_sign_in_is_not_removed(alice: User) -> None:
    first, second = (
        Passkey.objects.create(user=alice, label=name, credential_id=name.encode(), public_key=b"2")
        for name in ("laptop", "telephone")
    )
    alice.set_unusable_password()
    alice.save()
    passkeys.remove(alice, first.pk)
    with raises_refusal(LAST_PASSKEY):
        passkeys.remove(alice, second.pk)
    subject = certificate_subjects.add(alice, "/O=Grid/CN=Alice", proven=["/O=Grid/CN=Alice"])
    passkeys.remove(alice, second.pk)
    with pytest.raises(certificate_subjects.LastSubjectError):
        certificate_subjects.remove(alice, subject.pk)


def test_the_passkey_of_another_user_is_no_second_factor(key: Authenticator, browser: Browser, bob: User) -> None:
    password_sign_in.set_password(bob, Secret(PASSWORD))
    bobs_browser = at_account(bob)
    bobs = added(bobs_browser)
    browser.post("/account/passkeys/second-factor", wanted="yes")
    other = begun(User.objects.get(username="alice"))
    options = asked(other, OPTIONS, second="yes")
    assert other.post("/signin/passkey/second", credential=bobs.get(options)).status_code == 400
    assert not signed_in(other)


def test_a_passkey_without_the_password_before_is_no_second_factor(key: Authenticator) -> None:
    other = begun()
    assert other.post(OPTIONS, second="yes").status_code == 400
    assert other.post("/signin/passkey/second", credential=key.get(asked(other, OPTIONS))).status_code == 400
    assert not signed_in(other)


def test_an_answer_for_one_purpose_serves_no_other(key: Authenticator, browser: Browser, alice: User) -> None:
    browser.post("/account/passkeys/second-factor", wanted="yes")
    other = begun(alice)
    answer = key.get(asked(other, OPTIONS, second="yes"))
    assert other.post("/signin/passkey", credential=answer).status_code == 400
    assert not signed_in(other)


def test_a_code_serves_in_place_of_a_passkey_where_codes_are_on(
    key: Authenticator, browser: Browser, alice: User
) -> None:
    phone = Phone(one_time_codes.begin_enrolment(alice).secret)
    one_time_codes.confirm(alice, phone.code())
    browser.post("/account/passkeys/second-factor", wanted="yes")
    other = begun(alice)
    assert "Enter the code" in other.text
    assert "Use a passkey" in other.text
    assert other.post("/signin/code", code=phone.code(+1).value).status_code == 302


def test_who_signs_in_by_password_and_passkey_turns_codes_on(key: Authenticator, browser: Browser, alice: User) -> None:
    """There is no code to ask for yet: the passkey of a recent sign-in counts."""
    browser.post("/account/passkeys/second-factor", wanted="yes")
    # A session that began without a second factor, or long ago, begins again.
    answer = browser.post("/account/codes", password=PASSWORD)
    assert answer.headers["Location"] == "/signin?next=%2Faccount%23one-time-codes&again=1&fresh=required"
    other = begun(alice)
    other.post("/signin/passkey/second", credential=key.get(asked(other, OPTIONS, second="yes")))
    other.get("/account")
    assert other.post("/account/codes", password="wrong").status_code == 400
    assert not one_time_codes.enrolling(alice)
    assert other.post("/account/codes", password=PASSWORD).status_code == 200
    assert one_time_codes.enrolling(alice)
    session = other.client.session
    session["signed_in_at"] -= RECENT + 1
    session.save()
    assert "again=1" in other.post("/account/codes", password=PASSWORD).headers["Location"]
    # From the first code on, a code is asked for.
    one_time_codes.confirm(alice, Phone(one_time_codes.begin_enrolment(alice).secret).code())
    assert other.post("/account/codes/off", password=PASSWORD).status_code == 400
    assert one_time_codes.enabled(alice)


def test_guesses_of_passkeys_are_counted_as_those_of_codes(key: Authenticator, browser: Browser, alice: User) -> None:
    browser.post("/account/passkeys/second-factor", wanted="yes")
    other = begun(alice)
    for _ in range(password_sign_in.MOST_OF_A_PAIR - 1):
        assert other.post("/signin/passkey/second", credential="{}").status_code == 400
    assert other.post("/signin/passkey/second", credential="{}").status_code == 429


def test_challenges_for_strangers_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(passkey_pages, "MOST_CHALLENGES", 2)
    browser = begun()
    asked(browser, OPTIONS)
    assert browser.client.cookies["waybill-session"]["max-age"] <= password_sign_in.MOST_PENDING
    asked(browser, OPTIONS)
    assert browser.post(OPTIONS).status_code == 429


def test_a_session_that_was_laid_in_the_browser_is_not_the_one_that_signs_in(key: Authenticator) -> None:
    """Session fixation: an attacker who knows the key of a session before its sign-in has nothing of it afterwards."""
    browser, attacker = begun(), Browser()
    answer = key.get(asked(browser, OPTIONS))
    attacker.client.cookies["waybill-session"] = browser.client.cookies["waybill-session"].value
    assert browser.post("/signin/passkey", credential=answer).status_code == 302
    assert signed_in(browser)
    assert not signed_in(attacker)


def test_strangers_who_ask_for_challenges_fill_no_table(key: Authenticator, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each request is of a new browser."""
    monkeypatch.setattr(passkey_pages, "MOST_CHALLENGES", 5)
    before = UserSession.objects.count()
    statuses = [begun().post(OPTIONS).status_code for _ in range(15)]
    assert statuses.count(429) >= 10
    assert UserSession.objects.count() - before <= 5


def test_an_inactive_user_does_not_get_in(key: Authenticator, alice: User) -> None:
    User.objects.filter(pk=alice.pk).update(is_active=False)
    browser = begun()
    assert browser.post("/signin/passkey", credential=key.get(asked(browser, OPTIONS))).status_code == 400


@pytest.mark.parametrize(
    ("address", "words"),
    [
        ("https://192.0.2.1", "Passkeys need https and a host name"),
        ("http://data.example.org", "Passkeys need https and a host name"),
        ("http://127.0.0.1:8000", "Open http://localhost:8000 to use them"),
    ],
)
def test_where_passkeys_cannot_be_the_page_says_so(browser: Browser, settings: Any, address: str, words: str) -> None:
    settings.PUBLIC_URL = address
    browser.get("/account")
    assert words in browser.text
    if "127" not in address:
        assert browser.post(OPTIONS_NEW).status_code == 409
        assert begun().post(OPTIONS).status_code == 409


def test_without_redis_no_challenge_is_made(key: Authenticator, settings: Any) -> None:
    browser = begun()
    backend = "django.core.cache.backends.redis.RedisCache"
    settings.CACHES = {"default": {"BACKEND": backend, "LOCATION": "unix:///nowhere/redis.sock"}}
    assert browser.post(OPTIONS).status_code == 503


def test_the_operator_removes_all_after_a_loss(key: Authenticator, browser: Browser, alice: User) -> None:
    browser.post("/account/passkeys/second-factor", wanted="yes")
    assert passkeys.remove_all(alice) == 1
    cache.clear()
    assert Browser().sign_in(alice).status_code == 302


def test_a_copied_passkey_is_still_asked_for(key: Authenticator, browser: Browser, alice: User) -> None:
    """The owner of the copy must not get rid of the second factor by using it."""
    browser.post("/account/passkeys/second-factor", wanted="yes")
    Passkey.objects.update(copied_at=datetime.now(UTC) - timedelta(days=1))
    other = begun(alice)
    assert "None of your passkeys can be used here" in other.text
    assert not signed_in(other)


def test_where_no_passkey_can_be_shown_the_password_alone_is_refused(
    key: Authenticator, browser: Browser, alice: User
) -> None:
    """As in the ssh shell, which asks for a code."""
    browser.post("/account/passkeys/second-factor", wanted="yes")
    with pytest.raises(CodeRequiredError) as found:
        password_sign_in.sign_in("alice", Secret(PASSWORD), "")
    with pytest.raises(CodeRefusedError):
        password_sign_in.finish(found.value.pending, Secret("123456"), "")
