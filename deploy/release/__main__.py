"""`make release`: builds sdist, wheel, agent, chart, image, Debian package and SBOM of a commit, with their hashes.

    python -m deploy.release [--out FOLDER] [--commit COMMIT] [--part PART]... [--sign KEY] [--twice]

Uncommitted changes are not in it. With --twice everything is built two times, and has to be the same.
docs/operate/release.md has the steps of a release. Exit status: 0 built, 1 failed.
"""

from __future__ import annotations

import argparse
import filecmp
import shutil
import sys
import tempfile
from pathlib import Path

from transferapi.config import CHECKOUT

from . import bill, chart, debian, image, packages
from .errors import ReleaseError
from .source import SourceCopy, copy_commit, run
from .sums import sign, write_sums

PARTS = ("packages", "agent", "chart", "bill", "image", "debian")


def main(argv: list[str] | None = None) -> int:
    """Returns the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m deploy.release", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=CHECKOUT / "dist", help="the folder, made anew (dist)")
    parser.add_argument("--commit", default="HEAD", help="what is released (HEAD)")
    parser.add_argument("--part", action="append", choices=PARTS, help="only this part; may be given several times")
    parser.add_argument("--mirror", default="", help="the address of Debian's packages (this machine's)")
    parser.add_argument("--sign", type=Path, metavar="KEY", help="sign the hashes with this ssh key")
    parser.add_argument("--twice", action="store_true", help="build two times, and compare")
    given = parser.parse_args(argv)
    try:
        files = release(given.commit, given.out, given.part or PARTS, given.mirror)
        if given.twice:
            with tempfile.TemporaryDirectory(prefix="waybill-release-") as again:
                compare(files, release(given.commit, Path(again, "again"), given.part or PARTS, given.mirror))
        sums = write_sums(files, given.out)
        if given.sign:
            sign(sums, given.sign)
    except (ReleaseError, OSError) as error:
        sys.stderr.write(f"release: {error}\n")
        return 1
    sys.stdout.write(sums.read_text())
    return 0


def release(commit: str, out: Path, parts: tuple[str, ...] | list[str], mirror: str = "") -> list[Path]:
    """Build the parts into the new folder and return the files. Raises ReleaseError and OSError."""
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    with tempfile.TemporaryDirectory(prefix="waybill-release-") as work:
        source = copy_commit(CHECKOUT, commit, Path(work, "source"))
        files: list[Path] = []
        if {"packages", "image", "debian"} & {*parts}:
            files += packages.build(source, out)
        if "agent" in parts:
            files.append(_agent(source, out))
        if "chart" in parts:
            files.append(chart.build(source, out))
        if "bill" in parts:
            files.append(bill.write(source, out))
        if "image" in parts:
            files.append(image.build(source, files[1], out, mirror))
        if "debian" in parts:
            files.append(debian.build(source, files[1], out))
    return files


def _agent(source: SourceCopy, out: Path) -> Path:
    path = out / f"waybill-connect-{source.version}.pyz"
    run([sys.executable, "-m", "deploy.release.agent", path.resolve()], source.folder, source.environ)
    return path


def compare(files: list[Path], others: list[Path]) -> None:
    """Raises ReleaseError with the names of files that differ."""
    pairs = zip(files, others, strict=True)
    if different := [one.name for one, other in pairs if not filecmp.cmp(one, other, shallow=False)]:
        raise ReleaseError(f"built twice, and not the same: {', '.join(different)}")


if __name__ == "__main__":
    sys.exit(main())
