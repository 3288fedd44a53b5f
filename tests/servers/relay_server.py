"""A relay in this process, over the test database, and agents that sign in to it with real keys and certificates."""

from __future__ import annotations

import asyncio
import base64
import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

from endpoints.connect import setup, setup_keys
from endpoints.connect.relay_address import DataPorts, RelayAddress
from endpoints.gridftp.agent.keys import AgentIdentity, AgentKey
from endpoints.gridftp.agent.tunnel.agent_end import AgentFacts
from endpoints.gridftp.agent.tunnel.service import ServiceAddress
from endpoints.gridftp.agent.tunnel.tunnel import Tunnel, TunnelRefusedError
from endpoints.models import Endpoint
from identity.hidden import Secret
from identity.models import User
from tests.waiting import eventually
from transferapi.relay import main
from transferapi.relay.bounds import RelayBounds
from transferapi.relay.relay import Relay

HOST = "127.0.0.1"
#: Ports below those that the system gives to clients. A port that is in use is passed over.
DATA_PORTS = DataPorts(HOST, 20_000, 29_999)
T = TypeVar("T")


@dataclass
class RelayServer:
    """A relay that runs in a thread of its own."""

    relay: Relay
    loop: asyncio.AbstractEventLoop

    @property
    def port(self) -> int:
        return self.relay.address.port

    @property
    def service(self) -> ServiceAddress:
        """Agents may come without a front server."""
        return ServiceAddress(f"http://{HOST}:{self.port}")

    def look(self, what: Callable[[Relay], T]) -> T:
        """A value of the relay, read on its loop."""

        async def read() -> T:
            return what(self.relay)

        return asyncio.run_coroutine_threadsafe(read(), self.loop).result(60)


@contextmanager
def relay_server(
    settings: Any, bounds: RelayBounds | None = None, *, port: int = 0, data_ports: DataPorts | None = None
) -> Iterator[RelayServer]:
    """settings: Django's, whose RELAY and PUBLIC_URL become those of this relay."""
    found: list[RelayServer] = []
    ready, stopped = threading.Event(), asyncio.Event()

    def run() -> None:
        async def serve() -> None:
            loop = asyncio.get_running_loop()

            def is_ready(relay: Relay) -> None:
                found.append(RelayServer(relay, loop))
                ready.set()

            await main.run(RelayAddress(HOST, port), bounds or RelayBounds(), stopped, is_ready, data_ports=data_ports)

        asyncio.run(serve())

    thread = threading.Thread(target=run, name="relay")
    thread.start()
    try:
        assert ready.wait(90)
        settings.RELAY = found[0].relay.address
        settings.PUBLIC_URL = f"http://{HOST}:{found[0].port}"
        yield found[0]
    finally:
        if found:
            found[0].loop.call_soon_threadsafe(stopped.set)
        thread.join(90)


def make_identity(owner: User, name: str) -> tuple[Endpoint, AgentIdentity]:
    """A personal endpoint whose agent has been set up."""
    endpoint, key = setup_keys.create_endpoint(owner, {"name": name, "is_globus_connect": True})
    assert key is not None
    pair = AgentKey.new()
    issued = setup.set_up(secret_of(key), pair.request("agent"), setup.AgentVersion())
    return endpoint, AgentIdentity(pair, issued.chain)


def secret_of(key: setup_keys.IssuedSetupKey) -> Secret:
    text = key.text.value.removeprefix("wb1.")
    return Secret(json.loads(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))["s"])


@dataclass
class RunningAgent:
    """An agent's tunnel in a thread. statuses: as it has reported them. controls: its ends of control channels."""

    tunnel: Tunnel
    statuses: list[str] = field(default_factory=list)
    controls: list[socket.socket] = field(default_factory=list)
    refused: TunnelRefusedError | None = None

    @property
    def status(self) -> str:
        return self.statuses[-1] if self.statuses else ""


@contextmanager
def agent(
    service: ServiceAddress,
    identity: AgentIdentity,
    on_control: Callable[[socket.socket], None] | None = None,
    *,
    connected: bool = True,
) -> Iterator[RunningAgent]:
    """connected: wait until it is."""
    running: RunningAgent
    statuses: list[str] = []
    controls: list[socket.socket] = []
    tunnel = Tunnel(service, identity, on_control or controls.append, statuses.append, AgentFacts("1.0", "Linux"))
    running = RunningAgent(tunnel, statuses, controls)

    def run() -> None:
        try:
            tunnel.run()
        except TunnelRefusedError as error:
            running.refused = error

    thread = threading.Thread(target=run, name="agent")
    thread.start()
    try:
        if connected:
            eventually(lambda: running.status == "connected")
        yield running
    finally:
        tunnel.stop()
        thread.join(90)
        for one in controls:
            one.close()
        assert not thread.is_alive()
