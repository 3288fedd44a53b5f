"""Fair use: 429 with the seconds to wait, by user or by address, with Redis, and without when it is away."""

from __future__ import annotations

import logging
import os
import signal
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import redis

from deploy.stack.redis import Redis
from identity.models import User
from tests.integration.rest import Answer, Api, assert_error
from tests.waiting import eventually
from transferapi.outages import outage, redis_link
from transferapi.rest.http import rate_limit

pytestmark = pytest.mark.django_db


@pytest.fixture
def limited(settings: Any, redis_server: Redis) -> Iterator[Any]:
    """Two requests a second: twenty at once."""
    rate_limit._script.cache_clear()
    settings.RATE_LIMIT = 2
    with redis.Redis.from_url(redis_server.url()) as client:
        client.flushdb()
        yield settings
    rate_limit._script.cache_clear()


def _until_refused(api: Api, path: str = "/submission_id", most: int = 200) -> tuple[int, Answer]:
    for number in range(most):
        answer = api.get(path)
        if answer.status == 429:
            return number, answer
    raise AssertionError("never refused")


def _keep_empty(settings: Any) -> None:
    """Empty all buckets, and let them begin to fill in an hour: on a busy machine, one fills between two requests."""
    with redis.Redis.from_url(settings.REDIS_URL) as client:
        for key in client.scan_iter("waybill:rate:*"):
            client.set(key, f"0.000 {int(time.time() + 3600) * 1000}")


def test_who_asks_too_often_learns_when_to_come_back(limited: Any, alice: User) -> None:
    passed, answer = _until_refused(Api(alice))
    assert 20 <= passed < 200
    assert_error(answer, 429, "ClientError.TooManyRequests")
    assert answer.headers["Retry-After"] == "1"
    assert (answer.headers["X-RateLimit-Limit"], answer.headers["X-RateLimit-Remaining"]) == ("20", "0")


def test_answers_say_how_much_is_left(limited: Any, alice: User) -> None:
    first = Api(alice).get("/submission_id")
    assert (first.headers["X-RateLimit-Limit"], first.headers["X-RateLimit-Remaining"]) == ("20", "19")


def test_a_bucket_fills_at_its_rate(limited: Any) -> None:
    """By the server's clock, which the bucket is written with; it fills up while the test runs, too."""
    begun = time.monotonic()
    assert rate_limit.take("somebody", "", 20) == rate_limit.Taken(20, 0, 0)
    refused = rate_limit.take("somebody", "", 20)
    assert refused is not None
    assert 10 - (time.monotonic() - begun) <= refused.wait <= 10
    with redis.Redis.from_url(limited.REDIS_URL) as client:
        key = "waybill:rate:user:somebody"
        tokens, at = client.get(key).decode().split()
        assert client.pttl(key) <= 11_000
        client.set(key, f"{tokens} {int(at) - 4_000}")  # four seconds ago
    filled = rate_limit.take("somebody", "", 8)
    assert filled is not None
    assert filled.wait == 0
    assert filled.left <= 2 * (time.monotonic() - begun)


def test_one_users_haste_is_not_anothers(limited: Any, alice: User, bob: User) -> None:
    _until_refused(Api(alice))
    assert Api(bob).get("/submission_id").status == 200


def test_a_user_has_one_share_with_all_tokens_together(limited: Any, alice: User) -> None:
    _until_refused(Api(alice))
    _keep_empty(limited)
    assert Api(alice).get("/submission_id").status == 429


def test_what_costs_more_counts_for_more(limited: Any, alice: User) -> None:
    answer = Api(alice).get("/endpoint_search", filter_fulltext="x")
    assert answer.headers["X-RateLimit-Remaining"] == "15"


def test_who_has_no_token_shares_with_an_address_and_gets_less(limited: Any, alice: User) -> None:
    wrong = {"Authorization": "Bearer wrong"}
    assert_error(Api().get("/task_list"), 401)
    for _ in range(40):
        answer = Api().call("GET", "/task_list", headers=wrong)
        if answer.status == 429:
            break
    assert_error(answer, 429, "ClientError.TooManyRequests")
    assert answer.headers["X-RateLimit-Limit"] == "10"
    _keep_empty(limited)
    assert Api(root="").get("/").status == 429
    other = Api().call("GET", "/task_list", environ={"REMOTE_ADDR": "192.0.2.7"})
    assert_error(other, 401)
    assert Api(alice).get("/task_list").status == 200


def test_a_network_of_ipv6_addresses_is_one_address(limited: Any) -> None:
    assert rate_limit.take(None, "2001:db8::1", 10) == rate_limit.take(None, "2001:db8:0:1::1", 10)
    refused = rate_limit.take(None, "2001:db8::ffff", 10)
    assert refused is not None
    assert refused.wait > 0


def test_ipv4_addresses_are_distinguished_also_where_they_are_written_as_ipv6_ones(limited: Any) -> None:
    """A server that listens on both has them so. One who asks too often must not use up what all others have."""
    assert rate_limit.take(None, "::ffff:192.0.2.1", 10) == rate_limit.take(None, "::ffff:192.0.2.2", 10)
    refused = rate_limit.take(None, "192.0.2.1", 10)
    assert refused is not None
    assert refused.wait > 0


def test_zero_is_no_limit_and_redis_is_not_asked(limited: Any, alice: User) -> None:
    limited.RATE_LIMIT = 0
    limited.REDIS_URL = "unix:///there-is-none"
    answer = Api(alice).get("/submission_id")
    assert answer.status == 200
    assert "X-RateLimit-Limit" not in answer.headers
    assert not redis_link.outage_of(limited.REDIS_URL).is_on


def test_processes_and_threads_together_get_no_more_than_the_limit(limited: Any) -> None:
    limited.RATE_LIMIT = 10
    found: list[rate_limit.Taken | None] = []

    def ask() -> None:
        found.extend(rate_limit.take("somebody", "") for _ in range(50))

    begun = time.monotonic()
    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    granted = Counter(one is not None and one.wait == 0 for one in found)
    assert None not in found
    assert 100 <= granted[True] <= 100 + 10 * (time.monotonic() - begun) + 1


# ---- without Redis


@pytest.fixture
def watched(limited: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Outages are watched, as in a process of the web server; none outlasts the test."""
    monkeypatch.setattr(outage, "_watching", True)
    redis_link.outage_of.cache_clear()
    yield limited
    redis_link.outage_of.cache_clear()


def test_while_redis_is_away_everybody_passes_and_the_log_says_so_once(
    watched: Any, alice: User, caplog: pytest.LogCaptureFixture
) -> None:
    watched.REDIS_URL = "unix:///there-is-none"
    with caplog.at_level(logging.WARNING):
        for _ in range(30):
            assert Api(alice).get("/submission_id").status == 200
    said = [record.getMessage() for record in caplog.records if record.name == "waybill.outages"]
    assert [one for one in said if "Redis does not answer (ConnectionError)" in one] == said[:1]
    assert len(said) == 1


def test_a_redis_that_hangs_is_waited_for_shortly_and_then_left_alone(watched: Any, stack_home: Path) -> None:
    server = Redis(stack_home / "hanging")
    server.start()
    assert server.process is not None
    os.kill(server.process.pid, signal.SIGSTOP)
    try:
        watched.REDIS_URL = server.url()
        assert rate_limit.take("somebody", "") is None
        assert redis_link.outage_of(server.url()).is_on
        client: Any = rate_limit._script(server.url()).registered_client
        waits = client.connection_pool.connection_kwargs
        assert (waits["socket_timeout"], waits["socket_connect_timeout"]) == (redis_link.REPLY, redis_link.CONNECT)
        assert rate_limit.take("somebody", "") is None
    finally:
        os.kill(server.process.pid, signal.SIGCONT)
        eventually(lambda: not redis_link.outage_of(server.url()).is_on)
        server.stop()


def test_a_redis_that_comes_back_counts_again(watched: Any, stack_home: Path) -> None:
    server = Redis(stack_home / "gone")
    server.start()
    watched.REDIS_URL = server.url()
    server.stop()
    assert rate_limit.take("somebody", "") is None
    server.start()
    try:
        eventually(lambda: rate_limit.take("somebody", "") is not None)
    finally:
        server.stop()
