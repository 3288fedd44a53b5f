"""A backup of a service with a running task, and the restore: nothing starts before the operator releases it."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tempfile
import time
import urllib.error
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from deploy.stack.free_ports import free_port
from tests.instance import ALLOW_LOOPBACK, Api

pytestmark = pytest.mark.timeout(400)

#: It takes seconds to be moved and compared, whatever the machine.
LARGE = 3 << 29
#: Seconds in which a restored task began again before there were holds.
QUIET = 5.0


@pytest.fixture
def home(give_schema: Callable[[Path], object]) -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="waybill-") as folder:
        Path(folder).chmod(0o711)
        give_schema(Path(folder) / "home")
        yield Path(folder) / "home"


def environment(home: Path) -> dict[str, str]:
    return os.environ | ALLOW_LOOPBACK | {"WAYBILL_HOME": str(home), "WAYBILL_PORT": str(free_port())}


def waybill(home: Path, *words: str) -> str:
    command = [sys.executable, "-m", "deploy.cli", *words]
    done = subprocess.run(command, env=environment(home), capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done
    return done.stdout


@contextmanager
def up(home: Path) -> Iterator[Api]:
    log = home.parent / "log"
    with log.open("ab") as file:
        command = [sys.executable, "-m", "deploy.cli", "up"]
        process = subprocess.Popen(command, env=environment(home), stdout=file, stderr=subprocess.STDOUT)
    try:
        until = time.monotonic() + 200
        while process.poll() is None and not (home / "connection.json").exists():
            assert time.monotonic() < until, log.read_text()[-4000:]
            time.sleep(0.2)
        assert process.poll() is None, log.read_text()[-4000:]
        yield Api(home)
    finally:
        process.terminate()
        process.wait(90)


def digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def test_what_was_canceled_after_the_backup_waits_for_the_operator(home: Path) -> None:
    backups = home / "backups"
    with up(home) as api:
        source, arrived = home / "endpoints" / "ep1" / "large", home / "endpoints" / "ep2" / "large"
        with source.open("wb") as file:
            file.write(os.urandom(1 << 20))
            file.truncate(LARGE)
        os.chown(source, home.stat().st_uid, home.stat().st_gid)
        backups.mkdir()
        os.chown(backups, home.stat().st_uid, home.stat().st_gid)
        task = api.transfer("go#ep1", "/large", "go#ep2", "/large")
        until = time.monotonic() + 60
        while not api.call("GET", f"/task/{task}")["bytes_transferred"]:
            assert time.monotonic() < until, "it does not begin"
            time.sleep(0.05)
        # On a fast machine the task would end before the backup begins.
        api.call("POST", f"/task/{task}/pause")
        assert api.call("GET", f"/task/{task}")["status"] == "ACTIVE"
        waybill(home, "backup", str(backups / "one"))
        api.call("POST", f"/task/{task}/cancel")
        later = api.transfer("go#ep1", "/share/godata/file1.txt", "go#ep2", "/later.txt")
        assert api.wait(later, timeout=60)["status"] == "SUCCEEDED"
        assert api.wait(task, timeout=60)["status"] in ("FAILED", "SUCCEEDED")
    # A start of the task would write these again.
    for path in arrived.parent.glob("*large*"):
        path.unlink()
    said = waybill(home, "restore", str(backups / "one"), "--replace")
    assert "1 tasks and 0 timers are held" in said
    with up(home) as api:
        until = time.monotonic() + QUIET
        while time.monotonic() < until:
            seen = api.call("GET", f"/task/{task}")
            assert (seen["status"], seen["nice_status"]) == ("ACTIVE", "PAUSED_BY_OPERATOR")
            assert not list(arrived.parent.glob("*large*"))
            time.sleep(0.2)
        with pytest.raises(urllib.error.HTTPError):
            api.call("GET", f"/task/{later}")
        lines = waybill(home, "task", "release", "--all", "--dry-run").splitlines()
        assert [line.split()[0] for line in lines] == [task, "1"]
        waybill(home, "task", "release", task)
        api.call("POST", f"/task/{task}/resume")
        done = api.wait(task, timeout=120)
        assert done["status"] == "SUCCEEDED"
        assert (done["files"], done["files_transferred"], done["bytes_transferred"]) == (1, 1, LARGE)
        assert digest(arrived) == digest(source)
