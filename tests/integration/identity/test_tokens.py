"""API tokens on a real database."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from identity import tokens
from identity.error_categories import InvalidFieldError
from identity.models import ApiToken, User


def test_a_token_is_recognised_and_nowhere_kept(alice: User) -> None:
    token = tokens.issue(alice, "laptop")
    assert token.startswith("wb_")
    assert len(token) >= 35
    assert tokens.authenticate(token) == alice
    kept = ApiToken.objects.values_list().get()
    assert token not in repr(kept)
    assert token[3:].encode() not in b"".join(bytes(value) for value in kept if isinstance(value, bytes | memoryview))


def test_two_tokens_are_never_the_same(alice: User) -> None:
    assert len({tokens.issue(alice) for _ in range(50)}) == 50


@pytest.mark.parametrize(
    "spoil", [lambda t: t[:-1], lambda t: t + "x", lambda t: t[3:], lambda t: t.upper(), lambda t: ""]
)
def test_an_almost_right_token_is_nobodys(alice: User, spoil: object) -> None:
    assert callable(spoil)
    assert tokens.authenticate(spoil(tokens.issue(alice))) is None


@pytest.mark.parametrize("token", ["wb_", "wb_\0", "wb_\ud800", "wb_" + "x" * 10_000, "Bearer"])
def test_hostile_tokens_are_nobodys(db: None, token: str) -> None:
    assert tokens.authenticate(token) is None


def test_an_expired_token_is_nobodys(alice: User) -> None:
    token = tokens.issue(alice, lifetime=timedelta(hours=1))
    assert tokens.authenticate(token) == alice
    ApiToken.objects.update(expires_at=datetime.now(UTC) - timedelta(seconds=1))
    assert tokens.authenticate(token) is None


@pytest.mark.parametrize("lifetime", [timedelta(), timedelta(seconds=-1), timedelta(days=3661)])
def test_no_token_has_a_lifetime_that_is_over_or_too_long(alice: User, lifetime: timedelta) -> None:
    with pytest.raises(InvalidFieldError):
        tokens.make(alice, "backup", lifetime)
    assert not ApiToken.objects.exists()


@pytest.mark.parametrize("label", ["x" * 129, "two\nlines", "\0"])
def test_a_label_is_one_line_of_at_most_128_characters(alice: User, label: str) -> None:
    with pytest.raises(InvalidFieldError):
        tokens.make(alice, label)


def test_a_revoked_token_is_nobodys_at_once(alice: User) -> None:
    token, other = tokens.issue(alice), tokens.issue(alice)
    token_id = ApiToken.objects.earliest("created_at").pk
    tokens.revoke_own(alice, token_id)
    with pytest.raises(tokens.TokenNotFoundError):
        tokens.revoke_own(alice, token_id)
    assert tokens.authenticate(token) is None
    assert tokens.authenticate(other) == alice


def test_an_inactive_user_is_nobody(alice: User) -> None:
    token = tokens.issue(alice)
    alice.is_active = False
    alice.save()
    assert tokens.authenticate(token) is None


def test_the_last_use_is_written_once_a_minute(alice: User) -> None:
    token = tokens.issue(alice)
    tokens.authenticate(token)
    first = ApiToken.objects.get().last_used_at
    assert first is not None
    tokens.authenticate(token)
    assert ApiToken.objects.get().last_used_at == first
    ApiToken.objects.update(last_used_at=datetime.now(UTC) - timedelta(minutes=2))
    tokens.authenticate(token)
    again = ApiToken.objects.get().last_used_at
    assert again is not None
    assert again >= first
