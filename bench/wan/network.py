"""A wide-area network of three hosts on one machine: network namespaces and the forwarder between them.

    with Network(rtt_ms=60, loss=0.0001) as net:
        net.run_in("source", ["ping", "-c", "3", net.destination.address]).wait()
        net.shape(rtt_ms=200)       # while programs run

Needs root, `ip`, /dev/net/tun and a C compiler; no traffic shaping in the kernel (many have no sch_netem). The name
spaces, their processes and the forwarder go away with the block, and with this process however it ends.
"""

from __future__ import annotations

import ctypes
import os
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

FORWARDER = Path(__file__).parent / "forwarder.c"
HOSTS = ("service", "source", "destination")
NETWORK = "10.213.7"
CONGESTION_CONTROL = "cubic"
GIGABIT = 1e9
SEED = 2012
CLONE_NEWNET = 0x40000000

_libc = ctypes.CDLL(None, use_errno=True)


class NetworkError(Exception):
    """This machine cannot have the network; the message says what is missing."""


@dataclass(frozen=True)
class Host:
    """`namespace` is what `ip netns` calls it; `address` is the one the others reach it by."""

    name: str
    address: str
    namespace: str

    @property
    def prefix(self) -> list[str]:
        """Words before a command that run it on this host; the process keeps its number."""
        return ["ip", "netns", "exec", self.namespace]


@dataclass(frozen=True)
class Counts:
    """Since the shape was set, in both directions: TCP segments and octets sent, segments dropped by full queues, lost;
    packets (of many segments) handed over, and those that were more than 1 ms late."""

    segments: int
    octets: int
    dropped: int
    lost: int
    packets: int
    late: int

    @property
    def late_share(self) -> float:
        """Of all packets; where it is not small, the machine was too busy to be a network."""
        return self.late / max(1, self.packets)


def default_queue(rtt_ms: float, rate: float) -> int:
    """Octets that a link's queue holds: one bandwidth-delay product, at least 1 MB, as routers are bought."""
    return max(1_000_000, int(rate / 8 * rtt_ms / 1000))


class Network:
    """Three hosts, and the same line between any two of them.

    `rate` is of each host's link out, in bits per second of IP packets with their headers; `rtt_ms` is between two
    idle hosts; `loss` the probability of each packet to be lost, in either direction; `queue` in octets.
    """

    def __init__(
        self, rtt_ms: float = 0.6, *, rate: float = GIGABIT, loss: float = 0.0, queue: int | None = None
    ) -> None:
        self._shape_first = partial(self.shape, rtt_ms=rtt_ms, rate=rate, loss=loss, queue=queue)
        made = [
            Host(name, f"{NETWORK}.{number}", f"waybill-{os.getpid()}-{name}") for number, name in enumerate(HOSTS, 1)
        ]
        self.hosts: Mapping[str, Host] = {host.name: host for host in made}
        self._stack = ExitStack()
        self._forwarder: subprocess.Popen[str] | None = None

    @property
    def service(self) -> Host:
        return self.hosts["service"]

    @property
    def source(self) -> Host:
        return self.hosts["source"]

    @property
    def destination(self) -> Host:
        return self.hosts["destination"]

    def __enter__(self) -> Network:
        with ExitStack() as stack:
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="waybill-wan-"))
            self._forwarder = self._start(_compile(Path(folder)))
            stack.callback(self._stop)
            if not self._answer():
                raise NetworkError("the forwarder did not start: it needs root and /dev/net/tun")
            for host in self.hosts.values():
                _configure(host)
            self._shape_first()
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *exc: object) -> None:
        self._stack.close()

    def shape(self, *, rtt_ms: float, rate: float = GIGABIT, loss: float = 0.0, queue: int | None = None) -> None:
        """Change the lines, now. Losses come at the same packets again; what hosts remember of paths is forgotten."""
        held = default_queue(rtt_ms, rate) if queue is None else queue
        self._command(f"set {rtt_ms * 1000 / 2:.1f} {rate:.0f} {held} {loss:.9f} {SEED}")
        self.forget()

    def forget(self) -> None:
        """Hosts remember the slow start threshold of a path for later connections: no tool shall profit by another."""
        for host in self.hosts.values():
            _ip("-netns", host.namespace, "tcp_metrics", "flush", "all")

    def counts(self) -> Counts:
        return self._command("count")

    def run_in(self, host: str, argv: Sequence[str | Path], **options: Any) -> subprocess.Popen[Any]:
        """A Popen on that host; `options` are Popen's."""
        return subprocess.Popen([*self.hosts[host].prefix, *argv], **options)

    @contextmanager
    def inside(self, host: str) -> Iterator[None]:
        """This thread, and what it starts, opens its sockets on that host until the end of the block."""
        with open("/proc/thread-self/ns/net") as outside:
            with open(f"/run/netns/{self.hosts[host].namespace}") as there:
                _set_namespace(there.fileno())
            try:
                yield
            finally:
                _set_namespace(outside.fileno())

    def _start(self, forwarder: Path) -> subprocess.Popen[str]:
        """The forwarder ends with its input, that is with us; the shell around it then removes what we made."""
        namespaces = [host.namespace for host in self.hosts.values()]
        for host in self.hosts.values():
            _hosts_file(host, self.hosts.values())
        make = [f"ip netns add {name}" for name in namespaces]
        run = shlex.join([str(forwarder), *namespaces])
        folder = shlex.quote(str(forwarder.parent))
        remove = [f"ip netns pids {n} | xargs -r kill -9; ip netns del {n}; rm -r /etc/netns/{n}" for n in namespaces]
        script = f"{' && '.join(make)} && {run}; {'; '.join(remove)}; rm -r {folder}"
        return subprocess.Popen(
            ["sh", "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, process_group=0
        )

    def _stop(self) -> None:
        assert self._forwarder is not None
        self._forwarder.communicate(timeout=30)

    def _answer(self) -> str:
        assert self._forwarder is not None
        assert self._forwarder.stdout is not None
        return self._forwarder.stdout.readline()

    def _command(self, text: str) -> Counts:
        assert self._forwarder is not None
        assert self._forwarder.stdin is not None
        self._forwarder.stdin.write(text + "\n")
        self._forwarder.stdin.flush()
        return Counts(*(int(word) for word in self._answer().split()))


def _compile(folder: Path) -> Path:
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        raise NetworkError("no C compiler: the forwarder of the benchmark's network is compiled when it starts")
    subprocess.run([compiler, "-O2", "-o", folder / "forwarder", FORWARDER], check=True)
    return folder / "forwarder"


def _hosts_file(host: Host, others: Iterable[Host]) -> None:
    """`ip netns exec` shows it as /etc/hosts. The toolkit's server does not start where its names do not resolve."""
    lines = ["127.0.0.1 localhost", f"{host.address} {os.uname().nodename}"]
    lines += [f"{other.address} {other.name}" for other in others]
    folder = Path("/etc/netns") / host.namespace
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "hosts").write_text("\n".join(lines) + "\n")


def _configure(host: Host) -> None:
    _ip("-netns", host.namespace, "link", "set", "lo", "up")
    _ip("-netns", host.namespace, "address", "add", f"{host.address}/24", "dev", "wan0")
    # The forwarder takes packets at once and queues them itself: the device's own queue shall never drop any.
    _ip("-netns", host.namespace, "link", "set", "wan0", "txqueuelen", "10000", "up")
    # By the route: a name space may not choose every algorithm by sysctl (tcp_allowed_congestion_control).
    route = [f"{NETWORK}.0/24", "dev", "wan0", "proto", "kernel", "scope", "link", "src", host.address]
    _ip("-netns", host.namespace, "route", "replace", *route, "congctl", CONGESTION_CONTROL)


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, stdout=subprocess.DEVNULL)


def _set_namespace(descriptor: int) -> None:
    if _libc.setns(descriptor, CLONE_NEWNET):
        raise OSError(ctypes.get_errno(), "setns")
