"""Metrics of relays and of the ssh shell: real connections are counted, and `/metrics` adds the processes up."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.db import connection

from endpoints.connect import dial
from identity.models import User
from tests.integration.relay.test_data import BOUNDS, moved
from tests.servers.relay_server import agent, make_identity, relay_server
from tests.servers.shell_server import shell_server
from tests.waiting import eventually
from transferapi.tasks.models import ServiceProcess
from transferapi.tasks.upkeep import figures, service_processes, tallies
from transferapi.tasks.upkeep.watch import Watch

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("redis_server")]


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    tallies._counts.clear()
    yield
    tallies._counts.clear()


def counted() -> figures.Figures:
    tallies.flush()
    return figures.read()[0]


def test_a_relay_counts_tunnels_connections_and_octets(alice: User, settings: Any) -> None:
    laptops = [make_identity(alice, name) for name in ("laptop", "desktop")]
    with relay_server(settings, BOUNDS) as relay:
        with agent(relay.service, laptops[0][1]) as one, agent(relay.service, laptops[1][1]) as two:
            eventually(lambda: relay.relay.gauges()["relay_tunnels"] == 2)
            ids = [laptop[0].pk for laptop in laptops]
            token = dial.new_data_token(ids, user_id=alice.pk, seconds=60)
            near, far = one.tunnel.open_data(token), two.tunnel.open_data(token)
            with near, far:
                assert moved(near, far, os.urandom(1 << 20))
                assert relay.relay.gauges()["relay_pairs"] == 1
            refused = two.tunnel.open_data("not a token")
            with refused:
                eventually(lambda: tallies._counts["relay_refused forbidden"] == 1)
            eventually(lambda: tallies._counts["relay_bytes"] >= 1 << 20)
        eventually(lambda: relay.relay.gauges() == {"relay_tunnels": 0, "relay_pairs": 0})
    found = counted()
    # Two agents have the octets once, not once for each.
    assert found["relay_bytes"] == {(): float(1 << 20)}
    assert found["relay_connections"] == {(): 1.0}
    assert {code: number for (code,), number in found["relay_refused"].items() if number} == {"forbidden": 1.0}
    assert {code: number for (code,), number in found["agent_sign_ins"].items() if number} == {"accepted": 2.0}


def test_the_shell_counts_sign_ins_and_its_own_commands_only(alice: User, bob: User, tmp_path: Path) -> None:
    with shell_server(tmp_path) as server:
        server.add_key(alice)
        server.add_key(bob)
        assert server.run("help").returncode == 0
        assert server.run("details no-such-task").returncode != 0
        assert server.run("secret-word-of-a-user").returncode == 2
        assert server.run("help", user="bob", key="alice").returncode == 255
        eventually(lambda: server.listener.gauges() == {"shell_sessions": 0, "shell_strangers": 0})
    found = counted()
    assert found["shell_commands"] == {("help", "ok"): 1.0, ("details", "failed"): 1.0}
    assert found["shell_sign_ins"][("accepted",)] == 3.0
    assert found["shell_sign_ins"][("refused",)] >= 1.0
    assert "secret-word" not in repr(found)


def test_gauges_of_processes_are_added_up() -> None:
    service_processes.report("a:1", "relay", {"relay_tunnels": 2, "relay_pairs": 1, "invented": 7})
    service_processes.report("b:1", "relay", {"relay_tunnels": 3})
    service_processes.report("c:1", "shell", {"shell_sessions": 4, "shell_strangers": 1})
    # Of a version that reports no gauges, of another kind, and gone.
    service_processes.report("d:1", "shell")
    service_processes.report("e:1", "worker", {"relay_tunnels": 100})
    service_processes.report("f:1", "relay", {"relay_tunnels": 100})
    with connection.cursor() as cursor:
        cursor.execute("UPDATE tasks_serviceprocess SET seen_at = now() - interval '1 minute' WHERE name = 'f:1'")
        cursor.execute("""UPDATE tasks_serviceprocess SET gauges = '["odd"]' WHERE name = 'e:1'""")
    found = figures.read()[0]
    assert (found["relays"], found["shells"]) == ({(): 2.0}, {(): 2.0})
    assert (found["relay_tunnels"], found["relay_pairs"]) == ({(): 5.0}, {(): 1.0})
    assert (found["shell_sessions"], found["shell_strangers"]) == ({(): 4.0}, {(): 1.0})


def test_a_process_writes_its_counts_with_its_report_and_at_its_end() -> None:
    watch = Watch("shell", lambda: {"shell_sessions": 1})
    tallies.add("shell_refused")
    watch.look()
    assert figures.read()[0]["shell_refused"] == {(): 1.0}
    gauges = ServiceProcess.objects.get().gauges
    assert gauges is not None
    assert gauges.items() > {"shell_sessions": 1, "connections_most": 1000}.items()
    tallies.add("shell_refused")
    watch.leave()
    assert figures.read()[0]["shell_refused"] == {(): 2.0}
