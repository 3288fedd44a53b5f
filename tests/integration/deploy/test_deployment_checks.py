"""`manage.py check --deploy`: clean with the settings of `make up` and of docker-compose.yml, and else it says why."""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from deploy.stack.embedded import embedded_environment
from deploy.stack.home import Home
from tests.unit.deploy.test_compose import document, host_environment
from transferapi.config import CHECKOUT

WORDS = ["check", "--deploy", "--fail-level", "WARNING"]


def check(environ: dict[str, str]) -> tuple[int, str]:
    clean = {name: value for name, value in os.environ.items() if not name.startswith("WAYBILL_")}
    command = [sys.executable, "manage.py", *WORDS]
    done = subprocess.run(
        command, check=False, capture_output=True, text=True, env={**clean, **environ}, cwd=CHECKOUT, timeout=90
    )
    return done.returncode, done.stdout + done.stderr


@pytest.fixture(scope="module")
def secrets_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which deploy/compose-secrets.sh has run."""
    place = tmp_path_factory.mktemp("compose")
    (place / "deploy").mkdir()
    shutil.copy(CHECKOUT / "deploy" / "compose-secrets.sh", place / "deploy")
    subprocess.run(["sh", "deploy/compose-secrets.sh"], cwd=place, check=True, capture_output=True, timeout=60)
    return place


def test_it_is_clean_for_make_up(tmp_path: Path) -> None:
    Home(tmp_path / "home").make()
    status, text = check(embedded_environment(tmp_path / "home"))
    assert (status, "System check identified no issues" in text) == (0, True), text


@pytest.mark.parametrize("address", ["http://127.0.0.1:8000", "https://data.example.org"])
def test_it_is_clean_for_compose(address: str, secrets_folder: Path) -> None:
    environment = document(WAYBILL_PUBLIC_URL=address)["services"]["web"]["environment"]
    status, text = check(host_environment(environment, secrets_folder))
    assert status == 0, text


@pytest.mark.parametrize(
    ("address", "problem"),
    [("http://data.example.org", "security.W012"), ("https://data.example.org", "waybill.W001")],
)
def test_it_says_what_others_could_read_or_use_up(address: str, problem: str) -> None:
    environ = {"WAYBILL_SECRET_KEY": secrets.token_hex(32), "WAYBILL_PUBLIC_URL": address}
    status, text = check(environ)
    assert (status, problem in text) == (1, True)


@pytest.mark.parametrize(
    ("host", "front", "is_told"),
    [("0.0.0.0", "", True), ("::", "", True), ("0.0.0.0", "10.0.0.2/32", False), ("127.0.0.1", "", False)],
)
def test_it_says_that_an_open_port_of_the_web_server_needs_a_server_in_front(
    host: str, front: str, is_told: bool
) -> None:
    environ = {"WAYBILL_SECRET_KEY": secrets.token_hex(32), "WAYBILL_WEB_HOST": host, "WAYBILL_FRONT_SERVERS": front}
    _, text = check(environ)
    assert ("waybill.W002" in text) is is_told, text
