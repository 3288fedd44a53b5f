"""`manage.py check --deploy`: clean with the settings of `make up` and of docker-compose.yml, and else it says why."""

from __future__ import annotations

import os
import re
import secrets
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from deploy.stack.embedded import embedded_environment
from deploy.stack.home import Home
from identity.vault.keys import new_key
from transferapi.config import CHECKOUT

SECRETS = {name: secrets.token_hex(32) for name in ("POSTGRES_PASSWORD", "REDIS_PASSWORD", "WAYBILL_SECRET_KEY")}
SECRETS |= {"WAYBILL_VAULT_KEY": new_key(), "WAYBILL_FRONT_SECRET": secrets.token_hex(32)}
WORDS = ["check", "--deploy", "--fail-level", "WARNING"]


def check(environ: dict[str, str]) -> tuple[int, str]:
    clean = {name: value for name, value in os.environ.items() if not name.startswith("WAYBILL_")}
    command = [sys.executable, "manage.py", *WORDS]
    done = subprocess.run(
        command, check=False, capture_output=True, text=True, env={**clean, **environ}, cwd=CHECKOUT, timeout=90
    )
    return done.returncode, done.stdout + done.stderr


def of_compose(**env_file: str) -> dict[str, str]:
    """Return the environment of the service "web" as docker compose computes it from its file."""
    document = yaml.safe_load((CHECKOUT / "docker-compose.yml").read_text())
    given = {**SECRETS, **env_file}

    def value(found: re.Match[str]) -> str:
        return given.get(found[1]) or (found[3] if found[2] == ":-" else "")

    raw = {**document["x-waybill"]["environment"], **document["services"]["web"].get("environment", {})}
    return {name: re.sub(r"\$\{(\w+)(?:(:-|:\?)([^}]*))?\}", value, str(text)) for name, text in raw.items()}


def test_it_is_clean_for_make_up(tmp_path: Path) -> None:
    Home(tmp_path / "home").make()
    status, text = check(embedded_environment(tmp_path / "home"))
    assert (status, "System check identified no issues" in text) == (0, True), text


@pytest.mark.parametrize("address", ["http://127.0.0.1:8000", "https://data.example.org"])
def test_it_is_clean_for_compose(address: str) -> None:
    status, text = check(of_compose(WAYBILL_PUBLIC_URL=address))
    assert status == 0, text


@pytest.mark.parametrize(
    ("address", "problem"),
    [("http://data.example.org", "security.W012"), ("https://data.example.org", "waybill.W001")],
)
def test_it_says_what_others_could_read_or_use_up(address: str, problem: str) -> None:
    environ = {"WAYBILL_SECRET_KEY": SECRETS["WAYBILL_SECRET_KEY"], "WAYBILL_PUBLIC_URL": address}
    status, text = check(environ)
    assert (status, problem in text) == (1, True)
