"""The OAuth2 server deletes codes and tokens after they have expired, and not before."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from django.db.models import F
from oauth2_provider.models import AccessToken, Application, Grant, RefreshToken

from identity.models import ClientSecret, Registration, SignIn, User
from identity.provider import cleanup, registration
from identity.provider import issue as token_limits
from tests.integration.provider import CALLBACK, App, by_server, get, make
from tests.integration.provider.test_api import register, registered

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("forgotten_registrations")]

NOW = datetime.now(UTC)


@pytest.fixture
def forgotten_registrations(redis_server: object) -> None:
    from django.core.cache import cache

    cache.clear()


@pytest.fixture
def portal(bob: User) -> App:
    return make(bob, CALLBACK)


def counts() -> tuple[int, ...]:
    return tuple(model.objects.count() for model in (Grant, AccessToken, RefreshToken, SignIn, Application))


def later(**time: float) -> datetime:
    return datetime.now(UTC) + timedelta(**time)


def test_what_serves_stays(portal: App, alice: User) -> None:
    portal.code(alice, "openid")
    portal.own("openid")
    portal.tokens(alice, "openid")
    before = counts()
    assert before == (1, 2, 1, 1, 1)
    assert cleanup.delete_expired() == 0
    assert counts() == before


def test_codes_go_after_minutes_and_tokens_after_days(portal: App, alice: User) -> None:
    portal.code(alice, "openid")
    portal.own("openid")
    portal.tokens(alice, "openid", access_type="online")
    cleanup.delete_expired(later(minutes=6))
    assert counts() == (0, 2, 0, 1, 1)
    cleanup.delete_expired(later(hours=49))
    assert counts() == (0, 0, 0, 0, 1)


def test_a_refresh_token_keeps_what_it_knows_its_scopes_by(portal: App, alice: User) -> None:
    tokens = portal.tokens(alice, "openid profile")
    cleanup.delete_expired(later(days=100))
    assert counts() == (0, 1, 1, 1, 1)
    AccessToken.objects.update(expires=NOW - timedelta(days=90))
    answer = portal.token(grant_type="refresh_token", refresh_token=tokens["refresh_token"])
    assert answer.body["scope"] == "openid profile"
    cleanup.delete_expired()
    assert counts() == (0, 1, 1, 1, 1)
    assert get("/v2/oauth2/userinfo", answer.body["access_token"]).status == 200
    for _ in range(2):
        cleanup.delete_expired(later(days=183))
    assert counts() == (0, 0, 0, 0, 1)


def test_a_used_code_stays_an_alarm_for_a_day(portal: App, alice: User) -> None:
    code = portal.code(alice, "openid")
    form = {"grant_type": "authorization_code", "code": code, "redirect_uri": CALLBACK}
    token = portal.token(**form).body["access_token"]
    cleanup.delete_expired(later(hours=23))
    assert portal.token(**form).status == 400
    assert get("/v2/oauth2/userinfo", token).status == 401


def test_rounds_are_bounded(portal: App, alice: User, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cleanup, "BATCH", 2)
    for _ in range(5):
        portal.own("openid")
    AccessToken.objects.update(expires=NOW)
    assert cleanup.delete_expired() == 2
    monkeypatch.setattr(cleanup, "ROUNDS", 1)
    cleanup.run()
    assert AccessToken.objects.count() == 1
    cleanup.run()
    assert AccessToken.objects.count() == 0


def test_registrations_that_nobody_used_go_after_a_day(db: None) -> None:
    registered()
    cleanup.delete_expired(later(hours=23))
    assert Application.objects.count() == 1
    cleanup.delete_expired(later(hours=25))
    assert Application.objects.count() == 0


def test_those_that_somebody_used_go_after_half_a_year_without_tokens(alice: User) -> None:
    program = registered()
    tokens = program.tokens(alice, "openid", "http://localhost:1")
    cleanup.delete_expired(later(days=100))
    assert Application.objects.count() == 1
    program.post("/v2/oauth2/token/revoke", {"token": by_server(tokens)["auth.globus.org"]["refresh_token"]})
    for days in (2, 182 + 1, 182 + 1, 182 + 1):
        cleanup.delete_expired(later(days=days))
        if days == 2:
            assert Application.objects.count() == 1
    assert Application.objects.count() == 0


def test_the_network_of_a_registration_is_known_for_a_day(alice: User) -> None:
    registered().tokens(alice, "openid", "http://localhost:1")
    cleanup.delete_expired(later(hours=23))
    assert Registration.objects.count() == 1
    cleanup.delete_expired(later(hours=25))
    assert (Registration.objects.count(), Application.objects.count()) == (0, 1)


def test_an_application_that_earlier_code_deleted_leaves_nothing(alice: User) -> None:
    registered()
    # Earlier code does not know the table of registrations.
    ClientSecret.objects.all().delete()
    Application.objects.all()._raw_delete("default")
    assert Registration.objects.count() == 1
    cleanup.delete_expired(later(hours=25))
    assert Registration.objects.count() == 0


def test_who_registers_and_signs_in_for_ever_fills_no_table(alice: User, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(token_limits, "MOST_SIGN_INS", 2)
    monkeypatch.setattr(registration, "MOST_IDLE", 3)
    programs = [registered() for _ in range(8)]
    Application.objects.update(created=F("created") - timedelta(minutes=1), updated=F("updated") - timedelta(minutes=1))
    for program in programs:
        program.tokens(alice, "openid", "http://localhost:1")
    assert Application.objects.count() == 8
    cleanup.delete_expired()
    # Two with a consent, and the latest three of the others.
    assert set(Application.objects.values_list("client_id", flat=True)) == {one.id for one in programs[3:]}


def test_users_own_applications_stay(portal: App) -> None:
    cleanup.delete_expired(later(days=3650))
    assert Application.objects.count() == 1


def test_a_registration_is_not_taken_while_somebody_answers_its_question(alice: User) -> None:
    program = registered()
    program.code(alice, "openid", "http://localhost:1")
    Grant.objects.update(expires=later(days=2))
    cleanup.delete_expired(later(hours=25))
    assert Application.objects.count() == 1
    assert registration.unused().count() == 0
    assert register().status == 201


# ---- bounds for one user


def test_a_new_access_token_ends_the_oldest_of_its_user_and_application(
    portal: App, alice: User, bob: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(token_limits, "MOST_ACCESS_TOKENS", 3)
    other = make(bob, CALLBACK, name="other").own("openid profile").body["access_token"]
    kept = portal.tokens(alice, "openid profile")
    own = [portal.own("openid profile").body["access_token"] for _ in range(5)]
    assert [get("/v2/oauth2/userinfo", token).status for token in own] == [401, 401, 200, 200, 200]
    for token in (other, kept["access_token"]):
        assert get("/v2/oauth2/userinfo", token).status == 200
    # The access token from which a refresh token takes its scopes stays.
    for _ in range(5):
        renewed = portal.token(grant_type="refresh_token", refresh_token=kept["refresh_token"])
        assert (renewed.status, renewed.body["scope"]) == (200, "openid profile")
    assert AccessToken.objects.filter(user=alice).count() == 4


def test_a_new_consent_ends_the_oldest(portal: App, alice: User, bob: User, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(token_limits, "MOST_SIGN_INS", 2)
    of_bob = portal.tokens(bob, "openid")
    given = [portal.tokens(alice, "openid") for _ in range(4)]
    assert SignIn.objects.filter(user=alice).count() == 2
    assert [get("/v2/oauth2/userinfo", one["access_token"]).status for one in (*given, of_bob)] == [
        401,
        401,
        200,
        200,
        200,
    ]
    forms = [{"grant_type": "refresh_token", "refresh_token": one["refresh_token"]} for one in given]
    assert [portal.token(**form).status for form in forms] == [400, 400, 200, 200]


def test_codes_that_nobody_exchanges_are_few(portal: App, alice: User, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(token_limits, "MOST_CODES", 2)
    codes = [portal.code(alice, "openid") for _ in range(4)]
    forms = [{"grant_type": "authorization_code", "code": code, "redirect_uri": CALLBACK} for code in codes]
    assert [portal.token(**form).status for form in forms] == [400, 400, 200, 200]


def test_of_refresh_tokens_that_were_replaced_some_are_kept(
    alice: User, bob: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(token_limits, "MOST_REPLACED", 3)
    program = make(bob, CALLBACK, public=True, rotate=True)
    given = [program.tokens(alice, "openid")["refresh_token"]]
    for _ in range(6):
        answer = program.token(grant_type="refresh_token", refresh_token=given[-1])
        given.append(answer.body["refresh_token"])
    assert RefreshToken.objects.count() == 4
    # One that is forgotten is refused; a second use of one that is kept still ends the consent.
    assert program.token(grant_type="refresh_token", refresh_token=given[0]).status == 400
    assert SignIn.objects.count() == 1
    assert program.token(grant_type="refresh_token", refresh_token=given[-2]).status == 400
    assert SignIn.objects.count() == 0
