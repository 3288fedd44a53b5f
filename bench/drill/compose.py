"""docker-compose.yml as a host: the project's own image and file, in an engine of its own, and two GridFTP servers.

Before an upgrade the image is that of an older commit, under today's docker-compose.yml: the upgrade itself is of the
code and the schema.
"""

from __future__ import annotations

import ctypes
import http.client
import json
import os
import re
import shutil
import signal
import ssl
import struct
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from functools import partial
from pathlib import Path

import psycopg2

from bench.drill import commits
from bench.drill.builds import FOLDER, OLD, WORKERS, build, use_image
from bench.drill.commits import CHECKOUT
from bench.drill.engine import Engine, EngineError, tell
from bench.drill.host import READY_SECONDS, TIMEOUTS, Host, NotReadyError
from tests.instance import Api
from tests.waiting import eventually

PROJECT = "drill"
#: The disk of the database, on a loop device: it can be full without a disk of this machine being full.
DISK, DISK_OCTETS = "/srv/postgres", 1_500_000_000
#: The folder of the library that moves the clock, and of its offset, in the engine and in the containers.
CLOCK, CLOCK_IN = "/srv/clock", "/drill"
MOVED_CLOCK = {"LD_PRELOAD": f"{CLOCK_IN}/clock.so", "DRILL_CLOCK": f"{CLOCK_IN}/offset"}
#: The folder of the certificate of the front server.
TLS = "/srv/tls"
#: The file for clients of other hosts.
PUBLIC = "deploy/compose-public.yml"
#: The services of a role that has several.
ROLES = {"web": ("web", "web2")}
CLONE_NEWNET = 0x40000000
PAGE = CHECKOUT / "docs/operate/compose.md"
BOTH_DATABASES = "postgres:5432,standby:5432"


class ComposeHost(Host):
    name = "compose"
    can = frozenset(
        {
            "upgrade", "two webs", "image", "page", "users", "stop", "disk", "network", "clock", "failover", "scale",
            "tls",
        }
    )  # fmt: skip

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self._files = ["docker-compose.yml", "/srv/disk.json"]
        self._password = ""
        self._cut: tuple[str, str] = ("", "")
        self.folders = (engine.root / "srv/data/1", engine.root / "srv/data/2")
        self._url = "http://127.0.0.1:8000"
        self.old = ""

    def compose(self, *words: str, check: bool = True) -> str:
        files = [part for name in self._files for part in ("-f", name if name[0] == "/" else f"{FOLDER}/{name}")]
        return self.engine.docker("compose", "-p", PROJECT, "--project-directory", FOLDER, *files, *words, check=check)

    def up(self, *words: str) -> None:
        self.compose("up", "-d", "--no-build", *words)

    def begin(self) -> None:
        """Start all, from an empty database; a user, and two endpoints."""
        self._make_disk()
        self._password = self.secrets()["database-password"]
        self._override("disk", {"volumes": {"postgres": {"driver_opts": _bind(f"{DISK}/data")}}})
        tell("docker compose up")
        self.up()
        self.compose("exec", "-T", "web", "waybill", "user", "add", "alice")
        token = self.compose("exec", "-T", "web", "waybill", "token", "alice").strip()
        self.api = self._api("home", token)
        self.wait_ready()
        self.endpoints = (self._endpoint(1), self._endpoint(2))

    def begin_old(self, commit: str) -> None:
        """Use the file that takes away the variables that this version does not know."""
        self.old = commit
        self._files.append(OLD)

    def connect(self) -> psycopg2.extensions.connection:
        addresses = [found for name in ("postgres", "standby") if (found := self._address(name))]
        return psycopg2.connect(
            TIMEOUTS,
            host=",".join(addresses) or "127.0.0.1",
            user="waybill",
            dbname="waybill",
            password=self._password,
            target_session_attrs="read-write",
        )

    def kill(self, *roles: str) -> None:
        services = [service for role in roles for service in ROLES.get(role, (role,))]
        self._kill([container for service in services for container in self._containers(service)])

    def kill_one_web(self) -> None:
        self._kill(self._containers("web"))

    def kill_worker(self, name: str) -> None:
        self._kill([name.partition(":")[0]])

    def signal_worker(self, name: str, number: signal.Signals) -> float:
        # On a busy machine this takes a second, in which the worker goes on.
        pids = self.engine.docker("top", name.partition(":")[0], "-o", "pid").split()[1:]
        before = time.monotonic()
        self.engine.inside(["kill", f"-{number.value}", *pids])
        return before

    def restart(self, role: str) -> None:
        self.compose("restart", role)

    def stop(self, role: str) -> None:
        self.compose("stop", role)

    def start(self, role: str) -> None:
        self.compose("start", role)

    def pause(self, role: str) -> None:
        self.compose("pause", role)

    def resume(self, role: str) -> None:
        self.compose("unpause", role)

    def empty_redis(self) -> None:
        # FLUSHALL is forbidden to clients.
        password = 'export REDISCLI_AUTH="$(cat /run/secrets/redis_password)"'
        self.compose("exec", "-T", "redis", "sh", "-c", f"{password}; redis-cli --scan | xargs -r redis-cli unlink")

    def fill_disk(self) -> None:
        self.engine.inside(["dd", "if=/dev/zero", f"of={DISK}/filler", "bs=1M"], check=False)

    def free_disk(self) -> None:
        self.engine.inside(["rm", f"{DISK}/filler"])

    def cut_network(self, worker: str) -> None:
        self._cut = self._pid(worker.partition(":")[0]), self._address("postgres")
        self._firewall("--append")

    def mend_network(self) -> None:
        self._firewall("--delete")

    def begin_standby(self) -> None:
        """Synchronous streaming replication: what was committed as durable is on both."""
        settings = json.loads(self.compose("config", "--format", "json"))["services"]
        primary = settings["postgres"]
        # As many connections as the primary has: PostgreSQL demands it.
        standby: dict[str, object] = {name: primary[name] for name in ("image", "command", "secrets", "healthcheck")}
        standby["environment"] = {**primary["environment"], "DRILL_STANDBY_OF": "postgres"}
        services: dict[str, object] = {"standby": standby}
        for name, service in settings.items():
            url = (service.get("environment") or {}).get("DATABASE_URL")
            if url:
                both = url.replace("postgres:5432", BOTH_DATABASES) + "?target_session_attrs=read-write"
                services[name] = {"environment": {"DATABASE_URL": both}}
        self._override("standby", {"services": services})
        self._files.append("/srv/standby.json")
        self.compose("up", "-d", "--no-build", "--wait", "standby")
        self._sql("ALTER SYSTEM SET synchronous_standby_names = '*'")
        self._sql("SELECT pg_reload_conf()")
        self.up()

    def failover(self, after: float) -> None:
        # A container that a person kills stays away, also with `restart: unless-stopped`.
        self.compose("kill", "postgres")
        time.sleep(after)
        self.compose("exec", "-T", "standby", "gosu", "postgres", "pg_ctl", "promote", "--wait")

    def begin_clock(self) -> None:
        folder = self.engine.root / CLOCK[1:]
        folder.mkdir(exist_ok=True)
        shutil.copy(Path(__file__).with_name("clock.c"), folder)
        self.engine.inside(["gcc", "-O2", "-shared", "-fPIC", "-o", f"{CLOCK}/clock.so", f"{CLOCK}/clock.c"])
        (folder / "offset").write_bytes(bytes(8))
        settings = json.loads(self.compose("config", "--format", "json"))["services"]
        faked = [name for name, one in settings.items() if one["image"] == "waybill" or name == "postgres"]
        one = {"environment": MOVED_CLOCK, "volumes": [f"{CLOCK}:{CLOCK_IN}:ro"]}
        self._override("clock", {"services": dict.fromkeys(faked, one)})
        self._files.append("/srv/clock.json")
        self.up()

    def set_clock(self, seconds: int) -> None:
        # In place: the containers have mapped the file.
        with (self.engine.root / CLOCK[1:] / "offset").open("r+b") as file:
            file.write(struct.pack("=q", seconds))
        with closing(self.connect()) as connection, connection.cursor() as cursor:
            cursor.execute("SELECT extract(epoch FROM clock_timestamp())::float")
            [(found,)] = cursor.fetchall()
        differs = found - time.time()
        if abs(differs - seconds) > 60:
            raise EngineError(f"the clock of PostgreSQL differs by {differs:.0f} s and not by {seconds} s")

    def end_clock(self) -> None:
        self._files.remove("/srv/clock.json")
        self.up()

    def scale_workers(self, count: int) -> None:
        self.up("--no-recreate", "--scale", f"worker={count}")

    def upgrade(self) -> None:
        """By the commands of docs/operate/upgrade.md."""
        use_image(self.engine, "new")
        self._files = [name for name in self._files if name != OLD]
        for name in ROLES["web"]:
            self.compose("up", "-d", "--no-build", "--wait", name)
        self.up()

    def replace(self) -> None:
        """As an upgrade does it, with one version."""
        for name in ROLES["web"]:
            self.compose("up", "-d", "--no-build", "--wait", "--no-deps", "--force-recreate", name)
        others = ["relay", "events", "shell", "worker"]
        self.up("--no-deps", "--force-recreate", *others)

    def secrets(self) -> dict[str, str]:
        """By the names of their files."""
        folder = self.engine.root / FOLDER[1:] / "secrets"
        return {str(path.relative_to(folder)): path.read_text().strip() for path in folder.rglob("*") if path.is_file()}

    def older(self) -> str:
        names = commits.migrations_since(self.old)
        return f"from {self.old[:7]}, with {len(names)} migrations between" if names else f"from {self.old[:7]}"

    def limit_servers(self, processors: float) -> None:
        self.engine.docker("update", f"--cpus={processors}", *(f"{PROJECT}-dtn{number}" for number in (1, 2)))

    def users(self, count: int) -> list[Api]:
        script = 'for n in $(seq 1 "$0"); do waybill user add "$1$n" > /dev/null; waybill token "$1$n"; done'
        name = f"drill{time.time():.0f}x"
        tokens = self.compose("exec", "-T", "web", "sh", "-euc", script, str(count), name).split()
        return [self._api(f"home-{number}", token) for number, token in enumerate(tokens)]

    def _api(self, name: str, token: str) -> Api:
        home = self.engine.base / name
        home.mkdir(mode=0o700, exist_ok=True)
        (home / "connection.json").touch(mode=0o600)
        (home / "connection.json").write_text(json.dumps({"url": self._url, "token": token}))
        return Api(home)

    def workers(self) -> set[str]:
        return set(self._containers("worker"))

    def image(self) -> Path:
        folder = "/srv/saved"
        script = f"rm -rf {folder}; mkdir {folder}; docker save waybill | tar -x -C {folder}"
        # Layers of newer engines are compressed.
        unpack = f"find {folder} -type f | while read -r f; do case $(od -An -tx1 -N2 $f) in *1f*8b*)"
        self.engine.inside(["sh", "-euc", f"{script}; {unpack} gzip -dc $f > $f.tar; rm $f;; esac; done"])
        return self.engine.root / folder[1:]

    def shown(self) -> dict[str, str]:
        docker = self.engine.docker
        found = {
            "docker history": docker("history", "--no-trunc", "waybill"),
            "logs": self.compose("logs", "--no-color"),
        }
        found["docker image inspect"] = docker("image", "inspect", "waybill")
        for container in docker("ps", "-aq").split():
            found[f"docker inspect of {container}"] = docker("inspect", container)
        return found

    def follow(self, part: str) -> str:
        """With the files of the drill, by Compose's own variables."""
        files = ":".join(name if name[0] == "/" else f"{FOLDER}/{name}" for name in self._files)
        given = [f"COMPOSE_FILE={files}", f"COMPOSE_PROJECT_NAME={PROJECT}"]
        return self.engine.inside(["env", *given, "sh", "-euc", f"cd {FOLDER}\n{commands(part)}"])

    def begin_tls(self, files: Mapping[str, bytes]) -> None:
        self.replace_tls(files)
        front = {"environment": {"WAYBILL_FRONT_MODE": "tls"}, "volumes": [f"{TLS}:/etc/nginx/tls:ro"]}
        self._override("tls", {"services": {"front": front}})
        self._files.append("/srv/tls.json")
        self.up("--no-deps", "front")

    def replace_tls(self, files: Mapping[str, bytes]) -> None:
        folder = self.engine.root / TLS[1:]
        folder.mkdir(exist_ok=True)
        for name, content in files.items():
            (folder / name).touch(mode=0o600)
            (folder / name).write_bytes(content)

    def end_tls(self) -> None:
        self._files.remove("/srv/tls.json")
        self.up("--no-deps", "front")

    def addresses_seen(self, files: Mapping[str, bytes], sources: Sequence[tuple[str, str]]) -> list[str]:
        # No kernel is without these pairs, as containers have them.
        self.engine.inside(["ip", "link", "add", "wan", "type", "veth", "peer", "name", "wan-end"])
        for end in ("wan", "wan-end"):
            self.engine.inside(["ip", "link", "set", end, "up"])
        for address in (address for pair in sources for address in pair):
            words = [f"{address}/64", "dev", "wan", "nodad"] if ":" in address else [f"{address}/24", "dev", "wan"]
            self.engine.inside(["ip", "address", "add", *words])
        self._without_front()
        self._files.append(PUBLIC)
        self.begin_tls(files)
        for source, target in sources:
            eventually(partial(_asked, source, target))
        log = self.engine.docker("logs", f"{PROJECT}-front-1")
        self._without_front()
        self._files = [name for name in self._files if name not in (PUBLIC, "/srv/tls.json")]
        self.engine.inside(["ip", "link", "del", "wan"])
        self.up()
        return [line.split()[0] for line in log.splitlines() if '"GET /healthz"' in line]

    def _without_front(self) -> None:
        """Take the network of the front server away, with what is in it."""
        self.compose("rm", "--stop", "--force", "front", "web", "web2", "relay", "events")
        self.engine.docker("network", "rm", f"{PROJECT}_front")

    def mend(self) -> None:
        for name in ("/srv/clock.json", "/srv/tls.json", PUBLIC):
            with suppress(ValueError):
                self._files.remove(name)
        self.compose("unpause", check=False)
        self.limit_servers(os.cpu_count() or 1)
        self.engine.inside(["rm", "-f", f"{DISK}/filler"], check=False)
        use_image(self.engine, "new")
        self._files = [name for name in self._files if name != OLD]
        self.up()
        self.wait_ready()

    def wait_ready(self) -> None:
        """Also until all workers are there: with a single one, nobody could take its tasks over."""
        super().wait_ready()
        until = time.monotonic() + READY_SECONDS
        while len(found := self.workers()) != WORKERS:
            if time.monotonic() > until:
                raise NotReadyError(f"{len(found)} workers run after {READY_SECONDS:g} s, and not {WORKERS}")
            time.sleep(0.3)

    def _endpoint(self, number: int) -> str:
        """A GridFTP server of the project's, in a container."""
        folder, name = self.folders[number - 1], f"{PROJECT}-dtn{number}"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        folder.chmod(0o777)
        program = 'umask 0; exec python -m endpoints.gridftp.server --root /data --host "$(hostname -i)" --port 2811'
        words = ["run", "-d", "--name", name, "--network", f"{PROJECT}_default", "-v", f"/srv/data/{number}:/data"]
        self.engine.docker(*words, "--entrypoint", "sh", "waybill", "-c", program)
        return self.api.endpoint(f"drill-{number}", 2811, name)

    def _make_disk(self) -> None:
        image = self.engine.base / "postgres.disk"
        image.unlink(missing_ok=True)
        with image.open("wb") as file:
            file.truncate(DISK_OCTETS)
        target = self.engine.root / "srv/postgres.disk"
        target.unlink(missing_ok=True)
        image.rename(target)
        self.engine.inside(["mkfs.ext4", "-q", "-m", "0", "/srv/postgres.disk"])
        self.engine.inside(["mkdir", "-p", DISK])
        self.engine.inside(["mount", "-o", "loop", "/srv/postgres.disk", DISK])
        self.engine.inside(["mkdir", f"{DISK}/data"])

    def _override(self, name: str, document: object) -> None:
        (self.engine.root / f"srv/{name}.json").write_text(json.dumps(document))

    def _containers(self, service: str) -> list[str]:
        words = [f"--filter=label=com.docker.compose.{key}" for key in (f"project={PROJECT}", f"service={service}")]
        return self.engine.docker("ps", "-q", *words).split()

    def _pid(self, container: str) -> str:
        return self.engine.docker("inspect", "-f", "{{.State.Pid}}", container).strip()

    def _address(self, service: str) -> str:
        """In the network of the project; "" if it does not run."""
        form = "{{range .NetworkSettings.Networks}}{{.IPAddress}}{{end}}"
        with suppress(EngineError):
            return self.engine.docker("inspect", "-f", form, f"{PROJECT}-{service}-1").strip()
        return ""

    def _kill(self, containers: list[str]) -> None:
        self.engine.inside(["kill", "-9", *(self._pid(one) for one in containers)])

    def _firewall(self, how: str) -> None:
        pid, address = self._cut
        enter = ["nsenter", f"--target={pid}", "--net", "--", "iptables", how]
        self.engine.inside([*enter, "INPUT", "-s", address, "-j", "DROP"])
        self.engine.inside([*enter, "OUTPUT", "-d", address, "-j", "DROP"])

    def _sql(self, statement: str) -> None:
        self.compose("exec", "-T", "postgres", "psql", "-U", "waybill", "-c", statement)


def _asked(source: str, target: str) -> bool:
    """Whether a client at this address has an answer by https, whatever it says."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    line = http.client.HTTPSConnection(target, 443, timeout=10, context=context, source_address=(source, 0))
    with closing(line), suppress(OSError):
        line.request("GET", "/healthz")
        return line.getresponse().status > 0
    return False


def _bind(folder: str) -> dict[str, str]:
    return {"type": "none", "o": "bind", "device": folder}


def commands(part: str) -> str:
    """Return the commands of the page that have this mark. Raises LookupError."""
    found = re.findall(rf"<!-- drilled: {part} -->\n```sh\n(.*?)```\n", PAGE.read_text(), re.DOTALL)
    if len(found) != 1:
        raise LookupError(f"{PAGE.name} has {len(found)} blocks with the mark {part}")
    return str(found[0])


def _enter(network: Path) -> None:
    """This process, and the threads that it starts from now on, are in this network namespace."""
    descriptor = os.open(network, os.O_RDONLY)
    try:
        if ctypes.CDLL(None, use_errno=True).setns(descriptor, CLONE_NEWNET):
            raise OSError(ctypes.get_errno(), "setns")
    finally:
        os.close(descriptor)


@contextmanager
def compose_host(base: Path, old: str, *, upgrades: bool, remove: bool) -> Iterator[ComposeHost]:
    """base: a folder that is kept for the next run. old: the commit from which is upgraded; "": choose one."""
    base.mkdir(parents=True, exist_ok=True)
    old = (old or commits.older()) if upgrades else ""
    with _back_in_our_network(), Engine(base) as engine:
        engine.install()
        engine.start(builds_only=True)
        _remove_containers(engine)
        engine.base_images()
        build(engine, old)
        engine.stop()
        engine.start()
        _enter(engine.network)
        host = ComposeHost(engine)
        host.can = ComposeHost.can - (frozenset() if old else {"upgrade"})
        try:
            use_image(engine, "old" if old else "new")
            if old:
                host.begin_old(old)
            host.begin()
            yield host
        except (EngineError, NotReadyError):
            tell(host.compose("logs", "--tail", "15", check=False)[-6000:])
            raise
        finally:
            _remove_containers(engine)
    if remove:
        shutil.rmtree(base)


def _remove_containers(engine: Engine) -> None:
    """All of this engine's: a run that was killed leaves some behind."""
    for words in (("ps", "-aq"), ("volume", "ls", "-q")):
        names = engine.docker(*words).split()
        if names:
            engine.docker(*(("rm", "-f") if words[0] == "ps" else ("volume", "rm", "-f")), *names)
    engine.docker("network", "prune", "-f")
    engine.docker("image", "prune", "-f")


@contextmanager
def _back_in_our_network() -> Iterator[None]:
    with Path("/proc/self/ns/net").open("rb") as own:
        try:
            yield
        finally:
            ctypes.CDLL(None, use_errno=True).setns(own.fileno(), CLONE_NEWNET)
