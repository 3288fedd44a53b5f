"""Guests: bare systems that systemd-nspawn boots with their own systemd, connected by a bridge of this namespace."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from bench.install.system import MachineError, run
from deploy.stack.child import Child, spawn, stop

GROUPS = Path("/sys/fs/cgroup")
GROUP = "waybill-rehearsal"
BRIDGE, NETWORK = "rehearsal", "10.20.0"
START_SECONDS, STOP_SECONDS, COMMAND_SECONDS = 120.0, 60.0, 900.0
#: systemd(1): asks the first process of a guest for an orderly end.
POWER_OFF = signal.SIGRTMIN + 4
#: Nobody sits at the terminal of a guest.
UNATTENDED = 'APT::Get::Assume-Yes "true";\nAcquire::Languages "none";\n'
#: cpuset of version 1 takes no process before it is set up: then the guest stays outside of it.
ENTER = 'for group in $1; do echo $$ > "$group"; done 2>/dev/null; shift; exec "$@"'
ENVIRONMENT = {
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "HOME": "/root",
    "LANG": "C.UTF-8",
    "DEBIAN_FRONTEND": "noninteractive",
}


@dataclass(frozen=True)
class Done:
    """The end of commands: output has both streams."""

    status: int
    output: str
    seconds: float


def bridge() -> None:
    """In the network namespace of this process. Raises MachineError."""
    run(["ip", "link", "set", "lo", "up"])
    run(["ip", "link", "add", BRIDGE, "type", "bridge"])
    run(["ip", "address", "add", f"{NETWORK}.1/24", "dev", BRIDGE])
    run(["ip", "link", "set", BRIDGE, "up"])


class Guest:
    """names: address by name of all hosts, for /etc/hosts."""

    def __init__(self, host: str, name: str, number: int, base: Path) -> None:
        self.host, self.name, self.address = host, name, f"{NETWORK}.{number}"
        self.base, self.root = base, base / "guests" / host
        self._process: Child | None = None
        self._first = 0

    def make(self, bare: Path, names: dict[str, str], authority: Path) -> None:
        """A bare system, with what every host of an institution has: a name, an address, packages, its authority."""
        shutil.rmtree(self.root, ignore_errors=True)
        self.root.mkdir(parents=True)
        run(["tar", "-C", self.root, "-xf", bare])
        (self.root / "etc/hostname").write_text(f"{self.name}\n")
        rows = [f"{address} {name}" for name, address in names.items()]
        (self.root / "etc/hosts").write_text("\n".join(["127.0.0.1 localhost", *rows, ""]))
        for path in (self.root / "etc/apt").glob("sources.list*"):
            if path.is_file():
                path.unlink()
        (self.root / "etc/apt/sources.list").write_text("deb [trusted=yes] file:/srv/packages ./\n")
        (self.root / "etc/apt/apt.conf.d/99unattended").write_text(UNATTENDED)
        (self.root / "etc/machine-id").write_text("")
        shutil.copy(authority, self.root / "usr/local/share/ca-certificates")

    def start(self, packages: Path) -> None:
        """Raises MachineError."""
        words = ["systemd-nspawn", "--quiet", f"--directory={self.root}", f"--machine={self.host}", "--boot"]
        words += ["--register=no", "--keep-unit", f"--network-bridge={BRIDGE}", "--link-journal=no", "--console=pipe"]
        words += ["--resolv-conf=off", "--timezone=off", f"--bind-ro={packages}:/srv/packages"]
        enter = ["sh", "-c", ENTER, "enter", " ".join(_groups(self.host)), *words]
        self._process = spawn(enter, log=self.base / f"{self.host}.log")
        until = time.monotonic() + START_SECONDS
        while not self._booted():
            if self._process.poll() is not None or time.monotonic() > until:
                raise MachineError(f"{self.host} does not boot: {self.base / self.host}.log")
            time.sleep(0.5)
        done = self.run(
            f"ip address add {self.address}/24 dev host0\nip link set host0 up\n"
            "update-ca-certificates\napt-get update\n"
        )
        if done.status:
            raise MachineError(f"{self.host}: {done.output}")

    def _booted(self) -> bool:
        assert self._process is not None
        children = Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children").read_text().split()
        for child in children:
            with suppress(OSError):
                if Path(f"/proc/{child}/comm").read_text().strip() == "systemd":
                    self._first = int(child)
        return bool(self._first) and self.run("systemctl is-system-running --wait", 60).status == 0

    def run(self, commands: str, seconds: float = COMMAND_SECONDS) -> Done:
        """Run commands as root would type them; the first that fails ends them. No terminal, no input."""
        enter = ["nsenter", f"--target={self._first}", "--mount", "--uts", "--ipc", "--net", "--pid", "--root", "--wd"]
        begun = time.monotonic()
        try:
            done = subprocess.run(
                [*enter, "--", "bash", "-e", "-o", "pipefail", "-c", f"cd /root\n{commands}"],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                env=ENVIRONMENT,
                timeout=seconds,
                check=False,
            )
            status, output = done.returncode, done.stdout
        except subprocess.TimeoutExpired as error:
            status, output = 124, (error.stdout or b"") + b"\nnot done in time\n"
        return Done(status, output.decode(errors="replace"), time.monotonic() - begun)

    def stop(self) -> None:
        """An orderly end, or a hard one after some time."""
        if self._process is None or self._process.poll() is not None:
            return
        if self._first:
            with suppress(ProcessLookupError):
                os.kill(self._first, POWER_OFF)
        try:
            self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            stop(self._process, signal.SIGKILL)


def _hierarchies() -> list[Path]:
    """Of version 2 alone one, else one for each controller of version 1 and the hybrid's."""
    if (GROUPS / "cgroup.controllers").exists():
        return [GROUPS]
    return [path for path in GROUPS.iterdir() if (path / "cgroup.procs").exists() and not path.is_symlink()]


def _groups(name: str) -> list[str]:
    """A group for each guest, so that their units do not meet in one."""
    made = []
    for hierarchy in _hierarchies():
        group = hierarchy / GROUP / name
        group.mkdir(parents=True, exist_ok=True)
        made.append(str(group / "cgroup.procs"))
    return made


def remove_groups() -> None:
    """Of guests that have ended; one that is still in use stays."""
    for hierarchy in _hierarchies():
        group = hierarchy / GROUP
        for folder in sorted(group.rglob("*/"), key=lambda path: -len(path.parts)):
            with suppress(OSError):
                folder.rmdir()
        with suppress(OSError):
            group.rmdir()
