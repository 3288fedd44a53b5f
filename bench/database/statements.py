"""The SQL messages of one task of one small file, from its POST to its end, by place and function.

    python -m bench.database.statements [--against COMMIT] [--texts]

A message is what goes to PostgreSQL and is waited for: a statement, or several in one text, and each BEGIN and COMMIT.
They are counted in a process that has the code of the web server and of a worker, with a PostgreSQL, a Redis and a
GridFTP server of its own: the POST goes through all layers of the API, and the slice through the whole engine.

`--against`: a commit of this repository, whose code is counted beside this one. `--texts`: print the messages of this
code in their order, too.
"""

from __future__ import annotations

import argparse
import json
import os
import secrets
import subprocess
import sys
import tempfile
import threading
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

from psycopg2.extensions import connection

#: The checkout of this file.
HERE = Path(__file__).resolve().parents[2]
#: Folders whose functions are named, for each place. Others call them, or are called by them.
_NAMED = {
    "web": ("transferapi/tasks/", "identity/", "endpoints/"),
    "worker": ("transferapi/tasks/", "transferapi/outages/", "identity/", "endpoints/"),
}
#: A module through which every statement in SQL passes.
_PASSED = "identity/database_rows.py"


class Message(NamedTuple):
    """place: "web" or "worker". function: the first one of the services that was called, as `leases.acquire`."""

    place: str
    function: str
    text: str


class Messages:
    """The messages of all threads of this process to PostgreSQL.

    Those of the thread that has made this object are of the place "web", all others of "worker".
    """

    def __init__(self) -> None:
        self.found: list[Message] = []
        self._web = threading.get_ident()

    def by_function(self) -> Counter[tuple[str, str]]:
        """The number of messages by place and function."""
        return Counter((message.place, message.function) for message in self.found)

    @contextmanager
    def counted(self) -> Iterator[Messages]:
        """Count within this block."""
        from transferapi.outages.database import WatchedConnection, WatchedCursor

        noted: list[tuple[Any, str, Callable[..., None]]] = [
            *((WatchedCursor, name, self._statement) for name in ("execute", "executemany", "copy_expert")),
            *((WatchedConnection, name, self._end) for name in ("commit", "rollback")),
        ]
        with ExitStack() as stack:
            for kind, name, note in noted:
                stack.enter_context(mock.patch.object(kind, name, _after(note, getattr(kind, name))))
            yield self

    def _statement(self, cursor: Any, text: str, *_: Any) -> None:
        line = cursor.connection
        # psycopg2 may send a BEGIN of its own before the first statement of a transaction.
        own: Any = connection.autocommit
        if not own.__get__(line) and not line.info.transaction_status:
            self._add("BEGIN")
        self._add(" ".join(str(text).split()))

    def _end(self, line: Any) -> None:
        """The end of a transaction: nothing is sent where no statement came before it."""
        if line.info.transaction_status:
            self._add("COMMIT or ROLLBACK")

    def _add(self, text: str) -> None:
        place = "web" if threading.get_ident() == self._web else "worker"
        self.found.append(Message(place, _function(_NAMED[place]), text))


def _after(note: Callable[..., None], function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, called after `note`."""

    def noted(one: Any, *words: Any, **named: Any) -> Any:
        note(one, *words)
        return function(one, *words, **named)

    return noted


def _function(folders: Sequence[str]) -> str:
    """The first function in these folders that was called: `leases.acquire`, say; "" if there is none."""
    name, frame = "", sys._getframe(1)
    while frame.f_back is not None:
        frame = frame.f_back
        path, function = frame.f_code.co_filename, frame.f_code.co_qualname
        if any(f"/{folder}" in path for folder in folders) and not path.endswith(_PASSED) and "<" not in function:
            name = f"{Path(path).stem}.{function}"
    return name


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--against", metavar="COMMIT", help="a commit whose messages are counted, too")
    parser.add_argument("--texts", action="store_true", help="print the messages, too")
    parser.add_argument("--count", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.count:
        json.dump(count().found, sys.stdout)
        sys.stdout.flush()
        os._exit(0)
    found = {"this code": _of_checkout(HERE)}
    if options.against:
        with _checkout(options.against) as folder:
            found[options.against] = _of_checkout(folder)
    report({name: messages.by_function() for name, messages in found.items()})
    if options.texts:
        for message in found["this code"].found:
            sys.stdout.write(f"{message.place} {message.function}: {message.text[:160]}\n")


def _of_checkout(folder: Path) -> Messages:
    """The messages of the code in this folder, in a process of its own."""
    words = [sys.executable, "-P", str(Path(__file__).resolve()), "--count"]
    environment = {**os.environ, "PYTHONPATH": str(folder)}
    done = subprocess.run(words, env=environment, cwd=folder, stdout=subprocess.PIPE, check=True, timeout=600)
    messages = Messages()
    messages.found = [Message(*row) for row in json.loads(done.stdout.splitlines()[-1])]
    return messages


@contextmanager
def _checkout(commit: str) -> Iterator[Path]:
    """The files of a commit."""
    with tempfile.TemporaryDirectory(prefix="waybill-bench-") as folder:
        archive = subprocess.run(["git", "-C", str(HERE), "archive", commit], stdout=subprocess.PIPE, check=True)
        subprocess.run(["tar", "-x", "-C", folder], input=archive.stdout, check=True)
        yield Path(folder)


def report(found: Mapping[str, Counter[tuple[str, str]]]) -> None:
    """A table: a row for each function, a column for each of the counts."""
    rows = sorted({key for counts in found.values() for key in counts}, key=lambda key: (key[0], -_most(found, key)))
    sys.stdout.write(f"| place | function | {' | '.join(found)} |\n|---|---|{'---|' * len(found)}\n")
    for key in rows:
        numbers = " | ".join(str(counts[key]) for counts in found.values())
        sys.stdout.write(f"| {' | '.join(key)} | {numbers} |\n")
    sys.stdout.write(f"| all | | {' | '.join(str(counts.total()) for counts in found.values())} |\n")


def _most(found: Mapping[str, Counter[tuple[str, str]]], key: tuple[str, str]) -> int:
    return max(counts[key] for counts in found.values())


def count() -> Messages:
    """Count them with the code that this process imports."""
    from deploy.stack.postgres import Postgres
    from deploy.stack.redis import Redis
    from endpoints.gridftp.server import GridFtpServer

    with tempfile.TemporaryDirectory(prefix="waybill-bench-") as name:
        folder = Path(name)
        folder.chmod(0o711)
        (folder / "files").mkdir()
        servers = (Postgres(folder, durable=False), Redis(folder), GridFtpServer(folder / "files"))
        for server in servers:
            server.start()
        try:
            _setup(servers[0].url(), servers[1].url())
            return _run(folder / "files", servers[2].port)
        finally:
            for server in servers:
                server.stop()


def _setup(database: str, redis: str) -> None:
    import django
    from django.core.management import call_command

    from identity.vault.keys import new_key

    words = {
        "WAYBILL_SECRET_KEY": secrets.token_urlsafe(40), "WAYBILL_VAULT_KEY": new_key(), "DATABASE_URL": database,
        "REDIS_URL": redis, "WAYBILL_LOG_LEVEL": "ERROR", "WAYBILL_ALLOW_TARGETS": "127.0.0.0/8",
        "WAYBILL_PUBLIC_URL": "http://localhost", "DJANGO_SETTINGS_MODULE": "transferapi.settings",
    }  # fmt: skip
    os.environ.update(words)
    django.setup()
    from django.conf import settings

    settings.ALLOWED_HOSTS = ["*"]
    call_command("migrate", verbosity=0)


def _run(files: Path, port: int) -> Messages:
    """Move one file twice; the second task is counted, for which the worker has warm sessions and knows the path."""
    from django.test import Client

    from endpoints import registry
    from identity import tokens
    from identity.models import User
    from workers import runtime

    user = User.objects.create(username="alice")
    ends = [
        registry.create(user, {"name": name}, [registry.ServerSpec("127.0.0.1", port, "ftp")]) for name in ("a", "b")
    ]
    client = Client(HTTP_AUTHORIZATION=f"Bearer {tokens.issue(user)}")
    move_file(client, [str(end.pk) for end in ends], files, "first", runtime.run)
    messages = Messages()
    with messages.counted():
        move_file(client, [str(end.pk) for end in ends], files, "second", runtime.run)
    return messages


def move_file(client: Any, ends: Sequence[str], files: Path, name: str, work: Callable[[str], object]) -> None:
    """Submit a task of one file by the API, and call `work` with its id, in a thread of its own. Check the file."""
    (files / name).write_bytes(b"one file")
    document = {
        "DATA_TYPE": "transfer",
        "submission_id": str(uuid.uuid4()),
        "source_endpoint": ends[0],
        "destination_endpoint": ends[1],
        "DATA": [{"source_path": f"/{name}", "destination_path": f"/{name}.copy"}],
    }
    answer = client.post("/v0.10/transfer", json.dumps(document), content_type="application/json")
    if answer.status_code != 202:
        raise RuntimeError(f"the POST was answered with {answer.status_code}: {answer.content!r}")
    worker = threading.Thread(target=work, args=[answer.json()["task_id"]])
    worker.start()
    worker.join(60)
    if not (files / f"{name}.copy").exists():
        raise RuntimeError(f"the file {name} was not moved")


if __name__ == "__main__":
    main()
