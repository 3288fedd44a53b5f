"""Run in a network namespace of its own: clients of two IPv6 networks at our nginx. Prints the statuses as JSON."""

from __future__ import annotations

import json
import select
import socket
import subprocess
import sys
from contextlib import ExitStack

from tests.servers.front_server import Nginx
from tests.waiting import eventually

SERVER, NEIGHBOUR, OTHER = "fd00::1", "fd00::2", "fd00:0:0:1::1"
HELD = b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\n"


def _answered(crowd: list[socket.socket]) -> list[socket.socket]:
    return select.select(crowd, [], [], 0)[0]


def main() -> None:
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    for address in (SERVER, NEIGHBOUR, OTHER):
        subprocess.run(["ip", "-6", "addr", "add", f"{address}/64", "dev", "lo", "nodad"], check=True)
    values = {"FRONT_LISTEN": "[::]:8080", "FRONT_MODE": "http", "FRONT_SECRET": "", "REQUEST_SECONDS": "60"}
    with ExitStack() as closing:
        closing.enter_context(Nginx.of_the_product(8080, WEB="127.0.0.1:9", **values))

        def ask(address: str, octets: bytes) -> socket.socket:
            one = closing.enter_context(socket.create_connection((SERVER, 8080), 20, (address, 0)))
            one.sendall(octets)
            return one

        # More than the 200 of one network, from two of its addresses.
        crowd = [ask((SERVER, NEIGHBOUR)[number % 2], HELD) for number in range(220)]
        eventually(lambda: len(_answered(crowd)) >= 20)
        refused = [one for one in _answered(crowd) if one.recv(20).split()[1] == b"429"]
        found = {"neighbour": len(refused), "other": int(ask(OTHER, b"GET / HTTP/1.0\r\n\r\n").recv(20).split()[1])}
    sys.stdout.write(json.dumps(found))


if __name__ == "__main__":
    main()
