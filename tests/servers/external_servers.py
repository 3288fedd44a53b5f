"""PostgreSQL and Redis as operators have them elsewhere: on TCP, with passwords, with a standby, Sentinels and TLS."""

from __future__ import annotations

import secrets
import select
import shutil
import signal
import socket
import ssl
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg2
import redis

from deploy.stack.child import spawn
from deploy.stack.free_ports import free_port
from deploy.stack.places import private_folder
from deploy.stack.postgres import ROLE, Postgres
from deploy.stack.redis import Redis
from tests.waiting import eventually

HOST = "127.0.0.1"
MASTER = "waybill"


class NetworkPostgres(Postgres):
    """A PostgreSQL that also listens on loopback, or at another address, where it asks for a password."""

    def __init__(self, home: Path, password: str, host: str = HOST, *, connections: int = 20) -> None:
        super().__init__(home, durable=False, max_connections=connections)
        self.port, self.password, self.host = free_port(), password, host

    @property
    def socket(self) -> Path:
        return self.socket_folder / f".s.PGSQL.{self.port}"

    @property
    def place(self) -> str:
        return f"{self.host}:{self.port}"

    def url(self, database: str = "waybill") -> str:
        return f"{super().url(database)}&port={self.port}"

    def command(self) -> list[str]:
        return [*super().command(), "-c", f"listen_addresses={self.host}", "-c", f"port={self.port}"]

    def run(self, statement: str) -> object:
        """Run a statement by the socket; returns the first value."""
        session = psycopg2.connect(self.url())
        try:
            session.autocommit = True
            with session.cursor() as cursor:
                cursor.execute(statement)
                found = cursor.fetchone() if cursor.description else None
                return found[0] if found else None
        finally:
            session.close()

    def make_standby(self, home: Path, *, connections: int = 20) -> NetworkPostgres:
        """A standby, which streams from this server; it runs when this returns. connections: as this server has."""
        standby = NetworkPostgres(home, self.password, connections=connections)
        private_folder(standby.data, self._account)
        words = [str(self.program("pg_basebackup")), "--host", str(self.socket_folder), "--port", str(self.port)]
        words += ["--username", ROLE, "--pgdata", str(standby.data), "--checkpoint=fast", "--no-sync"]
        words += ["--wal-method=stream", "--write-recovery-conf"]
        subprocess.run([*self._drop(), *words], check=True, capture_output=True, timeout=120, stdin=subprocess.DEVNULL)
        standby.start()
        return standby

    def kill(self) -> None:
        """As the loss of its machine: no session is ended in order."""
        assert self.process is not None
        self.process.kill()
        self.process.wait()
        self.process = None

    def _write_authentication(self, data: Path) -> None:
        super()._write_authentication(data)
        with (data / "pg_hba.conf").open("a") as rules:
            rules.write(f"local replication all peer map=home\nhost all all {self.host}/24 scram-sha-256\n")


@dataclass(frozen=True)
class Tls:
    """Certificates for Redis servers and Sentinels, which then accept nothing without TLS."""

    certificate: Path
    key: Path
    authority: Path

    def lines(self, port: int) -> list[str]:
        """Of a configuration file, in place of its port."""
        files = (("cert", self.certificate), ("key", self.key), ("ca-cert", self.authority))
        names = [f"tls-{name}-file {path}" for name, path in files]
        return ["port 0", f"tls-port {port}", *names, "tls-auth-clients no", "tls-replication yes"]

    def options(self) -> dict[str, Any]:
        """Of a client of redis-py."""
        return {"ssl": True, "ssl_ca_certs": str(self.authority)}


class NetworkRedis(Redis):
    """A Redis that also listens on loopback, where it asks for a password. master: the port of the server it copies."""

    def __init__(self, home: Path, password: str, master: int | None = None, tls: Tls | None = None) -> None:
        super().__init__(home)
        self.port, self.password, self.master, self.tls = free_port(), password, master, tls

    def command(self) -> list[str]:
        rules = self.home / "redis.conf"
        rules.touch(mode=0o600)
        lines = [
            *(f"bind {HOST}", *_port_lines(self.port, self.tls)),
            *(f"unixsocket {self.socket}", "unixsocketperm 700"),
            *(f"dir {self.data}", 'save ""', f"requirepass {self.password}", f"masterauth {self.password}"),
            *("repl-diskless-sync yes", "repl-diskless-sync-delay 0"),
            *([f"replicaof {HOST} {self.master}"] if self.master else []),
        ]
        rules.write_text("\n".join(lines) + "\n")
        return [*redis_program(self.home, self.tls), str(rules)]

    def ready(self) -> bool:
        with suppress(redis.RedisError, OSError), self.client() as client:
            return bool(client.ping())
        return False

    def client(self, database: int = 0) -> redis.Redis:
        tls: dict[str, Any] = self.tls.options() if self.tls else {}
        return redis.Redis(HOST, self.port, password=self.password, db=database, socket_timeout=5, **tls)


#: Debian's redis-server, which package redis-tools has under this name; it is what the name of its link says.
REDIS_WITH_TLS = shutil.which("redis-check-rdb")


def redis_program(folder: Path, tls: Tls | None = None) -> list[str]:
    """The words before the file of rules. That of the wheel has no TLS."""
    if tls is None:
        return [str(Redis(folder).program.path)]
    assert REDIS_WITH_TLS, "redis-tools is missing"
    link = folder / "redis-server"
    if not link.is_symlink():
        link.symlink_to(Path(REDIS_WITH_TLS).resolve())
    return [str(link)]


def _port_lines(port: int, tls: Tls | None) -> list[str]:
    return tls.lines(port) if tls else [f"port {port}"]


class Sentinels:
    """Three Sentinels, which watch a Redis server and its copies."""

    def __init__(self, folder: Path, watched: NetworkRedis) -> None:
        self.password = secrets.token_hex(8)
        self.ports = [free_port() for _ in range(3)]
        self._folder, self._watched = folder, watched
        self._processes: list[subprocess.Popen[bytes]] = []

    def start(self) -> None:
        for port in self.ports:
            rules = self._folder / f"sentinel-{port}.conf"
            rules.touch(mode=0o600)
            own = "\n".join(_port_lines(port, self._watched.tls))
            rules.write_text(
                f"bind {HOST}\n{own}\ndir {self._folder}\nrequirepass {self.password}\n"
                f"sentinel monitor {MASTER} {HOST} {self._watched.port} 2\n"
                f"sentinel auth-pass {MASTER} {self._watched.password}\n"
                f"sentinel down-after-milliseconds {MASTER} 1000\nsentinel failover-timeout {MASTER} 10000\n"
            )
            words = [*redis_program(self._folder, self._watched.tls), str(rules), "--sentinel"]
            self._processes.append(spawn(words, log=self._folder / f"sentinel-{port}.log"))
        eventually(self._know_each_other)

    def _know_each_other(self) -> bool:
        states = [self.state(port) for port in self.ports]
        return all(one.get("num-other-sentinels") == 2 and one.get("num-slaves") == 1 for one in states)

    def state(self, port: int) -> dict[str, object]:
        """The knowledge of a Sentinel about the master; {}: it does not answer."""
        tls: dict[str, Any] = self._watched.tls.options() if self._watched.tls else {}
        with (
            suppress(redis.RedisError, OSError),
            redis.Redis(HOST, port, password=self.password, socket_timeout=5, **tls) as client,
        ):
            return dict(client.sentinel_master(MASTER))
        return {}

    def freeze(self, which: int) -> None:
        """It accepts connections, and answers nothing."""
        self._processes[which].send_signal(signal.SIGSTOP)

    def stop(self) -> None:
        for process in self._processes:
            process.kill()
            process.wait()

    def url(self, database: int) -> str:
        hosts = ",".join(f"{HOST}:{port}" for port in self.ports)
        tls = self._watched.tls
        place = f":{self._watched.password}@{hosts}/{database}?master={MASTER}&sentinel_password={self.password}"
        return f"sentinel+tls://{place}&ssl_ca_certs={tls.authority}" if tls else f"sentinel://{place}"


@contextmanager
def ends_tls(certificate: Path, key: Path, to: int) -> Iterator[int]:
    """A server that ends TLS before a port of loopback, as stunnel before a Redis does. Gives its port."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    with socket.create_server((HOST, 0)) as listening:

        def serve() -> None:
            with suppress(OSError):
                while True:
                    raw, _ = listening.accept()
                    threading.Thread(target=one, args=(raw,), daemon=True).start()

        def one(raw: socket.socket) -> None:
            with (
                suppress(OSError),
                context.wrap_socket(raw, server_side=True) as client,
                socket.create_connection((HOST, to)) as server,
            ):
                _pass_on(client, server)

        threading.Thread(target=serve, daemon=True).start()
        try:
            yield int(listening.getsockname()[1])
        finally:
            listening.shutdown(socket.SHUT_RDWR)


def _pass_on(client: ssl.SSLSocket, server: socket.socket) -> None:
    """Until one side closes its connection."""
    while True:
        ready = [client] if client.pending() else select.select([client, server], [], [])[0]
        for one, other in ((client, server), (server, client)):
            if one in ready:
                if not (octets := one.recv(65536)):
                    return
                other.sendall(octets)
