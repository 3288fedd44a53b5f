"""The file of a backup: a tar archive with the dump of the database, and a manifest with the SHA-256 of each part.

It is written in one pass under a temporary name (`.NAME.*.part`), mode 0600, and gets its name when it is complete. The
manifest comes last: an archive that was cut has none.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import tarfile
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from deploy.stack.errors import StackError

FORMAT = "waybill backup 1"
DUMP, SETTINGS, MANIFEST = "database.dump", "settings.json", "manifest.json"
#: Octets of a part other than the dump, octets of a tar block, and octets that are read at once.
MOST_SMALL, BLOCK, CHUNK = 4 << 20, tarfile.BLOCKSIZE, 1 << 20

#: Calls its argument with each piece of the dump.
Dumper = Callable[[Callable[[bytes], object]], object]


@dataclass(frozen=True, slots=True)
class Backup:
    """A verified backup, open. offset, size: the place of the dump in the file, in octets."""

    file: BinaryIO
    manifest: dict[str, Any]
    offset: int
    size: int

    @property
    def digest(self) -> str:
        """The SHA-256 of the dump, in hexadecimal."""
        return str(self.manifest["parts"][DUMP]["sha256"])

    def pieces(self) -> Iterator[bytes]:
        """The dump. Raises StackError where the file has become shorter."""
        self.file.seek(self.offset)
        left = self.size
        while left:
            piece = self.file.read(min(CHUNK, left))
            if not piece:
                raise StackError("the file was cut while it was read")
            left -= len(piece)
            yield piece


def digest_of(manifest: Mapping[str, Any]) -> str:
    """The SHA-256 of a manifest, in hexadecimal, and so of the whole backup."""
    return hashlib.sha256(json.dumps(manifest, sort_keys=True).encode()).hexdigest()


def write(path: Path, facts: dict[str, object], settings: dict[str, str], dump: Dumper) -> dict[str, Any]:
    """Write a backup with these facts in its manifest, and return the manifest. Raises StackError, OSError."""
    with new_file(path) as file:
        parts = {DUMP: _write_dump(file, dump)}
        parts[SETTINGS] = _write_small(file, SETTINGS, settings)
        manifest = {"format": FORMAT, **facts, "parts": parts}
        _write_small(file, MANIFEST, manifest)
        file.write(bytes(2 * BLOCK))
    return manifest


@contextmanager
def new_file(path: Path) -> Iterator[BinaryIO]:
    """A private file that gets its name at the end of the block, once its octets are on the disk.

    Raises StackError where there is a file of that name, before the block and after it.
    """
    if path.is_symlink() or path.exists():
        raise StackError(f"{path} exists: it is not overwritten")
    descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".part", dir=path.parent)
    try:
        with os.fdopen(descriptor, "w+b") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        _give_name(Path(name), path)
    finally:
        with suppress(FileNotFoundError):
            os.unlink(name)


def _give_name(temporary: Path, path: Path) -> None:
    """A link never replaces a file; a rename is for file systems without links."""
    try:
        os.link(temporary, path)
    except FileExistsError:
        raise StackError(f"{path} exists: it is not overwritten") from None
    except OSError as error:
        if error.errno not in (errno.EPERM, errno.ENOTSUP, errno.EMLINK) or path.exists():
            raise
        temporary.rename(path)
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _write_dump(file: BinaryIO, dump: Dumper) -> dict[str, object]:
    """The size of the dump is known at its end, and its header is written then."""
    start = file.tell()
    file.write(bytes(BLOCK))
    digest, size = hashlib.sha256(), 0

    def take(piece: bytes) -> None:
        nonlocal size
        digest.update(piece)
        file.write(piece)
        size += len(piece)

    dump(take)
    file.write(bytes(-size % BLOCK))
    end = file.tell()
    file.seek(start)
    file.write(_header(DUMP, size))
    file.seek(end)
    return {"sha256": digest.hexdigest(), "size": size}


def _write_small(file: BinaryIO, name: str, document: object) -> dict[str, object]:
    octets = json.dumps(document, indent=2).encode() + b"\n"
    if len(octets) > MOST_SMALL:
        raise StackError(f"{name} would have more than {MOST_SMALL} octets")
    file.write(_header(name, len(octets)) + octets + bytes(-len(octets) % BLOCK))
    return {"sha256": hashlib.sha256(octets).hexdigest(), "size": len(octets)}


def _header(name: str, size: int) -> bytes:
    member = tarfile.TarInfo(name)
    member.size, member.mode = size, 0o600
    header = member.tobuf(tarfile.GNU_FORMAT)
    assert len(header) == BLOCK
    return header


@contextmanager
def read(path: Path) -> Iterator[Backup]:
    """Open a backup and verify all of it. Raises StackError, OSError."""
    with path.open("rb") as file:
        try:
            yield _verified(file)
        except tarfile.TarError as error:
            raise StackError(f"{path} is no backup, or is damaged: {error}") from None


def _verified(file: BinaryIO) -> Backup:
    found, small, place = _parts(file)
    if MANIFEST not in small:
        raise StackError("the file has no manifest at its end: it was cut, or it is no backup")
    try:
        manifest = json.loads(small[MANIFEST])
        expected = {name: (str(part["sha256"]), int(part["size"])) for name, part in manifest["parts"].items()}
        known = manifest["format"] == FORMAT and all(len(row) == 2 for row in manifest["migrations"])
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        raise StackError("the manifest of the file is damaged") from None
    if not known:
        raise StackError("the file is of another format than this version reads")
    del found[MANIFEST]
    if wrong := sorted(name for name in {*found, *expected} if found.get(name) != expected.get(name)):
        raise StackError(f"the file was changed: {wrong[0]} is not what the manifest says")
    if DUMP not in found:
        raise StackError("the file has no dump of a database")
    return Backup(file, manifest, *place)


def _parts(file: BinaryIO) -> tuple[dict[str, tuple[str, int]], dict[str, bytes], tuple[int, int]]:
    """The digest and size of each part, the octets of the small ones, and the place of the dump."""
    found: dict[str, tuple[str, int]] = {}
    small: dict[str, bytes] = {}
    place = (0, 0)
    with tarfile.open(fileobj=file, mode="r:") as archive:
        for member in archive:
            if not member.isreg() or member.name not in (DUMP, SETTINGS, MANIFEST) or member.name in found:
                raise StackError("the file has a part that no backup has")
            if member.name == DUMP:
                place = (member.offset_data, member.size)
            elif member.size > MOST_SMALL:
                raise StackError(f"{member.name} has more than {MOST_SMALL} octets")
            opened, digest, kept = archive.extractfile(member), hashlib.sha256(), bytearray()
            while opened and (piece := opened.read(CHUNK)):
                digest.update(piece)
                if member.name != DUMP:
                    kept += piece
            found[member.name], small[member.name] = (digest.hexdigest(), member.size), bytes(kept)
    return found, small, place
