"""The doorbell on a real Redis, on one that is frozen, and on none."""

from __future__ import annotations

import base64
import json
import os
import shutil
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import redis

from deploy.stack.redis import Redis
from identity.models import User
from tests.integration.cast import make_endpoint, make_user, submit, take
from transferapi.config import CHECKOUT
from transferapi.config.servers import broker_url
from transferapi.tasks import doorbell
from transferapi.tasks.models import Event, Lease
from workers import runtime


@pytest.fixture
def broker(stack_home: Path, tmp_path_factory: pytest.TempPathFactory, settings: Any) -> Iterator[Redis]:
    """A Redis of the test's own, which it may freeze and stop."""
    home = stack_home / "doorbell"
    shutil.rmtree(home, ignore_errors=True)
    home.mkdir(mode=0o711)
    server = Redis(home)
    server.start()
    settings.CELERY_BROKER_URL = broker_url(server.url())
    yield server
    server.stop()


def heard(broker: Redis) -> list[Any]:
    """The messages that a worker would take, oldest first: (task name, arguments)."""
    with redis.Redis.from_url(broker.url()) as client:
        raw = client.lrange("celery", 0, -1)
    messages = [json.loads(one) for one in reversed(raw)]
    return [(one["headers"]["task"], json.loads(base64.b64decode(one["body"]))[0]) for one in messages]


def test_each_task_gets_a_message_with_its_id(broker: Redis) -> None:
    ids = [uuid.uuid4(), uuid.uuid4()]
    assert doorbell.ring(ids)
    assert heard(broker) == [("workers.run", [str(id_)]) for id_ in ids]


def test_a_call_sends_no_more_messages_than_workers_can_use(broker: Redis) -> None:
    ids = [uuid.uuid4() for _ in range(doorbell.MOST + 5)]
    assert doorbell.ring(ids)
    assert heard(broker) == [("workers.run", [str(id_)]) for id_ in ids[: doorbell.MOST]]


DJANGO = """
import os, time
os.environ["DJANGO_SETTINGS_MODULE"] = "transferapi.settings"
import django
django.setup()
from transferapi.tasks.models import Event
from workers import runtime
"""
END_OF_A_SLICE = "runtime.start_next()"
#: Of a worker with one place, which hears messages.
SWEEP = """
runtime.begin(1, lambda: True)
runtime.sweep()
until = time.monotonic() + 30
while time.monotonic() < until and not Event.objects.filter(code="RESUMED").exists():
    time.sleep(0.05)
runtime.stop()
runtime.join()
"""


def in_a_worker(program: str, broker: Redis, database_url: str, settings: Any) -> None:
    """Run it in a process of its own: the threads of a worker keep their connections to the database."""
    given = {"DATABASE_URL": database_url, "REDIS_URL": broker.url(), "WAYBILL_SECRET_KEY": settings.SECRET_KEY}
    words = [sys.executable, "-c", DJANGO + program]
    subprocess.run(words, env=os.environ | given, cwd=CHECKOUT, check=True, timeout=60)


@pytest.mark.django_db(transaction=True)
def test_the_end_of_a_slice_rings_for_a_few_of_those_that_may_run(
    broker: Redis, bob: User, database_url: str, settings: Any
) -> None:
    """With a message for each, a thousand waiting tasks would keep the workers from all of them."""
    source, destination = (make_endpoint(bob, name, public=True, max_sessions=500) for name in ("from", "to"))
    tasks = [submit(make_user(f"user{number}"), source, destination) for number in range(runtime.NEXT + 3)]
    before = len(heard(broker))
    in_a_worker(END_OF_A_SLICE, broker, database_url, settings)
    assert heard(broker)[before:] == [("workers.run", [str(task.pk)]) for task in tasks[: runtime.NEXT]]


@pytest.mark.timeout(90)
@pytest.mark.django_db(transaction=True)
def test_tasks_of_a_lost_worker_wait_for_no_messages(
    broker: Redis, bob: User, database_url: str, settings: Any
) -> None:
    """They begin where the sweep finds them; others, and those without a place there, get messages."""
    source, destination = (make_endpoint(bob, name, public=True, max_sessions=500) for name in ("from", "to"))
    waiting, *lost = [submit(make_user(f"user{number}"), source, destination) for number in range(3)]
    for task in lost:
        take(task, "lost")
    Lease.objects.update(expires_at=datetime.now(UTC))
    before = len(heard(broker))
    in_a_worker(SWEEP, broker, database_url, settings)
    assert heard(broker)[before:][:2] == [("workers.run", [str(task.pk)]) for task in (lost[1], waiting)]
    assert Event.objects.get(code="RESUMED").task_id == lost[0].pk


@pytest.mark.timeout(5)
def test_messages_that_no_worker_takes_fill_no_redis(broker: Redis, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before, each submission of days without a worker stayed in the memory of Redis; they expire only when taken."""
    monkeypatch.setattr(doorbell, "MOST_WAITING", 5)
    assert [doorbell.ring(uuid.uuid4() for _ in range(3)) for _ in range(4)] == [True, True, False, False]
    with redis.Redis.from_url(broker.url()) as client:
        assert client.llen("celery") == 6
        client.delete("celery")
    assert doorbell.ring([uuid.uuid4()]), "a worker has taken them"


def test_a_frozen_broker_holds_nobody_up(broker: Redis) -> None:
    assert broker.process is not None
    broker.process.send_signal(signal.SIGSTOP)
    try:
        assert not doorbell.ring([uuid.uuid4(), uuid.uuid4()])
    finally:
        broker.process.send_signal(signal.SIGCONT)


def test_the_bell_rings_again_after_the_broker_was_down(broker: Redis) -> None:
    assert doorbell.ring([uuid.uuid4()])
    broker.stop()
    assert not doorbell.ring([uuid.uuid4()])
    broker.start()
    last = uuid.uuid4()
    assert doorbell.ring([last])
    assert heard(broker)[-1] == ("workers.run", [str(last)])


def test_a_warning_about_the_broker_does_not_hold_its_password(settings: Any, caplog: pytest.LogCaptureFixture) -> None:
    settings.CELERY_BROKER_URL = "redis://:hunter2@127.0.0.1:1/0"
    assert not doorbell.ring([uuid.uuid4()])
    assert "doorbell" in caplog.text
    assert "hunter2" not in caplog.text
