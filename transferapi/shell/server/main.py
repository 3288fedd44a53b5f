"""Runs the ssh server until SIGTERM or SIGINT."""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading

from transferapi.config import Config
from transferapi.outages import database, watchdog
from transferapi.tasks import trace_switch
from transferapi.tasks.upkeep.watch import Watch
from transferapi.traces import exporting

from . import host_key
from .bounds import ShellBounds
from .listener import Listener

log = logging.getLogger(__name__)
#: Octets of the stack of a thread: there are two for each connection.
STACK = 512 << 10
#: The line of the log that says that clients can connect.
READY = "ssh: listening on"


def serve(config: Config) -> int:
    """Django must be set up. Returns the exit status; ends the process after a signal."""
    most = _bounds(config)
    # Calls, sign-ins, and the thread for the maintenance mode.
    shares = database.ConnectionBounds("shell", most.calls + most.calls_of_sign_ins + 1)
    database.watch(database.OF_REQUESTS, shares)
    threading.stack_size(STACK)
    try:
        key = host_key.load_or_make(config.home)
        server = Listener(config.ssh_host, config.ssh_port, key, most)
    except host_key.HostKeyFileError as error:
        sys.stderr.write(f"waybill: {error}\n")
        return 1
    except OSError as error:
        sys.stderr.write(f"waybill: cannot listen on {config.ssh_host} port {config.ssh_port}: {error.strerror}\n")
        return 1
    stopped = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopped.set())
    threading.Thread(target=server.serve, name="accept", daemon=True).start()
    trace_switch.begin("shell")
    Watch("shell", server.gauges).start()
    watchdog.watch()
    sys.stdout.write(f"{READY} {config.ssh_host} port {server.port}, host key {key.fingerprint}\n")
    sys.stdout.flush()
    stopped.wait()
    watchdog.stop()
    server.stop()
    exporting.stop()
    log.info("ssh: stopped")
    sys.stdout.flush()
    # Threads may wait for servers of endpoints; the interpreter would wait for some of them.
    os._exit(0)


def _bounds(config: Config) -> ShellBounds:
    most = config.ssh_sessions
    return ShellBounds(
        sessions=most,
        sessions_of_network=max(1, most * 4 // 5),
        sessions_of_user=max(1, most // 2),
        idle_seconds=float(config.ssh_idle_seconds),
    )
