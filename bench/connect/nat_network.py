"""Computers behind NATs: namespaces whose only way out is a router that masquerades (nft), as at home or in a hotel."""

from __future__ import annotations

import itertools
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.wan.network import Host, NetworkError

_numbers = itertools.count(1)
#: Masquerading, and nothing that was not asked for comes in.
RULES = """
table ip waybill {{
    chain out {{ type nat hook postrouting priority 100; ip saddr {inside}/24 masquerade; }}
    chain in {{ type filter hook forward priority 0; policy drop; ct state established,related accept;
        iifname "{link}" accept; }}
}}"""


@dataclass(frozen=True)
class Laptop:
    """A computer in a private network. Others see the address of its router."""

    namespace: str
    router: Host
    #: The names of the link at the router and in the namespace, and the private network without its last number.
    links: tuple[str, str]
    private: str

    @property
    def prefix(self) -> list[str]:
        """Words before a command that run it there; the process keeps its number."""
        return ["ip", "netns", "exec", self.namespace]

    def run(self, argv: Sequence[str | Path], **options: Any) -> subprocess.Popen[Any]:
        """A Popen on this computer; `options` are Popen's."""
        return subprocess.Popen([*self.prefix, *argv], **options)

    def move(self) -> None:
        """Another place: the private address changes, so that all its connections are dead."""
        for action, last in (("del", 2), ("add", 3)):
            _ip("-netns", self.namespace, "addr", action, f"{self.private}.{last}/24", "dev", self.links[1])
        _ip("-netns", self.namespace, "route", "replace", "default", "via", f"{self.private}.1")


@contextmanager
def laptop(router: Host) -> Iterator[Laptop]:
    """A computer behind a NAT at this host. Raises NetworkError without nft."""
    if shutil.which("nft") is None:
        raise NetworkError("nft is missing: tests/install-tools.sh installs it")
    number = next(_numbers)
    made = Laptop(f"{router.namespace}-nat{number}", router, (f"nat{number}r", f"nat{number}l"), f"192.168.{number}")
    with ExitStack() as stack:
        _ip("netns", "add", made.namespace)
        stack.callback(_ip, "netns", "del", made.namespace)
        _connect(made)
        hosts = Path("/etc/netns") / made.namespace
        hosts.mkdir(parents=True, exist_ok=True)
        stack.callback(shutil.rmtree, hosts)
        (hosts / "hosts").write_text("127.0.0.1 localhost\n")
        yield made


def _connect(made: Laptop) -> None:
    outer, inner = made.links
    _ip("link", "add", outer, "netns", made.router.namespace, "type", "veth", "peer", inner, "netns", made.namespace)
    for namespace, link, last in ((made.router.namespace, outer, 1), (made.namespace, inner, 2)):
        _ip("-netns", namespace, "addr", "add", f"{made.private}.{last}/24", "dev", link)
        _ip("-netns", namespace, "link", "set", link, "up")
        _ip("-netns", namespace, "link", "set", "lo", "up")
    _ip("-netns", made.namespace, "route", "add", "default", "via", f"{made.private}.1")
    router = made.router.prefix
    switch = ["sh", "-c", "echo 1 > /proc/sys/net/ipv4/ip_forward"]
    subprocess.run([*router, *switch], check=True)
    rules = RULES.format(inside=f"{made.private}.0", link=outer)
    subprocess.run([*router, "nft", "-f", "-"], input=rules, text=True, check=True)


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True)
