"""The first transfer: submits the sample folder through the REST API, shows the progress, and compares the files.

    python -m deploy.sample.first_transfer HOME

This client uses the standard library only: it is also an example.
"""

from __future__ import annotations

import filecmp
import json
import os
import ssl
import sys
import time
import urllib.error
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from deploy.stack.home import Home
from deploy.web.client_tls import client_context

from .data import FOLDER, sizes

SECONDS = 300.0
PAUSE = 0.2


@dataclass(frozen=True)
class Client:
    """The few requests that a transfer needs."""

    url: str
    token: str
    #: The TLS context, where the service has https with a certificate of its own.
    context: ssl.SSLContext | None = None

    def call(self, method: str, resource: str, document: dict[str, Any] | None = None) -> dict[str, Any]:
        """One request; raises urllib.error.HTTPError, whose body is the error document."""
        request = urllib.request.Request(  # noqa: S310 - our own server
            f"{self.url}/v0.10/{resource}",
            method=method,
            data=None if document is None else json.dumps(document).encode(),
            headers={"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=30, context=self.context) as answer:  # noqa: S310
            found: dict[str, Any] = json.load(answer)
            return found

    def submit(self, source: str, destination: str, folder: str) -> str:
        """Submit a copy of a folder to the same path on the other endpoint; returns the task's id."""
        answer = self.call(
            "POST",
            "transfer",
            {
                "DATA_TYPE": "transfer",
                "submission_id": self.call("GET", "submission_id")["value"],
                "source_endpoint": source,
                "destination_endpoint": destination,
                "label": "The first transfer",
                "DATA": [
                    {
                        "DATA_TYPE": "transfer_item",
                        "source_path": folder,
                        "destination_path": folder,
                        "recursive": True,
                    }
                ],
            },
        )
        return str(answer["task_id"])


def main(argv: list[str]) -> int:
    home = Home(Path(argv[0]))
    connection: Any = home.read_json(home.connection)
    certificate = os.environ.get("WAYBILL_TLS_CERTIFICATE")
    context = client_context(Path(certificate) if certificate else None)
    client = Client(connection["url"], connection["token"], context)
    ids, roots = connection["endpoints"], connection["roots"]
    sys.stdout.write(f"\nThe first transfer: {FOLDER} from go#ep1 to go#ep2\n")
    task_id = client.submit(ids["go#ep1"], ids["go#ep2"], FOLDER)
    source, destination = (Path(roots[name]) / FOLDER.strip("/") for name in ("go#ep1", "go#ep2"))
    files, size = sizes(source)
    began = time.monotonic()
    task = follow(client, task_id, files, size)
    seconds = max(time.monotonic() - began, 0.001)
    if task["status"] != "SUCCEEDED":
        return report_failure(client, task)
    moved = task["bytes_transferred"]
    print_line(f"SUCCEEDED: {task['files_transferred']} files, {moved / 1e6:.1f} MB in {seconds:.1f} s", end="\n")
    if (wrong := differences(source, destination)) != []:
        sys.stdout.write(f"  but these differ: {', '.join(wrong[:5])}\n")
        return 1
    sys.stdout.write("  compared byte by byte: source and destination are the same\n")
    home.first_transfer.write_text(task_id + "\n")
    return 0


def follow(client: Client, task_id: str, files: int, size: int) -> dict[str, Any]:
    """Show a progress line until the task has ended, for at most SECONDS; returns its last document."""
    began = time.monotonic()
    while True:
        task = client.call("GET", f"task/{task_id}")
        seconds = time.monotonic() - began
        if task["status"] != "ACTIVE" or seconds > SECONDS:
            return task
        print_line(progress(task["files_transferred"], files, task["bytes_transferred"], size, seconds))
        time.sleep(PAUSE)


def progress(files: int, all_files: int, moved: int, size: int, seconds: float) -> str:
    """`12/301 files, 1.2/65.2 MB, 30.1 MB/s, 2 s to go`; files and octets both count for the time left."""
    rate = moved / seconds if seconds > 0 else 0.0
    done = (files / max(all_files, 1) + moved / max(size, 1)) / 2
    left = f"{seconds * (1 - done) / done:.0f} s to go" if done else "starting"
    return f"{files}/{all_files} files, {moved / 1e6:.1f}/{size / 1e6:.1f} MB, {rate / 1e6:.1f} MB/s, {left}"


def print_line(text: str, end: str = "") -> None:
    """One line that changes on a terminal; a line for each change in a file."""
    if sys.stdout.isatty():
        sys.stdout.write(f"\r\x1b[2K  {text}{end}")
    else:
        sys.stdout.write(f"  {text}\n")
    sys.stdout.flush()


def report_failure(client: Client, task: dict[str, Any]) -> int:
    print_line(f"{task['status']}: {task['nice_status']}", end="\n")
    for event in client.call("GET", f"task/{task['task_id']}/event_list?limit=5")["DATA"]:
        sys.stdout.write(f"    {event['time']} {event['code']}: {event['description']}\n")
    return 1


def differences(source: Path, destination: Path) -> list[str]:
    """Names below `source` whose content is not the same below `destination`, sorted."""
    names = sorted(str(path.relative_to(source)) for path in source.rglob("*") if path.is_file())
    _, mismatch, errors = filecmp.cmpfiles(source, destination, names, shallow=False)
    return sorted([*mismatch, *errors])


if __name__ == "__main__":
    try:
        raise SystemExit(main(sys.argv[1:]))
    except urllib.error.HTTPError as error:
        sys.stdout.write(f"  the first transfer failed: {error}: {error.read(2000).decode(errors='replace')}\n")
    except OSError as error:
        sys.stdout.write(f"  the first transfer failed: {error}\n")
    raise SystemExit(1)
