"""A host for boxes: accounts, PAM services and programs as a test wants them, without touching this machine.

Every command runs in a mount namespace of its own in which copies of a few files of /etc lie over the real ones.
"""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from deploy.endpoint.boxed.setup import READY_SECONDS
from deploy.endpoint.toolkit import clean_environment
from deploy.stack.free_ports import free_port
from tests.gridftp.toolkit import LOOPBACK
from tests.instance import Api
from transferapi.config import CHECKOUT

PROGRAM = CHECKOUT / "deploy" / "endpoint" / "box"
#: Password of an account that exists only in the namespaces of a test.
PASSWORD = "correct horse battery"
SECONDS = 60
UID = 4242


class BoxHost:
    """A host for a box, in namespaces. Root gets an account `wbalice`, whose password the real pam_unix checks. An
    ordinary user has only the own account; a PAM service `pam_service`, made before the box, checks its password."""

    def __init__(self, folder: Path, service: Api) -> None:
        self.folder = folder
        self.service = service
        self.root = os.geteuid() == 0
        self.user = "wbalice" if self.root else pwd.getpwuid(os.geteuid()).pw_name
        self.pam_service = "waybill-test" if self.root else "waybill-there"
        self.etc = folder / "etc"
        self.box = folder / "box"
        self.covered: dict[str, Path] = {}
        self.token = folder / "token"
        self.token.write_text(str(service.connection["token"]))
        self.port, self.myproxy_port = free_port(), free_port()
        self.running: subprocess.Popen[str] | None = None
        self.python = "/usr/bin/python3" if os.path.exists("/usr/bin/python3") else sys.executable
        self.name = folder.name
        self._cover()

    def _cover(self) -> None:
        self.etc.mkdir()
        shutil.copytree("/etc/pam.d", self.etc / "pam.d")
        self.cover("/etc/pam.d", self.etc / "pam.d")
        if self.root:
            shadow = subprocess.run(["openssl", "passwd", "-6", PASSWORD], capture_output=True, text=True, check=True)
            self._add("passwd", f"{self.user}:x:{UID}:{UID}::/tmp:/bin/sh")
            self._add("group", f"{self.user}:x:{UID}:")
            self._add("shadow", f"{self.user}:{shadow.stdout.strip()}:19000:0:99999:7:::")
            return
        check = self.etc / "check"
        check.write_text(f'#!/bin/sh\ntest "$(cat)" = "{PASSWORD}"\n')
        check.chmod(0o755)
        lines = f"auth [success=1 default=ignore] pam_exec.so quiet expose_authtok {check}\n"
        lines += "auth requisite pam_deny.so\nauth required pam_permit.so\naccount required pam_permit.so\n"
        (self.etc / "pam.d" / self.pam_service).write_text(lines)

    def _add(self, name: str, line: str) -> None:
        real, copy = Path("/etc") / name, self.etc / name
        copy.write_text(real.read_text() + line + "\n")
        copy.chmod(real.stat().st_mode & 0o777)
        os.chown(copy, real.stat().st_uid, real.stat().st_gid)
        self.cover(str(real), copy)

    def cover(self, path: str, by: Path) -> None:
        """Commands from now on see `by` where `path` is."""
        self.covered[path] = by

    def words(self, *command: str | Path) -> list[str]:
        """The command, run where it sees what is covered."""
        script = "".join(f"mount --bind '{by}' '{path}' && " for path, by in self.covered.items()) + 'exec "$@"'
        inside = ["unshare", "--mount", "sh", "-c", script, "sh"]
        if not self.root:
            back = ["unshare", "--user", f"--map-user={os.getuid()}", f"--map-group={os.getgid()}"]
            inside = ["unshare", "--map-root-user", *inside[1:], *back]
        return [*inside, *map(str, command)]

    def works(self) -> bool:
        """Whether this machine permits the namespaces."""
        return subprocess.run(self.words("true"), capture_output=True, timeout=SECONDS).returncode == 0

    def call(self, *words: str | Path, code: int = 0) -> str:
        """Run `box` and return its output, stdout and stderr together. Its exit status must be `code`."""
        return self.run([self.python, PROGRAM, *words], code)

    def run(self, words: Sequence[str | Path], code: int = 0) -> str:
        done = subprocess.run(
            self.words(*words),
            env=clean_environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=SECONDS,
        )
        assert done.returncode == code, done.stdout
        return done.stdout

    def setup_words(self, *more: str | Path) -> list[str | Path]:
        words: list[str | Path] = ["setup", "--folder", self.box, "--no-systemd", "--no-install"]
        words += ["--name", self.name, "--host", "localhost", "--address", LOOPBACK, "--user", self.user]
        words += ["--port", str(self.port), "--myproxy-port", str(self.myproxy_port)]
        # Below the ephemeral ports of Linux, from which `free_port` takes the others.
        words += ["--data-ports", "30000-30100"]
        words += ["--waybill", self.service.url, "--token-file", self.token, "--pam-service", self.pam_service]
        return [*words, *more]

    def setup(self, *more: str | Path, code: int = 0) -> str:
        return self.call(*self.setup_words(*more), code=code)

    def remove(self, *more: str | Path, code: int = 0) -> str:
        return self.call("remove", "--folder", self.box, "--token-file", self.token, *more, code=code)

    def start(self) -> None:
        """`box run`, until `stop`."""
        words = self.words(self.python, PROGRAM, "run", "--folder", self.box)
        self.running = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
        assert self.running.stdout is not None
        assert self.running.stdout.readline() == "ready\n", f"not ready within {READY_SECONDS} s"

    def stop(self) -> None:
        if self.running is not None:
            self.running.terminate()
            self.running.wait(SECONDS)
            assert self.running.stdout is not None
            self.running.stdout.close()
            self.running = None

    def logon(self, password: str) -> tuple[Path, str]:
        """A credential by MyProxy's own client: its file, and what was complained about."""
        credential = self.folder / "credential"
        environment = clean_environment() | {"X509_CERT_DIR": str(self.box / "authority" / "certificates")}
        words = ["myproxy-logon", "-s", "localhost", "-p", str(self.myproxy_port), "-l", self.user, "-S"]
        done = subprocess.run(
            [*words, "-o", str(credential)],
            input=f"{password}\n",
            env=environment,
            capture_output=True,
            text=True,
            timeout=SECONDS,
        )
        return credential, done.stderr

    def endpoints(self) -> list[dict[str, object]]:
        """Endpoints with our name that the service knows."""
        found = self.service.call("GET", "/endpoint_search?filter_scope=my-endpoints&limit=1000")["DATA"]
        return [one for one in found if one["name"] == self.name]
