"""The Debian package of a commit, and a newer one of the same files under the next version."""

from __future__ import annotations

import re
import shutil
import sys
import tempfile
from pathlib import Path

from bench.install.system import run
from deploy.release import debian, libraries, packages
from deploy.release.source import copy_commit

CHECKOUT = Path(__file__).resolve().parents[2]


def next_version(version: str) -> str:
    """1.2.3 becomes 1.2.4."""
    before, _, last = version.rpartition(".")
    return f"{before}.{int(last) + 1}"


def build(base: Path, commit: str) -> tuple[Path, Path]:
    """Both packages, made once for each commit. Raises ReleaseError, MachineError and OSError."""
    full = run(["git", "-C", CHECKOUT, "rev-parse", "--verify", f"{commit}^{{commit}}"]).strip()
    folder = base / "releases" / full
    if not (folder / "complete").exists():
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        for newer in (False, True):
            _build(folder, full, newer=newer)
        (folder / "complete").touch()
    old, new = sorted(folder.glob("*.deb"), key=lambda path: [int(part) for part in re.findall(r"\d+", path.name)])
    return old, new


def _build(folder: Path, commit: str, *, newer: bool) -> None:
    with tempfile.TemporaryDirectory(prefix="waybill-release-") as work:
        source = copy_commit(CHECKOUT, commit, Path(work, "source"))
        if not newer:
            [_, wheel] = packages.build(source, Path(work))
            debian.build(source, wheel, folder)
            return
        [older] = folder.glob("*.deb")
        project = source.folder / "pyproject.toml"
        named = f'version = "{source.version}"'
        project.write_text(project.read_text().replace(named, f'version = "{next_version(source.version)}"', 1))
        [_, wheel] = packages.build(source, Path(work))
        # The libraries are the same: only our own files are installed anew.
        tree = Path(work, "tree")
        run(["dpkg-deb", "--extract", older, Path(work, "older")])
        shutil.copytree(Path(work, "older", debian.LIBRARIES), tree / debian.LIBRARIES, symlinks=True)
        [old_record] = (tree / debian.LIBRARIES).glob("waybill_transfer-*.dist-info")
        shutil.rmtree(old_record)
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-compile", "--upgrade"]
        run(
            [
                *pip,
                "--python-version",
                libraries.PYTHON,
                "--only-binary=:all:",
                "--target",
                tree / debian.LIBRARIES,
                wheel,
            ]
        )
        shutil.rmtree(tree / debian.LIBRARIES / "bin", ignore_errors=True)
        debian.pack(source, tree, folder)


def version_of(package: Path) -> str:
    """By its name: waybill_VERSION_ARCHITECTURE.deb."""
    return package.name.split("_")[1]
