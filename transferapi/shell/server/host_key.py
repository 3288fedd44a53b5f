"""The host key of the ssh server: made once, kept in the home, and the same after each start."""

from __future__ import annotations

import contextlib
import os
import stat
from pathlib import Path

import paramiko
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

#: In the home of the service. To change the key, delete this file and start the server again.
FILE = "ssh-host-key"


class HostKeyFileError(Exception):
    """The file of the host key cannot be used; the message says why."""


def load_or_make(folder: Path) -> paramiko.Ed25519Key:
    """The host key of this home; its public part is written beside it. Raises HostKeyFileError."""
    file = folder / FILE
    try:
        if not file.exists():
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            write_new(file, new_private_key())
        if stat.S_IMODE(file.stat().st_mode) & 0o077:
            raise HostKeyFileError(f"{file} is open to other accounts: chmod 600 it")
        key = paramiko.Ed25519Key(filename=str(file))
        (folder / f"{FILE}.pub").write_text(f"{key.get_name()} {key.get_base64()}\n")
        return key
    except OSError as error:
        raise HostKeyFileError(f"{file}: {error.strerror}") from None
    except paramiko.SSHException:
        raise HostKeyFileError(
            f"{file} is not an ed25519 key without a passphrase: delete it to get a new one"
        ) from None


def new_private_key() -> bytes:
    """A new ed25519 key in the form of OpenSSH."""
    return Ed25519PrivateKey.generate().private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption())


def write_new(file: Path, text: bytes) -> None:
    """Write a file with mode 0600 that appears whole; where another process was first, its file stays."""
    fresh = file.with_name(f".{file.name}.{os.getpid()}")
    with contextlib.suppress(FileNotFoundError):
        fresh.unlink()
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as opened:
            opened.write(text)
        with contextlib.suppress(FileExistsError):
            os.link(fresh, file)
    finally:
        fresh.unlink()
