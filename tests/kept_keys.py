"""Private keys of test servers and test users, kept in the cache of pytest for a week: to make them takes time.

A process never gets one key twice, and two processes may get the same ones. The code that makes keys for users has
tests of its own, which use none of these.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)

#: Seconds.
KEPT = 7 * 24 * 3600.0
KEYGEN_SECONDS = 30

_folder: Path | None = None
_given = Counter[str]()


def keep_in(folder: Path) -> None:
    """From now on keys are kept in this folder. Without a folder each key is made anew."""
    global _folder
    folder.chmod(0o700)
    _folder = folder


def rsa_key(bits: int = 2048) -> rsa.RSAPrivateKey:
    key = load_pem_private_key(rsa_pem(bits), None)
    assert isinstance(key, rsa.RSAPrivateKey)
    return key


def rsa_pem(bits: int = 2048) -> bytes:
    """PKCS#1 ("RSA PRIVATE KEY"), which the oldest Grid programs read, too."""

    def make() -> bytes:
        key = rsa.generate_private_key(public_exponent=65537, key_size=bits)
        return key.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption())

    return _next(f"rsa-{bits}", make)


def ssh_key(kind: str, *options: str) -> bytes:
    """A private key as `ssh-keygen -t kind` writes it with these options."""

    def make() -> bytes:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "key"
            words = ["ssh-keygen", "-q", "-t", kind, "-N", "", "-C", "waybill test", "-f", str(path), *options]
            subprocess.run(words, check=True, timeout=KEYGEN_SECONDS, stdin=subprocess.DEVNULL, capture_output=True)
            return path.read_bytes()

    return _next("".join(("ssh-", kind, *options)), make)


def _next(kind: str, make: Callable[[], bytes]) -> bytes:
    """The next key of this kind that this process has not had."""
    _given[kind] += 1
    if _folder is None:
        return make()
    path = _folder / f"{kind}-{_given[kind]}"
    try:
        if time.time() - path.stat().st_mtime < KEPT:
            return path.read_bytes()
    except FileNotFoundError:
        pass
    key = make()
    new = path.with_suffix(f".{os.getpid()}")
    new.touch(0o600)
    new.write_bytes(key)
    new.replace(path)
    return key
