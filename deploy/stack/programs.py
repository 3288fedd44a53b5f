"""The programs of one instance: their names, their commands, and the checks of their readiness."""

from __future__ import annotations

import base64
import os
import signal
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from deploy.stack.errors import StackError
from deploy.web.client_tls import client_context
from transferapi.config import CHECKOUT, Config
from transferapi.config.values import host_and_port

from . import forked
from .embedded import embedded_environment
from .fingerprint import migrations_fingerprint
from .free_ports import HOST, free_port, in_use, is_free
from .home import RELAY, SSH, Home
from .postgres import Postgres
from .redis import Redis
from .supervisor import SupervisedProgram

ENDPOINTS = ("ep1", "ep2")


@dataclass(frozen=True)
class Instance:
    """One `make up`: its home, its configuration, and the ports of its sample endpoints."""

    home: Home
    config: Config
    ports: Mapping[str, int]
    ssh_port: int
    relay_port: int
    postgres: Postgres | None
    redis: Redis | None

    @property
    def url(self) -> str:
        """The address for users."""
        return self.config.public_url if self.config.tls_certificate else f"http://{HOST}:{self.config.port}"

    @property
    def roots(self) -> dict[str, Path]:
        return {name: self.home.path / "endpoints" / name for name in ENDPOINTS}

    def environment(self) -> dict[str, str]:
        """The environment of every child; variables of the user take precedence over the embedded servers."""
        given = {name: value for name, value in os.environ.items() if value}
        embedded = embedded_environment(self.home.path) | {"WAYBILL_RELAY": host_and_port(HOST, self.relay_port)}
        chosen = {name: value for name, value in embedded.items() if not _is_given(name, given)}
        # The sample endpoints listen on loopback, which the address gate does not open by default.
        samples = (f"{HOST}:{port}" for port in self.ports.values())
        allowed = ",".join((*samples, given.get("WAYBILL_ALLOW_TARGETS", "")))
        return {**given, **chosen, "WAYBILL_ALLOW_TARGETS": allowed, "PYTHONUNBUFFERED": "1"} | {
            "WAYBILL_SSH_PORT": str(self.ssh_port)
        }

    def _all_ports(self) -> dict[str, int]:
        """As the home keeps them."""
        return {**self.ports, SSH: self.ssh_port, RELAY: self.relay_port}

    def is_prepared(self) -> bool:
        """Whether the database has our tables, endpoints and token already, as far as files show."""
        found = self.home.read_json(self.home.prepared)
        return (
            self.postgres is not None
            and found.get("fingerprint") == migrations_fingerprint()
            and found.get("ports") == self._all_ports()
            and self.home.read_token() is not None
            and self.home.password.exists()
            and self.home.ssh_key.exists()
            and self.home.read_json(self.home.client).keys() == {"id", "secret"}
        )

    def programs(self, *, prepare: bool) -> list[SupervisedProgram]:
        """All programs, in the order in which `status` shows them."""
        servers = list(self._servers())
        needed = tuple(program.name for program in servers)
        preparing = [self._prepare(needed)] if prepare else []
        needed += tuple(program.name for program in preparing)
        return [*servers, *preparing, *self._endpoints(), *self._roles(needed)]

    def _servers(self) -> Iterator[SupervisedProgram]:
        if (postgres := self.postgres) is not None:
            yield SupervisedProgram(
                "postgres",
                postgres.command(),
                postgres.log,
                ready=lambda text: postgres.ready(),
                server=True,
                stop=signal.SIGINT,
            )
        if (redis := self.redis) is not None:
            yield SupervisedProgram("redis", redis.command(), redis.log, ready=lambda text: redis.ready(), server=True)

    def _prepare(self, after: tuple[str, ...]) -> SupervisedProgram:
        ports = [f"{name}={port}" for name, port in self._all_ports().items()]
        work = partial(forked.prepare, [str(self.home.path), *ports])
        return SupervisedProgram("prepare", (), self._log("prepare"), work, cwd=CHECKOUT, after=after, once=True)

    def _endpoints(self) -> Iterator[SupervisedProgram]:
        for name, root in self.roots.items():
            words = [sys.executable, "-m", "endpoints.gridftp.server", "--root", str(root), "--host", HOST]
            # They need no credential, and every account of this machine can connect to loopback.
            words += ["--port", str(self.ports[name]), "--own-account"]
            ready = _said(f"listening on {HOST}:{self.ports[name]}")
            yield SupervisedProgram(name, words, self._log(name), env=self.environment(), cwd=CHECKOUT, ready=ready)

    def _roles(self, after: tuple[str, ...]) -> Iterator[SupervisedProgram]:
        # The sample user's token is for this machine: `make up` listens at loopback only.
        bind = ("--bind", f"{HOST}:{self.config.port}")
        yield self._role("web", partial(forked.web, *bind), self._web_answers, after)
        yield self._role("relay", forked.relay, _said("relay: listening on"), after)
        for number in range(1, cores() + 1):
            work = partial(forked.worker, f"worker{number}", self.config.worker_threads)
            yield self._role(f"worker{number}", work, _said(forked.WORKER_READY), after)
        yield self._role("shell", forked.shell, _said("ssh: listening on"), after)

    def _role(
        self, name: str, work: Callable[[], int], ready: Callable[[bytes], bool], after: tuple[str, ...]
    ) -> SupervisedProgram:
        return SupervisedProgram(name, (), self._log(name), work, cwd=CHECKOUT, ready=ready, after=after)

    def _log(self, name: str) -> Path:
        return self.home.logs / f"{name}.log"

    def _web_answers(self, text: bytes) -> bool:
        """Whether a request reaches the database (a refusal of the token is an answer too)."""
        return self.web_status() in (200, 401, 403)

    def web_status(self) -> int:
        """The HTTP status of a small authenticated request; 0: no answer."""
        return self._status("/v0.10/submission_id", f"Bearer {self.home.read_token()}")

    def client_status(self) -> int:
        """The HTTP status of a request of the sample user's application about itself."""
        client = self.home.read_json(self.home.client)
        basic = base64.b64encode(f"{client.get('id')}:{client.get('secret')}".encode()).decode()
        return self._status(f"/v2/api/clients/{client.get('id')}", f"Basic {basic}")

    def _status(self, path: str, authorization: str) -> int:
        context = client_context(self.config.tls_certificate)
        address = f"{'https' if context else 'http'}://{HOST}:{self.config.port}{path}"
        request = urllib.request.Request(address, headers={"Authorization": authorization})  # noqa: S310
        try:
            with urllib.request.urlopen(request, timeout=1, context=context) as answer:  # noqa: S310
                return int(answer.status)
        except urllib.error.HTTPError as error:
            error.close()
            return error.code
        except OSError:
            return 0


def _said(line: str) -> Callable[[bytes], bool]:
    """Whether the log of a program has this."""
    return lambda text: line.encode() in text


def _is_given(name: str, given: Mapping[str, str]) -> bool:
    plain = name.removesuffix("_FILE")
    return plain in given or f"{plain}_FILE" in given


def cores() -> int:
    """The cores that this process may use: one worker process for each."""
    return len(os.sched_getaffinity(0))


def choose_ports(home: Home) -> dict[str, int]:
    """The ports of the sample endpoints, of the ssh shell and of the relay: those of last time where they are free."""
    before = home.read_json(home.prepared).get("ports")
    kept = before if isinstance(before, dict) else {}
    chosen: dict[str, int] = {}
    for name in (*ENDPOINTS, SSH, RELAY):
        port = kept.get(name)
        while not (isinstance(port, int) and 0 < port < 65536 and is_free(port)) or port in chosen.values():
            port = free_port()
        chosen[name] = port
    return chosen


def make_instance(home: Home, config: Config) -> Instance:
    """Read the configuration and find free ports. Raises StackError when the port of a server is in use."""
    if not is_free(config.port):
        raise StackError(in_use(config.port, "WAYBILL_PORT"))
    given = {name: value for name, value in os.environ.items() if value}
    ports = choose_ports(home)
    chosen, relay_port = ports.pop(SSH), ports.pop(RELAY)
    if "WAYBILL_SSH_PORT" in given and not is_free(chosen := config.ssh_port):
        raise StackError(in_use(chosen, "WAYBILL_SSH_PORT"))
    return Instance(
        home,
        config,
        ports,
        chosen,
        relay_port,
        None if _is_given("DATABASE_URL", given) else Postgres(home.path, max_connections=80 + 20 * cores()),
        None if _is_given("REDIS_URL", given) else Redis(home.path),
    )
