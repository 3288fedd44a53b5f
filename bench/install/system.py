"""A bare Debian 12 as an archive, a repository of the packages that the pages name, and an authority of its own.

All of it comes from the mirror that apt of this machine uses; the guests themselves reach nothing outside.
"""

from __future__ import annotations

import hashlib
import re
import shutil
import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path

from bench.drill.engine import mirror
from bench.install.pages import all_pages

RELEASE = "bookworm"
#: Besides what Debian calls essential: what makes it boot, and have a network.
BARE = "systemd,systemd-sysv,dbus,iproute2,ca-certificates"
#: The package of the service itself depends on these.
OWN = ("python3",)
SECONDS = 1800.0


class MachineError(RuntimeError):
    """A program of this machine failed; the text has the end of its output."""


def run(words: Sequence[str | Path], seconds: float = SECONDS) -> str:
    """The output. Raises MachineError."""
    try:
        done = subprocess.run(
            words, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=seconds, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise MachineError(f"{words[0]}: {error}") from None
    if done.returncode:
        raise MachineError(f"{words[0]}: status {done.returncode}\n{(done.stdout + done.stderr)[-3000:]}")
    return done.stdout


def install_programs() -> None:
    """mmdebstrap and systemd-nspawn on this machine, where they are missing. Raises MachineError."""
    wanted = {"mmdebstrap": "mmdebstrap", "systemd-nspawn": "systemd-container", "dpkg-deb": "dpkg"}
    if missing := [package for program, package in wanted.items() if shutil.which(program) is None]:
        run(["apt-get", "install", "-y", "-q", "--no-install-recommends", *missing])


def bare_system(base: Path) -> Path:
    """The archive, made once. Raises MachineError."""
    made = base / "bare.tar"
    if not made.exists():
        unfinished = base / "unfinished.tar"
        words = ["mmdebstrap", "--quiet", "--variant=minbase", "--components=main", f"--include={BARE}", RELEASE]
        run(["nice", *words, unfinished, *filter(None, [mirror()])])
        unfinished.rename(made)
    return made


def named_packages(texts: Iterable[str]) -> list[str]:
    """Debian's packages that `apt-get install` of these commands names; our own is a file."""
    found = {
        word
        for text in texts
        for line in re.findall(r"^apt-get install (.*)$", text, re.MULTILINE)
        for word in line.split()
        if not word.startswith((".", "-"))
    }
    return sorted(found)


def repository(base: Path, bare: Path) -> Path:
    """A folder with the packages that the pages name and all that they need, and their list. Raises MachineError."""
    names = [*OWN, *named_packages(block.text for blocks in all_pages().values() for block in blocks.values())]
    folder = base / "packages"
    stamp = folder / "wanted"
    if stamp.exists() and stamp.read_text() == " ".join(names):
        return folder
    root = base / "for-apt"
    shutil.rmtree(root, ignore_errors=True)
    shutil.rmtree(folder, ignore_errors=True)
    root.mkdir()
    (folder / "partial").mkdir(parents=True)
    run(["tar", "-C", root, "-xf", bare])
    apt = ["apt-get", "-q", "-y", "-o", f"Dir={root}/", "-o", f"Dir::State::status={root}/var/lib/dpkg/status"]
    apt += ["-o", f"Dir::Cache::archives={folder}/", "-o", "APT::Sandbox::User=root"]
    run([*apt, "update"])
    run([*apt, "install", "--download-only", *names])
    (folder / "Packages").write_text("".join(map(_entry, sorted(folder.glob("*.deb")))))
    shutil.rmtree(root)
    stamp.write_text(" ".join(names))
    return folder


def _entry(package: Path) -> str:
    """The paragraph of the list of a repository (deb822(5))."""
    digest = hashlib.sha256(package.read_bytes()).hexdigest()
    control = run(["dpkg-deb", "--field", package]).rstrip("\n")
    return f"{control}\nFilename: ./{package.name}\nSize: {package.stat().st_size}\nSHA256: {digest}\n\n"


class Authority:
    """A certification authority of the rehearsal, and certificates of hosts, by openssl."""

    def __init__(self, folder: Path) -> None:
        """Raises MachineError."""
        self.folder = folder
        self.certificate = folder / "authority.crt"
        folder.mkdir(parents=True, exist_ok=True)
        words = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
        words += ["-days", "7", "-subj", "/CN=Authority of the rehearsal", "-out", str(self.certificate)]
        run([*words, "-keyout", folder / "authority.key"])

    def issue(self, name: str) -> tuple[Path, Path]:
        """Certificate and key for a host. Raises MachineError."""
        certificate, key = self.folder / f"{name}.pem", self.folder / f"{name}.key"
        words = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
        words += ["-days", "7", "-subj", f"/CN={name}", "-addext", f"subjectAltName=DNS:{name}"]
        words += ["-addext", "basicConstraints=critical,CA:FALSE", "-addext", "extendedKeyUsage=serverAuth"]
        words += ["-CA", str(self.certificate), "-CAkey", str(self.folder / "authority.key")]
        run([*words, "-out", certificate, "-keyout", key])
        return certificate, key
