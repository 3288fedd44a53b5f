"""The software bill of materials: CycloneDX 1.6 (https://cyclonedx.org/docs/1.6/json/) from requirements.lock."""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from transferapi.version import DISTRIBUTION

from . import engines
from .errors import ReleaseError
from .source import SourceCopy

_PIN = re.compile(
    r"^(?P<name>[A-Za-z0-9][A-Za-z0-9._-]*)==(?P<version>[^\s;\\]+)(?:\s*;\s*(?P<marker>[^\\]+?))?\s*\\?$"
)
_HASH = re.compile(r"^\s+--hash=sha256:([0-9a-f]{64})\s*\\?$")
_VIA = re.compile(r"^\s+#\s+(?:via\s*)?(\S.*)?$")


@dataclass(slots=True)
class Locked:
    """A pinned library.

    Attributes:
        marker: the environments in which it is installed (PEP 508); empty for all.
        hashes: SHA-256 of each of its files that may be installed.
        wanted_by: names of those that depend on it.
    """

    name: str
    version: str
    marker: str
    hashes: list[str] = field(default_factory=list)
    wanted_by: list[str] = field(default_factory=list)

    @property
    def url(self) -> str:
        """The package URL (https://github.com/package-url/purl-spec)."""
        return f"pkg:pypi/{re.sub(r'[-_.]+', '-', self.name).lower()}@{self.version}"


def read_lock(text: str) -> list[Locked]:
    """The libraries of a lock file as `uv pip compile --generate-hashes` writes it. Raises ReleaseError."""
    found: list[Locked] = []
    for number, line in enumerate(text.splitlines(), 1):
        if pin := _PIN.match(line):
            found.append(Locked(pin["name"], pin["version"], pin["marker"] or ""))
        elif not (found and _is_about(found[-1], line)) and line.strip() and not line.startswith("#"):
            raise ReleaseError(f"line {number} of the lock file is not understood")
    if lost := [one.name for one in found if not one.hashes]:
        raise ReleaseError(f"the lock file has no hash for {', '.join(lost)}")
    return found


def _is_about(library: Locked, line: str) -> bool:
    """Take a line with a hash of this library, or with another one that needs it; False if it is neither."""
    if digest := _HASH.match(line):
        library.hashes.append(digest[1])
    elif via := _VIA.match(line):
        library.wanted_by += [via[1].split()[0]] if via[1] else []
    else:
        return False
    return True


def bill_of_materials(source: SourceCopy) -> dict[str, Any]:
    """The document of the service and of each pinned library with its hashes. Raises ReleaseError."""
    libraries = read_lock(engines.released((source.folder / "requirements.lock").read_text()))
    itself = f"pkg:pypi/{DISTRIBUTION}@{source.version}"
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, f'{itself}?commit={source.commit}')}",
        "version": 1,
        "metadata": {
            "timestamp": datetime.fromtimestamp(source.moment, UTC).isoformat(),
            "component": {
                "type": "application",
                "bom-ref": itself,
                "name": DISTRIBUTION,
                "version": source.version,
                "purl": itself,
                "licenses": [{"license": {"id": "Apache-2.0"}}],
                "properties": [{"name": "waybill:commit", "value": source.commit}],
            },
        },
        "components": [_component(library) for library in libraries],
        "dependencies": _dependencies(itself, libraries),
    }


def _component(library: Locked) -> dict[str, Any]:
    files = [
        {"type": "distribution", "url": library.url, "hashes": [{"alg": "SHA-256", "content": digest}]}
        for digest in library.hashes
    ]
    component: dict[str, Any] = {
        "type": "library",
        "bom-ref": library.url,
        "name": library.name,
        "version": library.version,
        "purl": library.url,
        "scope": "optional" if library.marker else "required",
        "externalReferences": files,
    }
    if library.marker:
        component["properties"] = [{"name": "waybill:marker", "value": library.marker}]
    return component


def _dependencies(itself: str, libraries: Sequence[Locked]) -> list[dict[str, Any]]:
    urls = {library.name: library.url for library in libraries} | {DISTRIBUTION: itself}
    wants: dict[str, set[str]] = {url: set() for url in (itself, *(library.url for library in libraries))}
    for library in libraries:
        for name in library.wanted_by:
            if name in urls:
                wants[urls[name]].add(library.url)
    return [{"ref": url, "dependsOn": sorted(others)} for url, others in wants.items()]


def write(source: SourceCopy, out: Path) -> Path:
    """Write the document into the folder. Raises ReleaseError."""
    path = out / f"waybill-{source.version}.cdx.json"
    path.write_text(json.dumps(bill_of_materials(source), indent=1) + "\n")
    return path
