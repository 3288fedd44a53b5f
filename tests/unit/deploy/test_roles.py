"""`waybill run`: what it refuses before it starts anything, and that compose files start the roles by it."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest
import yaml
from celery.bin.worker import worker as celery_worker

from deploy import cli
from deploy.commands import run as roles
from deploy.stack.roles import worker_words
from deploy.web import gunicorn_conf
from transferapi.config import CHECKOUT, load
from transferapi.config.values import host_and_port

NEEDED = ("DATABASE_URL", "REDIS_URL", "WAYBILL_SECRET_KEY")


@pytest.fixture
def environ(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> pytest.MonkeyPatch:
    """An environment with all that a role needs; nothing of it is there."""
    monkeypatch.setenv("WAYBILL_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("DATABASE_URL", "postgresql://waybill@127.0.0.1:1/waybill")
    monkeypatch.setenv("REDIS_URL", "redis://127.0.0.1:1/0")
    monkeypatch.setenv("WAYBILL_SECRET_KEY", "x" * 50)
    return monkeypatch


@pytest.mark.parametrize("role", roles.ROLES)
@pytest.mark.parametrize("name", NEEDED)
def test_a_missing_setting_ends_a_role_with_status_78_and_one_sentence(
    environ: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], role: str, name: str
) -> None:
    environ.delenv(name)
    assert cli.main(["run", role]) == 78
    assert capsys.readouterr().err == f"waybill: {name} must be set for `waybill run {role}`\n"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("WAYBILL_WEB_PROCESSES", "0"),
        ("WAYBILL_WEB_THREADS", "257"),
        ("WAYBILL_WORKER_THREADS", "many"),
        ("WAYBILL_WEB_HOST", "localhost"),
        ("WAYBILL_WEB_PEER", "web2"),
        ("WAYBILL_WEB_PEER", "http://web2:8000"),
        ("WAYBILL_WEB_PEER", "alice@web2:8000"),
    ],
)
def test_a_wrong_setting_ends_a_role_with_status_78_and_one_sentence(
    environ: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], name: str, value: str
) -> None:
    environ.setenv(name, value)
    with pytest.raises(SystemExit) as ended:
        cli.main(["run", "web"])
    assert ended.value.code == 78
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith(f"waybill: {name}: ")


def test_there_is_no_beat_to_run(environ: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main(["run", "beat"])
    assert ended.value.code == 2
    # Python 3.14 does not quote them.
    assert "web, worker, shell, relay, events, migrate" in capsys.readouterr().err.replace("'", "")


def test_the_web_server_listens_where_the_settings_say() -> None:
    assert gunicorn_conf.bind == [host_and_port(load({}).web_host, load({}).port)] == ["127.0.0.1:8000"]
    assert host_and_port(load({"WAYBILL_WEB_HOST": "::"}).web_host, 8000) == "[::]:8000"
    assert (gunicorn_conf.workers, gunicorn_conf.threads) == (2, 8)


def test_celery_knows_each_option_of_a_worker() -> None:
    words = worker_words(5)
    context = celery_worker.make_context("worker", words[words.index("worker") + 1 :], resilient_parsing=True)
    given = context.params
    assert (given["concurrency"], given["without_gossip"], given["without_mingle"]) == (5, True, True)
    assert given["without_heartbeat"] is True
    assert tuple(words[words.index("--pool") :][:2]) == ("--pool", "threads")


def test_the_compose_file_starts_each_role_by_the_command() -> None:
    services = yaml.safe_load((CHECKOUT / "docker-compose.yml").read_text())["services"]
    ours = {name: service["command"] for name, service in services.items() if service.get("image") == "waybill"}
    roles_by_name = {name: f"waybill run {name}" for name in roles.ROLES}
    assert ours == roles_by_name | {"web2": "waybill run web", "operator": "waybill --help"}


def test_the_parser_has_one_command_for_all_roles() -> None:
    arguments = cli.parser().parse_args(["run", "worker"])
    assert isinstance(arguments, argparse.Namespace)
    assert (arguments.run, arguments.role) == (roles.run_role, "worker")


def test_only_the_migrations_wait_and_not_for_ever(
    environ: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["run", "web", "--wait", "5"]) == 78
    assert capsys.readouterr().err == "waybill: --wait is for `waybill run migrate`, not for web\n"
    for seconds in ("-1", "86401", "nan", "long"):
        with pytest.raises(SystemExit) as ended:
            cli.main(["run", "migrate", f"--wait={seconds}"])
        assert ended.value.code == 2
        assert "0 to 86400 seconds" in capsys.readouterr().err
