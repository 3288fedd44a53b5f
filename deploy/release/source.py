"""The files of a commit, and the programs that build from them."""

from __future__ import annotations

import os
import subprocess
import tarfile
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from .errors import ReleaseError

#: Seconds for one program.
COMMAND_TIMEOUT = 600.0
#: Characters of a failed program's output that the error shows.
SHOWN = 2000


@dataclass(frozen=True, slots=True)
class SourceCopy:
    """A clean copy of a commit: no file that git does not know.

    Attributes:
        folder: the copy.
        commit: the full hash.
        moment: the commit's time in seconds since 1970, which all archives of the release carry (SOURCE_DATE_EPOCH,
            https://reproducible-builds.org/specs/source-date-epoch/).
    """

    folder: Path
    commit: str
    moment: int

    @property
    def version(self) -> str:
        """That of pyproject.toml."""
        return str(tomllib.loads((self.folder / "pyproject.toml").read_text())["project"]["version"])

    @property
    def environ(self) -> dict[str, str]:
        """The environment of programs whose output must not depend on the machine."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "LC_"))}
        return kept | {"SOURCE_DATE_EPOCH": str(self.moment), "LANG": "C.UTF-8", "TZ": "UTC", "PYTHONHASHSEED": "0"}


def copy_commit(checkout: Path, commit: str, folder: Path) -> SourceCopy:
    """Write the files of the commit into the new folder. Raises ReleaseError."""
    full = run(["git", "rev-parse", "--verify", "--end-of-options", f"{commit}^{{commit}}"], checkout).strip()
    moment = int(run(["git", "show", "--no-patch", "--format=%ct", full], checkout))
    archive = folder.with_suffix(".tar")
    run(["git", "archive", "--format=tar", f"--output={archive}", full], checkout)
    folder.mkdir()
    with tarfile.open(archive) as tar:
        # PEP 706, where this Python has it: Debian 12 has 3.11.2, which has none.
        tar.extraction_filter = getattr(tarfile, "tar_filter", None)
        tar.extractall(folder)  # noqa: S202 - git has written it
    archive.unlink()
    return SourceCopy(folder, full, moment)


def run(words: Sequence[str | Path], folder: Path, environ: Mapping[str, str] | None = None) -> str:
    """Run a program to its end and return its standard output. Raises ReleaseError with the end of what it wrote."""
    try:
        done = subprocess.run(
            words,
            cwd=folder,
            env=environ,
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            timeout=COMMAND_TIMEOUT,
        )
    except OSError as error:
        # A folder of the PATH that may not be read makes it "Permission denied" for a program that is nowhere.
        raise ReleaseError(f"{words[0]} cannot be run: {error.strerror}") from None
    except subprocess.TimeoutExpired:
        raise ReleaseError(f"{words[0]} did not end within {COMMAND_TIMEOUT:.0f} s") from None
    if done.returncode:
        raise ReleaseError(f"{words[0]} failed:\n{(done.stdout + done.stderr)[-SHOWN:]}")
    return done.stdout
