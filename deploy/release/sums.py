"""The list of hashes of a release, and its signature by an ssh key (PROTOCOL.sshsig of OpenSSH)."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path

from .source import run

#: The namespace of the signature: it is good for nothing but release files.
NAMESPACE = "waybill-release"


def write_sums(files: Iterable[Path], out: Path) -> Path:
    """Write SHA256SUMS as `sha256sum --check` reads it."""
    path = out / "SHA256SUMS"
    lines = [f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file.name}\n" for file in sorted(files)]
    path.write_text("".join(lines))
    return path


def sign(sums: Path, key: Path) -> Path:
    """Sign the list with the private key in this file, or with the agent's for a public one. Raises ReleaseError."""
    signature = sums.with_name(f"{sums.name}.sig")
    signature.unlink(missing_ok=True)
    run(["ssh-keygen", "-q", "-Y", "sign", "-f", key.resolve(), "-n", NAMESPACE, sums.name], sums.parent)
    return signature
