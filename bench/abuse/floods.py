"""Floods: submissions of the largest allowed size, and larger; endless scans; tasks created and canceled again."""

from __future__ import annotations

import http.client
import json
import threading
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import count

from .harness import ATTACKER, Control, Person, Target, attack
from .listings import HOST, HostileServer, ask

#: Users, parallel requests of each, and octets of one send.
USERS, REQUESTS, PIECE = 2, 4, 1 << 20
FILE, FOLDER = "Type=file;Size=1;Modify=20260102030405;", "Type=dir;Modify=20260102030405;"
Body = Callable[[str, str], bytes]


@attack("floods: submissions of 1,000,000 items", seconds=30)
def a_million_items(target: Target, control: Control) -> None:
    items = b",".join([b'{"source_path":"/data/some/folder/a","destination_path":"/data/another/b"}'] * 1_000_000)
    _flood(target, control, lambda source, destination: _document(source, destination, items))


@attack("floods: submissions of as many octets as are taken, all in lists", seconds=30)
def lists(target: Target, control: Control) -> None:
    item = b'{"source_path":"/a","destination_path":"/b","x":[' + b"[]," * 150 + b"[]]}"
    items = b",".join([item] * 90_000)
    _flood(target, control, lambda source, destination: _document(source, destination, items))


@attack("floods: submissions of as many octets as are taken, all in wide characters", seconds=30)
def wide(target: Target, control: Control) -> None:
    item = f'{{"source_path":"/{"a" * 200}\U0001f600","destination_path":"/{"b" * 200}\U0001f600"}}'.encode()
    items = b",".join([item] * 100_000)
    _flood(target, control, lambda source, destination: _document(source, destination, items))


@attack("floods: 100,000 items submitted and canceled again and again", seconds=40)
def made_and_canceled(target: Target, control: Control) -> None:
    def items(source: str, destination: str) -> bytes:
        lines = (b'{"source_path":"/no/%06d","destination_path":"/no/%06d"}' % (n, n) for n in range(100_000))
        return _document(source, destination, b",".join(lines))

    _flood(target, control, items, then=_cancel)


@attack("floods: scans of folders without end", seconds=40)
def folders_without_end(target: Target, control: Control) -> None:
    def files() -> Iterator[bytes]:
        for block in count():
            lines = "".join(f" {FILE} file{block}x{n}\r\n" for n in range(500))
            yield f"150-Contents\r\n{lines}150 End.\r\n".encode()

    def tree() -> Iterator[bytes]:
        lines = "".join(f" {FOLDER} folder{n}\r\n" for n in range(1000))
        yield f"150-Contents\r\n{lines}150 End.\r\n250-Contents\r\n250 End.\r\n".encode()

    people = [target.user(f"flood{uuid.uuid4().hex[:8]}") for _ in range(USERS)]
    for person in people:
        for kind, listing in (("wide", files), ("deep", tree)):
            place = _endpoint(target, person, kind, HostileServer(listing).port)
            _post(target, person, "/v0.10/delete", _delete(place))
            _post(target, person, "/v0.10/transfer", _document(place, place, _folder("/from/", "/to/")))
    control.begin()
    while not control.wait(1.0):
        pass


def _folder(source: str, destination: str) -> bytes:
    return json.dumps({"source_path": source, "destination_path": destination, "recursive": True}).encode()


def _delete(endpoint: str) -> bytes:
    document: dict[str, object] = {"submission_id": str(uuid.uuid4()), "endpoint": endpoint, "recursive": True}
    document["DATA"] = [{"path": "/old/"}]
    return json.dumps(document).encode()


def _document(source: str, destination: str, items: bytes) -> bytes:
    ends = {"submission_id": str(uuid.uuid4()), "source_endpoint": source, "destination_endpoint": destination}
    return json.dumps({**ends, "skip_activation_check": True})[:-1].encode() + b',"DATA":[' + items + b"]}"


def _flood(
    target: Target, control: Control, body: Body, then: Callable[[Target, Person, bytes], None] | None = None
) -> None:
    """Send this again and again from all sides until the end; note the answers. then: called with each answer."""
    people = [target.user(f"flood{uuid.uuid4().hex[:8]}") for _ in range(USERS)]
    bodies = []
    for person in people:
        place = _endpoint(target, person, "sample", target.endpoint_port("ep1"))
        bodies.append(body(place, _endpoint(target, person, "other", target.endpoint_port("ep2"))))
    answers: Counter[str] = Counter()

    def send(number: int) -> None:
        while not control.is_set():
            # A new id each time: the same id would only find the first task.
            data = bodies[number].replace(bodies[number][19:55], str(uuid.uuid4()).encode(), 1)
            try:
                status, text = _post(target, people[number], "/v0.10/transfer", data)
                answers[f"{status} {json.loads(text)['code']}"] += 1
                if then is not None and status == 202:
                    then(target, people[number], text)
            except (OSError, http.client.HTTPException) as error:
                answers[type(error).__name__] += 1
            control.wait(0.2)

    threads = [threading.Thread(target=send, args=(n % USERS,), daemon=True) for n in range(USERS * REQUESTS)]
    control.begin()
    for thread in threads:
        thread.start()
    while not control.wait(1.0):
        pass
    control.note(", ".join(f"{number} x {answer}" for answer, number in answers.most_common()) or "no answer")


def _cancel(target: Target, person: Person, text: bytes) -> None:
    ask(target, person, "POST", f"/v0.10/task/{json.loads(text)['task_id']}/cancel")


def _post(target: Target, person: Person, path: str, data: bytes) -> tuple[int, bytes]:
    """Send in pieces, so that the answer to a request that is refused early is seen."""
    connection = http.client.HTTPConnection(*target.address, timeout=60, source_address=(ATTACKER, 0))
    try:
        connection.putrequest("POST", path)
        connection.putheader("Authorization", f"Bearer {person.token}")
        connection.putheader("Content-Type", "application/json")
        connection.putheader("Content-Length", str(len(data)))
        connection.endheaders()
        try:
            for start in range(0, len(data), PIECE):
                connection.send(data[start : start + PIECE])
        except (BrokenPipeError, ConnectionResetError):
            pass
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


def _endpoint(target: Target, person: Person, name: str, port: int) -> str:
    server = {"DATA_TYPE": "server", "hostname": HOST, "port": port, "scheme": "ftp"}
    document = {"DATA_TYPE": "endpoint", "name": name, "display_name": name, "DATA": [server]}
    status, text = ask(target, person, "POST", "/v0.10/endpoint", json.dumps(document))
    if status != 201:
        raise RuntimeError(f"{status}: {text[:300]!r}")
    return str(json.loads(text)["id"])
