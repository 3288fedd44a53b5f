"""The Debian package of a release, around a library that stands for all: its files, its scripts, the same each time."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from deploy.release import debian
from deploy.release.errors import ReleaseError
from deploy.release.libraries import wanted
from deploy.release.source import SourceCopy
from transferapi.config import CHECKOUT

UNIT = "usr/lib/systemd/system/waybill-web.service"

pytestmark = pytest.mark.skipif(shutil.which("dpkg-deb") is None, reason="dpkg-deb is missing: no Debian")


@pytest.fixture
def source() -> SourceCopy:
    return SourceCopy(CHECKOUT, "f" * 40, 1_700_000_000)


def pack(source: SourceCopy, folder: Path) -> Path:
    library = folder / "tree" / debian.LIBRARIES / "library"
    (library / "bin").mkdir(parents=True)
    (library / "__init__.py").write_text("found = True\n")
    (library / "bin" / "program").write_text("#!/bin/sh\n")
    (library / "bin" / "program").chmod(0o700)
    return debian.pack(source, folder / "tree", folder)


def said(*words: str) -> str:
    return subprocess.run(words, capture_output=True, text=True, timeout=60, check=True).stdout


def test_the_package_is_whole_and_the_same_each_time(source: SourceCopy, tmp_path: Path) -> None:
    packages = []
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        packages.append(pack(source, tmp_path / name))
    assert packages[0].read_bytes() == packages[1].read_bytes()
    control = said("dpkg-deb", "--field", str(packages[0]))
    assert f"Version: {source.version}\n" in control
    assert "python3 (>= 3.11), python3 (<< 3.12)" in control
    rows = [line.split() for line in said("dpkg-deb", "--contents", str(packages[0])).splitlines()]
    assert {row[1] for row in rows} == {"root/root"}
    modes = {row[5].removeprefix("./"): row[0] for row in rows}
    assert modes[debian.PROGRAM] == modes[f"{debian.LIBRARIES}/library/bin/program"] == "-rwxr-xr-x"
    assert modes[debian.OPERATOR] == "-rwxr-xr-x"
    assert {f"{debian.SHARED}/front/nginx.conf.template", f"{debian.SHARED}/monitoring/alerts.yml"} <= modes.keys()
    assert modes[UNIT] == modes[debian.SETTINGS] == modes[f"{debian.LIBRARIES}/library/__init__.py"] == "-rw-r--r--"
    units = {name.removeprefix(f"{debian.UNITS}/") for name in modes if re.fullmatch(rf"{debian.UNITS}/.+", name)}
    assert units == {one.name for one in (CHECKOUT / "deploy" / "systemd").iterdir() if one.suffix != ".example"}


def test_the_units_start_the_program_of_the_package(source: SourceCopy, tmp_path: Path) -> None:
    said("dpkg-deb", "--extract", str(pack(source, tmp_path)), str(tmp_path / "there"))
    assert f"ExecStart=/{debian.PROGRAM} run web\n" in (tmp_path / "there" / UNIT).read_text()
    command = (tmp_path / "there" / debian.PROGRAM).read_text()
    assert command.splitlines()[0] == "#!/bin/sh"
    assert f"PYTHONPATH=/{debian.LIBRARIES} exec /usr/bin/python3 -P -m deploy.entry" in command


def test_its_scripts_are_scripts_and_start_nothing(source: SourceCopy, tmp_path: Path) -> None:
    said("dpkg-deb", "--control", str(pack(source, tmp_path)), str(tmp_path / "control"))
    for name in debian.SCRIPTS:
        said("sh", "-n", str(tmp_path / "control" / name))
        assert not re.search(
            r"systemctl (start|restart|enable)|--now waybill.*start", (tmp_path / "control" / name).read_text()
        )
    digests = (tmp_path / "control" / "md5sums").read_text()
    assert f"  {debian.PROGRAM}\n" in digests
    said("dpkg-deb", "--extract", str(tmp_path / next(tmp_path.glob("*.deb"))), str(tmp_path / "there"))
    subprocess.run(
        ["md5sum", "--check", "--quiet", "../control/md5sums"], cwd=tmp_path / "there", timeout=60, check=True
    )


def test_there_is_no_package_for_an_unknown_machine(
    source: SourceCopy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("platform.machine", lambda: "vax")
    with pytest.raises(ReleaseError, match="there are no packages for vax"):
        pack(source, tmp_path)


def test_the_libraries_are_those_of_the_python_of_debian_whichever_python_builds() -> None:
    """It is older than the Python of developers, and one library needs another one there."""
    names = {line.partition("==")[0] for line in wanted((CHECKOUT / "requirements.lock").read_text()).splitlines()}
    assert "async-timeout" in names
    assert {"django", "gunicorn", "cffi"} <= names
    marked = "a==1 ; python_full_version < '3.11.2' \\\n    --hash=sha256:" + "a" * 64 + "\n"
    assert wanted(marked) == "\n"
    assert wanted(marked.replace("<", ">=")) == "a==1 --hash=sha256:" + "a" * 64 + "\n"
