"""`make audit`, against an index of the test's own."""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from deploy.release import audit
from deploy.stack.free_ports import free_port

ADVISORY = {"id": "PYSEC-1", "aliases": ["CVE-2026-1"], "summary": "a hole\x1b[2J\n", "fixed_in": ["2.1"]}


class PackageIndex:
    """Answers with `pages`: by path, a document, octets or a status."""

    def __init__(self) -> None:
        self.pages: dict[str, Any] = {}
        self.asked: list[tuple[str, str | None]] = []
        index = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                index.asked.append((self.path, self.headers["Authorization"]))
                page = index.pages.get(self.path, 404)
                self.send_response(page if isinstance(page, int) else 200)
                self.end_headers()
                if not isinstance(page, int):
                    self.wfile.write(page if isinstance(page, bytes) else json.dumps(page).encode())

            def log_message(self, *words: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self.server.server_port}/root/simple/"

    def has(self, name: str, newest: str, *advisories: dict[str, Any], of: str | None = None) -> None:
        """A project; `of` an older release with a page of its own, which the advisories are about."""
        about = {"vulnerabilities": list(advisories)}
        self.pages[f"/root/pypi/{name}/json"] = {"info": {"version": newest}, **({} if of else about)}
        if of:
            self.pages[f"/root/pypi/{name}/{of}/json"] = {"info": {"version": of}, **about}


@pytest.fixture
def index() -> Iterator[PackageIndex]:
    index = PackageIndex()
    threading.Thread(target=index.server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
    yield index
    index.server.shutdown()
    index.server.server_close()


@pytest.fixture
def lock(tmp_path: Path) -> str:
    path = tmp_path / "requirements.lock"
    path.write_text(
        "one==2.0 \\\n    --hash=sha256:00\n    # via two\ntwo==1.0 ; python_version < '4' \\\n    --hash=sha256:00\n"
    )
    return str(path)


def run(index: PackageIndex, lock: str, *words: str) -> int:
    return audit.main(["--index", index.address, *words, lock])


def test_what_is_known_of_a_pinned_version_is_shown_and_fails(index: PackageIndex, lock: str, capsys: Any) -> None:
    index.has("one", "2.0", ADVISORY)
    index.has("two", "3.0", {**ADVISORY, "withdrawn": "2026-01-01"}, of="1.0")
    assert run(index, lock) == 1
    told = capsys.readouterr().out
    assert told.splitlines() == [
        "one 2.0: PYSEC-1, CVE-2026-1: a hole [2J ; fixed in 2.1",
        "2 packages: 1 with advisories, 0 that the index says nothing about.",
    ]


def test_advisories_of_other_versions_are_none_of_ours(index: PackageIndex, lock: str, capsys: Any) -> None:
    index.has("one", "2.0")
    index.pages["/root/pypi/two/json"] = {"info": {"version": "3.0"}, "vulnerabilities": [ADVISORY]}
    assert (run(index, lock), run(index, lock, "--strict")) == (0, 2)
    assert "not checked: two 1.0 (the newest that the index knows is '3.0')" in capsys.readouterr().out


@pytest.mark.parametrize("page", [500, 403, b"<html>", b"[]", b"[" * 100_000, b"x" * 2000])
def test_an_index_that_does_not_speak_the_api_is_named_as_such(
    index: PackageIndex, lock: str, capsys: Any, monkeypatch: pytest.MonkeyPatch, page: Any
) -> None:
    monkeypatch.setattr(audit, "MOST_OCTETS", 1000)
    index.has("one", "2.0")
    index.pages["/root/pypi/two/json"] = page
    assert (run(index, lock), run(index, lock, "--strict")) == (0, 2)
    assert "Nothing was checked: the package index's advisories are not reachable" in capsys.readouterr().err


def test_an_index_that_is_away_stops_nothing_unless_it_must_be_there(lock: str, capsys: Any) -> None:
    words = ["--index", f"http://127.0.0.1:{free_port()}/simple", lock]
    assert (audit.main(words), audit.main(["--strict", *words])) == (0, 2)
    assert "does not answer" in capsys.readouterr().err


def test_a_password_in_the_address_is_sent_and_not_shown(index: PackageIndex, lock: str, capsys: Any) -> None:
    index.address = index.address.replace("//", "//alice:pass%20word@")
    assert run(index, lock) == 0
    assert {sent for _, sent in index.asked} == {f"Basic {base64.b64encode(b'alice:pass word').decode()}"}
    assert "pass" not in "".join(capsys.readouterr())


def test_the_index_is_the_one_that_pip_uses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_INDEX_URL", "https://index.example.org/simple")
    assert audit.configured_index() == "https://index.example.org/simple"
    monkeypatch.delenv("PIP_INDEX_URL")
    assert audit.configured_index().startswith("http")
