"""`waybill check PROGRAM`: whether a program of this machine works, for health checks of containers and units."""

from __future__ import annotations

import argparse
import asyncio
import http.client
import json
import os
import socket
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable
from typing import Any

from transferapi.config import Config, load_or_exit

from .stack.embedded import use_embedded_stack
from .stack.errors import StackError
from .stack.home import Home
from .up import say
from .user_commands import Declare, user_model
from .web.tls import client_context

#: Seconds for an answer: `/readyz` itself takes 2 s where something hangs.
SECONDS = 5.0
#: Octets of an answer that are read.
MOST = 1 << 16


def declare(commands: Any, command: Declare) -> None:
    """Add the command to the parser."""
    said = command(commands, "check", run_check, "check that a program of this machine works; status 1: it does not")
    said.add_argument("program", choices=tuple(CHECKS))
    said.add_argument(
        "--exclude", action="append", default=[], metavar="NAME", help="a check of /readyz that does not count (web)"
    )


def run_check(config: Config, arguments: argparse.Namespace) -> int:
    """Status 1, with the reasons as lines of the error, where it does not work."""
    CHECKS[arguments.program](running_here(config), arguments.exclude)
    say(f"{arguments.program}: works")
    return 0


def running_here(config: Config) -> Config:
    """The configuration of what `make up` runs in this home, where it does; else the given one."""
    home = Home(config.home)
    connection: Any = home.read_json(home.connection)
    if not connection:
        return config
    os.environ.setdefault("WAYBILL_SSH_PORT", str(connection["ssh"]["port"]))
    use_embedded_stack()
    return load_or_exit()


def _web(config: Config, exclude: list[str]) -> None:
    context = client_context(config.tls_certificate)
    words = urllib.parse.urlencode([("exclude", name) for name in exclude])
    address = f"{'https' if context else 'http'}://127.0.0.1:{config.port}/readyz?{words}"
    try:
        with urllib.request.urlopen(address, timeout=SECONDS, context=context) as answer:  # noqa: S310
            answer.read(MOST)
    except urllib.error.HTTPError as error:
        with error:
            raise StackError(_reasons(error.read(MOST))) from None
    except (OSError, http.client.HTTPException) as error:
        raise StackError(f"the web server does not answer at port {config.port}: {error}") from None


def _reasons(body: bytes) -> str:
    try:
        document = json.loads(body)
        checks = document.get("checks", {}).items()
        failed = [f"{name}: {one['reason']}" for name, one in checks if not one["passed"]]
        return "\n".join(failed) or str(document.get("reason", "not ready"))
    except (ValueError, AttributeError, KeyError, TypeError):
        return "the web server answered something that is not of Waybill"


def _worker(config: Config, exclude: list[str]) -> None:
    user_model()
    from transferapi.tasks.upkeep import worker_processes

    host = socket.gethostname()
    ages = worker_processes.ages(host)
    if not ages:
        raise StackError(
            f"no worker of the host {host} has reported itself: is it running, and does it reach PostgreSQL?"
        )
    if (age := min(ages.values())) > worker_processes.GONE_SECONDS:
        raise StackError(f"the last report of a worker of the host {host} is {age:.0f} s old")


def _shell(config: Config, exclude: list[str]) -> None:
    try:
        with socket.create_connection(("127.0.0.1", config.ssh_port), SECONDS) as sock:
            greeting = sock.recv(64)
    except OSError as error:
        raise StackError(f"the ssh shell does not answer at port {config.ssh_port}: {error}") from None
    if not greeting.startswith(b"SSH-2.0-"):
        raise StackError(f"the program at port {config.ssh_port} is not the ssh shell")


def _relay(config: Config, exclude: list[str]) -> None:
    try:
        asyncio.run(_connect(config))
    except OSError as error:
        raise StackError(f"the relay does not answer at {config.relay}: {error}") from None


async def _connect(config: Config) -> None:
    (await config.relay.connect(SECONDS)).close()


CHECKS: dict[str, Callable[[Config, list[str]], None]] = {
    "web": _web,
    "worker": _worker,
    "shell": _shell,
    "relay": _relay,
}
