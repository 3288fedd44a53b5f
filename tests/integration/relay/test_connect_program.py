"""The one-file program as a person runs it: set up, started, seen, paused, stopped, forgotten, and with bad input."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509

from endpoints import operations
from endpoints.connect import certificates, setup, setup_keys
from endpoints.connect.presence import presence_of
from endpoints.connect.program import program
from endpoints.connect.setup_keys import IssuedSetupKey
from endpoints.gridftp.agent.running import RENEW_AFTER
from endpoints.models import Agent
from identity.models import User
from tests.servers.connect_front import front, web
from tests.servers.relay_server import relay_server
from tests.waiting import eventually

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.timeout(240)]


@dataclass
class Laptop:
    """A home folder with the downloaded program."""

    home: Path

    @property
    def config(self) -> Path:
        return self.home / ".config" / "waybill-connect"

    def run(self, *words: str, status: int = 0, given: str = "") -> str:
        """The output of the program, which must end with this status."""
        done = self._run(*words, given=given)
        assert done.returncode == status, f"{done.stdout}\n{done.stderr}"
        return done.stdout

    def answer(self, *words: str) -> str:
        """The output, whatever the status."""
        return self._run(*words).stdout

    def _run(self, *words: str, given: str = "") -> subprocess.CompletedProcess[str]:
        """Run the program by a bare Python."""
        environ = {"HOME": str(self.home), "PATH": os.environ["PATH"], "LANG": "C.UTF-8"}
        command = [sys.executable, "-I", str(self.home / "waybill-connect.pyz"), *words]
        return subprocess.run(
            command, env=environ, input=given, capture_output=True, text=True, timeout=120, check=False
        )


@pytest.fixture
def laptop(tmp_path: Path) -> Iterator[Laptop]:
    made = Laptop(tmp_path / "home")
    (made.home / "data").mkdir(parents=True)
    (made.home / "waybill-connect.pyz").write_bytes(program().octets)
    yield made
    made.run("--uninstall")


@pytest.fixture
def service(transactional_db: None, redis_server: Any, settings: Any) -> Iterator[None]:
    """Web server and relay at one address, which setup keys name."""
    with web() as web_port, relay_server(settings) as relay, front(web_port, relay.port) as port:
        settings.PUBLIC_URL = f"http://127.0.0.1:{port}"
        yield


def new_key(user: User, name: str = "laptop") -> IssuedSetupKey:
    _, key = setup_keys.create_endpoint(user, {"name": name, "is_globus_connect": True})
    assert key is not None
    return key


def test_a_laptop_is_set_up_seen_paused_stopped_and_revoked(service: None, alice: User, laptop: Laptop) -> None:
    key = new_key(alice)
    data = laptop.home / "data"
    (data / "a.txt").write_text("42")
    (data / "out").symlink_to("/etc")
    shown = laptop.run("--setup", "-", "--root", str(data), given=key.text.value)
    assert "This computer is now the endpoint alice#laptop" in shown
    assert str(data) in shown

    assert "connected" in laptop.run("--start")
    assert "It runs already" in laptop.run("--start", status=1)
    assert presence_of([key.endpoint.pk])[key.endpoint.pk].connected
    found = operations.list_directory(alice, str(key.endpoint.pk), "/")
    assert "a.txt" in [entry.name for entry in found.entries]
    with pytest.raises(Exception, match=r"out|link|such"):
        operations.list_directory(alice, str(key.endpoint.pk), "/out/")

    laptop.run("--pause")
    eventually(lambda: presence_of([key.endpoint.pk])[key.endpoint.pk].paused)
    laptop.run("--resume")
    eventually(lambda: not presence_of([key.endpoint.pk])[key.endpoint.pk].paused)

    setup.revoke(alice, str(key.endpoint.pk))
    eventually(lambda: "not running" in laptop.answer("--status"))
    assert "revoked" in laptop.run("--start", status=1)
    log = (laptop.config / "agent.log").read_text()
    assert "Connected: this computer is the endpoint alice#laptop." in log
    assert "PRIVATE" not in log


def test_a_certificate_that_is_due_is_renewed_and_the_next_sign_in_uses_the_new_one(
    service: None, alice: User, laptop: Laptop
) -> None:
    key = new_key(alice)
    laptop.run("--setup", key.text.value)
    settings, chain = laptop.config / "agent.json", laptop.config / "chain.pem"
    first = chain.read_text()
    a_month_ago = json.loads(settings.read_text()) | {"renewed": time.time() - RENEW_AFTER - 1}
    settings.write_text(json.dumps(a_month_ago))

    laptop.run("--start")
    eventually(lambda: "The certificate of this computer was renewed." in (laptop.config / "agent.log").read_text())
    second = chain.read_text()
    assert x509.load_pem_x509_certificate(second.encode()) != x509.load_pem_x509_certificate(first.encode())
    assert certificates.agent_of(second).pk == key.endpoint.pk
    assert json.loads(settings.read_text())["renewed"] > a_month_ago["renewed"]
    assert "connected" in laptop.run("--status"), "the renewal ends no tunnel"

    laptop.run("--stop")
    laptop.run("--start")
    assert presence_of([key.endpoint.pk])[key.endpoint.pk].connected
    assert chain.read_text() == second, "it is not due again"
    assert Agent.objects.get(pk=key.endpoint.pk).certificate_serial == format(
        x509.load_pem_x509_certificate(second.encode()).serial_number, "x"
    )


def test_a_computer_that_was_off_for_too_long_says_so_and_is_set_up_anew(
    service: None, alice: User, laptop: Laptop, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as long_ago:
        long_ago.setattr(certificates, "LIFETIME", -timedelta(hours=1))
        laptop.run("--setup", new_key(alice).text.value)
    laptop.answer("--start")
    log = laptop.config / "agent.log"
    eventually(lambda: "cannot be renewed now: The certificate of this agent has expired" in log.read_text())
    eventually(lambda: "expired: The certificate of this agent has expired" in laptop.answer("--status"))
    eventually(lambda: log.read_text().count("Set it up again with a new setup key.") >= 3)
    assert log.read_text().count("cannot be renewed now") == 1, "it asks seldom, though each sign-in is refused"

    laptop.run("--stop")
    laptop.run("--setup", setup_keys.new_key(alice, "laptop").text.value)
    assert "connected" in laptop.run("--start")


def test_key_and_settings_are_for_their_user_alone(service: None, alice: User, laptop: Laptop) -> None:
    laptop.run("--setup", new_key(alice).text.value)
    assert stat.S_IMODE(laptop.config.stat().st_mode) == 0o700
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in laptop.config.iterdir()}
    assert {modes[name] for name in ("key.pem", "chain.pem", "agent.json")} == {0o600}
    assert (laptop.home / "Waybill").is_dir(), "the folder that is served where none is named"
    assert "not running" in laptop.run("--status", status=3)


def test_bad_setup_keys_leave_a_sentence_and_no_endpoint(service: None, alice: User, laptop: Laptop) -> None:
    used = new_key(alice)
    laptop.run("--config", str(laptop.home / "first"), "--setup", used.text.value)
    assert "has been used already" in laptop.run("--setup", used.text.value, status=1)
    assert "begins with wb1." in laptop.run("--setup", "hello", status=1)
    assert "damaged" in laptop.run("--setup", used.text.value[:40], status=1)
    assert "cannot be served" in laptop.run("--setup", used.text.value, "--root", "/nowhere", status=1)
    assert "not set up yet" in laptop.run("--start", status=1)
    other = new_key(alice, "second")
    words = ("--config", str(laptop.home / "first"), "--setup", other.text.value)
    assert "already the endpoint alice#laptop" in laptop.run(*words, status=1)
    again = setup_keys.new_key(alice, "laptop")
    laptop.run("--config", str(laptop.home / "first"), "--setup", again.text.value)


def test_a_service_that_is_away_is_named(settings: Any, alice: User, laptop: Laptop) -> None:
    settings.PUBLIC_URL = "http://127.0.0.1:1"
    assert "127.0.0.1 cannot be reached" in laptop.run("--setup", new_key(alice).text.value, status=1)
