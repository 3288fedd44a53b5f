"""Whether a program of this machine works: the checks of `waybill check` and `waybill doctor`.

Health checks run every few seconds: no check loads Django or the configuration.
"""

from __future__ import annotations

import http.client
import json
import os
import socket
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeAlias
from urllib.parse import urlencode

from deploy.stack.errors import StackError
from deploy.web.client_tls import client_context
from endpoints.connect.relay_address import RelayAddress
from identity.hidden import Secret
from transferapi.tasks.upkeep.worker_reports import AGES, GONE_SECONDS

if TYPE_CHECKING:
    from transferapi.config import Config

#: Seconds for an answer: `/readyz` itself takes 2 s where something hangs.
SECONDS = 5.0
#: Octets of an answer that are read.
MOST = 1 << 16
#: Where it asks a server that listens at all addresses.
_ANY = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104


@dataclass(frozen=True)
class ListeningAddresses:
    """Where the programs of this machine listen: settings of `Config`, for a check that does without the others."""

    web_host: str
    port: int
    events_port: int
    tls_certificate: Path | None
    ssh_host: str
    ssh_port: int
    relay: RelayAddress
    database_url: Secret | None


Here: TypeAlias = "ListeningAddresses | Config"


def _web(here: Here, exclude: list[str]) -> None:
    _ask_ready(here, "the web server", here.port, exclude)


def _events(here: Here, exclude: list[str]) -> None:
    _ask_ready(here, "the events server", here.events_port, exclude)


def _ask_ready(here: Here, program: str, port: int, exclude: list[str]) -> None:
    context = client_context(here.tls_certificate)
    asked = _connection(_ANY.get(here.web_host, here.web_host), port, context)
    words = urlencode([("exclude", name) for name in exclude])
    try:
        asked.request("GET", f"/readyz?{words}")
        answer = asked.getresponse()
        body = answer.read(MOST)
    except (OSError, http.client.HTTPException) as error:
        raise StackError(f"{program} does not answer at port {port}: {error}") from None
    finally:
        asked.close()
    if answer.status != 200:
        raise StackError(_reasons(program, body))


def _connection(host: str, port: int, context: ssl.SSLContext | None) -> http.client.HTTPConnection:
    if context is None:
        return http.client.HTTPConnection(host, port, timeout=SECONDS)
    return http.client.HTTPSConnection(host, port, timeout=SECONDS, context=context)


def _reasons(program: str, body: bytes) -> str:
    try:
        document = json.loads(body)
        checks = document.get("checks", {}).items()
        failed = [f"{name}: {one['reason']}" for name, one in checks if not one["passed"]]
        return "\n".join(failed) or str(document.get("reason", "not ready"))
    except (ValueError, AttributeError, KeyError, TypeError):
        return f"{program} answered something that is not of Waybill"


def _worker(here: Here, exclude: list[str]) -> None:
    host = socket.gethostname()
    reports = _reports(here, host)
    if not reports:
        raise StackError(
            f"no worker of the host {host} has reported itself: is it running, and does it reach PostgreSQL?"
        )
    if (age := min(reports.values())) > GONE_SECONDS:
        raise StackError(f"the last report of a worker of the host {host} is {age:.0f} s old")
    # The row of one that was killed stays for some days, and means nothing for those that run.
    hung = {name: age for name, age in reports.items() if age > GONE_SECONDS and _runs(name, age)}
    if hung:
        said = ", ".join(f"process {name.rpartition(':')[2]} for {age:.0f} s" for name, age in hung.items())
        raise StackError(f"a worker of the host {host} runs and has not reported: {said}")


def _runs(name: str, seconds: float) -> bool:
    """Whether the process of a worker (`HOST:PID`) runs. One that began since its report is another one (proc(5))."""
    try:
        fields = Path(f"/proc/{int(name.rpartition(':')[2])}/stat").read_text().rpartition(")")[2].split()
        uptime = float(Path("/proc/uptime").read_text().split()[0])
    except (OSError, ValueError):
        return False
    is_zombie = fields[0] == "Z"
    return not is_zombie and uptime - int(fields[19]) / os.sysconf("SC_CLK_TCK") > seconds


def _reports(here: Here, host: str) -> dict[str, float]:
    """Seconds since the last report of each worker of the host, by name."""
    if here.database_url is None:
        raise StackError("DATABASE_URL is not set, so that no worker can be found")
    # Imported only where there is a database to ask.
    import psycopg2

    limit = f"-c statement_timeout={SECONDS * 1000:.0f}"
    try:
        connection = psycopg2.connect(here.database_url.value, connect_timeout=int(SECONDS), options=limit)
        try:
            with connection, connection.cursor() as cursor:
                cursor.execute(AGES, {"host": host})
                return {name: float(age) for name, age in cursor.fetchall()}
        finally:
            connection.close()
    except psycopg2.Error as error:
        reason = str(error).strip().partition("\n")[0]
        raise StackError(f"PostgreSQL does not say whether a worker runs: {reason}") from None


def _shell(here: Here, exclude: list[str]) -> None:
    try:
        with socket.create_connection((_ANY.get(here.ssh_host, here.ssh_host), here.ssh_port), SECONDS) as sock:
            greeting = sock.recv(64)
    except OSError as error:
        raise StackError(f"the ssh shell does not answer at port {here.ssh_port}: {error}") from None
    if not greeting.startswith(b"SSH-2.0-"):
        raise StackError(f"the program at port {here.ssh_port} is not the ssh shell")


def _relay(here: Here, exclude: list[str]) -> None:
    where = here.relay
    try:
        if where.path:
            with socket.socket(socket.AF_UNIX) as sock:
                sock.settimeout(SECONDS)
                sock.connect(where.path)
        else:
            socket.create_connection((where.host, where.port), SECONDS).close()
    except OSError as error:
        raise StackError(f"the relay does not answer at {where}: {error}") from None


class Program(NamedTuple):
    """ask: raises StackError, with the reasons as lines, where the program does not work; the second argument are the
    checks of `/readyz` that do not count. lack, do: for `waybill doctor`, where it does not work here.
    """

    ask: Callable[[Here, list[str]], None]
    lack: str
    do: str
    #: Without a server in front, as with `make up`, the web server does its work.
    behind_front_server: bool = False


#: The programs of `waybill check`, which `waybill doctor ports` shows, too.
PROGRAMS: dict[str, Program] = {
    "web": Program(
        _web, "Nothing serves requests on this machine", "Start the web server, unless it runs on another machine."
    ),
    "worker": Program(
        _worker, "Nothing moves files on this machine", "Start a worker, unless they run on other machines."
    ),
    "shell": Program(
        _shell,
        "Nobody can use the ssh shell",
        "Start `waybill shell`, unless it is not needed or runs on another host.",
    ),
    "relay": Program(_relay, "No agent can connect", "Start `waybill relay`, unless agents are not needed."),
    "events": Program(
        _events,
        "Few streams of events are possible",
        "Start `waybill run events`, unless a few streams are enough or it runs on another host.",
        behind_front_server=True,
    ),
}
