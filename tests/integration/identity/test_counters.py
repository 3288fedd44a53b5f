"""Counters of attempts and acts: each ends, also where Redis forgets one at the worst moment."""

from __future__ import annotations

from typing import Any

import pytest
import redis
from django.core.cache import cache

from identity import audit, counters, password_sign_in
from identity.hidden import Secret
from identity.models import User
from identity.password_sign_in import WrongPasswordError

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("passwords")]


@pytest.fixture
def expiring(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each counter expires between the question whether it exists and the addition, which are two commands of Redis."""
    exists = redis.Redis.exists

    def exists_and_expires(client: Any, *names: str) -> Any:
        found = exists(client, *names)
        client.delete(*names)
        return found

    monkeypatch.setattr(redis.Redis, "exists", exists_and_expires)


def keys_without_end() -> list[bytes]:
    client = cache._cache.get_client(None, write=True)  # type: ignore[attr-defined]  # of Django
    return [key for key in client.scan_iter() if client.ttl(key) == -1]


@pytest.mark.usefixtures("expiring")
def test_a_counter_that_expires_while_it_is_counted_has_an_end() -> None:
    before = set(keys_without_end())
    assert counters.count("a-counter", 60) == 1
    counters.give_back("a-counter")
    assert set(keys_without_end()) == before


@pytest.mark.usefixtures("expiring")
def test_no_attempt_and_no_refusal_leaves_a_counter_without_an_end(alice: User) -> None:
    before = set(keys_without_end())
    for _ in range(3):
        with pytest.raises(WrongPasswordError):
            password_sign_in.sign_in(alice.username, Secret("wrong"), "192.0.2.7")
        password_sign_in.count_request("recovery", "192.0.2.7", 5)
        audit.record_refusal(alice, "password", "192.0.2.7", "wrong")
        audit.record_act(audit.What.ROLE_GIVEN, alice, actor=alice)
    assert set(keys_without_end()) == before


def test_a_window_begins_with_its_first_count_and_a_count_is_given_back_once() -> None:
    assert [counters.count("another", 60) for _ in range(3)] == [1, 2, 3]
    counters.give_back("another")
    assert counters.count("another", 60) == 3
    cache.delete("another")
    counters.give_back("another")
    assert counters.count("another", 60) == 1
