"""Programs of others that run while a test talks to them, each in the environment that `tests/clients/install.sh` made.

with Program("fair", SNIPPET, url=service.url, home=tmp_path, client_id=...) as program:
    allow(program.address(), service)
    assert program.json()["tasks"] >= 0
"""

from __future__ import annotations

import json
import queue
import subprocess
import threading
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

from tests.browsers.real_browser import Browser
from tests.instance import Api
from tests.real_clients import FOLDER, environment

#: For each step of a program: it imports much, and the machine has other work.
SECONDS = 90
#: The values that a test gives are globals of the program, in upper case. The environment has no room for secrets.
_START = "import json, sys\nglobals().update(json.loads(sys.stdin.readline()))\n"


class Program:
    """A piece of Python in the environment `name`, whose standard input and output are the test's."""

    def __init__(
        self,
        name: str,
        code: str,
        service: Api,
        home: Path,
        given: Mapping[str, str] = {},
        more: Mapping[str, str] = {},
    ) -> None:
        """given: values for the program; more: for its environment. Its files go to `home`."""
        self._name, self._log = name, home / f"{name}.log"
        self._lines: queue.Queue[str | None] = queue.Queue()
        values = {"URL": service.url, **{key.upper(): value for key, value in given.items()}}
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [str(FOLDER / name / "bin" / "python"), "-W", "ignore", "-u", "-c", _START + code],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env=environment(service.url, home, {"BROWSER": "/bin/true", **more}),
                cwd=home,
            )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        self.write(json.dumps(values))

    def __enter__(self) -> Program:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        # A program may have begun others, which it ends first.
        self._process.terminate()
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(20)
        self._reader.join(20)
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            pipe.close()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._lines.put(line.strip())
        self._lines.put(None)

    def write(self, line: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()

    def line(self, word: str = "") -> str:
        """The next line with this word."""
        seen: list[str] = []
        while not seen or word not in seen[-1]:
            try:
                found = self._lines.get(timeout=SECONDS)
            except queue.Empty:
                found = None
            if found is None:
                raise AssertionError(f"{self._name} wrote no {word!r}: {seen}\n{self.log()}")
            seen.append(found)
        return seen[-1]

    def address(self) -> str:
        """The next address that the program writes."""
        return next(part for part in self.line("http").split() if part.startswith("http"))

    def json(self) -> Any:
        """The next document. A question for which the program waited may stand before it on its line."""
        found = self.line("{")
        return json.loads(found[found.index("{") :])

    def log(self) -> str:
        """The last of what it wrote to standard error."""
        return self._log.read_text(errors="replace")[-4000:]


def allow(address: str, service: Api, browser: Browser | None = None, data: dict[str, str] | None = None) -> Browser:
    """Open the address, sign in as the sample user unless the browser has, and allow what is asked.

    data: of a form to send to the address.
    """
    browser = browser or Browser()
    browser.open(address, data)
    if any("Sign in" in form.buttons for form in browser.forms):
        browser.press("Sign in", username=service.connection["username"], password=service.connection["password"])
    if any("Allow" in form.buttons for form in browser.forms):
        browser.press("Allow")
    return browser


def application(service: Api, name: str, *redirect_uris: str, public: bool = False) -> tuple[str, str]:
    """Register an application of the sample user's; its id, and its secret or ""."""
    wanted = {"name": name, "public_client": public, "redirect_uris": list(redirect_uris)}
    made = service.call_as_signed_in("/v2/api/clients", {"client": wanted})
    return made["client"]["id"], "" if public else made["included"]["client_credential"]["secret"]


def call(service: Api, path: str, token: str, document: object = None) -> Any:
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    body = None if document is None else json.dumps(document).encode()
    request = urllib.request.Request(service.url + path, body, headers)
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.load(answer)


def is_good(service: Api, token: str, path: str = "/v0.10/task_list?limit=1") -> bool:
    """Whether the service still accepts the token."""
    try:
        call(service, path, token)
    except urllib.error.HTTPError as error:
        error.close()
        if error.code == 401:
            return False
        raise
    return True
