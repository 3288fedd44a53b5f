"""Image archives by the OCI image specification 1.0 (image-layout.md), which `docker load` and podman read, too."""

from __future__ import annotations

import gzip
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from .archives import file_member, write_tar

MANIFEST = "application/vnd.oci.image.manifest.v1+json"
CONFIG = "application/vnd.oci.image.config.v1+json"
LAYER = "application/vnd.oci.image.layer.v1.tar+gzip"
#: The names of architectures in Go, by those of `platform.machine`.
ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}


@dataclass(frozen=True, slots=True)
class Image:
    """The content of an image archive.

    Attributes:
        name: with a tag, such as `waybill:0.1.0`.
        layers: plain tar archives, the lowest first.
        config: `User`, `Env`, `Cmd` and the like (config.md, "config").
        moment: seconds since 1970 of its creation.
    """

    name: str
    architecture: str
    layers: Sequence[bytes]
    config: Mapping[str, Any]
    moment: int

    def write(self, path: Path) -> None:
        """Write the archive. The octets depend on the attributes alone."""
        blobs = _Blobs()
        manifest = {
            "schemaVersion": 2,
            "mediaType": MANIFEST,
            "config": blobs.add(_text(self._config()), CONFIG),
            "layers": [blobs.add(gzip.compress(layer, 6, mtime=0), LAYER) for layer in self.layers],
        }
        files = {
            "oci-layout": _text({"imageLayoutVersion": "1.0.0"}),
            "index.json": _text(self._index(blobs.add(_text(manifest), MANIFEST))),
            # For engines that read archives of `docker save` only.
            "manifest.json": _text([self._docker_manifest(manifest)]),
        }
        files |= {f"blobs/sha256/{digest}": content for digest, content in blobs.found.items()}
        write_tar((file_member(name, content, mtime=0) for name, content in files.items()), path, self.moment)

    def _config(self) -> dict[str, Any]:
        return {
            "created": datetime.fromtimestamp(self.moment, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "architecture": self.architecture,
            "os": "linux",
            "config": self.config,
            "rootfs": {"type": "layers", "diff_ids": [f"sha256:{_digest(layer)}" for layer in self.layers]},
        }

    def _index(self, manifest: dict[str, Any]) -> dict[str, Any]:
        names = {
            "io.containerd.image.name": f"docker.io/library/{self.name}",
            "org.opencontainers.image.ref.name": self.name.partition(":")[2],
        }
        return {"schemaVersion": 2, "manifests": [manifest | {"annotations": names}]}

    def _docker_manifest(self, manifest: Mapping[str, Any]) -> dict[str, Any]:
        return {
            "Config": _place(manifest["config"]),
            "RepoTags": [self.name],
            "Layers": [_place(layer) for layer in manifest["layers"]],
        }


@dataclass(frozen=True, slots=True)
class _Blobs:
    """The contents of an archive by their digests."""

    found: dict[str, bytes] = field(default_factory=dict)

    def add(self, content: bytes, media_type: str) -> dict[str, Any]:
        """Keep it, and return its descriptor (descriptor.md)."""
        digest = _digest(content)
        self.found[digest] = content
        return {"mediaType": media_type, "digest": f"sha256:{digest}", "size": len(content)}


def _place(described: Mapping[str, Any]) -> str:
    return "blobs/sha256/" + str(described["digest"]).removeprefix("sha256:")


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _text(document: object) -> bytes:
    return json.dumps(document, sort_keys=True, separators=(",", ":")).encode()
