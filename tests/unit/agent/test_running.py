"""The running agent on a full disk, with folders that vanish, and its lines about files that are under way."""

from __future__ import annotations

import errno
import logging
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from endpoints.gridftp.agent import home as home_module
from endpoints.gridftp.agent import journal, running, service_requests
from endpoints.gridftp.agent.home import AgentHome, AgentSettings
from endpoints.gridftp.agent.keys import AgentIdentity, AgentKey
from endpoints.gridftp.agent.running import AgentProcess
from endpoints.gridftp.agent.tunnel.service import ServiceAddress
from endpoints.gridftp.server import RootPart
from endpoints.gridftp.server.data.files_moved import FileUnderWay
from tests.waiting import eventually

pytestmark = pytest.mark.timeout(120)
#: Nobody listens there.
NOWHERE = ServiceAddress("http://127.0.0.1:1")
LOGGER = "waybill-connect"


@pytest.fixture
def home(tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> AgentHome:
    monkeypatch.setattr(running, "LOOK_SECONDS", 0.05)
    caplog.set_level(logging.INFO, LOGGER)
    made = AgentHome(tmp_path / "config")
    made.make()
    made.keep(AgentIdentity(AgentKey.new(), "CHAIN"))
    return made


def settings(*folders: Path) -> AgentSettings:
    parts = [RootPart(str(path), path.name if len(folders) > 1 else "") for path in folders]
    return AgentSettings(NOWHERE, "id", "alice#laptop", parts, 1.0)


@contextmanager
def agent_of(home: AgentHome) -> Iterator[AgentProcess]:
    """It runs in the block, and ends by `stop` with status 0."""
    agent, statuses = AgentProcess(home, "1"), []
    thread = threading.Thread(target=lambda: statuses.append(agent.run()))
    thread.start()
    try:
        yield agent
        assert thread.is_alive(), "the agent has ended"
    finally:
        agent.stop()
        thread.join(60)
    assert statuses == [0]


def test_a_full_disk_does_not_end_the_agent_and_is_said_once(
    home: AgentHome, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    home.write_settings(settings(tmp_path))
    tries, full, sync = [], True, os.fsync

    def on_full_disk(number: int) -> None:
        tries.append(number)
        if full:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        sync(number)

    monkeypatch.setattr(os, "fsync", on_full_disk)
    with agent_of(home):
        eventually(lambda: len(tries) >= 2)
        home.pause_request.touch()
        eventually(lambda: "Paused" in caplog.text)
        full = False
        home.pause_request.unlink()
        eventually(lambda: str(home.state().get("status", "")).startswith("away"))
    assert caplog.text.count("cannot be written: No space left") == 1
    assert home.state()["status"] == "stopped"


def test_a_new_certificate_that_cannot_be_stored_is_used_and_renewed_again(
    home: AgentHome, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The answers of the service are given here: `tests/integration/relay/test_connect_program.py` has real ones."""
    home.write_settings(settings(tmp_path))
    renewals: list[str] = []

    def renew(service: ServiceAddress, identity: AgentIdentity, version: str) -> dict[str, Any]:
        renewals.append(identity.chain)
        return {"chain": f"CHAIN {len(renewals)}", "time": running.RENEW_AFTER * 9}

    newest = {"version": "1", "sha256": "", "time": running.RENEW_AFTER * 9}
    monkeypatch.setattr(service_requests, "newest", lambda service: newest)
    monkeypatch.setattr(service_requests, "renew", renew)
    monkeypatch.setattr(running, "UPKEEP_SECONDS", 0.05)
    monkeypatch.setattr(running, "LEAST_UPKEEP_SECONDS", 0.05)
    replace, writable = os.replace, threading.Event()

    def on_full_disk(old: str, new: Path) -> None:
        if not writable.is_set() and Path(new).name != "state.json":
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        replace(old, new)

    monkeypatch.setattr(os, "replace", on_full_disk)
    with agent_of(home):
        eventually(lambda: len(renewals) >= 2)
        assert renewals[:2] == ["CHAIN", "CHAIN 1"], "the new one is in use"
        writable.set()
        eventually(lambda: "was renewed" in caplog.text)
    assert "The new certificate cannot be stored: No space left" in caplog.text
    assert home.identity().chain.startswith("CHAIN ")
    assert home.settings().renewed == running.RENEW_AFTER * 9


def test_a_reader_of_the_state_on_windows_delays_its_writer_and_fails_nothing(
    home: AgentHome, monkeypatch: pytest.MonkeyPatch
) -> None:
    replace, refusals = os.replace, [0] * 3

    def while_it_is_read(old: str, new: Path) -> None:
        if refusals:
            refusals.pop()
            raise PermissionError(errno.EACCES, "Access is denied")
        replace(old, new)

    monkeypatch.setattr(os, "replace", while_it_is_read)
    monkeypatch.setattr(home_module, "IS_WINDOWS", True)
    home.write_state({"status": "connected"})
    assert home.state() == {"status": "connected"}
    refusals.extend([0] * 1000)
    monkeypatch.setattr(home_module, "REPLACE_SECONDS", 0.05)
    with pytest.raises(PermissionError):
        home.write_state({"status": "away"})
    assert home.state() == {"status": "connected"}
    assert not list(home.folder.glob(".state*")), "no draft is left"


def test_a_folder_that_is_missing_at_sign_in_keeps_no_agent_from_the_others(
    home: AgentHome, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "there").mkdir()
    home.write_settings(settings(tmp_path / "there", tmp_path / "usb"))
    with agent_of(home):
        eventually(lambda: f"The folder {tmp_path / 'usb'} is gone" in caplog.text)
        (tmp_path / "usb").mkdir()
        eventually(lambda: f"The folder {tmp_path / 'usb'} is back" in caplog.text)


def test_a_log_on_a_full_disk_costs_no_more_than_its_lines(
    home: AgentHome, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    home.log.symlink_to("/dev/full")
    # An agent has no other handlers. In a process of tests one may write to a file that was closed since, and say so.
    monkeypatch.setattr(logging.getLogger(), "handlers", [])
    journal.begin(home, on_terminal=False)
    [handler] = logging.getLogger().handlers
    journal.log.warning("this line is lost")
    with suppress(OSError):
        handler.close()
    assert capfd.readouterr().err == ""


# ---- lines about files that are under way


def test_a_line_says_how_far_a_file_is(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    caplog.set_level(logging.INFO, LOGGER)
    monkeypatch.setattr(journal, "PROGRESS_SECONDS", 0.0)
    lines = journal.ProgressLines()
    lines.tell(FileUnderWay(b"/a/large", True, 0, 100 * 10**9, 0.1))
    lines.tell(FileUnderWay(b"/a/large", True, 3 * 10**9, 100 * 10**9, 60.0))
    lines.tell(FileUnderWay(b"/b\n", False, 2 * 10**9, None, 100.0))
    assert [record.getMessage() for record in caplog.records] == [
        "/a/large: sending, 0 B of 100 GB",
        "/a/large: sending, 3 GB of 100 GB, 50 MB/s",
        "/b?: receiving, 2 GB so far, 20 MB/s",
    ]


def test_many_large_files_at_once_fill_no_log(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, LOGGER)
    lines = journal.ProgressLines()
    for number in range(1000):
        lines.tell(FileUnderWay(b"/%d" % number, True, 10**9, 10**10, 20.0))
    assert 1 <= len(caplog.records) < 100
