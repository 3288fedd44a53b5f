"""Agents on computers behind NATs, set up by setup keys as a person does it."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from bench.wan.network import Host, Network
from tests.instance import Api

from .nat_network import Laptop

#: The ports of the ways to the service's loopback address: to the web server, and to the relay.
PORT, RELAY_PORT = 42_000, 42_001
#: Agents use http with loopback addresses only, and an instance listens on one.
DIVERSION = """
table ip diverted{number} {{
    chain first {{ type nat hook {hook} priority -100; {rule}; }}
    chain last {{ type nat hook postrouting priority 100; ip saddr 127.0.0.0/8 oifname != "lo" masquerade; }}
}}"""
START_SECONDS = 60.0


@dataclass
class ConnectedLaptop:
    """endpoint: the id of its endpoint, whose root is `folder`."""

    laptop: Laptop
    endpoint: str
    folder: Path
    agent: subprocess.Popen[bytes]


@contextmanager
def way_to_service(net: Network, api: Api) -> Iterator[None]:
    """Other hosts reach the loopback address of the service at PORT and RELAY_PORT."""
    for number, (here, there) in enumerate(_ports(api)):
        rule = f"ip daddr {net.service.address} tcp dport {there} dnat to 127.0.0.1:{here}"
        _divert(net.service, "prerouting", rule, number)
    yield


def _ports(api: Api) -> list[tuple[int, int]]:
    """The loopback ports of web server and relay, each with that of the way to it."""
    relay = json.loads((api.home / "prepared.json").read_text())["ports"]["relay"]
    return [(urlsplit(api.url).port or 80, PORT), (relay, RELAY_PORT)]


@contextmanager
def connected(net: Network, api: Api, laptop: Laptop, name: str, folder: Path, home: Path) -> Iterator[ConnectedLaptop]:
    """An agent that runs on the laptop and is connected."""
    document = {"DATA_TYPE": "endpoint", "display_name": name, "name": name, "is_globus_connect": True}
    made = api.call("POST", "/endpoint", document)
    command = [sys.executable, "-m", "endpoints.gridftp.agent", "--config", str(home / name)]
    with ExitStack() as stack:
        log = stack.enter_context((home / f"{name}.log").open("wb"))
        for number, (here, there) in enumerate(_ports(api)):
            rule = f"ip daddr 127.0.0.1 tcp dport {here} dnat to {net.service.address}:{there}"
            _divert(laptop, "output", rule, number)
        setup = [*laptop.prefix, *command, "--root", str(folder), "--setup", "-"]
        key = str(made["globus_connect_setup_key"])
        subprocess.run(setup, input=key.encode(), check=True, stdout=log, stderr=log, timeout=START_SECONDS)
        agent = laptop.run([*command, "--run"], stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        stack.callback(_stop, agent)
        _wait_until_connected([*laptop.prefix, *command, "--status"], Path(log.name))
        yield ConnectedLaptop(laptop, str(made["id"]), folder, agent)


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait(10)


def _wait_until_connected(status: list[str], log: Path) -> None:
    end = time.monotonic() + START_SECONDS
    while time.monotonic() < end:
        if subprocess.run(status, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode == 0:
            return
        time.sleep(0.2)
    raise TimeoutError("the agent does not connect:\n" + log.read_text()[-2000:])


def _divert(host: Host | Laptop, hook: str, rule: str, number: int) -> None:
    """Let the kernel of this host send connections of a loopback address on, without a program between the two."""
    allow = ["sh", "-c", "echo 1 > /proc/sys/net/ipv4/conf/all/route_localnet"]
    subprocess.run([*host.prefix, *allow], check=True)
    rules = DIVERSION.format(hook=hook, rule=rule, number=number)
    subprocess.run([*host.prefix, "nft", "-f", "-"], input=rules, text=True, check=True)
