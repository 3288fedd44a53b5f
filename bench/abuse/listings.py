"""Listings of hostile servers: patterns that are slow to match, long names, endless answers."""

from __future__ import annotations

import contextlib
import http.client
import json
import re
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from urllib.parse import quote

from .harness import ATTACKER, Control, Person, Target, attack

HOST = "127.0.0.1"
#: Parallel requests, and the users that send them.
REQUESTS, USERS = 18, 5
#: Seconds: more than an operation may take.
TIMEOUT = 90.0
FACTS = "Type=file;Size=1;Modify=20260102030405;UNIX.mode=0644;UNIX.owner=root;UNIX.group=root;"
#: The answers to the client's login, without its path.
REPLIES = {
    "USER": "331 Password.",
    "FEAT": "211-Features\r\n MLST Type*;Size*;Modify*;UNIX.slink*;\r\n MLSC\r\n UTF8\r\n211 End",
    "PWD": '257 "/"',
}


class HostileServer:
    """A GridFTP server that lists by MLSC whatever `listing` yields."""

    def __init__(self, listing: Callable[[], Iterator[bytes]]) -> None:
        self._listing = listing
        self._socket = socket.create_server((HOST, 0), backlog=64)
        self.port = int(self._socket.getsockname()[1])
        self._accepting = threading.Thread(target=self._accept, daemon=True)
        self._accepting.start()

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._accepting.join()
        self._socket.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._socket.accept()
                threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with connection:
            try:
                connection.sendall(b"220 Welcome.\r\n")
                for line in connection.makefile("rb"):
                    verb = line.split()[0].decode("latin-1").upper() if line.split() else ""
                    if verb == "MLSC":
                        for part in self._listing():
                            connection.sendall(part)
                    else:
                        connection.sendall(REPLIES.get(verb, "230 Done.").encode() + b"\r\n")
            except OSError:
                return


def whole(names: Callable[[int], str], entries: int, *, facts: str = FACTS) -> Callable[[], Iterator[bytes]]:
    """A listing with an end, in blocks of 1,000 entries."""
    blocks = []
    for start in range(0, entries, 1000):
        lines = "".join(f" {facts} {names(number)}\r\n" for number in range(start, min(start + 1000, entries)))
        blocks.append(f"150-Contents\r\n{lines}150 End.\r\n".encode())
    blocks.append(b"250-Contents\r\n250 End.\r\n")
    return lambda: iter(blocks)


def endless(line: str) -> Callable[[], Iterator[bytes]]:
    """The same lines again and again."""
    block = b"150-Contents\r\n" + f" {line}\r\n".encode() * 1000 + b"150 End.\r\n"

    def blocks() -> Iterator[bytes]:
        while True:
            yield block

    return blocks


@attack("listings: two patterns of many stars over 40,000 names", seconds=30)
def stars(target: Target, control: Control) -> None:
    names = whole(lambda number: f"{'a' * 200}{number:05}", 40_000)
    pattern = "*a" * 100 + "*b"
    besiege(target, control, names, "filter=" + quote(f"name:~{pattern},~{pattern}c"))


@attack("listings: patterns by the hundred over 100,000 names", seconds=30)
def many_patterns(target: Target, control: Control) -> None:
    names = whole(lambda number: f"observation-{number:06}-{'a' * 30}.fits", 100_000)
    besiege(target, control, names, "filter=" + quote("name:" + ",".join(f"~*a*{number}*b" for number in range(400))))


@attack("listings: 100,000 names of 255 octets", seconds=30)
def long_names(target: Target, control: Control) -> None:
    names = whole(lambda number: f"{number:06}" + "é" * 124, 100_000)
    besiege(target, control, names, "orderby=type,size,name%20DESC", "format=xml")


@attack("listings: 16,000 names of 16,000 octets, facts as long", seconds=30)
def longest_names(target: Target, control: Control) -> None:
    long = "x" * 16_000
    facts = f"Type=OS.unix={long};UNIX.owner={long};UNIX.group={long};UNIX.slink=/{long};"
    names = whole(lambda number: f"{number:06}{long}", 250, facts=facts)
    besiege(target, control, lambda: iter([block for _ in range(64) for block in names()][:-1]), "")


@attack("listings: 100,000 ordinary names, sorted and in XML", seconds=30)
def ordinary(target: Target, control: Control) -> None:
    names = whole(lambda number: f"observation-{number:06}.fits", 100_000)
    besiege(target, control, names, "orderby=size,name%20DESC", "format=xml", "")


@attack("listings: without an end", seconds=30)
def without_end(target: Target, control: Control) -> None:
    besiege(target, control, endless("Type=cdir;Size=1; ."), "")


def besiege(target: Target, control: Control, listing: Callable[[], Iterator[bytes]], *queries: str) -> None:
    """Request this listing from all sides until the end; note the answers."""
    server = HostileServer(listing)
    people = [target.user(f"hostile{server.port}x{number}") for number in range(USERS)]
    places = [_endpoint(target, person, server.port) for person in people]
    answers: Counter[str] = Counter()
    threads = []
    for number in range(REQUESTS):
        path = f"/v0.10/operation/endpoint/{places[number % USERS]}/ls?path=/&{queries[number % len(queries)]}"
        words = (target, control, people[number % USERS], path, answers)
        threads.append(threading.Thread(target=_ask_again, args=words, daemon=True))
    control.begin()
    for thread in threads:
        thread.start()
    while not control.wait(1.0):
        pass
    control.note(", ".join(f"{number} x {answer}" for answer, number in answers.most_common()) or "no answer")


def _ask_again(target: Target, control: Control, person: Person, path: str, answers: Counter[str]) -> None:
    while not control.is_set():
        begun = time.monotonic()
        try:
            status, text = ask(target, person, "GET", path)
            answers[f"{status} {_code(text) if status >= 400 else _size(text)}"] += 1
        except (OSError, http.client.HTTPException) as error:
            answers[type(error).__name__] += 1
        # A refused client waits as long as the rate limit asks.
        control.wait(max(0.0, 0.5 - (time.monotonic() - begun)))


def _code(text: bytes) -> str:
    """The code of an error, in JSON or XML."""
    found = re.search(rb'"code":"([^"]*)|<code>([^<]*)', text)
    return (found[1] or found[2]).decode() if found else ""


def _size(text: bytes) -> str:
    return f"{len(text) / 1e6:.0f} MB"


def _endpoint(target: Target, person: Person, port: int) -> str:
    server = {"DATA_TYPE": "server", "hostname": HOST, "port": port, "scheme": "ftp"}
    document = {"DATA_TYPE": "endpoint", "name": "hostile", "display_name": "hostile", "DATA": [server]}
    status, text = ask(target, person, "POST", "/v0.10/endpoint", json.dumps(document))
    if status != 201:
        raise RuntimeError(f"{status}: {text[:300]!r}")
    return str(json.loads(text)["id"])


def ask(target: Target, person: Person, method: str, path: str, body: str | None = None) -> tuple[int, bytes]:
    """One request of an attacker on a connection of its own: status and body."""
    connection = http.client.HTTPConnection(*target.address, timeout=TIMEOUT, source_address=(ATTACKER, 0))
    headers = {"Authorization": f"Bearer {person.token}", "Content-Type": "application/json"}
    try:
        connection.request(method, path, body, headers)
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()
