"""The locked libraries and the wheel of a release, installed for the Python of Debian, whatever Python builds it."""

from __future__ import annotations

import platform
import re
import shutil
import sys
from pathlib import Path

from packaging.markers import Marker

from transferapi.version import DISTRIBUTION

from . import engines
from .bill import read_lock
from .errors import ReleaseError
from .source import SourceCopy, run

#: The release of Debian, and its Python.
SUITE, PYTHON, FULL_PYTHON = "bookworm", "3.11", "3.11.2"
#: The versions of the C library (PEP 600) whose wheels run there: Debian 12 has 2.36.
WHEELS = ("2014", *(f"_2_{minor}" for minor in range(17, 37)))
LOCK = "requirements.lock"
#: The command `waybill`, by the folder of the libraries and the Python.
COMMAND = """#!/bin/sh
PYTHONPATH={folder} exec {python} -P -m deploy.entry "$@"
"""


def install(source: SourceCopy, wheel: Path, folder: Path) -> None:
    """Install all into the new folder. Raises ReleaseError."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    lock = folder.with_name("requirements.txt")
    lock.write_text(wanted((source.folder / "requirements.lock").read_text()))
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-input"]
    pip += ["--no-compile", "--no-deps", "--only-binary=:all:", "--python-version", PYTHON, "--target", str(folder)]
    pip += [f"--platform=manylinux{version}_{platform.machine()}" for version in WHEELS]
    run([*pip, "--require-hashes", "-r", lock], folder.parent, source.environ)
    run([*pip, wheel.resolve()], folder.parent, source.environ)
    # Beside the code, where `waybill doctor` compares it with what is installed.
    lock.rename(folder / LOCK)
    # The scripts of libraries name the Python that installed them.
    shutil.rmtree(folder / "bin", ignore_errors=True)
    _forget_place(folder)


def wanted(lock: str) -> str:
    """The libraries of a lock file that this Python and a release need.

    pip decides the first for the Python by which it runs itself.
    """
    target = {"python_version": PYTHON, "python_full_version": FULL_PYTHON, "sys_platform": "linux", "os_name": "posix"}
    rows = []
    for one in read_lock(engines.released(lock)):
        if not one.marker or Marker(one.marker).evaluate(target):
            rows.append(" ".join((f"{one.name}=={one.version}", *(f"--hash=sha256:{digest}" for digest in one.hashes))))
    return "\n".join(rows) + "\n"


def _forget_place(folder: Path) -> None:
    """Remove the records of the folder from which our wheel was installed, which is another one each time."""
    places = list(folder.glob(f"{DISTRIBUTION.replace('-', '_')}-*.dist-info/direct_url.json"))
    if len(places) != 1:
        raise ReleaseError("pip did not install the wheel as expected")
    [place] = places
    place.unlink()
    record = place.with_name("RECORD")
    record.write_text(re.sub(r"^[^\n]*direct_url\.json,[^\n]*\n", "", record.read_text(), flags=re.MULTILINE))
