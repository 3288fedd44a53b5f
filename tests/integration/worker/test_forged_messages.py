"""Messages and cache values of an attacker with write access to Redis: no code of theirs runs, no worker stops."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import pickle
import sys
import time
import uuid
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import redis
from django.conf import settings as django_settings
from django.core.cache import cache

from deploy.stack.child import spawn, stop
from deploy.stack.redis import Redis
from identity import password_sign_in
from identity.hidden import Secret
from tests.integration.pages import PASSWORD
from tests.refusals import raises_refusal
from tests.waiting import eventually
from transferapi.config import CHECKOUT
from transferapi.logs.formats import MOST
from transferapi.rest.http import rate_limit
from workers.broker import OF_A_ROW, OURS, rebuild
from workers.celery import app as celery_app

pytestmark = pytest.mark.django_db(transaction=True)
RUN = "workers.run"


class Planted:
    """Runs a command when it is unpickled."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def __reduce__(self) -> Any:
        return os.system, (f"touch {self.file}",)


def envelope(
    body: bytes, content_type: Any = "application/json", encoding: Any = "utf-8", **headers: Any
) -> dict[str, Any]:
    """A message as Celery puts it on its list."""
    id_ = str(uuid.uuid4())
    return {
        "body": base64.b64encode(body).decode(),
        "content-type": content_type,
        "content-encoding": encoding,
        "headers": {"lang": "py", "task": RUN, "id": id_, "root_id": id_, "argsrepr": "", "kwargsrepr": "", **headers},
        "properties": {
            "correlation_id": id_,
            "delivery_mode": 2,
            "delivery_info": {"exchange": "", "routing_key": "celery"},
            "priority": 0,
            "body_encoding": "base64",
            "delivery_tag": id_,
        },
    }


def call(*arguments: Any, **headers: Any) -> dict[str, Any]:
    return envelope(json.dumps([arguments, {}, {}]).encode(), **headers)


@pytest.fixture
def broker(stack_home: Path) -> Iterator[Redis]:
    home = stack_home / "forged"
    home.mkdir(mode=0o711, exist_ok=True)
    server = Redis(home)
    server.start()
    yield server
    server.stop()


class Worker:
    """A worker as `make up` has it: the supervisor starts it again when it ends."""

    def __init__(self, url: str, database_url: str, folder: Path) -> None:
        self.log, self.pids = folder / "worker1.log", folder / "pids.json"
        given = {name: value for name, value in os.environ.items() if not name.startswith("WAYBILL_")}
        given |= {
            "DATABASE_URL": database_url,
            "REDIS_URL": url,
            "WAYBILL_HOME": str(folder),
            "WAYBILL_LOG_LEVEL": "DEBUG",
        }
        words = [sys.executable, "-m", "tests.integration.deploy.supervised", str(folder), "--worker"]
        self.process = spawn(words, log=folder / "supervisor.log", env=given, cwd=CHECKOUT)

    def pid(self) -> int | None:
        with contextlib.suppress(OSError, ValueError, KeyError):
            return int(json.loads(self.pids.read_text())["worker1"])
        return None

    def refusals(self) -> int:
        return self.text().count("was discarded: it is not one of this service")

    def text(self) -> str:
        return self.log.read_text(errors="replace")


@pytest.fixture
def worker(broker: Redis, database_url: str, tmp_path: Path) -> Iterator[Worker]:
    worker = Worker(broker.url(), database_url, tmp_path)
    try:
        eventually(worker.pid)
        yield worker
    finally:
        stop(worker.process)


def forged(file: Path) -> list[bytes]:
    """Messages, as they lie on the list."""
    planted = pickle.dumps(Planted(file))
    good = call(str(uuid.uuid4()))
    whole: list[Any] = [
        envelope(planted, "application/x-python-serialize", "binary"),
        envelope(planted, "pickle", "binary"),
        envelope(planted, encoding="binary"),
        envelope(b"!!python/object/apply:os.system ['touch %s']" % str(file).encode(), "application/x-yaml"),
        envelope(b"\x81\xa1a\x01", "application/x-msgpack", "binary"),
        envelope(b"{", "application/json"),
        envelope(b'{"a": 1}'),
        envelope(b"[" * 100_000),
        envelope(b"\xff\xfe", encoding="no-such-codec"),
        envelope(b"[[], {}, {}]", 7, 8),
        call("x", task="no.such.task"),
        call("x", task=["workers.run"]),
        call("x", task=None),
        call({"a": [1]}),
        call(7),
        call(None),
        call("not a uuid"),
        call("\x00" * 500),
        call("x" * 600_000),
        call(*range(50)),
        call(str(uuid.uuid4()), expires="never"),
        envelope(b'[["x"], {"y": 1}, {"callbacks": 5, "chain": 7, "chord": []}]'),
        [],
        7,
        None,
        {},
        {**good, "properties": None},
        {**good, "properties": {}},
        {**good, "properties": {**good["properties"], "delivery_tag": {"a": 1}}},
        {**good, "headers": 7},
        {**good, "headers": None},
        {**good, "body": 7},
        {**good, "body": "no base 64 \ud800"},
        {**good, "body": {"__type__": "uuid", "__value__": "x"}},
    ]
    return [b"", b"\x80\x04.", b"{", planted, b"[" * 100_000, *(json.dumps(one).encode() for one in whole)]


def asking_for_more() -> list[bytes]:
    """Wake-ups of ours, and what they ask for besides is not heard."""
    known, good = str(uuid.uuid4()), call(str(uuid.uuid4()))
    more: list[dict[str, Any]] = [{"eta": "2099-01-01T00:00:00"}, {"timelimit": "x"}, {"reply_to": "x"}]
    more += [{"compression": "application/x-bz2"}, {"callbacks": [{"task": "no.such", "args": []}]}]
    wrong: list[dict[str, Any]] = [{"body_encoding": "zlib"}, {"delivery_info": 7}, {"priority": "x"}]
    asked = [call(known, **one) for one in more]
    asked += [{**good, "properties": {**good["properties"], **one}} for one in wrong]
    return [json.dumps(one).encode() for one in asked]


def is_taken(client: redis.Redis) -> bool:
    """Whether the worker has taken every message, and keeps none for later."""
    return not client.llen("celery") and set(client.hkeys("unacked")) <= {b"x"}


def test_forged_messages_are_refused_and_the_worker_goes_on(broker: Redis, worker: Worker, tmp_path: Path) -> None:
    planted, before, refused = tmp_path / "planted", worker.pid(), forged(tmp_path / "planted")
    with redis.Redis.from_url(broker.url()) as client:
        client.hset("unacked", "x", pickle.dumps(Planted(planted)))
        client.zadd("unacked_index", {"x": 0})
        client.lpush("celery", *asking_for_more(), *refused)
        # Of lines of one kind some are written (`transferapi.logs.formats`): the others are seen by the empty list.
        assert len(refused) > MOST
        eventually(lambda: (worker.refusals() == MOST and is_taken(client)) or worker.pid() != before)
        client.lpush("celery", b"one more")
        eventually(lambda: is_taken(client) or worker.pid() != before)
    assert worker.pid() == before, worker.text()[-4000:]
    assert not planted.exists()


@pytest.mark.parametrize("longest", [1_000_000, 2_000_000])
def test_redis_takes_no_message_of_more_than_a_megabyte(broker: Redis, longest: int) -> None:
    with redis.Redis.from_url(broker.url()) as client:
        if longest < 1 << 20:
            assert client.lpush("longest", b"x" * longest) == 1
        else:
            with pytest.raises(redis.RedisError):
                client.lpush("longest", b"x" * longest)
        client.delete("longest")


@pytest.mark.parametrize("task", sorted(name for name in celery_app.tasks if name.startswith(OURS)))
def test_what_the_service_sends_is_taken(task: str) -> None:
    row = [str(uuid.uuid4())] if task in OF_A_ROW else []
    said = rebuild(call(*row, task=task, expires="2026-11-22T10:00:00+00:00"))
    assert (said["headers"]["task"], said["headers"]["expires"]) == (task, "2026-11-22T10:00:00+00:00")
    assert json.loads(base64.b64decode(said["body"]))[0] == row


def test_a_message_asks_for_one_of_our_tasks_and_nothing_after_it() -> None:
    embedded = {
        "callbacks": [{"task": "workers.run", "args": ["x"]}],
        "chain": [{"task": "x"}],
        "errbacks": [],
        "chord": 1,
    }
    id_ = str(uuid.uuid4())
    asked = envelope(json.dumps([[id_], {}, embedded]).encode(), reply_to="x", eta="2099-01-01", ignore_result=False)
    said = rebuild(asked)
    assert json.loads(base64.b64decode(said["body"])) == [[id_], {}, dict.fromkeys(embedded)]
    assert not {"eta", "reply_to"} & said["headers"].keys()
    assert said["headers"]["ignore_result"]


def test_values_of_the_cache_that_we_have_not_written_are_none(redis_server: Redis, tmp_path: Path) -> None:
    planted = tmp_path / "planted"
    with redis.Redis.from_url(redis_server.url()) as client:
        for value in (pickle.dumps(Planted(planted)), b"\xff", b"[" * 100_000, b"{", b"9" * 10_000):
            client.set(cache.make_key("forged"), value)
            assert cache.get("forged") is None
    assert not planted.exists()
    with pytest.raises(TypeError):
        cache.set("object", Planted(planted))


@pytest.mark.parametrize("value", ["x", "\x80\x04.", "nan 1", "1e999 1", "-5.000 1", "9" * 400, '{"a": 1}', None])
def test_a_forged_bucket_counts_as_none(redis_server: Redis, settings: Any, value: str | None) -> None:
    settings.RATE_LIMIT, settings.REDIS_URL = 5, redis_server.url()
    user = uuid.uuid4()
    with redis.Redis.from_url(redis_server.url()) as client:
        if value is None:
            client.lpush(f"waybill:rate:user:{user}", "x")
        else:
            client.set(f"waybill:rate:user:{user}", value)
    begun, taken = time.monotonic(), 0
    while (one := rate_limit.take(user, "192.0.2.1")) is not None and not one.wait:
        taken += 1
    assert one is not None
    assert 50 <= taken <= 51 + 5 * (time.monotonic() - begun), "the bucket was full, and fills up meanwhile"


def test_a_forged_counter_of_sign_ins_lets_nobody_in(passwords: None, redis_server: Redis) -> None:
    with redis.Redis.from_url(redis_server.url()) as client:
        client.set(cache.make_key(password_sign_in._counter("name", "alice")), "x")
    with raises_refusal(password_sign_in.COUNTING_FAILED):
        password_sign_in.sign_in("alice", Secret(PASSWORD), "192.0.2.1")


def test_a_session_lies_in_the_database_alone(passwords: None, redis_server: Redis) -> None:
    session = import_module(django_settings.SESSION_ENGINE).SessionStore()
    session["who"] = "alice"
    session.save()
    with redis.Redis.from_url(redis_server.url()) as client:
        assert not any(session.session_key.encode() in key for key in client.scan_iter())
