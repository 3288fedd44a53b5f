"""The units of systemd: what they start, that all are confined in the same way, and what systemd says of them."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from deploy import cli
from deploy.commands import check, nightly_backup
from deploy.commands import run as roles
from deploy.stack.home import new_rsa_key
from deploy.stack.roles import STOP_SECONDS
from identity.vault.keys import new_key
from transferapi.config import CHECKOUT, KNOWN, SECRETS, load

FOLDER = CHECKOUT / "deploy" / "systemd"
PROGRAM = "/opt/waybill/bin/waybill"
UNITS = {
    "web": "waybill-web.service",
    "worker": "waybill-worker@.service",
    "shell": "waybill-shell.service",
    "relay": "waybill-relay.service",
    "events": "waybill-events.service",
    "migrate": "waybill-migrate.service",
}
#: Services of timers, and their timers.
TIMED = {"backup": "waybill-backup.service", "check": "waybill-check@.service"}
TIMERS = {name.replace(".service", ".timer") for name in TIMED.values()}
SERVICES = {**UNITS, **TIMED}
EXAMPLE = "waybill.env.example"
#: Of 100: what `systemd-analyze security` counts as exposed; a unit without any protection has 96.
MOST_EXPOSED = 20


def settings(role: str) -> dict[str, list[str]]:
    """All lines NAME=VALUE of the unit of a role."""
    found: dict[str, list[str]] = {}
    for line in (FOLDER / SERVICES[role]).read_text().splitlines():
        if matched := re.fullmatch(r"(\w+)=(.*)", line):
            found.setdefault(matched[1], []).append(matched[2])
    return found


def words_of(role: str) -> list[str]:
    """Of the program that the unit of a role starts, itself or by a shell."""
    [command] = settings(role)["ExecStart"]
    [words] = re.findall(rf"{PROGRAM} ([^;']*)", command)
    return str(words).split()


def test_each_role_has_a_unit_and_each_unit_starts_a_role() -> None:
    assert UNITS.keys() == roles.ROLES.keys()
    assert {path.name for path in FOLDER.iterdir()} == {*SERVICES.values(), *TIMERS, "waybill.target", EXAMPLE}
    for role in UNITS:
        arguments = cli.parser().parse_args(words_of(role))
        assert (arguments.run, arguments.role) == (roles.run_role, role)
        # Signals reach the program itself.
        assert role == "migrate" or settings(role)["ExecStart"][0].startswith(f"{PROGRAM} ")


def test_all_units_are_confined_in_the_same_way() -> None:
    """From the comment on, up to the next section."""
    parts = {(FOLDER / name).read_text().partition("# What the process may do")[2] for name in SERVICES.values()}
    [part] = {part.partition("[Install]")[0].strip() for part in parts}
    assert "SystemCallFilter=@system-service" in part
    assert all(settings(role)["User"] == ["waybill"] and "MemoryMax" in settings(role) for role in SERVICES)


def test_units_and_containers_wait_as_long_as_a_role_needs_to_stop() -> None:
    services = yaml.safe_load((CHECKOUT / "docker-compose.yml").read_text())["services"]
    for role, seconds in STOP_SECONDS.items():
        assert settings(role)["TimeoutStopSec"] == [str(seconds)], role
        assert services[role].get("stop_grace_period", "10s") == f"{seconds}s", role
        assert re.search(rf"`waybill run {role}`.*\| {seconds} s \|", (CHECKOUT / "docs/operate/roles.md").read_text())


def test_units_do_not_try_again_with_wrong_settings_and_migrate_first() -> None:
    for role in UNITS:
        assert settings(role)["RestartPreventExitStatus"] == [str(roles.EX_CONFIG)]
        assert settings(role).get("Requires") == (None if role == "migrate" else ["waybill-migrate.service"])


def test_the_migrations_wait_for_a_database_that_starts_late() -> None:
    """A failure would end the start of all units that require them, and no later try would start these."""
    wait = cli.parser().parse_args(words_of("migrate")).wait
    assert settings("migrate")["TimeoutStartSec"] == ["2h"]
    assert 1800 <= wait < 7200


@pytest.mark.parametrize(
    ("tries", "status"), [(["kill -9 $$", "exit 1", "exit 75", "exit 0"], 0), (["exit 78"], 78), (["exit 0"], 0)]
)
def test_the_units_that_wait_for_the_migrations_outlive_a_try_that_fails_or_is_killed(
    tmp_path: Path, tries: list[str], status: int
) -> None:
    """systemd gives them up with the first failure of the unit (systemd issue 1312), so all tries are one start."""
    program = tmp_path / "waybill"
    lines = [f"  {number}) {how};;" for number, how in enumerate(tries, 1)]
    count = tmp_path / "count"
    program.write_text("\n".join(["#!/bin/sh", f"echo x >> {count}", f"case $(wc -l < {count}) in", *lines, "esac"]))
    program.chmod(0o755)
    [line] = settings("migrate")["ExecStart"]
    # systemd.service(5): $$ is one $. The pauses are not what is tested.
    command = shlex.split(line.replace(PROGRAM, str(program)).replace("$$", "$").replace("sleep 5", "sleep 0"))
    done = subprocess.run(command, timeout=60, check=False, capture_output=True)
    assert done.returncode == status
    assert len(count.read_text().split()) == len(tries)
    assert settings("migrate")["OOMPolicy"] == ["continue"]


def test_each_role_that_stays_is_checked_while_it_runs() -> None:
    [command] = settings("check")["ExecStart"]
    for role in UNITS.keys() - {"migrate"}:
        [wanted] = settings(role)["Wants"]
        assert wanted == f"network-online.target waybill-check@{role}.timer"
        arguments = cli.parser().parse_args(command.replace("%i", role).split()[1:])
        assert (arguments.run, arguments.program) == (check.run_check, role)
    timer = (FOLDER / "waybill-check@.timer").read_text()
    assert "StopWhenUnneeded=yes\n" in timer
    assert "OnUnitInactiveSec=1min\n" in timer


def test_the_backup_of_a_night_is_where_the_page_says() -> None:
    [command] = settings("backup")["ExecStart"]
    arguments = cli.parser().parse_args(command.split()[1:])
    assert arguments.run is nightly_backup.run_nightly
    [folders] = settings("backup")["StateDirectory"]
    assert {str(arguments.folder), str(arguments.keys)} <= {f"/var/lib/{name}" for name in folders.split()}
    page = (CHECKOUT / "docs" / "operate" / "backup.md").read_text()
    assert f"`{arguments.folder}`" in page
    assert f"`{arguments.keys}`" in page
    assert f"{arguments.keep} backups" in page
    timer = (FOLDER / "waybill-backup.timer").read_text()
    assert "WantedBy=waybill.target\n" in timer, "or a start of the target after an upgrade leaves it out"


def test_units_set_known_variables_and_no_secret() -> None:
    for role in SERVICES:
        names = {one.partition("=")[0] for line in settings(role)["Environment"] for one in line.split()}
        assert names <= {*KNOWN, "PYTHONUNBUFFERED", "TMPDIR"}
        assert not names & {*SECRETS}


def test_the_example_of_settings_is_accepted(tmp_path: Path) -> None:
    """With files for its secrets; and each setting that it has as a comment is one."""
    found = dict(
        line.split("=", 1) for line in (FOLDER / EXAMPLE).read_text().splitlines() if re.match(r"#?[A-Z]", line)
    )
    given = {name: value for name, value in found.items() if not name.startswith("#")}
    files = {
        "redis-url": "redis://:x@127.0.0.1:6379/0",
        "secret-key": "x" * 64,
        "vault-key": new_key(),
        "oidc-key.pem": new_rsa_key(),
    }
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    config = load({name: value.replace("/etc/waybill", str(tmp_path)) for name, value in given.items()})
    assert None not in (config.database_url, config.redis_url, config.secret_key, config.vault_key, config.oidc_key)
    assert {name.lstrip("#").removesuffix("_FILE") for name in found} <= {*KNOWN}


def test_the_page_enables_units_that_exist_and_shows_each() -> None:
    page = (CHECKOUT / "docs" / "operate" / "install.md").read_text()
    [line] = re.findall("^systemctl enable (.*)$", page, re.MULTILINE)
    named = {re.sub("@.*", "@", name) for name in line.split()}
    assert named == {name.removesuffix(".service") for name in UNITS.values()} | {"waybill.target"}
    for role, unit in UNITS.items():
        assert re.search(rf"`{unit.replace('@.', '@N.')}` \| `waybill run {role}`", page), unit
        [most] = settings(role)["MemoryMax"]
        assert re.search(rf"`waybill run {role}`[^|]*\| {most[:-1]} GB", page), unit


def test_the_command_of_operators_has_the_settings_and_the_account_of_the_units() -> None:
    script = (CHECKOUT / "deploy" / "operator" / "waybill.sh").read_text()
    for line in settings("worker")["EnvironmentFile"]:
        assert line in script.replace('"$settings"', "/etc/waybill/waybill.env")
    for line in settings("worker")["Environment"]:
        assert all(word in script for word in line.split() if word.startswith(("WAYBILL_", "TMPDIR")))
    assert "--property=User=waybill" in script
    for name in ("LimitNOFILE", "LimitCORE", "TasksMax"):
        [value] = settings("worker")[name]
        assert f"--property={name}={value} " in script, "or `waybill doctor` judges limits that no role has"
    assert f"{PROGRAM} " in script


@pytest.fixture
def units(tmp_path: Path) -> list[str]:
    """The units with a program that is there: `systemd-analyze verify` looks for it."""
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is missing (Debian package systemd)")
    for path in FOLDER.iterdir():
        (tmp_path / path.name).write_text(path.read_text().replace(PROGRAM, "/bin/true"))
    return [str(tmp_path / path.name) for path in FOLDER.iterdir() if path.name != EXAMPLE]


def analyze(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["systemd-analyze", *words], capture_output=True, text=True, timeout=60, check=False, stdin=subprocess.DEVNULL
    )


def test_systemd_accepts_the_units(units: list[str]) -> None:
    done = analyze("verify", "--man=no", *units)
    ours = [line for line in done.stderr.splitlines() if "waybill" in line]
    assert (done.returncode, ours) == (0, []), done.stderr


def test_systemd_finds_a_mistake_in_a_unit(units: list[str]) -> None:
    """So that the test above says something."""
    [web] = [Path(name) for name in units if name.endswith("web.service")]
    web.write_text(web.read_text().replace("/bin/true", "/nonexistent/program"))
    assert "/nonexistent/program" in analyze("verify", "--man=no", str(web)).stderr


def test_little_of_the_machine_is_exposed_to_the_roles(units: list[str]) -> None:
    for name in units:
        if name.endswith(".service"):
            done = analyze("security", "--offline=true", f"--threshold={MOST_EXPOSED}", "--no-pager", name)
            assert done.returncode == 0, done.stdout[-300:] + done.stderr
