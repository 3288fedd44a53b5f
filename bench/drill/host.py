"""A host of the drill: one running service, with the operations that faults are made of."""

from __future__ import annotations

import abc
import signal
import time
import urllib.request
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import psycopg2

from tests.instance import Api

READY_SECONDS = 180.0
#: While the database hangs, a connection of the drill gives up after so many seconds.
TIMEOUTS = "connect_timeout=2 keepalives_idle=2 keepalives_interval=1 keepalives_count=3 tcp_user_timeout=3000"


class NotReadyError(RuntimeError):
    """The service is not ready in time."""


class Host(abc.ABC):
    """folders: those of the two endpoints, as this process sees them; endpoints: their ids."""

    name: str
    api: Api
    folders: tuple[Path, Path]
    endpoints: tuple[str, str]
    #: The faults that this host can have, besides those of the abstract methods.
    can: frozenset[str] = frozenset()

    @abc.abstractmethod
    def connect(self) -> psycopg2.extensions.connection:
        """To the database. Raises psycopg2.Error."""

    @abc.abstractmethod
    def kill(self, *roles: str) -> None:
        """SIGKILL to all processes of these roles: web, worker, redis, postgres; something starts them again."""

    @abc.abstractmethod
    def kill_worker(self, name: str) -> None:
        """SIGKILL to the worker that leases name so."""

    @abc.abstractmethod
    def signal_worker(self, name: str, number: signal.Signals) -> float:
        """The signal to all processes of this worker. Return the time right before the signal (`time.monotonic`)."""

    @abc.abstractmethod
    def restart(self, role: str) -> None:
        """An ordinary stop and start."""

    @abc.abstractmethod
    def pause(self, role: str) -> None:
        """Its processes answer no more, and their connections stay open."""

    @abc.abstractmethod
    def resume(self, role: str) -> None: ...

    @abc.abstractmethod
    def empty_redis(self) -> None: ...

    def stop(self, role: str) -> None:
        raise NotImplementedError

    def start(self, role: str) -> None:
        raise NotImplementedError

    def fill_disk(self) -> None:
        """Leave the database no free space."""
        raise NotImplementedError

    def free_disk(self) -> None:
        raise NotImplementedError

    def cut_network(self, worker: str) -> None:
        """Lose all packets between the worker that leases name so and the database; returns at once."""
        raise NotImplementedError

    def mend_network(self) -> None:
        raise NotImplementedError

    def begin_standby(self) -> None:
        """Prepare a standby of the database; the service knows both."""
        raise NotImplementedError

    def failover(self, after: float) -> None:
        """SIGKILL to the database, which stays away; the standby is promoted `after` seconds later."""
        raise NotImplementedError

    def begin_clock(self) -> None:
        """Let the clock of the service be one that the drill can set."""
        raise NotImplementedError

    def set_clock(self, seconds: int) -> None:
        """Let all clocks of web, workers and database differ by so much from the machine's."""
        raise NotImplementedError

    def end_clock(self) -> None:
        raise NotImplementedError

    def scale_workers(self, count: int) -> None:
        raise NotImplementedError

    def upgrade(self) -> None:
        """From the older version, with which it was started, to the checkout's."""
        raise NotImplementedError

    def older(self) -> str:
        """The version from which is upgraded, in words."""
        raise NotImplementedError

    def replace(self) -> None:
        """Replace every container of the service by a new one of the same version, as an upgrade does it."""
        raise NotImplementedError

    def kill_one_web(self) -> None:
        """SIGKILL to one of two web servers."""
        raise NotImplementedError

    def limit_servers(self, processors: float) -> None:
        """Let each GridFTP server use so many processors: long files then take long, and nothing else does."""
        raise NotImplementedError

    def users(self, count: int) -> list[Api]:
        """The API as so many new users have it."""
        raise NotImplementedError

    def workers(self) -> set[str]:
        """The workers that run, by the first part of the names with which they lease."""
        raise NotImplementedError

    def secrets(self) -> dict[str, str]:
        """All that no image and no container may show, by name."""
        raise NotImplementedError

    def image(self) -> Path:
        """A folder with the content of the image of the service."""
        raise NotImplementedError

    def shown(self) -> dict[str, str]:
        """By name: whatever the engine and the containers show to who may use the engine."""
        raise NotImplementedError

    def follow(self, part: str) -> str:
        """Run the commands of docs/operate/compose.md with this mark; return their output. Raises RuntimeError."""
        raise NotImplementedError

    def begin_tls(self, files: Mapping[str, bytes]) -> None:
        """The front server ends TLS at its port by these files, certificate.pem and key.pem."""
        raise NotImplementedError

    def replace_tls(self, files: Mapping[str, bytes]) -> None:
        """Write other files in their place; no process is asked to read them."""
        raise NotImplementedError

    def end_tls(self) -> None:
        raise NotImplementedError

    def addresses_seen(self, files: Mapping[str, bytes], sources: Sequence[tuple[str, str]]) -> list[str]:
        """The addresses in the log of the front server, with the file for other hosts and this certificate, after a
        client at each source has asked it at the target: pairs of an address of another network, and one of ours."""
        raise NotImplementedError

    def mend(self) -> None:
        """After a fault that was not tried to its end: bring everything back. Raises NotReadyError."""
        self.wait_ready()

    def wait_ready(self) -> None:
        """Raises NotReadyError."""
        until = time.monotonic() + READY_SECONDS
        while time.monotonic() < until:
            with suppress(OSError), urllib.request.urlopen(f"{self.api.url}/readyz", timeout=10) as answer:
                if answer.status == 200:
                    return
            time.sleep(0.3)
        raise NotReadyError(f"{self.name}: /readyz is not 200 after {READY_SECONDS:g} s")
