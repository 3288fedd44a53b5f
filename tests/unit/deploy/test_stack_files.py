"""The small files of the stack: logs that do not grow for ever, locks, sockets with short names."""

from __future__ import annotations

import json
import os
import pwd
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from deploy.stack.account import go_on_as, owner_of, take_over
from deploy.stack.child import LOG_LIMIT, open_log, trim_log
from deploy.stack.embedded import embedded_environment
from deploy.stack.errors import StackError, StartError
from deploy.stack.home import Home, write_private
from deploy.stack.places import SOCKET_PATH_LIMIT, account_reaches, private_folder, socket_folder
from deploy.stack.postgres import Postgres
from deploy.stack.programs import Instance
from endpoints.addresses.openings import parse_openings
from transferapi.config import load
from transferapi.config import mail as mail_settings


def test_a_large_log_begins_anew_under_its_writer(tmp_path: Path) -> None:
    log = tmp_path / "web.log"
    with open_log(log) as writer:
        os.truncate(log, LOG_LIMIT + 1)
        trim_log(log)
        writer.write(b"next line\n")
    assert log.read_bytes() == b"next line\n"
    assert (tmp_path / "web.log.1").stat().st_size == LOG_LIMIT + 1
    assert all(stat.S_IMODE(path.stat().st_mode) == 0o600 for path in tmp_path.iterdir())


def test_a_small_log_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "web.log").write_text("a line\n")
    trim_log(tmp_path / "web.log")
    trim_log(tmp_path / "missing.log")
    assert [path.name for path in tmp_path.iterdir()] == ["web.log"]


@pytest.mark.parametrize("length", [10, 60, 90, 150, 300])
def test_a_socket_has_a_name_that_the_kernel_takes_however_long_the_home_is(length: int) -> None:
    home = Path("/" + "/".join(["h" * 9] * (length // 10)))
    assert len(os.fsencode(Postgres(home).socket)) <= SOCKET_PATH_LIMIT


def test_two_homes_with_long_names_have_sockets_of_their_own() -> None:
    long = "/" + "h" * 120
    assert socket_folder(Path(long + "1")) != socket_folder(Path(long + "2"))


def test_a_private_folder_is_made_private_again(tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir(mode=0o755)
    assert stat.S_IMODE(private_folder(tmp_path / "logs").stat().st_mode) == 0o700


def test_a_link_is_not_taken_for_a_private_folder(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    with pytest.raises(StackError, match="is not a folder"):
        private_folder(tmp_path / "link")


def test_another_account_is_stopped_by_a_closed_folder(tmp_path: Path) -> None:
    nobody = pwd.getpwnam("nobody")
    closed = tmp_path / "closed" / "inside"
    closed.mkdir(parents=True)
    (tmp_path / "closed").chmod(0o700)
    assert not account_reaches(nobody, closed)
    assert account_reaches(nobody, Path("/usr/bin"))


def test_the_second_supervisor_of_a_home_is_refused(tmp_path: Path) -> None:
    home = Home(tmp_path)
    assert home.supervisor() is None
    home.acquire()
    assert home.supervisor() == os.getpid()
    with pytest.raises(StackError, match=f"is up already .supervisor {os.getpid()}"):
        Home(tmp_path).acquire()


def test_a_pid_file_that_was_left_over_is_nobodys(tmp_path: Path) -> None:
    words = f"from pathlib import Path; from deploy.stack.home import Home; Home(Path({str(tmp_path)!r})).acquire()"
    subprocess.run([sys.executable, "-c", words], check=True, timeout=60)
    assert (tmp_path / "supervisor.pid").read_text().strip().isdigit()
    assert Home(tmp_path).supervisor() is None
    assert Home(tmp_path).stop_supervisor() is False


def test_a_damaged_document_is_as_good_as_none(tmp_path: Path) -> None:
    home = Home(tmp_path)
    (tmp_path / "prepared.json").write_text('{"endpoints": ')
    assert home.read_json(home.prepared) == {}
    home.write_json(home.prepared, {"a": 1})
    assert home.read_json(home.prepared) == {"a": 1}


def test_a_private_file_is_private_from_its_first_byte(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        write_private(tmp_path / "token", "secret")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "token").stat().st_mode) == 0o600


def test_a_start_error_shows_the_end_of_the_log(tmp_path: Path) -> None:
    log = tmp_path / "web.log"
    log.write_text("".join(f"line {number}\n" for number in range(5000)))
    message = str(StartError("web", "ended with exit status 1", log))
    assert "line 4999" in message
    assert "line 4000" not in message


def test_mails_that_no_server_takes_lie_in_a_closed_folder_of_the_home(tmp_path: Path) -> None:
    home = Home(tmp_path / "a home")
    before = os.umask(0)
    try:
        home.make()
    finally:
        os.umask(before)
    assert home.mails.stat().st_mode & 0o777 == 0o700
    settings = mail_settings.parse(embedded_environment(home.path)["WAYBILL_MAIL"])
    assert settings["EMAIL_FILE_PATH"] == str(home.mails)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_a_home_is_given_away_without_what_it_shares_with_the_rest_of_the_machine(tmp_path: Path) -> None:
    nobody, outside, home = pwd.getpwnam("nobody"), tmp_path / "outside", Home(tmp_path / "home")
    outside.write_text("a secret of root's")
    (tmp_path / "disk").mkdir()
    home.path.symlink_to(tmp_path / "disk")
    home.make()
    (home.path / "link").symlink_to(outside)
    (home.path / "name").hardlink_to(outside)
    with pytest.raises(StackError, match="name has another name elsewhere"):
        take_over(home, nobody)
    assert home.path.stat().st_uid == outside.stat().st_uid == 0
    (home.path / "name").unlink()
    take_over(Home(home.path), nobody)
    assert {path.lstat().st_uid for path in (tmp_path / "disk", *home.path.rglob("*"))} == {nobody.pw_uid}
    assert outside.stat().st_uid == 0


@pytest.mark.skipif(os.geteuid() != 0, reason="only root goes on as another account")
def test_roots_commands_go_on_as_the_owner_of_the_home(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    assert owner_of(home) is None
    home.make()
    assert owner_of(home) is None
    os.chown(home.path, pwd.getpwnam("nobody").pw_uid, -1)
    assert owner_of(home) == pwd.getpwnam("nobody")
    os.chown(home.path, 4_000_000, -1)
    with pytest.raises(StackError, match="no account of this machine"):
        owner_of(home)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root goes on as another account")
def test_a_person_gets_no_right_to_files_from_root(tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    home = Home(closed / "home")
    home.make()
    with pytest.raises(StackError, match=r"belongs to nobody, who cannot reach .*: start as that account"):
        go_on_as(pwd.getpwnam("nobody"), home, 8000)


@pytest.mark.parametrize(("given", "more"), [("", ""), ("10.1.0.0/16:2811", "10.1.0.0/16:2811")])
def test_users_may_connect_to_the_sample_servers_and_to_what_the_operator_opens(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: str, more: str
) -> None:
    monkeypatch.setenv("WAYBILL_ALLOW_TARGETS", given)
    instance = Instance(Home(tmp_path), load({}), {"ep1": 5061, "ep2": 5062}, 5063, 5064, None, None)
    openings = parse_openings(instance.environment()["WAYBILL_ALLOW_TARGETS"])
    assert openings == parse_openings(f"127.0.0.1:5061,127.0.0.1:5062,{more}")


def test_all_programs_of_a_home_know_the_port_of_its_relay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WAYBILL_RELAY", raising=False)
    home = Home(tmp_path)
    assert "WAYBILL_RELAY" not in embedded_environment(tmp_path)
    instance = Instance(home, load({}), {"ep1": 5061}, 5063, 5064, None, None)
    assert instance.environment()["WAYBILL_RELAY"] == "127.0.0.1:5064"
    home.prepared.write_text(json.dumps({"ports": {"ep1": 5061, "ssh": 5063, "relay": 5064}}))
    assert embedded_environment(tmp_path)["WAYBILL_RELAY"] == "127.0.0.1:5064"
