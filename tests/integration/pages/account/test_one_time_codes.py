"""One-time codes in the browser: set up, signing in with them, and turning them off."""

from __future__ import annotations

import re
from html import unescape

import pytest
from django.contrib.sessions.models import Session

from identity import one_time_codes, password_sign_in
from identity.hidden import Secret
from identity.models import OneTimeCodeSecret, User
from tests.integration.identity.test_one_time_codes import Phone
from tests.integration.pages import PASSWORD, Browser

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("passwords")]


@pytest.fixture
def phone(alice: User) -> Phone:
    """alice signs in with codes. None of the present ones is used up."""
    phone = Phone(one_time_codes.begin_enrolment(alice).secret)
    one_time_codes.confirm(alice, phone.code())
    OneTimeCodeSecret.objects.filter(user=alice).update(last_step=0)
    return phone


def signed_in(browser: Browser) -> bool:
    return browser.get("/account").status_code == 200


def values(page: str, ident: str) -> list[str]:
    """The values of the fields of a page whose id begins so."""
    return [unescape(value) for value in re.findall(rf'id="{ident}[^"]*"[^>]* value="([^"]*)"', page)]


def test_codes_are_set_up_on_the_account_page_and_then_asked_for(alice: User) -> None:
    browser = Browser()
    browser.sign_in(alice)
    browser.get("/account")
    browser.post("/account/codes", password=PASSWORD)
    [secret] = values(browser.page, "codes-secret")
    phone = Phone(Secret(secret))
    assert f"secret={secret}&amp;issuer=Waybill" in browser.page
    browser.post("/account/codes/confirm", code=phone.wrong().value)
    assert "This is not the present one-time code." in browser.text
    assert secret not in browser.page
    browser.post("/account/codes/confirm", code=phone.code().value)
    recovery = values(browser.page, "shown-")
    assert len(recovery) == one_time_codes.RECOVERY_CODES
    browser.get("/account")
    assert "You have 10 recovery codes left." in browser.text
    assert recovery[0] not in browser.page

    other = Browser()
    assert other.sign_in(alice, after="/account#tokens").status_code == 200
    assert "Enter the code" in other.text
    assert not signed_in(other)
    answer = other.post("/signin/code", code=phone.code(+1).value, next="/account#tokens")
    assert (answer.status_code, answer.headers["Location"]) == (302, "/account#tokens")
    assert signed_in(other)


def test_the_first_code_is_not_found_by_trying_in_a_stolen_session(alice: User) -> None:
    """Whoever finds it would turn codes on, see the recovery codes, and lock the user out."""
    browser = Browser()
    browser.sign_in(alice)
    browser.get("/account")
    browser.post("/account/codes", password=PASSWORD)
    phone = Phone(Secret(values(browser.page, "codes-secret")[0]))
    for _ in range(password_sign_in.MOST_CODES):
        assert browser.post("/account/codes/confirm", code=phone.wrong().value).status_code == 400
    answer = browser.post("/account/codes/confirm", code=phone.code().value)
    assert (answer.status_code, answer.headers["Retry-After"]) == (429, str(password_sign_in.WINDOW))
    assert not one_time_codes.enabled(alice)


def test_a_wrong_code_is_asked_for_again_and_a_recovery_code_does_too(alice: User, phone: Phone) -> None:
    recovery = one_time_codes.new_recovery_codes(alice)[0]
    browser = Browser()
    browser.sign_in(alice)
    assert browser.post("/signin/code", code=phone.wrong().value).status_code == 400
    assert "This is not the present one-time code." in browser.text
    assert browser.post("/signin/code", code=recovery.value).status_code == 302
    assert signed_in(browser)


def test_a_code_without_a_password_signs_nobody_in(alice: User, phone: Phone) -> None:
    browser = Browser()
    browser.get("/signin")
    assert browser.post("/signin/code", code=phone.code().value).status_code == 400
    assert "Begin again with your password." in browser.text
    assert not signed_in(browser)
    assert browser.get("/signin/code").headers["Location"] == "/signin"


def test_a_sign_in_belongs_to_its_browser_and_lapses(
    alice: User, phone: Phone, monkeypatch: pytest.MonkeyPatch
) -> None:
    browser, other = Browser(), Browser()
    browser.sign_in(alice)
    other.get("/signin")
    assert other.post("/signin/code", code=phone.code().value).status_code == 400
    monkeypatch.setattr(password_sign_in, "MOST_PENDING", -1)
    assert browser.post("/signin/code", code=phone.code().value).status_code == 400
    assert "Too much time has passed." in browser.text
    assert not signed_in(browser)


def test_a_session_without_a_user_lasts_no_longer_than_the_code_is_waited_for(alice: User, phone: Phone) -> None:
    browser = Browser()
    browser.sign_in(alice)
    assert browser.client.cookies["waybill-session"]["max-age"] <= password_sign_in.MOST_PENDING
    browser.post("/signin/code", code=phone.code().value)
    assert browser.client.cookies["waybill-session"]["max-age"] > 11 * 3600


def test_a_signed_in_user_gives_password_and_code_again(alice: User, phone: Phone) -> None:
    """As for the consent to an application; the session goes on meanwhile."""
    browser = Browser()
    browser.sign_in(alice)
    browser.post("/signin/code", code=phone.code().value)
    browser.get("/signin?again=1")
    browser.post("/signin", username="alice", password=PASSWORD)
    assert signed_in(browser)
    browser.get("/signin?again=1")
    browser.post("/signin", username="alice", password=PASSWORD)
    assert browser.post("/signin/code", code=phone.code(+1).value).status_code == 302
    assert signed_in(browser)


def test_the_session_changes_its_key_with_the_code(alice: User, phone: Phone) -> None:
    """An attacker who has planted a session cookie before has no session of the user afterwards."""
    browser = Browser()
    browser.sign_in(alice)
    before = browser.client.cookies["waybill-session"].value
    browser.post("/signin/code", code=phone.code().value)
    assert browser.client.cookies["waybill-session"].value != before
    assert not Session.objects.filter(session_key=before).exists()


def test_a_flood_of_codes_is_stopped_with_a_time_to_wait(alice: User, phone: Phone) -> None:
    browser = Browser()
    browser.sign_in(alice)
    for _ in range(password_sign_in.MOST_OF_A_PAIR - 1):
        assert browser.post("/signin/code", code=phone.wrong().value).status_code == 400
    answer = browser.post("/signin/code", code=phone.code().value)
    assert (answer.status_code, answer.headers["Retry-After"]) == (429, "300")
    assert not signed_in(browser)


def test_one_code_does_not_sign_in_two_browsers(alice: User, phone: Phone) -> None:
    code = phone.code().value
    answers = []
    for browser in (Browser(), Browser()):
        browser.sign_in(alice)
        answers.append(browser.post("/signin/code", code=code).status_code)
    assert answers == [302, 400]


def test_the_browser_of_before_needs_the_code_too(alice: User, phone: Phone) -> None:
    browser = Browser()
    browser.sign_in(alice)
    browser.post("/signin/code", code=phone.code().value)
    browser.get("/account")
    browser.post("/signout")
    browser.sign_in(alice)
    assert not signed_in(browser)


@pytest.mark.parametrize("form", ["", "/recovery", "/off"])
def test_an_open_session_alone_changes_nothing(alice: User, form: str, request: pytest.FixtureRequest) -> None:
    """Somebody at an unlocked screen has neither the password nor the phone."""
    browser = Browser()
    browser.sign_in(alice)
    phone: Phone = request.getfixturevalue("phone")
    browser.get("/account")
    for password, code in (("wrong", phone.code().value), (PASSWORD, ""), (PASSWORD, phone.wrong().value)):
        assert browser.post(f"/account/codes{form}", password=password, code=code).status_code == 400
    assert one_time_codes.enabled(alice)
    assert one_time_codes.recovery_codes_left(alice) == 10


def test_recovery_codes_are_made_anew_and_codes_turned_off(alice: User, phone: Phone) -> None:
    browser = Browser()
    browser.sign_in(alice)
    browser.post("/signin/code", code=phone.code().value)
    browser.get("/account")
    recovery = one_time_codes.new_recovery_codes(alice)
    browser.post("/account/codes/recovery", password=PASSWORD, code=recovery[0].value)
    new = values(browser.page, "shown-")
    assert len(new) == 10
    assert not {code.value for code in recovery} & set(new)
    assert browser.post("/account/codes/off", password=PASSWORD, code=new[0]).status_code == 302
    assert not one_time_codes.enabled(alice)
    browser.get("/account")
    assert "One-time codes are off." in browser.text


def test_the_second_page_speaks_the_language_of_its_reader(alice: User, phone: Phone) -> None:
    browser = Browser(headers={"Accept-Language": "de"})
    browser.sign_in(alice)
    assert "Geben Sie den Code ein, den Ihr Authenticator zeigt." in browser.text
