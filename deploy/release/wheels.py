"""Names the pinned libraries that have no wheel for a Python or a processor that Waybill is for.

    python -m deploy.release.wheels [--index URL] [--strict] LOCK...

Without a wheel, `make up` needs a compiler, or fails. `make lock` and `make audit` run this. The files of each library
come from the package index (PEP 691); a file counts where the lock file has its hash. Exit status: 0 none is missing,
1 at least one, 2 with --strict where the index does not answer.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from packaging.markers import Marker
from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.tags import Tag, compatible_tags, cpython_tags
from packaging.utils import InvalidWheelFilename, parse_wheel_filename

from .bill import Locked, read_lock
from .errors import ReleaseError
from .libraries import WHEELS
from .package_index import WIDTH, Index, NotReachableError, configured_index

#: The minor versions of Python 3 that deploy/venv.sh takes.
PYTHONS = (11, 12, 13, 14)
PROCESSORS = ("x86_64", "aarch64")


@dataclass(frozen=True)
class PythonTarget:
    """A Python of a Linux with the C library of Debian 12. minor: of Python 3."""

    minor: int
    processor: str

    def __str__(self) -> str:
        return f"Python 3.{self.minor} on {self.processor}"

    @cached_property
    def tags(self) -> frozenset[Tag]:
        platforms = [f"manylinux{version}_{self.processor}" for version in WHEELS]
        name, version = f"cp3{self.minor}", (3, self.minor)
        own = cpython_tags(version, [name], platforms)
        return frozenset((*own, *compatible_tags(version, name, platforms)))

    def wants(self, library: Locked) -> bool:
        """Whether the lock file has the library for this target."""
        return not library.marker or Marker(library.marker).evaluate(
            {
                "python_version": f"3.{self.minor}",
                "python_full_version": f"3.{self.minor}.0",
                "platform_machine": self.processor,
                "platform_system": "Linux",
                "sys_platform": "linux",
                "os_name": "posix",
                "implementation_name": "cpython",
                "platform_python_implementation": "CPython",
            }
        )

    def takes(self, file: dict[str, Any]) -> bool:
        """Whether an installer takes this file of the index here."""
        try:
            *_, tags = parse_wheel_filename(str(file.get("filename")))
            pythons = SpecifierSet(str(file.get("requires-python") or ""))
        except (InvalidWheelFilename, InvalidSpecifier):
            return False
        return bool(tags & self.tags) and pythons.contains(f"3.{self.minor}.0")


TARGETS = tuple(PythonTarget(minor, processor) for processor in PROCESSORS for minor in PYTHONS)


def missing(library: Locked, files: Iterable[dict[str, Any]]) -> list[PythonTarget]:
    """The targets for which none of these files is a wheel of the locked library."""
    locked = [file for file in files if _digest(file) in library.hashes]
    return [target for target in TARGETS if target.wants(library) and not any(map(target.takes, locked))]


def _digest(file: dict[str, Any]) -> str | None:
    hashes = file.get("hashes")
    digest = hashes.get("sha256") if isinstance(hashes, dict) else None
    return digest if isinstance(digest, str) else None


def look(index: Index, libraries: Sequence[Locked]) -> Iterator[tuple[Locked, list[PythonTarget]]]:
    """Raises NotReachableError for the first whose files cannot be had."""
    with ThreadPoolExecutor(WIDTH) as pool:
        try:
            files = pool.map(lambda library: index.files(library.name), libraries)
            for library, found in zip(libraries, files, strict=True):
                yield library, missing(library, found)
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m deploy.release.wheels", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("locks", nargs="+", type=Path, metavar="LOCK")
    parser.add_argument("--index", metavar="URL", help="the simple API of an index (default: pip's)")
    parser.add_argument("--strict", action="store_true", help="status 2 where the index does not answer")
    options = parser.parse_args(argv)
    try:
        pins = {(one.name, one.version): one for lock in options.locks for one in read_lock(lock.read_text())}
        bad = 0
        for library, targets in look(Index(options.index or configured_index()), list(pins.values())):
            if targets:
                bad += 1
                print(f"{library.name} {library.version}: no wheel for {', '.join(map(str, targets))}")
    except NotReachableError as error:
        sys.stderr.write(f"Nothing was checked: the package index's files are not reachable: {error}.\n")
        return 2 if options.strict else 0
    except (ReleaseError, OSError) as error:
        sys.stderr.write(f"Nothing was checked: {error}.\n")
        return 2
    print(f"{len(pins)} packages: {bad} without a wheel for some of {len(TARGETS)} systems.")
    return 1 if bad else 0


if __name__ == "__main__":
    raise SystemExit(main())
