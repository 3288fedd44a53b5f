"""What the OAuth2 server has given out is forgotten when it is over, and not before."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from oauth2_provider.models import AccessToken, Application, Grant, RefreshToken

from identity.models import SignIn, User
from identity.provider import registration, tidy
from tests.integration.provider import CALLBACK, App, by_server, get, make
from tests.integration.test_provider_api import register, registered

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
    assert tidy.tidy() == 0
    assert counts() == before


def test_codes_go_after_minutes_and_tokens_after_days(portal: App, alice: User) -> None:
    portal.code(alice, "openid")
    portal.own("openid")
    portal.tokens(alice, "openid", access_type="online")
    tidy.tidy(later(minutes=6))
    assert counts() == (0, 2, 0, 1, 1)
    tidy.tidy(later(hours=49))
    assert counts() == (0, 0, 0, 0, 1)


def test_a_refresh_token_keeps_what_it_knows_its_scopes_by(portal: App, alice: User) -> None:
    tokens = portal.tokens(alice, "openid profile")
    tidy.tidy(later(days=100))
    assert counts() == (0, 1, 1, 1, 1)
    AccessToken.objects.update(expires=NOW - timedelta(days=90))
    answer = portal.token(grant_type="refresh_token", refresh_token=tokens["refresh_token"])
    assert answer.body["scope"] == "openid profile"
    tidy.tidy()
    assert counts() == (0, 1, 1, 1, 1)
    assert get("/v2/oauth2/userinfo", answer.body["access_token"]).status == 200
    for _ in range(2):
        tidy.tidy(later(days=183))
    assert counts() == (0, 0, 0, 0, 1)


def test_a_used_code_stays_an_alarm_for_a_day(portal: App, alice: User) -> None:
    code = portal.code(alice, "openid")
    form = {"grant_type": "authorization_code", "code": code, "redirect_uri": CALLBACK}
    token = portal.token(**form).body["access_token"]
    tidy.tidy(later(hours=23))
    assert portal.token(**form).status == 400
    assert get("/v2/oauth2/userinfo", token).status == 401


def test_rounds_are_bounded(portal: App, alice: User, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tidy, "BATCH", 2)
    for _ in range(5):
        portal.own("openid")
    AccessToken.objects.update(expires=NOW)
    assert tidy.tidy() == 2
    monkeypatch.setattr(tidy, "ROUNDS", 1)
    tidy.run()
    assert AccessToken.objects.count() == 1
    tidy.run()
    assert AccessToken.objects.count() == 0


def test_registrations_that_nobody_used_go_after_a_day(db: None) -> None:
    registered()
    tidy.tidy(later(hours=23))
    assert Application.objects.count() == 1
    tidy.tidy(later(hours=25))
    assert Application.objects.count() == 0


def test_those_that_somebody_used_go_after_half_a_year_without_tokens(alice: User) -> None:
    program = registered()
    tokens = program.tokens(alice, "openid", "http://localhost:1")
    tidy.tidy(later(days=100))
    assert Application.objects.count() == 1
    program.post("/v2/oauth2/token/revoke", {"token": by_server(tokens)["auth.globus.org"]["refresh_token"]})
    for days in (2, 182 + 1, 182 + 1, 182 + 1):
        tidy.tidy(later(days=days))
        if days == 2:
            assert Application.objects.count() == 1
    assert Application.objects.count() == 0


def test_users_own_applications_stay(portal: App) -> None:
    tidy.tidy(later(days=3650))
    assert Application.objects.count() == 1


def test_a_registration_is_not_taken_while_somebody_answers_its_question(alice: User) -> None:
    program = registered()
    program.code(alice, "openid", "http://localhost:1")
    Grant.objects.update(expires=later(days=2))
    tidy.tidy(later(hours=25))
    assert Application.objects.count() == 1
    assert registration.unused().count() == 0
    assert register().status == 201
