"""Secrets that wait for their other half: taken once, in time, by who may."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import pytest

from identity.models import PendingSecret, User
from identity.vault import store as vault
from identity.vault.errors import BAD_BINDING, VAULT_SEAL_BROKEN, VaultKeyMissingError
from identity.vault.keys import new_key, parse_keys
from tests.integration.cast import all_at_once
from tests.refusals import raises_refusal

EP1 = vault.endpoint_binding(uuid.uuid4())
EP2 = vault.endpoint_binding(uuid.uuid4())
T0 = datetime(2026, 1, 1, tzinfo=UTC)
HOUR = timedelta(hours=1)


def keep(user: User, bound_to: str = EP1, secret: bytes = b"half", **more: Any) -> None:
    vault.keep_pending(user, more.pop("purpose", "key"), bound_to, secret, lifetime=HOUR, now=T0, **more)


def take(user: User, bound_to: str = EP1, *, minutes: float = 0, **more: Any) -> bytes | None:
    now = T0 + timedelta(minutes=minutes)
    taken = vault.take_pending(user, more.pop("purpose", "key"), bound_to, now=now, **more)
    return None if taken is None else taken.secret


def test_it_is_taken_once_with_what_was_said_beside_it(alice: User) -> None:
    keep(alice, more={"nonce": "n", "scopes": ["a", 1, None]})
    looked = vault.find_pending(alice, "key", EP1, now=T0)
    taken = vault.take_pending(alice, "key", EP1, now=T0)
    assert taken is not None
    assert taken == looked
    assert (taken.secret, taken.more) == (b"half", {"nonce": "n", "scopes": ["a", 1, None]})
    assert "half" not in repr(taken)
    assert take(alice) is None
    assert PendingSecret.objects.count() == 0


def test_nobody_else_and_for_nothing_else_it_is_taken(alice: User, charlie: User) -> None:
    keep(alice)
    assert take(charlie) is None
    assert take(alice, EP2) is None
    assert take(alice, purpose="code") is None
    assert take(alice, token="x") is None
    assert take(alice) == b"half"


def test_after_its_time_it_is_gone(alice: User) -> None:
    keep(alice)
    assert take(alice, minutes=60) is None
    assert vault.expire(T0 + HOUR) == 1
    assert PendingSecret.objects.count() == 0


def test_without_a_token_the_newest_takes_the_place_of_the_one_before(alice: User, bob: User) -> None:
    keep(bob)
    keep(alice)
    keep(alice, secret=b"newer")
    keep(alice, EP2, secret=b"other")
    assert (take(alice), take(alice), take(alice, EP2), take(bob)) == (b"newer", None, b"other", b"half")


def test_with_tokens_there_may_be_several_and_only_the_token_takes_it(alice: User, bob: User) -> None:
    keep(alice, token="one")
    keep(alice, token="two", secret=b"second")
    keep(bob, token="one", secret=b"bob's")
    assert take(alice) is None
    assert take(alice, EP2, token="one") is None
    assert (take(alice, "", token="one"), take(alice, token="two")) == (b"half", b"second")
    assert take(alice, token="one") is None
    assert take(bob, token="one") == b"bob's"
    assert b"two" not in b"".join(bytes(row.sealed) for row in PendingSecret.objects.all())


def test_who_asks_without_end_loses_the_oldest_request(alice: User, bob: User, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vault, "MAX_PENDING", 3)
    keep(bob, token="bob's")
    for number in range(5):
        now = T0 + timedelta(seconds=number)
        vault.keep_pending(alice, "key", EP1, b"half", lifetime=HOUR, token=str(number), now=now)
    assert [take(alice, token=str(number)) is None for number in range(5)] == [True, True, False, False, False]
    assert take(bob, token="bob's") is not None


def test_of_many_who_take_it_at_once_one_gets_it(transactional_db: None, alice: User) -> None:
    for _ in range(5):
        keep(alice, token="t")
        taken = all_at_once([partial(take, alice, token="t")] * 4)
        assert sorted(map(str, taken)) == ["None", "None", "None", "b'half'"], taken


def test_many_who_keep_at_once_leave_one(transactional_db: None, alice: User) -> None:
    results = all_at_once([partial(keep, alice, secret=b"%d" % number) for number in range(4)])
    assert results == [None] * 4
    assert PendingSecret.objects.count() == 1


def test_one_that_cannot_be_opened_is_reported_and_stays(alice: User, bob: User, settings: Any) -> None:
    keep(alice)
    keys, settings.VAULT_KEYS = settings.VAULT_KEYS, parse_keys(new_key())
    with pytest.raises(VaultKeyMissingError):
        take(alice)
    settings.VAULT_KEYS = keys
    PendingSecret.objects.update(user=bob)
    with raises_refusal(VAULT_SEAL_BROKEN):
        take(bob)
    assert PendingSecret.objects.count() == 1


def test_what_is_no_binding_is_refused(alice: User) -> None:
    with raises_refusal(BAD_BINDING):
        keep(alice, "everything")
