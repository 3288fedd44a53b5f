"""Runs a relay process until SIGTERM or SIGINT."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import os
import resource
import signal
import sys
from collections.abc import Callable

from django.db import Error as DatabaseError

from endpoints.connect import presence
from endpoints.connect.relay_address import DataPorts, RelayAddress
from transferapi.config import Config
from transferapi.outages import database, watchdog

from .bounds import RelayBounds
from .database import THREADS
from .front import Front
from .relay import Relay

log = logging.getLogger(__name__)
#: The line of the log that says that agents can connect.
READY = "relay: listening on"
BACKLOG = 1024
#: Descriptors of the process: a tunnel has one, a connection of a worker another.
FILES = 16384
#: Seconds for the goodbye to the agents.
STOP_SECONDS = 0.5


def serve(config: Config) -> int:
    """Django must be set up. Returns the exit status; ends the process after a signal."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, FILES)), hard))
    # The threads of `relay.database`, and the one for the maintenance mode.
    database.watch(database.IN_BACKGROUND, database.ConnectionBounds("relay", THREADS + 1))
    listen = config.relay_listen or config.relay
    bounds = RelayBounds(rate=config.relay_rate, channels_of_user=config.relay_channels)
    try:
        asyncio.run(_until_signal(listen, config.relay, bounds, config.relay_data))
    except OSError as error:
        sys.stderr.write(f"waybill: the relay cannot listen on {listen}: {error.strerror}\n")
        return 1
    except DatabaseError as error:
        sys.stderr.write(f"waybill: the relay cannot use the database: {type(error).__name__}\n")
        return 1
    sys.stdout.flush()
    # Threads may wait for the database; the interpreter would wait for them.
    os._exit(0)


async def _until_signal(
    listen: RelayAddress, reached: RelayAddress, bounds: RelayBounds, data_ports: DataPorts | None
) -> None:
    """Run the relay until SIGTERM or SIGINT. Raises OSError, DatabaseError."""
    stopped = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)

    def ready(relay: Relay) -> None:
        # The loaded modules stay: the garbage collector need not visit them.
        gc.collect()
        gc.freeze()
        # `waybill doctor` reads this module without Django.
        from transferapi.tasks.upkeep.watch import Watch

        Watch("relay", relay.gauges).start()
        _beat()
        watchdog.watch()
        sys.stdout.write(f"{READY} {listen}, reached at {relay.address}\n")
        sys.stdout.flush()

    await run(listen, bounds, stopped, ready, reached, data_ports)
    watchdog.stop()
    log.info("relay: stopped")


def _beat() -> None:
    """On the loop."""
    watchdog.moved("the loop of the connections")
    asyncio.get_running_loop().call_later(1.0, _beat)


async def run(
    listen: RelayAddress,
    bounds: RelayBounds,
    stopped: asyncio.Event,
    ready: Callable[[Relay], None],
    reached: RelayAddress | None = None,
    data_ports: DataPorts | None = None,
) -> None:
    """Serve until `stopped`. ready: called when agents can connect. reached: how others reach it, if not as it listens.
    data_ports: `entrances`.

    Raises OSError where it cannot listen, DatabaseError where it cannot begin.
    """
    loop = asyncio.get_running_loop()
    server = await _listen(listen, lambda: Front(relay))
    relay = Relay(reached or _reached(listen, server), bounds, data_ports)
    await relay.database.call(lambda: presence.begin(str(relay.address)))
    await server.start_serving()
    upkeep = [loop.create_task(relay.keep_presence()), loop.create_task(relay.keep_pinging())]
    ready(relay)
    await stopped.wait()
    server.close()
    for task in upkeep:
        task.cancel()
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(relay.stop(), STOP_SECONDS)


async def _listen(address: RelayAddress, front: Callable[[], asyncio.Protocol]) -> asyncio.Server:
    """A server that accepts no connection yet. Raises OSError."""
    loop = asyncio.get_running_loop()
    if address.path:
        # asyncio removes the socket file of a process that was killed.
        before = os.umask(0o177)
        try:
            return await loop.create_unix_server(front, address.path, backlog=BACKLOG, start_serving=False)
        finally:
            os.umask(before)
    return await loop.create_server(front, address.host, address.port, backlog=BACKLOG, start_serving=False)


def _reached(listen: RelayAddress, server: asyncio.Server) -> RelayAddress:
    """The address at which it listens, with the port that the system chose where that is 0."""
    return listen if listen.path else listen._replace(port=server.sockets[0].getsockname()[1])
