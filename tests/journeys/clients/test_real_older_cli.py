"""The `globus` command of earlier years, unmodified: sign in, list, transfer, renew the token, sign out."""

from __future__ import annotations

import json
import sqlite3
import subprocess
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.instance import Api
from tests.real_clients import FOLDER, OLDER_COMMANDS, Globus
from tests.real_programs import allow, is_good

pytestmark = pytest.mark.real_clients
TRANSFER = "transfer.api.globus.org"


def log_in(globus: Globus, service: Api) -> None:
    """`globus login --no-local-server`, with the code pasted back."""
    process = subprocess.Popen(
        [str(FOLDER / globus.program / "bin" / "globus"), "login", "--no-local-server"],
        env=globus.environment(), cwd=globus.home, text=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    try:
        assert process.stdout is not None
        address = next(word for line in process.stdout for word in line.split() if word.startswith("http"))
        told, _ = process.communicate(allow(address, service).inputs["code"] + "\n", timeout=90)
        assert process.returncode == 0, told
    finally:
        process.kill()
        process.wait()


def stored(globus: Globus) -> dict[str, dict[str, Any]]:
    with closing(sqlite3.connect(globus.home / ".globus" / "cli" / "storage.db")) as storage:
        rows = storage.execute("SELECT resource_server, token_data_json FROM token_storage").fetchall()
    return {server: json.loads(text) for server, text in rows}


def expire(globus: Globus) -> None:
    """The command believes that its token for transfers has expired."""
    data = stored(globus)[TRANSFER] | {"expires_at_seconds": 1}
    with closing(sqlite3.connect(globus.home / ".globus" / "cli" / "storage.db")) as storage, storage:
        storage.execute(
            "UPDATE token_storage SET token_data_json = ? WHERE resource_server = ?", [json.dumps(data), TRANSFER]
        )


@pytest.mark.parametrize("version", OLDER_COMMANDS)
def test_an_older_command_signs_in_transfers_renews_and_signs_out(service: Api, tmp_path: Path, version: str) -> None:
    globus = Globus(service.url, tmp_path, program=version)
    log_in(globus, service)
    assert globus("whoami").out.strip().partition("@")[0] == service.connection["username"].partition("@")[0]
    source, destination = service.connection["endpoints"]["go#ep1"], service.connection["endpoints"]["go#ep2"]
    assert "file1.txt" in globus("ls", f"{source}:/share/godata/").out.split()
    task = globus.json("transfer", f"{source}:/share/godata/file1.txt", f"{destination}:/~/{version}.txt")["task_id"]
    globus("task", "wait", task, "--timeout", "60", "--polling-interval", "1")
    assert globus.json("task", "show", task)["status"] == "SUCCEEDED"
    before = stored(globus)[TRANSFER]
    expire(globus)
    globus("task", "list", "--limit", "1")
    after = stored(globus)[TRANSFER]
    assert after["access_token"] != before["access_token"]
    assert after["refresh_token"] == before["refresh_token"]
    globus("logout", "--yes")
    assert not is_good(service, after["access_token"])
    assert "login" in globus("task", "list", status=4).err.lower()
