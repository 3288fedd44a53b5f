"""A whole instance of the service, for benchmarks and tests: started as `make up` does, in a folder of its own."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from http.cookiejar import CookieJar
from pathlib import Path
from types import MappingProxyType
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import psycopg2

from deploy.stack.embedded import embedded_environment
from deploy.stack.free_ports import free_port

READY_SECONDS = 200


class Api:
    """The few calls that benchmarks and journeys make. `home` is the folder of the instance."""

    def __init__(self, home: Path, token: str | None = None) -> None:
        """token: of the user who calls; None: the sample user's."""
        self.home = home
        self.url = str(self.connection["url"])
        authorization = f"Bearer {token or self.connection['token']}"
        self._headers = {"Authorization": authorization, "Content-Type": "application/json"}

    def as_new_user(self, name: str) -> Api:
        """The calls of a user that is made for them."""
        self._waybill("user", "add", name)
        return Api(self.home, self._waybill("token", name).split()[-1])

    def _waybill(self, *words: str) -> str:
        command = [sys.executable, "-m", "deploy.cli", *words]
        environment = os.environ | {"WAYBILL_HOME": str(self.home)}
        return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=True).stdout

    @property
    def connection(self) -> dict[str, Any]:
        """`connection.json` as it is now."""
        document: dict[str, Any] = json.loads((self.home / "connection.json").read_text())
        return document

    def call(self, method: str, path: str, document: object = None) -> Any:
        body = None if document is None else json.dumps(document).encode()
        request = urllib.request.Request(self.url + "/v0.10" + path, body, self._headers, method=method)
        with urllib.request.urlopen(request, timeout=60) as response:
            return json.load(response)

    def call_as_signed_in(self, path: str, document: object) -> Any:
        """POST to a route that a token is not enough for, by a session of the pages that has just begun."""
        opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(CookieJar()))
        with opener.open(f"{self.url}/signin", timeout=60) as page:
            form = {"csrfmiddlewaretoken": _csrf_token(page.read().decode()), "next": "/account"}
        form |= {"username": self.connection["username"], "password": self.connection["password"]}
        signing_in = urllib.request.Request(f"{self.url}/signin", urlencode(form).encode(), {"Origin": self.url})
        with opener.open(signing_in, timeout=60) as page:
            token = _csrf_token(page.read().decode())
        headers = {"Content-Type": "application/json", "X-CSRFToken": token, "Origin": self.url}
        request = urllib.request.Request(self.url + path, json.dumps(document).encode(), headers)
        with opener.open(request, timeout=60) as response:
            return json.load(response)

    def endpoint(
        self, name: str, port: int, host: str = "127.0.0.1", *, scheme: str = "ftp", subject: str | None = None
    ) -> str:
        """Register a server, an anonymous one unless `scheme` says another; the endpoint's id."""
        server = {"DATA_TYPE": "server", "hostname": host, "port": port, "scheme": scheme, "subject": subject}
        document = {"DATA_TYPE": "endpoint", "name": name, "display_name": name, "public": True, "DATA": [server]}
        return str(self.call("POST", "/endpoint", document)["id"])

    def activate(self, endpoint: str, form: str, **values: object) -> dict[str, Any]:
        """Give the fields of one form of activation; the answer, whose code says whether they are accepted."""
        rows = [{"type": form, "name": name, "value": value} for name, value in values.items()]
        document = {"DATA_TYPE": "activation_requirements", "DATA": rows}
        answer: dict[str, Any] = self.call("POST", f"/endpoint/{endpoint}/activate", document)
        return answer

    def transfer(
        self, source: str, source_path: str, destination: str, destination_path: str, **options: object
    ) -> str:
        """Submit one item; its task id."""
        return self.transfer_items(source, destination, [(source_path, destination_path)], **options)

    def transfer_items(self, source: str, destination: str, items: Sequence[tuple[str, str]], **options: object) -> str:
        """Submit (source path, destination path) pairs; the task id. `recursive` goes to each item."""
        recursive = {"recursive": options.pop("recursive")} if "recursive" in options else {}
        document = {
            "DATA_TYPE": "transfer",
            "submission_id": self.call("GET", "/submission_id")["value"],
            "source_endpoint": source,
            "destination_endpoint": destination,
            "DATA": [{"source_path": one, "destination_path": two, **recursive} for one, two in items],
            **options,
        }
        return str(self.call("POST", "/transfer", document)["task_id"])

    def wait(self, task_id: str, *, timeout: float = 600, interval: float = 0.05) -> dict[str, Any]:
        """Poll gently until the task has ended: without a forecast, which would cost what is measured.

        interval: seconds between two requests; more when the task takes long, at most half a second.
        """
        begun = time.monotonic()
        while (waited := time.monotonic() - begun) < timeout:
            if self.call("GET", f"/task/{task_id}?fields=status")["status"] != "ACTIVE":
                task: dict[str, Any] = self.call("GET", f"/task/{task_id}")
                return task
            time.sleep(max(interval, min(0.5, waited / 20)))
        events = self.call("GET", f"/task/{task_id}/event_list?limit=3")["DATA"]
        raise TimeoutError(f"task {task_id} is not done after {timeout:g} s; its latest events: {events}")


def _csrf_token(page: str) -> str:
    found = re.search(r'name="csrfmiddlewaretoken" value="(\w+)"', page)
    assert found, page[:500]
    return found[1]


def seconds_until_settled(api: Api, task: dict[str, Any], begun: float) -> float:
    """From `begun` (time.time() before the POST) to the task's end, by the same machine's clock.

    Documents hold whole seconds, as clients expect: the exact moment comes from the database.
    """
    if task["status"] != "SUCCEEDED":
        raise RuntimeError(f"the task ended as {task['status']}: {task['fatal_error']}")
    with database(api) as cursor:
        cursor.execute("SELECT extract(epoch FROM completion_time) FROM tasks_task WHERE id = %s", [task["task_id"]])
        row = cursor.fetchone()
        assert row is not None
        return float(row[0]) - begun


@contextmanager
def database(api: Api) -> Iterator[Any]:
    """A cursor of the instance's database; what was done is kept at the end of the block."""
    url = urlsplit(embedded_environment(api.home)["DATABASE_URL"])
    connection = psycopg2.connect(host=parse_qs(url.query)["host"][0], user=url.username, dbname=url.path.lstrip("/"))
    try:
        with connection, connection.cursor() as cursor:
            yield cursor
    finally:
        connection.close()


#: Benchmarks and journeys start their own servers, on ports of loopback that are not known before.
ALLOW_LOOPBACK = {"WAYBILL_ALLOW_TARGETS": "127.0.0.1"}


@contextmanager
def instance(
    more: Mapping[str, str] = MappingProxyType({}),
    *,
    before: Callable[[Path], object] = lambda home: None,
    **environment: str,
) -> Iterator[Api]:
    """`waybill up` in a temporary home, where endpoints may be on loopback; its API, as the sample user.

    more: variables besides `environment`. before: is called with the path of the home before the start.
    """
    variables = {**ALLOW_LOOPBACK, **more, **environment}
    with tempfile.TemporaryDirectory(prefix="waybill-bench-") as folder:
        Path(folder).chmod(0o711)
        home = Path(folder) / "home"
        before(home)
        with (Path(folder) / "log").open("wb") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "deploy.cli", "up"],
                env=os.environ | {"WAYBILL_HOME": str(home), "WAYBILL_PORT": str(free_port())} | variables,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )
            try:
                yield _ready(process, home, Path(log.name))
            finally:
                process.send_signal(signal.SIGINT)
                process.wait(timeout=90)


def _ready(process: subprocess.Popen[bytes], home: Path, log: Path) -> Api:
    """Wait for connection.json and for the end of the first sample transfer."""
    end = time.monotonic() + READY_SECONDS
    while time.monotonic() < end and process.poll() is None:
        if (home / "connection.json").exists():
            api, tasks = Api(home), []
            # The file is there before each process of the web server listens, and a busy one may take its time.
            with suppress(urllib.error.URLError, TimeoutError):
                tasks = api.call("GET", "/task_list?filter=type:TRANSFER")["DATA"]
            if tasks and all(task["status"] != "ACTIVE" for task in tasks):
                return api
        time.sleep(0.2)
    raise RuntimeError("the instance did not start:\n" + log.read_text()[-4000:])
