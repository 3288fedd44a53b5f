"""The addresses of a home's embedded servers, for programs that did not start them."""

from __future__ import annotations

import os
from pathlib import Path
from urllib.parse import quote

from transferapi.config import load_or_exit
from transferapi.config.values import host_and_port

from .free_ports import HOST
from .home import RELAY, Home
from .postgres import Postgres
from .redis import Redis


def embedded_environment(home: Path) -> dict[str, str]:
    """The variables by which programs of this project find the embedded stack of this home."""
    files = Home(home)
    return {
        "WAYBILL_HOME": str(home),
        "DATABASE_URL": Postgres(home).url(),
        "REDIS_URL": Redis(home).url(),
        "WAYBILL_SECRET_KEY_FILE": str(files.secret_key),
        "WAYBILL_VAULT_KEY_FILE": str(files.vault_key),
        "WAYBILL_OIDC_KEY_FILE": str(files.oidc_key),
        **_relay(files),
        "WAYBILL_MAIL": f"file://{quote(str(files.mails))}",
    }


def _relay(files: Home) -> dict[str, str]:
    """The port that `make up` has chosen; nothing before its first start."""
    ports = files.read_json(files.prepared).get("ports")
    port = ports.get(RELAY) if isinstance(ports, dict) else None
    return {"WAYBILL_RELAY": host_and_port(HOST, port)} if isinstance(port, int) else {}


def use_embedded_stack() -> None:
    """Set the variables that the environment does not have."""
    home = load_or_exit().home
    for name, value in embedded_environment(home).items():
        given = name in os.environ or f"{name}_FILE" in os.environ or name.removesuffix("_FILE") in os.environ
        if not given and (not name.endswith("_FILE") or Path(value).exists()):
            os.environ[name] = value
