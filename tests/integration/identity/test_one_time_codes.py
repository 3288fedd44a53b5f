"""One-time codes: enrolment, one use of each code, recovery codes, and limits for guesses of every kind."""

from __future__ import annotations

import base64
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from django.core.cache import cache
from django.db import connection, transaction

from identity import one_time_codes, password_sign_in
from identity.hidden import Secret
from identity.models import OneTimeCodeSecret, RecoveryCode, User
from identity.one_time_codes import (
    CODE_USED,
    CODE_WRONG,
    CODES_ENABLED,
    CODES_NOT_ENABLED,
    CODES_UNREADABLE,
    OneTimeCodeError,
)
from identity.password_sign_in import (
    MOST_CODES,
    MOST_OF_A_PAIR,
    CodeRefusedError,
    CodeRequiredError,
    PendingSignIn,
    SignInLapsedError,
    TooManyAttemptsError,
    WrongPasswordError,
)
from identity.vault import rotation
from identity.vault.errors import VaultKeyNotConfiguredError
from identity.vault.keys import new_key, parse_keys
from tests.database import is_waiting
from tests.integration.pages import PASSWORD
from tests.refusals import raises_refusal
from tests.waiting import eventually

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("passwords")]
HERE = "198.51.100.7"


class Phone:
    """The authenticator of a user: shows the code of a step, the present one or one near it."""

    def __init__(self, secret: Secret) -> None:
        self.secret = base64.b32decode(secret.value)

    def code(self, off: int = 0) -> Secret:
        return Secret(one_time_codes.code_at(self.secret, one_time_codes.step_at(time.time()) + off))

    def wrong(self) -> Secret:
        right = {self.code(off).value for off in range(-2, 4)}
        return Secret(next(code for code in map(str, range(100_000, 100_010)) if code not in right))


@pytest.fixture
def phone(alice: User) -> Phone:
    """alice signs in with codes. None of the present ones is used up."""
    phone = Phone(one_time_codes.begin_enrolment(alice).secret)
    one_time_codes.confirm(alice, phone.code())
    OneTimeCodeSecret.objects.filter(user=alice).update(last_step=0)
    return phone


def password_of(user: User, address: str = HERE, device: str = "") -> PendingSignIn:
    """The sign-in after the right password."""
    with pytest.raises(CodeRequiredError) as caught:
        password_sign_in.sign_in(user.username, Secret(PASSWORD), address, device)
    return caught.value.pending


def test_a_user_signs_in_with_password_and_code_from_the_first_code_on(alice: User) -> None:
    phone = Phone(one_time_codes.begin_enrolment(alice).secret)
    assert (one_time_codes.enabled(alice), one_time_codes.enrolling(alice)) == (False, True)
    assert password_sign_in.sign_in("alice", Secret(PASSWORD), HERE) == alice
    with raises_refusal(CODE_WRONG):
        one_time_codes.confirm(alice, phone.wrong())
    recovery = one_time_codes.confirm(alice, phone.code())
    assert (one_time_codes.enabled(alice), one_time_codes.enrolling(alice)) == (True, False)
    assert len({code.value for code in recovery}) == one_time_codes.recovery_codes_left(alice) == 10
    pending = password_of(alice)
    assert password_sign_in.finish(pending, phone.code(+1), HERE) == alice


def test_the_address_for_authenticators_has_the_same_secret(alice: User) -> None:
    enrolment = one_time_codes.begin_enrolment(alice)
    assert f"secret={enrolment.secret.value}&" in enrolment.uri.value
    assert enrolment.secret.value not in repr(enrolment)


def test_a_wrong_password_is_refused_before_any_code(alice: User, phone: Phone) -> None:
    with pytest.raises(WrongPasswordError):
        password_sign_in.sign_in("alice", Secret("wrong"), HERE)
    with pytest.raises(WrongPasswordError):
        password_sign_in.check(alice, Secret("wrong"), phone.code(), HERE)
    assert password_sign_in.check(alice, Secret(PASSWORD), phone.code(), HERE) == alice


def test_no_code_is_accepted_twice_and_none_before_the_last(alice: User, phone: Phone) -> None:
    next_one, present = phone.code(+1), phone.code()
    one_time_codes.verify(alice, next_one)
    for code in (next_one, present):
        with raises_refusal(CODE_USED):
            one_time_codes.verify(alice, code)


def test_the_code_of_the_enrolment_is_used_up(alice: User) -> None:
    phone = Phone(one_time_codes.begin_enrolment(alice).secret)
    code = phone.code()
    one_time_codes.confirm(alice, code)
    with raises_refusal(CODE_USED):
        one_time_codes.verify(alice, code)


@pytest.mark.django_db(transaction=True)
def test_of_many_sign_ins_at_once_with_one_code_one_succeeds(alice: User, phone: Phone) -> None:
    for code in (phone.code(), one_time_codes.new_recovery_codes(alice)[0]):
        outcomes: list[str] = []
        gate = threading.Barrier(6)

        def sign_in(code: Secret = code, outcomes: list[str] = outcomes, gate: threading.Barrier = gate) -> None:
            try:
                gate.wait(30)
                one_time_codes.verify(alice, code)
                outcomes.append("accepted")
            except OneTimeCodeError:
                outcomes.append("refused")
            finally:
                connection.close()

        threads = [threading.Thread(target=sign_in) for _ in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(outcomes) == ["accepted", *["refused"] * 5]


@pytest.mark.parametrize(
    "given", ["", "1", "1234567", "１２３４５６", "abcdef", "\0" * 6, "-" * 64, "9" * 1_000_000, "\ud800", "aaaa-" * 4]
)
def test_text_that_is_no_code_is_refused(alice: User, phone: Phone, given: str) -> None:
    with raises_refusal(CODE_WRONG):
        one_time_codes.verify(alice, Secret(given))


def test_a_code_may_have_blanks_as_authenticators_show_it(alice: User, phone: Phone) -> None:
    code = phone.code().value
    one_time_codes.verify(alice, Secret(f" {code[:3]} {code[3:]}\n"))


def test_a_recovery_code_signs_in_once_and_only_its_user(alice: User, bob: User, phone: Phone) -> None:
    code = one_time_codes.new_recovery_codes(alice)[3]
    other = Phone(one_time_codes.begin_enrolment(bob).secret)
    one_time_codes.confirm(bob, other.code())
    with raises_refusal(CODE_WRONG):
        one_time_codes.verify(bob, code)
    assert password_sign_in.finish(password_of(alice), Secret(code.value.upper()), HERE) == alice
    assert one_time_codes.recovery_codes_left(alice) == 9
    with pytest.raises(CodeRefusedError):
        password_sign_in.finish(password_of(alice), code, HERE)


def test_new_recovery_codes_end_the_old_ones_and_no_code_is_stored_in_the_clear(alice: User, phone: Phone) -> None:
    old = one_time_codes.new_recovery_codes(alice)[0]
    new = one_time_codes.new_recovery_codes(alice)[0]
    with raises_refusal(CODE_WRONG):
        one_time_codes.verify(alice, old)
    row = OneTimeCodeSecret.objects.get(user=alice)
    kept = b"".join([bytes(row.sealed), *(bytes(one.digest) for one in RecoveryCode.objects.all())])
    assert phone.secret not in kept
    assert new.value.encode() not in kept
    one_time_codes.verify(alice, new)


def test_codes_are_turned_off_with_all_that_belongs_to_them(alice: User, phone: Phone) -> None:
    assert one_time_codes.turn_off(alice)
    assert not one_time_codes.turn_off(alice)
    assert not RecoveryCode.objects.exists()
    assert password_sign_in.sign_in("alice", Secret(PASSWORD), HERE) == alice
    for forbidden in (
        lambda: one_time_codes.verify(alice, phone.code()),
        lambda: one_time_codes.new_recovery_codes(alice),
    ):
        with raises_refusal(CODES_NOT_ENABLED):
            forbidden()


def test_a_second_enrolment_replaces_one_that_was_not_confirmed_and_no_other(alice: User) -> None:
    first = Phone(one_time_codes.begin_enrolment(alice).secret)
    second = Phone(one_time_codes.begin_enrolment(alice).secret)
    with raises_refusal(CODE_WRONG):
        one_time_codes.confirm(alice, first.code())
    one_time_codes.confirm(alice, second.code())
    with raises_refusal(CODES_ENABLED):
        one_time_codes.begin_enrolment(alice)
    with raises_refusal(CODES_ENABLED):
        one_time_codes.confirm(alice, second.code(+1))


def test_without_an_enrolment_nothing_is_confirmed(alice: User) -> None:
    with raises_refusal(CODES_NOT_ENABLED):
        one_time_codes.confirm(alice, Secret("123456"))


def test_the_secret_is_sealed_anew_with_the_vault(alice: User, phone: Phone, settings: Any) -> None:
    [old] = settings.VAULT_KEYS
    settings.VAULT_KEYS = [*parse_keys(new_key()), old]
    assert rotation.rotate().unopened == 0
    settings.VAULT_KEYS = settings.VAULT_KEYS[:1]
    assert rotation.status().missing == 0
    one_time_codes.verify(alice, phone.code())


def test_a_lost_vault_key_refuses_codes_and_leaves_recovery_codes(alice: User, phone: Phone, settings: Any) -> None:
    recovery = one_time_codes.new_recovery_codes(alice)[0]
    settings.VAULT_KEYS = parse_keys(new_key())
    with raises_refusal(CODES_UNREADABLE):
        one_time_codes.verify(alice, phone.code())
    one_time_codes.verify(alice, recovery)


def test_without_a_vault_key_there_is_no_enrolment(alice: User, settings: Any) -> None:
    settings.VAULT_KEYS = ()
    with pytest.raises(VaultKeyNotConfiguredError):
        one_time_codes.begin_enrolment(alice)
    assert not one_time_codes.enrolling(alice)


def test_a_secret_in_the_row_of_another_user_opens_nothing(alice: User, bob: User, phone: Phone) -> None:
    other = Phone(one_time_codes.begin_enrolment(bob).secret)
    stolen = OneTimeCodeSecret.objects.get(user=bob).sealed
    OneTimeCodeSecret.objects.filter(user=alice).update(sealed=stolen)
    with raises_refusal(CODES_UNREADABLE):
        one_time_codes.verify(alice, other.code())


def test_a_flood_of_wrong_codes_is_stopped_from_one_address(alice: User, phone: Phone) -> None:
    pending = password_of(alice)
    for _ in range(MOST_OF_A_PAIR - 1):
        with pytest.raises(CodeRefusedError):
            password_sign_in.finish(pending, phone.wrong(), HERE)
    with pytest.raises(TooManyAttemptsError):
        password_sign_in.finish(pending, phone.code(), HERE)


def test_a_flood_from_many_addresses_is_stopped_for_the_name(alice: User, phone: Phone) -> None:
    pending = password_of(alice)
    for number in range(MOST_CODES):
        with pytest.raises(CodeRefusedError):
            password_sign_in.finish(pending, phone.wrong(), f"203.0.113.{number}")
    with pytest.raises(TooManyAttemptsError):
        password_sign_in.finish(pending, phone.code(), "203.0.113.99")
    # The browser in which alice signed in before is not shut out by an attacker who has the password.
    device = password_sign_in.new_device(alice)
    assert password_sign_in.finish(pending, phone.code(), "203.0.113.99", device) == alice


def test_a_patient_flood_is_stopped_for_the_day(alice: User, phone: Phone, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(password_sign_in, "MOST_CODES_OF_A_DAY", 3)
    pending = password_of(alice)
    for number in range(3):
        with pytest.raises(CodeRefusedError):
            password_sign_in.finish(pending, phone.wrong(), f"203.0.113.{number}")
        cache.delete(password_sign_in._counter("code", "alice"))
    with pytest.raises(TooManyAttemptsError) as caught:
        password_sign_in.finish(pending, phone.code(), "203.0.113.99")
    assert caught.value.seconds == password_sign_in.DAY


def test_a_patient_flood_from_a_browser_of_before_is_stopped_for_the_day(
    alice: User, phone: Phone, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A browser that alice has shared with others has her device token, and may have seen her password."""
    monkeypatch.setattr(password_sign_in, "MOST_CODES_OF_A_DAY", 3)
    shared, own = password_sign_in.new_device(alice), password_sign_in.new_device(alice)
    pending = password_of(alice)
    for _ in range(3):
        with pytest.raises(CodeRefusedError):
            password_sign_in.finish(pending, phone.wrong(), HERE, shared)
        cache.delete(password_sign_in._counter("device", password_sign_in.device_of(shared, "alice")))
    with pytest.raises(TooManyAttemptsError) as caught:
        password_sign_in.finish(pending, phone.code(), HERE, shared)
    assert caught.value.seconds == password_sign_in.DAY
    # Nobody shuts her out of her own browser, or of a new one.
    assert password_sign_in.finish(pending, phone.code(), HERE, own) == alice
    assert password_sign_in.finish(pending, phone.code(+1), HERE) == alice


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("change", [one_time_codes.begin_enrolment, one_time_codes.turn_off])
def test_codes_that_are_confirmed_at_this_moment_are_not_lost_by_another_request(
    alice: User, change: Callable[[User], object]
) -> None:
    """Else the page says that codes are on, and the password alone signs in; or recovery codes of nothing stay."""
    phone = Phone(one_time_codes.begin_enrolment(alice).secret)
    confirmed, outcome = threading.Event(), []

    def meanwhile() -> None:
        try:
            confirmed.wait(30)
            change(alice)
        except OneTimeCodeError as error:
            outcome.append(error.refusal)
        finally:
            connection.close()

    other = threading.Thread(target=meanwhile)
    other.start()
    with transaction.atomic():
        one_time_codes.confirm(alice, phone.code())
        confirmed.set()
        eventually(is_waiting)
    other.join(30)
    if change is one_time_codes.begin_enrolment:
        assert outcome == [CODES_ENABLED]
        assert one_time_codes.enabled(alice)
        assert one_time_codes.recovery_codes_left(alice) == 10
    else:
        assert not one_time_codes.enabled(alice)
        assert one_time_codes.recovery_codes_left(alice) == 0


def test_a_right_password_alone_does_not_reset_the_counter(alice: User, phone: Phone) -> None:
    """Otherwise an attacker who has the password could alternate with guesses of codes for ever."""
    for _ in range(MOST_OF_A_PAIR // 2):
        pending = password_of(alice)
        with pytest.raises(CodeRefusedError):
            password_sign_in.finish(pending, phone.wrong(), HERE)
    with pytest.raises(TooManyAttemptsError):
        password_sign_in.sign_in("alice", Secret(PASSWORD), HERE)


def test_a_sign_in_lapses_with_time_a_new_password_and_deactivation(alice: User, phone: Phone) -> None:
    pending = password_of(alice)
    for off in (-password_sign_in.MOST_PENDING - 1, +60):
        with pytest.raises(SignInLapsedError):
            password_sign_in.finish(replace(pending, since=time.time() + off), phone.code(), HERE)
    User.objects.filter(pk=alice.pk).update(is_active=False)
    with pytest.raises(SignInLapsedError):
        password_sign_in.finish(pending, phone.code(), HERE)
    User.objects.filter(pk=alice.pk).update(is_active=True)
    password_sign_in.set_password(alice, Secret("another long one 2"))
    with pytest.raises(SignInLapsedError):
        password_sign_in.finish(pending, phone.code(), HERE)


def test_a_changed_password_needs_no_code_in_a_session_that_gave_one(alice: User, phone: Phone) -> None:
    new = Secret("another long one 2")
    password_sign_in.change_password(alice, Secret(PASSWORD), new, HERE)
    assert password_sign_in.check(alice, new, phone.code(), HERE) == alice


def test_a_refused_code_is_a_line_of_the_log_without_the_code(
    alice: User, phone: Phone, caplog: pytest.LogCaptureFixture
) -> None:
    pending = password_of(alice)
    wrong = phone.wrong()
    with pytest.raises(CodeRefusedError):
        password_sign_in.finish(pending, wrong, HERE)
    assert "a one-time code was refused: alice" in caplog.text
    assert wrong.value not in caplog.text
    assert pending.password not in repr(pending)
