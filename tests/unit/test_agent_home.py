"""The folder of an agent, its lock, the folders that it serves, and what starts it at sign-in."""

from __future__ import annotations

import os
import plistlib
import shlex
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from endpoints.gridftp.agent import autostart, journal, roots
from endpoints.gridftp.agent.autostart import AutostartError
from endpoints.gridftp.agent.home import Home, HomeError, Lock, Settings
from endpoints.gridftp.agent.keys import AgentIdentity, AgentKey
from endpoints.gridftp.agent.roots import RootError
from endpoints.gridftp.agent.tunnel.service import ServiceAddress
from endpoints.gridftp.server import RootPart


@pytest.fixture
def home(tmp_path: Path) -> Home:
    made = Home(tmp_path / "config")
    made.make()
    return made


def settings() -> Settings:
    parts = [RootPart("/data", "", True)]
    return Settings(ServiceAddress("https://w.example.org", ("ab",)), "id", "alice#laptop", parts, 1.0)


def test_settings_and_identity_are_read_as_they_were_written(home: Home) -> None:
    home.write_settings(settings())
    assert home.settings().document() == settings().document()
    identity = AgentIdentity(home.next_key(), "CHAIN")
    assert home.next_key() == identity.key, "a setup that is repeated uses the same key"
    home.keep(identity)
    assert home.identity() == identity
    assert home.next_key() != identity.key, "the next setup uses another one"
    assert {stat.S_IMODE(path.stat().st_mode) for path in home.folder.iterdir()} == {0o600}


@pytest.mark.parametrize("text", ["", "[]", "{", '{"service": 1}', "null"])
def test_damaged_settings_are_named(home: Home, text: str) -> None:
    (home.folder / "agent.json").write_text(text)
    with pytest.raises(HomeError, match="damaged"):
        home.settings()
    (home.folder / "state.json").write_text(text)
    assert home.state() in ({}, {"service": 1})


def test_a_damaged_key_is_named(home: Home) -> None:
    home.keep(AgentIdentity(AgentKey.new(), "CHAIN"))
    (home.folder / "key.pem").write_text("x")
    with pytest.raises(HomeError, match="cannot be read"):
        home.identity()


def test_a_full_disk_leaves_the_old_settings(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    home.write_settings(settings())

    def fail(number: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="No space"):
        home.write_settings(settings())
    assert [path.name for path in home.folder.iterdir()] == ["agent.json"]


def test_two_agents_cannot_run_and_a_killed_one_leaves_no_lock(home: Home) -> None:
    script = (
        "import sys, time; from pathlib import Path; from endpoints.gridftp.agent.home import Home, Lock;"
        f"lock = Lock(Home(Path({str(home.folder)!r}))); print(lock.take(), flush=True); time.sleep(60)"
    )
    process = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    with process, process.stdout:
        assert process.stdout.readline() == "True\n"
        assert Lock(home).is_held()
        assert not Lock(home).take()
        process.kill()
    assert not Lock(home).is_held()


# ---- folders


def test_one_folder_is_the_whole_and_several_have_names(tmp_path: Path) -> None:
    for name in ("a/data", "b/data", "c"):
        (tmp_path / name).mkdir(parents=True)
    assert roots.parts([f"{tmp_path}/c"]) == [RootPart(f"{tmp_path}/c", "", True)]
    found = roots.parts([f"{tmp_path}/a/data", f"{tmp_path}/c"], [f"{tmp_path}/b/data"])
    assert [(part.name, part.writable) for part in found] == [("data", True), ("c", True), ("data-2", False)]
    assert roots.shown(found)[2] == f"{tmp_path}/b/data as /data-2 (read only)"


def test_what_cannot_be_served_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "folder")
    for folders in (["/nowhere"], [str(tmp_path / "file")], [str(tmp_path / "folder"), str(tmp_path / "link")]):
        with pytest.raises(RootError):
            roots.parts(folders)


# ---- start at sign-in

WORDS = ["/usr/bin/python3", '/home/a b/"x" 100%/$HOME/p.pyz', "--run"]


def test_a_unit_of_systemd_quotes_every_path() -> None:
    [line] = [one for one in autostart.unit(WORDS).splitlines() if one.startswith("ExecStart=")]
    written = [word.replace("$$", "$").replace("%%", "%") for word in shlex.split(line.partition("=")[2])]
    assert written == WORDS
    assert "RestartPreventExitStatus=78" in autostart.unit(WORDS)


def test_a_plist_of_launchd_has_the_words() -> None:
    read = plistlib.loads(autostart.plist(WORDS, "/log"))
    assert (read["ProgramArguments"], read["RunAtLoad"]) == (WORDS, True)


def test_a_task_of_windows_is_one_quoted_command() -> None:
    words = autostart.task([r"C:\Program Files\py.exe", "--run"])
    assert words[0] == "schtasks"
    assert words[-1] == r'"C:\Program Files\py.exe" --run'


def test_a_checkout_is_not_installed_as_a_service(home: Home) -> None:
    with pytest.raises(AutostartError, match="one-file program"):
        autostart.command(home)


# ---- lines for people


@pytest.mark.parametrize(
    ("octets", "words"), [(0, "0 B"), (999, "999 B"), (1000, "1 KB"), (1536000, "1.54 MB"), (10**15, "1e+03 TB")]
)
def test_sizes_are_in_units(octets: int, words: str) -> None:
    assert journal.in_units(octets) == words


def test_a_hostile_name_is_one_line_without_escapes() -> None:
    shown = journal.printable("a\x1b[2J\r\n" + "x" * 5000)
    assert shown.isprintable()
    assert len(shown) < 210
