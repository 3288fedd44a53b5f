"""The archives of Python: the source distribution and the wheel (packaging.python.org/specifications)."""

from __future__ import annotations

import sys
from pathlib import Path

from .archives import read_tar, write_tar
from .source import SourceCopy, run

#: Calls a hook of the build backend (PEP 517), each in a process of its own: python -c BUILD HOOK OUT
BUILD = """
import os, sys
from setuptools import build_meta
hook, out = sys.argv[1:]
os.umask(0o022)
getattr(build_meta, hook)(out)
"""


def build(source: SourceCopy, out: Path) -> list[Path]:
    """Write both archives into the folder. Raises ReleaseError."""
    for hook in ("build_sdist", "build_wheel"):
        run([sys.executable, "-c", BUILD, hook, out.resolve()], source.folder, source.environ)
    [sdist], [wheel] = out.glob("*.tar.gz"), out.glob("*.whl")
    # The backend writes the time of the build into the source distribution.
    members = read_tar(sdist)
    for member, _ in members:
        member.mtime = source.moment
        member.uid = member.gid = 0
        member.mode = 0o755 if member.isdir() or member.mode & 0o100 else 0o644
    write_tar(members, sdist, source.moment)
    return [sdist, wheel]
