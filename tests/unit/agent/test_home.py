"""The folder of an agent, its lock, the folders that it serves, and what starts it at sign-in."""

from __future__ import annotations

import codecs
import os
import plistlib
import shlex
import shutil
import stat
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from xml.etree import ElementTree

import pytest

from endpoints.gridftp.agent import autostart, journal, program, roots
from endpoints.gridftp.agent.autostart import AutostartError
from endpoints.gridftp.agent.home import AgentHome, AgentHomeError, AgentSettings, Lock, default_folder
from endpoints.gridftp.agent.keys import AgentIdentity, AgentKey
from endpoints.gridftp.agent.roots import RootError
from endpoints.gridftp.agent.tunnel.service import ServiceAddress
from endpoints.gridftp.server import RootPart


@pytest.fixture
def home(tmp_path: Path) -> AgentHome:
    made = AgentHome(tmp_path / "config")
    made.make()
    return made


def settings() -> AgentSettings:
    parts = [RootPart("/data", "", True)]
    return AgentSettings(ServiceAddress("https://w.example.org", ("ab",)), "id", "alice#laptop", parts, 1.0)


def test_settings_and_identity_are_read_as_they_were_written(home: AgentHome) -> None:
    home.write_settings(settings())
    assert home.settings().document() == settings().document()
    identity = AgentIdentity(home.next_key(), "CHAIN")
    assert home.next_key() == identity.key, "a setup that is repeated uses the same key"
    home.keep(identity)
    assert home.identity() == identity
    assert home.next_key() != identity.key, "the next setup uses another one"
    assert {stat.S_IMODE(path.stat().st_mode) for path in home.folder.iterdir()} == {0o600}


@pytest.mark.parametrize("text", ["", "[]", "{", '{"service": 1}', "null"])
def test_damaged_settings_are_named(home: AgentHome, text: str) -> None:
    (home.folder / "agent.json").write_text(text)
    with pytest.raises(AgentHomeError, match="damaged"):
        home.settings()
    (home.folder / "state.json").write_text(text)
    assert home.state() in ({}, {"service": 1})


def test_a_damaged_key_is_named(home: AgentHome) -> None:
    home.keep(AgentIdentity(AgentKey.new(), "CHAIN"))
    (home.folder / "key.pem").write_text("x")
    with pytest.raises(AgentHomeError, match="cannot be read"):
        home.identity()


def test_a_full_disk_leaves_the_old_settings(home: AgentHome, monkeypatch: pytest.MonkeyPatch) -> None:
    home.write_settings(settings())

    def fail(number: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="No space"):
        home.write_settings(settings())
    assert [path.name for path in home.folder.iterdir()] == ["agent.json"]


def test_two_agents_cannot_run_and_a_killed_one_leaves_no_lock(home: AgentHome) -> None:
    script = (
        "import sys, time; from pathlib import Path; from endpoints.gridftp.agent.home import AgentHome, Lock;"
        f"lock = Lock(AgentHome(Path({str(home.folder)!r}))); print(lock.take(), flush=True); time.sleep(60)"
    )
    process = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    with process, process.stdout:
        assert process.stdout.readline() == "True\n"
        assert Lock(home).is_held()
        assert not Lock(home).take()
        process.kill()
    assert not Lock(home).is_held()


def test_an_agent_begins_while_others_ask_whether_one_runs(home: AgentHome) -> None:
    """`--status` in a loop, as scripts do that wait for it."""
    agent, looking = Lock(home), threading.Event()

    def look() -> None:
        while not looking.is_set():
            Lock(home).is_held()

    askers = [threading.Thread(target=look) for _ in range(2)]
    for asker in askers:
        asker.start()
    try:
        for _ in range(50):
            assert agent.take()
            assert Lock(home).is_held()
            agent.release()
    finally:
        looking.set()
        for asker in askers:
            asker.join()


def test_those_who_look_at_once_do_not_see_each_other(home: AgentHome) -> None:
    agent = Lock(home)
    assert agent.take()
    agent.release()
    with ThreadPoolExecutor(4) as pool:
        assert not any(pool.map(lambda _: Lock(home).is_held(), range(400)))


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


def test_a_read_only_folder_is_in_no_folder_that_may_be_changed(tmp_path: Path) -> None:
    """It could be changed by the name of that one."""
    inner = tmp_path / "all" / "measurements"
    (inner / "raw").mkdir(parents=True)
    (tmp_path / "link").symlink_to(inner)
    outer = str(tmp_path / "all")
    for read_only in (inner, inner / "raw", tmp_path / "link"):
        with pytest.raises(RootError, match=f"is inside {outer}, which may be changed"):
            roots.parts([outer], [str(read_only)])
    assert [part.writable for part in roots.parts([str(inner)], [outer])] == [True, False]
    assert len(roots.parts([outer, str(inner)])) == len(roots.parts([], [outer, str(inner)])) == 2


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


def test_systemd_accepts_the_unit(tmp_path: Path) -> None:
    """With the words quoted, too: the program is one that `systemd-analyze` finds."""
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is missing (Debian package systemd)")
    path = tmp_path / "waybill-connect-0123abcd.service"
    path.write_text(autostart.unit(["/bin/true", *WORDS[1:]]))
    environ = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "XDG_RUNTIME_DIR": str(tmp_path)}
    words = ["systemd-analyze", "--user", "verify", "--man=no", str(path)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False, env=environ)
    assert (done.returncode, [line for line in done.stderr.splitlines() if path.name in line]) == (0, []), done.stderr


def element(tree: ElementTree.Element, *names: str) -> str:
    found = tree.find("/".join(f"{{http://schemas.microsoft.com/windows/2004/02/mit/task}}{name}" for name in names))
    assert found is not None, names
    return found.text or ""


def test_a_task_of_windows_is_of_one_user_and_runs_on() -> None:
    program, folder = r"C:\Program Files\A & B\py.exe", "D:\\" + "long\\" * 60
    written = autostart.task([program, "p.pyz", "--config", folder + "<é>", "--run"], r"PC\Zoë & Co")
    assert written[:2] == codecs.BOM_UTF16_LE, "schtasks reads UTF-16"
    tree = ElementTree.fromstring(written)
    assert element(tree, "Actions", "Exec", "Command") == program
    assert element(tree, "Actions", "Exec", "Arguments") == f"p.pyz --config {folder}<é> --run"
    assert element(tree, "Triggers", "LogonTrigger", "UserId") == r"PC\Zoë & Co", "at the sign-in of nobody else"
    assert element(tree, "Principals", "Principal", "UserId") == r"PC\Zoë & Co"
    assert element(tree, "Principals", "Principal", "LogonType") == "InteractiveToken"
    assert element(tree, "Principals", "Principal", "RunLevel") == "LeastPrivilege"
    for name in ("DisallowStartIfOnBatteries", "StopIfGoingOnBatteries"):
        assert element(tree, "Settings", name) == "false"
    assert element(tree, "Settings", "ExecutionTimeLimit") == "PT0S", "without it three days"
    assert element(tree, "Settings", "RestartOnFailure", "Interval") == "PT1M"
    assert 1 <= int(element(tree, "Settings", "RestartOnFailure", "Count")) <= 255


@pytest.fixture
def system(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[list[str]]:
    """The commands to the programs of the system, which are not run; and a home of the user."""
    done: list[list[str]] = []

    def keep(*words: str) -> None:
        done.append([*words, *(Path(word).read_text("utf-16") for word in words if word.endswith("task.xml"))])

    monkeypatch.setattr(autostart, "_do", keep)
    monkeypatch.setattr(shutil, "which", lambda name: f"/bin/{name}")
    for name, value in (("HOME", str(tmp_path)), ("USERDOMAIN", "PC"), ("USERNAME", "zoe"), ("LOCALAPPDATA", "")):
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    return done


def homes(tmp_path: Path) -> list[AgentHome]:
    """The one of the default folder, and two others."""
    made = [AgentHome(default_folder()), AgentHome(tmp_path / "second"), AgentHome(tmp_path / "third")]
    for home in made:
        home.make()
        home.program.touch()
    return made


@pytest.mark.parametrize(("platform", "suffix"), [("linux", "service"), ("darwin", "plist")])
def test_each_endpoint_of_a_computer_has_a_unit_of_its_own(
    system: list[list[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, platform: str, suffix: str
) -> None:
    monkeypatch.setattr(sys, "platform", platform)
    made = homes(tmp_path)
    for home in made:
        autostart.install(home)
    units = {path.name: path.read_text() for path in tmp_path.rglob(f"*.{suffix}")}
    assert len(units) == len(made)
    for home in made:
        [name] = [name for name, text in units.items() if f"{home.folder}" in text]
        assert any(name in word or name[: -len(suffix) - 1] in word for words in system for word in words)
    labels = {plistlib.loads(text.encode())["Label"] for text in units.values()} if platform == "darwin" else units
    assert len(labels) == len(made)

    assert autostart.remove(made[1])
    left = [path.read_text() for path in tmp_path.rglob(f"*.{suffix}")]
    assert len(left) == 2
    assert not any(f"{made[1].folder}" in text for text in left)
    assert not autostart.remove(made[1])
    assert autostart.remove(AgentHome(tmp_path / "third" / ".." / "third")), "the same folder by another path"


def test_an_endpoint_that_is_forgotten_starts_at_no_sign_in(
    system: list[list[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also a second one, whose settings --config names; the first one stays."""
    monkeypatch.setattr(sys, "platform", "linux")
    first, second, _ = homes(tmp_path)
    for home in (first, second):
        home.write_settings(settings())
        words = ["--config", str(home.folder)] if home is second else []
        assert program.main("1", [*words, "--install-service"]) == program.OK
    assert autostart.unit_path(first) != autostart.unit_path(second)
    assert program.main("1", ["--config", str(second.folder), "--uninstall"]) == program.OK
    assert not autostart.unit_path(second).exists()
    assert not second.folder.exists()
    assert autostart.unit_path(first).exists()
    assert first.exists


def test_each_endpoint_of_a_windows_computer_has_a_task_of_its_own(
    system: list[list[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "platform", "win32")
    made = homes(tmp_path)
    for home in made:
        autostart.install(home)
    created = [words for words in system if words[1] == "/Create"]
    tasks = [words[words.index("/TN") + 1] for words in created]
    assert tasks[0] == autostart.TASK
    assert len(set(tasks)) == len(made)
    for home, words in zip(made, created, strict=True):
        assert f"--config {home.folder}" in words[-1]
        assert not (home.folder / "task.xml").exists()
    autostart.remove(made[1])
    assert system[-1] == ["schtasks", "/Delete", "/F", "/TN", tasks[1]]


def test_a_checkout_is_not_installed_as_a_service(home: AgentHome) -> None:
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
