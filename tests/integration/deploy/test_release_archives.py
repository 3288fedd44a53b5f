"""The archives of a release: built from a commit two times, the same, whole, and able to run."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from deploy.release.__main__ import compare, release
from deploy.release.archives import read_tar
from deploy.release.errors import ReleaseError
from transferapi.config import CHECKOUT

PARTS = ["packages", "agent", "bill"]
ROOMS = ("deploy/", "endpoints/", "identity/", "transferapi/", "webui/", "workers/")


@pytest.mark.nightly
def test_a_release_is_whole_runs_and_is_the_same_when_it_is_built_again(tmp_path: Path) -> None:
    files = release("HEAD", tmp_path / "one", PARTS)
    again = release("HEAD", tmp_path / "two", PARTS)
    compare(files, again)
    sdist, wheel, agent, _ = files
    tracked = subprocess.run(
        ["git", "ls-tree", "-r", "-z", "--name-only", "HEAD"], cwd=CHECKOUT, capture_output=True, text=True, check=True
    )
    names = tracked.stdout.split("\0")[:-1]
    with zipfile.ZipFile(wheel) as archive:
        packed = {name for name in archive.namelist() if ".dist-info/" not in name}
        archive.extractall(tmp_path / "installed")
    assert packed == {name for name in names if name.startswith(ROOMS)}
    inside = {member.name.partition("/")[2] for member, _ in read_tar(sdist)}
    assert set(names) <= inside, "the source distribution can be tested"
    assert len({(member.mtime, member.uid) for member, _ in read_tar(sdist)}) == 1

    environ = {"PYTHONPATH": str(tmp_path / "installed"), "PATH": os.environ["PATH"], "HOME": str(tmp_path)}
    for words in (["-P", "-m", "deploy.cli", "--help"], [str(agent), "--help"]):
        done = subprocess.run(
            [sys.executable, *words], env=environ, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=True
        )
        assert "usage: waybill" in done.stdout

    again[1].write_bytes(again[1].read_bytes() + b"x")
    with pytest.raises(ReleaseError, match=f"not the same: {wheel.name}"):
        compare(files, again)
