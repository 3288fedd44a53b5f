"""Tar archives whose octets depend on their files alone."""

from __future__ import annotations

import gzip
import io
import tarfile
from collections.abc import Iterable
from pathlib import Path


def write_tar(members: Iterable[tuple[tarfile.TarInfo, bytes]], path: Path, moment: int) -> None:
    """Write the members, sorted by name and none younger than `moment`; with `.gz` or `.tgz` compressed.

    Owners are those of the members, by number.
    """
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for member, content in sorted(members, key=lambda found: found[0].name):
            member.uname = member.gname = ""
            member.mtime = min(int(member.mtime), moment)
            member.pax_headers = {}
            tar.addfile(member, io.BytesIO(content))
    octets = plain.getvalue()
    path.write_bytes(gzip.compress(octets, mtime=0) if path.suffix in (".gz", ".tgz") else octets)


def file_member(name: str, content: bytes, mode: int = 0o644, mtime: int = 2**33) -> tuple[tarfile.TarInfo, bytes]:
    """A file of root's. mtime: seconds since 1970; by default the `moment` that `write_tar` is given."""
    member = tarfile.TarInfo(name.lstrip("/"))
    member.size, member.mode, member.mtime = len(content), mode, mtime
    return member, content


def read_tar(path: Path) -> list[tuple[tarfile.TarInfo, bytes]]:
    """All members with their contents."""
    with tarfile.open(path) as tar:
        return [(member, _content(tar, member)) for member in tar]


def _content(tar: tarfile.TarFile, member: tarfile.TarInfo) -> bytes:
    file = tar.extractfile(member) if member.isreg() else None
    return file.read() if file else b""
