"""`make audit`: pip-audit, against a database of advisories of the test's own."""

from __future__ import annotations

import json
import re
import subprocess
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import ClassVar

import pytest

from deploy.stack.free_ports import free_port
from transferapi.config import CHECKOUT

#: A library that both lock files pin.
HIT = "kombu"
RANGES = [{"type": "ECOSYSTEM", "events": [{"introduced": "0"}, {"fixed": "99"}]}]
PACKAGE = {"name": HIT, "ecosystem": "PyPI"}
ADVISORY = {"id": "PYSEC-2026-1", "summary": "a hole", "affected": [{"package": PACKAGE, "ranges": RANGES}]}


class Advisories(BaseHTTPRequestHandler):
    """Answers as OSV does (https://google.github.io/osv.dev/post-v1-query/)."""

    asked: ClassVar[dict[str, str]] = {}

    def do_POST(self) -> None:
        query = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        name = query["package"]["name"]
        self.asked[name] = query["version"]
        data = json.dumps({"vulns": [ADVISORY]} if name == HIT else {}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *words: object) -> None:
        pass


@pytest.fixture
def address() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Advisories) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/v1/query"
        server.shutdown()
        thread.join()


def audit(address: str) -> subprocess.CompletedProcess[str]:
    words = ["make", "--no-print-directory", "audit", f"AUDIT=-s osv --osv-url {address}"]
    return subprocess.run(words, cwd=CHECKOUT, capture_output=True, text=True, timeout=200, check=False)


def test_what_is_known_of_a_pinned_version_is_shown_and_fails(address: str) -> None:
    done = audit(address)
    assert done.returncode
    assert re.search(rf"^{HIT} +[0-9.]+ +PYSEC-2026-1 +99 *$", done.stdout, re.MULTILINE), done
    pinned = re.findall(r"^([\w.-]+)==([\w.+!]+) \\", (CHECKOUT / "requirements.lock").read_text(), re.MULTILINE)
    assert len(pinned) > 50
    assert {name for name, version in pinned if Advisories.asked.get(name) != version} == set()


def test_a_database_that_is_away_is_no_absence_of_holes() -> None:
    assert audit(f"http://127.0.0.1:{free_port()}/v1/query").returncode
