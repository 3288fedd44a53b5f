"""`waybill check PROGRAM`: whether a program of this machine works, for health checks of containers and units.

It runs every few seconds for each program. So it reads only the variables that it needs, and loads neither Django nor
the configuration, except on a machine where `make up` has chosen the ports.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import socket
import ssl
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import urlencode

from deploy.stack.errors import StackError
from deploy.web.client_tls import client_context
from endpoints.connect.relay_address import RelayAddress
from endpoints.connect.relay_address import parse as parse_relay_address
from identity.hidden import Secret
from transferapi.config import urls, values
from transferapi.config.secret_files import secret_text, variable_of
from transferapi.tasks.upkeep.worker_reports import AGES, GONE_SECONDS

if TYPE_CHECKING:
    from transferapi.config import Config

    from .user import Declare

#: Seconds for an answer: `/readyz` itself takes 2 s where something hangs.
SECONDS = 5.0
#: Octets of an answer that are read.
MOST = 1 << 16
#: Where it asks a server that listens at all addresses.
_ANY = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104
CHECKOUT = Path(__file__).resolve().parents[2]
_MEANING = "check that a program of this machine works; status 1: it does not"


class ListeningAddresses(Protocol):
    """Where the programs of this machine listen; `Config` has these settings, too."""

    @property
    def web_host(self) -> str: ...
    @property
    def port(self) -> int: ...
    @property
    def tls_certificate(self) -> Path | None: ...
    @property
    def ssh_host(self) -> str: ...
    @property
    def ssh_port(self) -> int: ...
    @property
    def relay(self) -> RelayAddress: ...
    @property
    def database_url(self) -> Secret | None: ...


@dataclass(frozen=True)
class _Places:
    web_host: str
    port: int
    tls_certificate: Path | None
    ssh_host: str
    ssh_port: int
    relay: RelayAddress
    database_url: Secret | None


def declare(commands: Any, command: Declare) -> None:
    """Add the command to the parser."""
    _declare_words(command(commands, "check", run_check, _MEANING))


def _declare_words(said: argparse.ArgumentParser) -> None:
    said.add_argument("program", choices=tuple(CHECKS))
    said.add_argument(
        "--exclude", action="append", default=[], metavar="NAME", help="a check of /readyz that does not count (web)"
    )


def main(words: list[str]) -> int:
    """`waybill check` in a process of its own; returns its exit status, as `deploy.cli.main` does."""
    parser = argparse.ArgumentParser(prog="waybill check", description=_MEANING)
    _declare_words(parser)
    arguments = parser.parse_args(words)
    try:
        return _run(places(os.environ), arguments)
    except StackError as error:
        sys.stderr.write(f"waybill: {error}\n")
    return 1


def run_check(config: Config, arguments: argparse.Namespace) -> int:
    """Status 1, with the reasons as lines of the error, where it does not work."""
    return _run(running_here(config), arguments)


def _run(here: ListeningAddresses, arguments: argparse.Namespace) -> int:
    CHECKS[arguments.program](here, arguments.exclude)
    sys.stdout.write(f"{arguments.program}: works\n")
    return 0


def is_of_make_up(environ: Mapping[str, str]) -> bool:
    """Whether `make up` has chosen the ports and sockets: it runs in this home."""
    home = environ.get("WAYBILL_HOME") or str(CHECKOUT / ".waybill")
    return (values.absolute_path(home) / "connection.json").exists()


def places(environ: Mapping[str, str]) -> ListeningAddresses:
    """The settings of this check, where `make up` does not run. Raises StackError."""

    def read(name: str, parse: Callable[[str], Any], default: str) -> Any:
        try:
            return parse(environ.get(name) or default)
        except ValueError as error:
            raise StackError(f"{name}: {error}") from None

    return _Places(
        web_host=read("WAYBILL_WEB_HOST", values.address, "127.0.0.1"),
        port=read("WAYBILL_PORT", values.port, "8000"),
        tls_certificate=read("WAYBILL_TLS_CERTIFICATE", values.file_or_none, ""),
        ssh_host=read("WAYBILL_SSH_HOST", values.address, "127.0.0.1"),
        ssh_port=read("WAYBILL_SSH_PORT", values.port, "2222"),
        relay=read("WAYBILL_RELAY", parse_relay_address, "127.0.0.1:8003"),
        database_url=_database(environ),
    )


def _database(environ: Mapping[str, str]) -> Secret | None:
    name = "DATABASE_URL"
    try:
        if not (url := secret_text(environ, name)):
            return None
        name = "WAYBILL_DATABASE_PASSWORD"
        password = secret_text(environ, name)
        return Secret(urls.with_password(url, password) if password else url)
    except ValueError as error:
        raise StackError(f"{variable_of(environ, name)}: {error}") from None


def running_here(config: Config) -> Config:
    """The configuration of what `make up` runs in this home, where it does; else the given one."""
    from deploy.stack.embedded import use_embedded_stack
    from deploy.stack.home import Home
    from transferapi.config import load_or_exit

    home = Home(config.home)
    connection: Any = home.read_json(home.connection)
    if not connection:
        return config
    os.environ.setdefault("WAYBILL_SSH_PORT", str(connection["ssh"]["port"]))
    use_embedded_stack()
    return load_or_exit()


def _web(here: ListeningAddresses, exclude: list[str]) -> None:
    context = client_context(here.tls_certificate)
    asked = _connection(_ANY.get(here.web_host, here.web_host), here.port, context)
    words = urlencode([("exclude", name) for name in exclude])
    try:
        asked.request("GET", f"/readyz?{words}")
        answer = asked.getresponse()
        body = answer.read(MOST)
    except (OSError, http.client.HTTPException) as error:
        raise StackError(f"the web server does not answer at port {here.port}: {error}") from None
    finally:
        asked.close()
    if answer.status != 200:
        raise StackError(_reasons(body))


def _connection(host: str, port: int, context: ssl.SSLContext | None) -> http.client.HTTPConnection:
    if context is None:
        return http.client.HTTPConnection(host, port, timeout=SECONDS)
    return http.client.HTTPSConnection(host, port, timeout=SECONDS, context=context)


def _reasons(body: bytes) -> str:
    try:
        document = json.loads(body)
        checks = document.get("checks", {}).items()
        failed = [f"{name}: {one['reason']}" for name, one in checks if not one["passed"]]
        return "\n".join(failed) or str(document.get("reason", "not ready"))
    except (ValueError, AttributeError, KeyError, TypeError):
        return "the web server answered something that is not of Waybill"


def _worker(here: ListeningAddresses, exclude: list[str]) -> None:
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


def _reports(here: ListeningAddresses, host: str) -> dict[str, float]:
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


def _shell(here: ListeningAddresses, exclude: list[str]) -> None:
    try:
        with socket.create_connection((_ANY.get(here.ssh_host, here.ssh_host), here.ssh_port), SECONDS) as sock:
            greeting = sock.recv(64)
    except OSError as error:
        raise StackError(f"the ssh shell does not answer at port {here.ssh_port}: {error}") from None
    if not greeting.startswith(b"SSH-2.0-"):
        raise StackError(f"the program at port {here.ssh_port} is not the ssh shell")


def _relay(here: ListeningAddresses, exclude: list[str]) -> None:
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


CHECKS: dict[str, Callable[[ListeningAddresses, list[str]], None]] = {
    "web": _web,
    "worker": _worker,
    "shell": _shell,
    "relay": _relay,
}
