"""The agent as one file, `waybill-connect.pyz`: made of the sources that run here, octet for octet the same each time.

It is a zip file (PEP 441) without compression, whose entries have one fixed date: the same sources give the same
SHA-256 on every machine, so that anybody can check a download with `make agent`.
"""

from __future__ import annotations

import functools
import hashlib
import io
import zipfile
from typing import NamedTuple

from endpoints.ssh.accounts.packed_server import closure, source
from transferapi.version import service_version

NAME = "waybill-connect.pyz"
#: Sent whole: the server finds the modules of its commands when it runs.
PACKAGES = ("endpoints/gridftp/agent", "endpoints/gridftp/server")
#: The earliest date that a zip file can have.
_DATE = (1980, 1, 1, 0, 0, 0)
#: Any Python can read this, so that an old one gets a sentence and no syntax error.
_MAIN = """import sys

if sys.version_info < (3, 8):
    sys.exit("waybill-connect.pyz needs Python 3.8 or newer; this is Python %d.%d." % sys.version_info[:2])

from endpoints.gridftp.agent.program import main

sys.exit(main("{version}"))
"""


class AgentProgram(NamedTuple):
    """octets: the file. digest: its SHA-256, hexadecimal."""

    octets: bytes
    version: str
    digest: str


@functools.cache
def program() -> AgentProgram:
    """The agent of this version of the service."""
    version = service_version()
    sources = {path: source(path) for path in closure(*PACKAGES)} | {"__main__.py": _MAIN.format(version=version)}
    octets = b"#!/usr/bin/env python3\n" + _zipped(sources)
    return AgentProgram(octets, version, hashlib.sha256(octets).hexdigest())


def _zipped(sources: dict[str, str]) -> bytes:
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w", zipfile.ZIP_STORED) as file:
        for path, text in sorted(sources.items()):
            entry = zipfile.ZipInfo(path, _DATE)
            entry.create_system, entry.external_attr = 3, 0o100644 << 16
            file.writestr(entry, text)
    return written.getvalue()
