"""The load: two transfers at a time of the same tree, until it ends; then every file is compared."""

from __future__ import annotations

import hashlib
import http.client
import os
import shutil
import threading
import time
import urllib.error
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from bench.drill.host import Host
from bench.drill.measure import cursor_of
from tests.instance import Api

T = TypeVar("T")

#: Transfers at a time.
AT_ONCE = 2
#: Seconds in which the service must answer some time, and in which a task must end.
TIMEOUT = 300.0
#: A state of a file's row (transferapi/tasks/states.py).
DONE = 1
#: Of files alone, kind 0: folders have rows, too.
ROWS = """
SELECT state, count(*), count(DISTINCT destination_path) FROM tasks_file WHERE task_id = %s AND kind = 0 GROUP BY 1
"""


@dataclass(frozen=True)
class Tree:
    """A folder of the first endpoint: `files` of 0 to 16 kB, and one of `megabytes`."""

    name: str
    files: int
    megabytes: int

    def make(self, root: Path) -> dict[str, str]:
        """The hashes by path."""
        folder = root / self.name
        shutil.rmtree(folder, ignore_errors=True)
        for index in range(self.files):
            path = folder / f"{index % 10}" / f"{index:05d}"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(os.urandom(index * 7919 % 16_000))
        if self.megabytes:
            (folder / "large").write_bytes(os.urandom(self.megabytes * 1_000_000))
        for path in (folder, *folder.rglob("*")):
            path.chmod(0o755 if path.is_dir() else 0o644)
        return digests(folder)


def digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def digests(folder: Path) -> dict[str, str]:
    return {str(path.relative_to(folder)): digest(path) for path in folder.rglob("*") if path.is_file()}


def differences(sent: dict[str, str], arrived: dict[str, str]) -> list[str]:
    missing, extra = sent.keys() - arrived.keys(), arrived.keys() - sent.keys()
    wrong = [name for name in sent.keys() & arrived.keys() if sent[name] != arrived[name]]
    kinds = (("wrong", wrong), ("lost", missing), ("too many", extra))
    return [f"{len(names)} {kind}: {sorted(names)[:3]}" for kind, names in kinds if names]


def insist(call: Callable[[], T]) -> T:
    """Try until the service answers. Raises TimeoutError, and RuntimeError for a refusal."""
    until = time.monotonic() + TIMEOUT
    while time.monotonic() < until:
        try:
            return call()
        except urllib.error.HTTPError as error:
            if error.code < 500 and error.code != 429:
                raise RuntimeError(f"{error.code}: {error.read()[:500]!r}") from None
        except (OSError, http.client.HTTPException, ValueError):
            pass
        time.sleep(0.5)
    raise TimeoutError(f"the service does not answer any more, after {TIMEOUT:g} s")


def submission(
    host: Host, id_: str, source: str, destination: str, label: str, ends: tuple[str, str] | None = None
) -> dict[str, object]:
    """A document of one item; a path that ends with / is a folder. ends: the ids of the endpoints; None: the host's."""
    ends = ends or host.endpoints
    item = {"DATA_TYPE": "transfer_item", "source_path": source, "destination_path": destination}
    return {
        "DATA_TYPE": "transfer",
        "submission_id": id_,
        "label": label,
        "source_endpoint": ends[0],
        "destination_endpoint": ends[1],
        "verify_checksum": True,
        "DATA": [{**item, "recursive": source.endswith("/")}],
    }


def submit(api: Api, document: object) -> str:
    """The task's id. Raises as `insist`."""
    return insist(lambda: str(api.call("POST", "/transfer", document)["task_id"]))


@dataclass
class Load:
    host: Host
    tree: Tree
    sent: dict[str, str]
    label: str
    #: Task ids by the folder of the destination.
    tasks: dict[str, str] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    _stop: threading.Event = field(default_factory=threading.Event)
    _threads: list[threading.Thread] = field(default_factory=list)

    def start(self) -> None:
        for number in range(AT_ONCE):
            thread = threading.Thread(target=self._run, args=(number,), name=f"load {number}", daemon=True)
            thread.start()
            self._threads.append(thread)

    def finish(self) -> None:
        """Submit nothing more, wait for what was submitted, and compare it; what is amiss goes to `problems`."""
        self._stop.set()
        for thread in self._threads:
            thread.join()
        for folder, task in self.tasks.items():
            self.problems += [f"{folder}: {words}" for words in self._check(folder, task)]
            shutil.rmtree(self.host.folders[1] / folder, ignore_errors=True)

    def _run(self, number: int) -> None:
        try:
            count = 0
            while not self._stop.is_set():
                count += 1
                folder = f"{self.label}-{number}-{count}"
                id_ = insist(lambda: str(self.host.api.call("GET", "/submission_id")["value"]))
                document = submission(self.host, id_, f"/{self.tree.name}/", f"/{folder}/", self.label)
                self.tasks[folder] = submit(self.host.api, document)
                wait_done(self.host.api, self.tasks[folder])
        except (RuntimeError, TimeoutError) as error:
            self.problems.append(f"the load stopped: {error}")

    def _check(self, folder: str, task: str) -> list[str]:
        document = insist(lambda: self.host.api.call("GET", f"/task/{task}"))
        if document["status"] != "SUCCEEDED":
            return [f"task {task} is {document['status']}: {document.get('nice_status_details')}"]
        return [*differences(self.sent, digests(self.host.folders[1] / folder)), *self._books(document)]

    def _books(self, document: dict[str, Any]) -> list[str]:
        """Each file has one row, and each row counts once."""
        task, count = document["task_id"], len(self.sent)
        with cursor_of(self.host.connect) as cursor:
            cursor.execute(ROWS, [task])
            rows = cursor.fetchall()
        if rows != [(DONE, count, count)] or document["files_transferred"] != count:
            return [f"rows {rows}, files_transferred {document['files_transferred']}, files in the tree {count}"]
        return []


def wait_done(api: Api, task: str) -> str:
    """The status at the end. Raises TimeoutError."""
    until = time.monotonic() + TIMEOUT
    while time.monotonic() < until:
        status = insist(lambda: str(api.call("GET", f"/task/{task}?fields=status")["status"]))
        if status not in ("ACTIVE", "INACTIVE"):
            return status
        time.sleep(0.3)
    raise TimeoutError(f"task {task} has not ended after {TIMEOUT:g} s")
