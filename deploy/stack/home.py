"""The home folder of one instance: its lock, its secrets, and the documents that describe it."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import secrets
import signal
import time
from collections.abc import Mapping
from pathlib import Path

from deploy.stack.errors import StackError
from identity.vault.keys import new_key

from .errors import naming

#: A supervisor stops in under two seconds; after this time it is killed.
DOWN_SECONDS = 15.0

#: The names of ports that are not those of endpoints (`prepared`): of the ssh shell, and of the relay.
SSH, RELAY = "ssh", "relay"


class Home:
    """The files of an instance. All files with a secret have mode 0600."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.logs = path / "logs"
        #: The folder for mails while no mail server is configured.
        self.mails = path / "mails"
        self.connection = path / "connection.json"
        self.token = path / "token"
        #: The digest of the address that signs the sample user in once (`webui.sign_in.one_time`).
        self.sign_in_link = path / "sign-in-link"
        #: The password of the sample user on the pages.
        self.password = path / "password"
        #: The private key by which the sample user signs in to the ssh shell; the public key of that server.
        self.ssh_key = path / "ssh-key"
        self.ssh_host_key = path / "ssh-host-key.pub"
        self.secret_key = path / "secret-key"
        self.vault_key = path / "vault-key"
        self.oidc_key = path / "oidc-key.pem"
        #: The id and the secret of the sample user's application.
        self.client = path / "client.json"
        #: The token in the form that curl reads from a file, so that it is on no command line.
        self.curl = path / "curl.conf"
        self.prepared = path / "prepared.json"
        self.first_transfer = path / "first-transfer"
        self._lock = path / "supervisor.pid"

    def make(self) -> None:
        """Create the folder, private. Raises StackError."""
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self.path.mkdir(mode=0o700, exist_ok=True)
            self.logs.mkdir(mode=0o700, exist_ok=True)
            self.mails.mkdir(mode=0o700, exist_ok=True)
            if not self.secret_key.exists():
                write_private(self.secret_key, secrets.token_urlsafe(48))
            if not self.vault_key.exists():
                write_private(self.vault_key, new_key() + "\n")
            if not self.oidc_key.exists():
                write_private(self.oidc_key, new_rsa_key())
        except OSError as error:
            raise StackError(f"cannot use WAYBILL_HOME {self.path}: {error.strerror}") from error

    def acquire(self) -> int:
        """Become the one supervisor of this home, until this process ends or closes the descriptor. Raises StackError.

        The kernel releases the lock in every case, so that a left-over pid file does no harm.
        """
        descriptor = os.open(self._lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            raise StackError(f"{self.path} is up already (supervisor {self._read_pid()}); see `make status`") from None
        with naming(self._lock):
            os.truncate(descriptor, 0)
            os.write(descriptor, f"{os.getpid()}\n".encode())
        return descriptor

    def supervisor(self) -> int | None:
        """The pid of the supervisor that holds the lock; None if there is none."""
        try:
            descriptor = os.open(self._lock, os.O_RDWR | os.O_CLOEXEC)
        except (FileNotFoundError, NotADirectoryError):
            return None
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return self._read_pid()
        finally:
            os.close(descriptor)
        return None

    def _read_pid(self) -> int | None:
        with contextlib.suppress(OSError, ValueError):
            return int(self._lock.read_text())
        return None

    def stop_supervisor(self) -> bool:
        """Ask the supervisor to stop, wait, and kill it in the end. Returns whether there was one."""
        pid = self.supervisor()
        if pid is None:
            return False
        os.kill(pid, signal.SIGTERM)
        until = time.monotonic() + DOWN_SECONDS
        while self.supervisor() == pid:
            if time.monotonic() > until:
                os.kill(pid, signal.SIGKILL)
                until += DOWN_SECONDS
            time.sleep(0.02)
        return True

    def read_password(self) -> str | None:
        with contextlib.suppress(OSError):
            return self.password.read_text().strip() or None
        return None

    def read_token(self) -> str | None:
        with contextlib.suppress(OSError):
            return self.token.read_text().strip() or None
        return None

    def read_json(self, path: Path) -> dict[str, object]:
        """A JSON document; an empty one when it is missing or damaged."""
        with contextlib.suppress(OSError, ValueError):
            document = json.loads(path.read_text())
            if isinstance(document, dict):
                return document
        return {}

    def write_json(self, path: Path, document: Mapping[str, object]) -> None:
        write_private(path, json.dumps(document, indent=2) + "\n")


def new_rsa_key() -> str:
    """A new key of 2048 bits, in PEM."""
    # Imported only where a key is created: most starts need none.
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import rsa

    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    form = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return key.private_bytes(*form).decode()


def write_private(path: Path, text: str) -> None:
    """Write with mode 0600 under another name, then rename: readers see the old or the new file, never a part.

    A file that root replaces keeps its owner. Raises OSError with the path, also where the disk is full.
    """
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    with contextlib.suppress(FileNotFoundError):
        fresh.unlink()
    with naming(path):
        try:
            _write_new(fresh, path, text)
        except OSError:
            fresh.unlink(missing_ok=True)
            raise


def _write_new(fresh: Path, path: Path, text: str) -> None:
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(text)
        file.flush()
        # Before the rename: after a power cut the name must not stand for an empty file.
        os.fsync(file.fileno())
        if os.geteuid() == 0 and path.exists():
            before = path.stat()
            os.fchown(file.fileno(), before.st_uid, before.st_gid)
    fresh.replace(path)
