"""The folder in which an agent keeps its key, its settings, its log and its state. Only its user can read it."""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from endpoints.gridftp.server import RootPart

from .keys import AgentIdentity, AgentKey, KeyFileError
from .tunnel.service import ServiceAddress

NAME = "waybill-connect"
IS_WINDOWS = os.name == "nt"
#: Seconds for which a file of ours may be open in another process that reads it.
REPLACE_SECONDS = 1.0
#: Seconds for which processes that only look may have the lock.
LOOK_SECONDS = 1.0


class AgentHomeError(Exception):
    """The folder is missing, damaged or in use; the text is for the person."""


def default_folder() -> Path:
    """Where the system's programs keep such things."""
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local") / NAME
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Application Support" / NAME
    return Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / NAME


@dataclass
class AgentSettings:
    """The decisions of setup. renewed: when the certificate was, by the clock of the service."""

    service: ServiceAddress
    endpoint_id: str
    endpoint_name: str
    roots: list[RootPart]
    renewed: float

    def document(self) -> dict[str, Any]:
        return {
            "service": self.service.url,
            "pins": list(self.service.pins),
            "endpoint_id": self.endpoint_id,
            "endpoint_name": self.endpoint_name,
            "roots": [{"path": root.path, "name": root.name, "writable": root.writable} for root in self.roots],
            "renewed": self.renewed,
        }

    @classmethod
    def read(cls, document: Any) -> AgentSettings:
        """Parse the document of a file of settings. Raises KeyError, TypeError, ValueError."""
        roots = [RootPart(str(one["path"]), str(one["name"]), bool(one["writable"])) for one in document["roots"]]
        service = ServiceAddress(str(document["service"]), tuple(map(str, document["pins"])))
        renewed = float(document["renewed"])
        return cls(service, str(document["endpoint_id"]), str(document["endpoint_name"]), roots, renewed)


class AgentHome:
    """The folder and its files. Raises AgentHomeError and OSError."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._settings, self._chain = folder / "agent.json", folder / "chain.pem"
        self._key, self._next_key = folder / "key.pem", folder / "next-key.pem"
        self._state = folder / "state.json"
        #: Their existence is a request to the running agent.
        self.stop_request, self.pause_request = folder / "stop", folder / "paused"
        self.log, self.program = folder / "agent.log", folder / f"{NAME}.pyz"

    @property
    def exists(self) -> bool:
        return self._settings.exists()

    def make(self) -> None:
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if os.name == "posix":
            self.folder.chmod(0o700)

    def remove(self) -> None:
        """Forget the endpoint: key, settings, log. The folders that were served are not touched."""
        shutil.rmtree(self.folder)

    # ---- settings and identity

    def settings(self) -> AgentSettings:
        if not self.exists:
            raise AgentHomeError(
                "This computer is not set up yet: get a setup key from the service, then use --setup KEY."
            )
        try:
            return AgentSettings.read(json.loads(self._settings.read_text("utf-8")))
        except (ValueError, KeyError, TypeError):
            raise AgentHomeError(
                f"{self._settings} is damaged: set this computer up again with a new setup key."
            ) from None

    def write_settings(self, settings: AgentSettings) -> None:
        self._write(self._settings, json.dumps(settings.document(), indent=2) + "\n")

    def identity(self) -> AgentIdentity:
        try:
            key = AgentKey.from_pem(self._key.read_text("ascii"))
            return AgentIdentity(key, self._chain.read_text("ascii"))
        except (OSError, ValueError, KeyFileError):
            raise AgentHomeError(f"The key in {self.folder} cannot be read: set this computer up again.") from None

    def next_key(self) -> AgentKey:
        """The key for a setup. It is on the disk before it is sent, so that a setup whose answer is lost can be
        repeated with it."""
        try:
            return AgentKey.from_pem(self._next_key.read_text("ascii"))
        except (OSError, ValueError, KeyFileError):
            key = AgentKey.new()
            self._write(self._next_key, key.pem())
            return key

    def keep(self, identity: AgentIdentity) -> None:
        """Store the identity from now on."""
        self._write(self._key, identity.key.pem())
        self.write_chain(identity.chain)
        if self._next_key.exists():
            self._next_key.unlink()

    def write_chain(self, chain: str) -> None:
        self._write(self._chain, chain)

    # ---- the state of the running agent

    def state(self) -> dict[str, Any]:
        try:
            found = json.loads(self._state.read_text("utf-8"))
        except (OSError, ValueError):
            return {}
        return found if isinstance(found, dict) else {}

    def write_state(self, state: dict[str, Any]) -> None:
        self._write(self._state, json.dumps(state))

    def _write(self, path: Path, text: str) -> None:
        """Write a file whole or not at all, and for nobody else to read.

        A temporary file has mode 0600 from the beginning.
        """
        number, name = tempfile.mkstemp(dir=str(self.folder), prefix=f".{path.name}-")
        try:
            with os.fdopen(number, "w", encoding="utf-8") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            _replace(name, path)
        except BaseException:
            os.unlink(name)
            raise


def _replace(name: str, path: Path) -> None:
    """os.replace. On Windows it is refused while another process, such as `--status`, reads the file."""
    until = time.monotonic() + REPLACE_SECONDS
    while True:
        try:
            os.replace(name, path)
            return
        except PermissionError:
            if not IS_WINDOWS or time.monotonic() >= until:
                raise
            time.sleep(0.02)


def wait_for(done: Callable[[], bool], seconds: float, pause: float) -> bool:
    """Whether it is done within this time, asked again after each pause."""
    until = time.monotonic() + seconds
    while not done():
        if time.monotonic() > until:
            return False
        time.sleep(pause)
    return True


class Lock:
    """Held by the one agent that runs with a folder. The system releases it when the process ends, however it does."""

    def __init__(self, home: AgentHome) -> None:
        self._path = home.folder / "agent.lock"
        self._file: IO[bytes] | None = None

    def take(self) -> bool:
        """Take the lock; return whether no other agent has it.

        A process that asks `is_held` has it for a moment, and is waited for.
        """
        return wait_for(self._try_to_take, LOOK_SECONDS, 0.02)

    def release(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def is_held(self) -> bool:
        """Whether an agent runs."""
        if not self._path.exists():
            return False
        free = self._try_to_take(shared=True)
        self.release()
        return not free

    def _try_to_take(self, shared: bool = False) -> bool:
        file = open(self._path, "ab+")  # noqa: SIM115 - it stays open
        try:
            _lock(file, shared)
        except OSError:
            file.close()
            return False
        self._file = file
        return True


if sys.platform == "win32":
    import msvcrt

    def _lock(file: IO[bytes], shared: bool) -> None:
        """Windows has no shared locks here: of two processes that look at once, one may see the other."""
        file.seek(0)
        msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)

else:
    import fcntl

    def _lock(file: IO[bytes], shared: bool) -> None:
        fcntl.flock(file.fileno(), (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
