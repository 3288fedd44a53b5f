"""Streams of events through a real nginx and a real HAProxy: to the events server, and without it to the web server."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest
from django.db import connections, transaction

from deploy.stack.free_ports import free_port
from deploy.stack.postgres import Postgres
from deploy.stack.redis import Redis
from deploy.stack.roles import EVENTS, WEB
from endpoints.models import Endpoint
from identity import tokens
from identity.clock import moment
from identity.models import User
from tests.gridftp.authority import Authority
from tests.integration.cast import make_user, submit
from tests.integration.rest.push.stream_servers import Web, running_server
from tests.servers.front_server import Nginx, haproxy
from transferapi.rest.push import event_broadcaster
from transferapi.tasks import events
from transferapi.tasks.events import NewEvent

pytestmark = [pytest.mark.nginx, pytest.mark.django_db(transaction=True)]

NOBODY = "127.0.0.1:1"


@pytest.fixture(scope="module")
def start(
    postgres: Postgres,
    django_db_setup: None,
    redis_server: Redis,
    tmp_path_factory: pytest.TempPathFactory,
    authority: Authority,
) -> Iterator[Callable[[tuple[str, ...]], str]]:
    """Starts a program of the product, and returns its address."""
    with ExitStack() as running:

        def run(program: tuple[str, ...]) -> str:
            database_url = postgres.url(str(connections["default"].settings_dict["NAME"]))
            folder = tmp_path_factory.mktemp("server")
            server = running_server(program, folder, database_url, redis_server, authority)
            return f"127.0.0.1:{running.enter_context(server).port}"

        yield run


@pytest.fixture(scope="module")
def events_server(start: Callable[[tuple[str, ...]], str]) -> str:
    return start(EVENTS)


@pytest.fixture(scope="module")
def web_server(start: Callable[[tuple[str, ...]], str]) -> str:
    return start(WEB)


@pytest.fixture(params=["nginx", pytest.param("haproxy", marks=pytest.mark.haproxy)])
def front(request: pytest.FixtureRequest) -> Iterator[Callable[[str, str], Web]]:
    """Starts a front server: `front(web, events)`."""
    with ExitStack() as running:

        def run(web: str, events_address: str) -> Web:
            if request.param == "haproxy":
                port = running.enter_context(haproxy(web, EVENTS=events_address)).port
            else:
                given = {"FRONT_MODE": "http", "FRONT_SECRET": "", "REQUEST_SECONDS": "60"}
                nginx = Nginx.of_the_product(free_port(), **given, WEB=web, EVENTS=events_address)
                port = running.enter_context(nginx).port
            return Web(port, 0, None)

        yield run


def test_many_streams_of_users_reach_the_events_server_and_get_each_event_at_once(
    front: Callable[[str, str], Web], events_server: str, alice: User, ep1: Endpoint, ep2: Endpoint
) -> None:
    """No web server is there."""
    through = front(NOBODY, events_server)
    users = [alice, *(make_user(f"user{number}") for number in range(4))]
    task = submit(alice, ep1, ep2)
    most = event_broadcaster.MOST_OF_A_USER
    readers = [through.listen(tokens.issue(user)) for user in users for _ in range(most - 1)]
    readers.insert(0, through.listen(tokens.issue(alice), f"/task/{task.pk}/event_stream"))
    for reader in readers:
        reader.until(b"id: ")
        assert reader.status == 200
    with transaction.atomic():
        events.append(task.pk, [NewEvent("ONE", "")], moment())
    for reader in readers[:most]:
        reader.until(b"event: ONE\n")
    assert not any(b"event: ONE" in reader.raw for reader in readers[most:])
    through.close_readers()


def test_without_the_events_server_the_web_server_has_a_few_streams(
    front: Callable[[str, str], Web], web_server: str, alice: User, ep1: Endpoint, ep2: Endpoint
) -> None:
    through, task = front(web_server, NOBODY), submit(alice, ep1, ep2)
    reader = through.listen(tokens.issue(alice), f"/task/{task.pk}/event_stream")
    reader.until(b"event: task\n")
    with transaction.atomic():
        events.append(task.pk, [NewEvent("ONE", "")], moment())
    reader.until(b"event: ONE\n")
    assert through.get(tokens.issue(alice), f"/task/{task.pk}")[0] == 200
    through.close_readers()
