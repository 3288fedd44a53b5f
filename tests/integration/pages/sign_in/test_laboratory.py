"""A course behind one address (NAT): all of its people sign in, and strangers among them gain nothing."""

from __future__ import annotations

import base64
import time
from typing import Any

import pytest
from django.contrib.auth import authenticate
from django.core.cache import cache

from identity import one_time_codes, password_sign_in, sign_up
from identity.hidden import Secret
from identity.models import User
from identity.password_sign_in import (
    MOST_OF_A_PAIR,
    MOST_OF_AN_ADDRESS,
    CodeRefusedError,
    CodeRequiredError,
    TooManyAttemptsError,
    WrongPasswordError,
)
from identity.proven_identities import Proven
from identity.sign_up_policy import parse
from tests.integration.pages import PASSWORD, Browser
from webui.sign_in.providers import MOST_SIGN_UPS, UNKNOWN

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("passwords")]
ADDRESS = "192.0.2.7"
OWN = Secret(PASSWORD)


def guesses_left(names: str = "victim{}") -> int:
    """Guess, each time at another name, until the address is refused."""
    for number in range(MOST_OF_AN_ADDRESS * 2):
        try:
            password_sign_in.sign_in(names.format(number), Secret("guess"), ADDRESS)
        except WrongPasswordError:
            continue
        except TooManyAttemptsError:
            return number
    raise AssertionError("the address is not bounded")


def test_a_course_signs_in_at_one_time(alice: User) -> None:
    for _ in range(MOST_OF_AN_ADDRESS + 10):
        password_sign_in.sign_in("alice", OWN, ADDRESS)
    assert guesses_left() == MOST_OF_AN_ADDRESS


def test_an_account_of_ones_own_gives_no_further_guess(alice: User) -> None:
    for number in range(MOST_OF_AN_ADDRESS):
        password_sign_in.sign_in("alice", OWN, ADDRESS)
        with pytest.raises(WrongPasswordError):
            password_sign_in.sign_in(f"victim{number}", Secret("guess"), ADDRESS)
    for name, secret in (("alice", OWN), ("another", Secret("guess"))):
        with pytest.raises(TooManyAttemptsError):
            password_sign_in.sign_in(name, secret, ADDRESS)


def test_a_success_resets_no_counter_of_another_name(alice: User, bob: User) -> None:
    for _ in range(MOST_OF_A_PAIR):
        with pytest.raises(WrongPasswordError):
            password_sign_in.sign_in("bob", Secret("guess"), ADDRESS)
        password_sign_in.sign_in("alice", OWN, ADDRESS)
    with pytest.raises(TooManyAttemptsError):
        password_sign_in.sign_in("bob", OWN, ADDRESS)


def test_password_and_code_give_back_what_they_took_and_wrong_codes_nothing(alice: User) -> None:
    enrolment = one_time_codes.begin_enrolment(alice)
    secret = base64.b32decode(enrolment.secret.value.replace(" ", "").upper())
    codes = one_time_codes.confirm(alice, Secret(one_time_codes.code_at(secret, one_time_codes.step_at(time.time()))))
    for code in codes[:3]:
        with pytest.raises(CodeRequiredError) as asked:
            password_sign_in.sign_in("alice", OWN, ADDRESS)
        with pytest.raises(CodeRefusedError):
            password_sign_in.finish(asked.value.pending, Secret("000000"), ADDRESS)
        password_sign_in.finish(asked.value.pending, code, ADDRESS)
    assert guesses_left() == MOST_OF_AN_ADDRESS - 3


def test_a_counter_that_expired_meanwhile_is_not_begun_anew(alice: User, monkeypatch: pytest.MonkeyPatch) -> None:
    """Redis would begin it below zero, and without an end."""

    def slow(**given: Any) -> Any:
        cache.clear()
        return authenticate(**given)

    monkeypatch.setattr("identity.password_sign_in.authenticate", slow)
    password_sign_in.sign_in("alice", OWN, ADDRESS)
    monkeypatch.undo()
    assert guesses_left() == MOST_OF_AN_ADDRESS


# ---- accounts


def arrived(number: int) -> Browser:
    """A browser whose user has just proven an identity that nobody has linked."""
    browser = Browser(REMOTE_ADDR=ADDRESS)
    browser.get("/signin")
    session = browser.client.session
    facts = {"email": f"p{number}@lab.example.org", "email_verified": True}
    proven = Proven.of("oidc:https://id.example", f"s-{number}", f"p{number}@id.example", time.time(), **facts)
    session[UNKNOWN] = proven.as_document()
    session.save()
    browser.client.cookies["waybill-session"] = session.session_key or ""
    return browser


def test_a_course_makes_its_accounts_at_one_time_also_where_strangers_ask_for_mails(db: None, settings: Any) -> None:
    settings.SIGN_UP = parse("open")
    for number in range(sign_up.MOST_OF_A_NETWORK):
        sign_up.ask(f"stranger{number}@example.org", ADDRESS)
    for number in range(30):
        browser = arrived(number)
        assert browser.post("/signup/identity", username="root", next="/activity").status_code == 400
        assert browser.post("/signup/identity", username=f"person{number}", next="/activity").status_code == 302
    # Identities do not use up the mails of others either.
    with pytest.raises(TooManyAttemptsError):
        sign_up.ask("another@example.org", ADDRESS)
    sign_up.ask("another@example.org", "198.51.100.1")


def test_accounts_of_one_address_are_bounded_all_the_same(db: None, settings: Any) -> None:
    settings.SIGN_UP = parse("open")
    browser = arrived(1)
    for _ in range(MOST_SIGN_UPS):
        assert browser.post("/signup/identity", username="root", next="/activity").status_code == 400
    assert browser.post("/signup/identity", username="person", next="/activity").status_code == 429
    assert not User.objects.filter(username="person").exists()
