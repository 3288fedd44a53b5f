"""A Docker Engine with Compose in a folder, without systemd, installed packages or an image registry.

Engine and base systems are Debian's packages, by mmdebstrap from the mirror that apt of this machine uses. The images
of `docker-compose.yml` are built from them under the same names. The engine lives in namespaces of its own (mounts,
processes and network), which end with this process, also where it is killed.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import IO

from deploy.stack.child import Child, spawn, stop

HERE = Path(__file__).parent
#: Of Debian 13, for the engine. A compiler is for the fault of the clock.
ENGINE_PACKAGES = (
    "docker.io,docker-cli,docker-compose,docker-buildx,ca-certificates,e2fsprogs,iptables,iproute2,procps,gcc,libc6-dev"
)
#: The base systems: Debian's release, and packages.
BASES = {
    "python": ("bookworm", "python3,python3-pip,python-is-python3,ca-certificates"),
    "postgres": ("trixie", "postgresql-17,gosu"),
    # Debian's testing has the next major version.
    "postgres18": ("forky", "postgresql-18,gosu"),
    "redis": ("bookworm", "redis-server,redis-tools,gosu"),
    "nginx": ("trixie", "nginx-light,gettext-base"),
}
#: The names under which the Dockerfile and docker-compose.yml of the project ask for them.
NAMES = {
    "python": "python:3.11-slim-bookworm",
    "postgres": "postgres:17",
    "postgres18": "postgres:18",
    "redis": "redis:7",
    "nginx": "nginx:1.28",
}
AUTHORITIES = Path("/etc/ssl/certs/ca-certificates.crt")
#: Options of an engine that only builds: it shares the network of this machine and changes nothing in it.
BUILDS_ONLY = ("--bridge=none", "--iptables=false", "--ip6tables=false", "--ip-forward=false", "--ip-masq=false")
#: IPv6 in the networks of containers, as Docker has it since version 27 without these.
RUNS = ("--experimental", "--ip6tables")
START_SECONDS, STOP_SECONDS = 60.0, 60.0
MOST_SECONDS = 1800.0


class EngineError(RuntimeError):
    """The engine cannot start, or a command in it failed; the text has the last lines of its output."""


def tell(words: str) -> None:
    sys.stderr.write(f"drill: {words}\n")
    sys.stderr.flush()


class Engine:
    """base: a folder for all files: base systems, images and volumes, about 4 GB."""

    def __init__(self, base: Path) -> None:
        self.base = base
        self.root = base / "root"
        #: The control groups of all containers, apart from those of a drill in another folder.
        self._group = "-".join(("drill", *base.resolve().parts[1:]))
        self._process: Child | None = None
        self._lock = base / "lock"
        self._locked: IO[str] | None = None

    def __enter__(self) -> Engine:
        """Raises EngineError where another process uses the folder."""
        self._locked = self._lock.open("w")
        try:
            fcntl.flock(self._locked, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self._locked.close()
            raise EngineError(f"another drill uses {self.base}; --base names another folder") from None
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, where: TracebackType | None) -> None:
        self.stop()
        assert self._locked is not None
        self._locked.close()

    def install(self) -> None:
        """The engine and the base systems, where they are not in the folder yet. Raises EngineError."""
        if shutil.which("mmdebstrap") is None:
            _run(["apt-get", "install", "-y", "-q", "--no-install-recommends", "mmdebstrap"])
        (self.base / "tar").mkdir(parents=True, exist_ok=True)
        installed = self.base / "installed"
        if not installed.exists() or installed.read_text() != ENGINE_PACKAGES:
            tell("installs Docker Engine and Compose from Debian 13")
            shutil.rmtree(self.root, ignore_errors=True)
            _debootstrap("trixie", ENGINE_PACKAGES, self.root)
            installed.write_text(ENGINE_PACKAGES)
        for name, (release, packages) in BASES.items():
            tar = self.base / "tar" / f"{name}.tar"
            if not tar.exists():
                tell(f"installs the base system of {NAMES[name]} from Debian {release}")
                _debootstrap(release, packages, tar)

    def start(self, *, builds_only: bool = False) -> None:
        """Raises EngineError."""
        shutil.copyfile("/etc/resolv.conf", self.root / "etc/resolv.conf")
        if AUTHORITIES.exists():
            shutil.copyfile(AUTHORITIES, self.root / AUTHORITIES.relative_to("/"))
        words = ["unshare", "--mount", "--pid", "--fork", "--kill-child", *([] if builds_only else ["--net"]), "--"]
        words += [str(HERE / "engine.sh"), str(self.root), f"--cgroup-parent=/{self._group}"]
        words += BUILDS_ONLY if builds_only else RUNS
        (self.root / "run/docker.sock").unlink(missing_ok=True)
        log = self.base / "engine.log"
        self._process = spawn(words, log=log)
        until = time.monotonic() + START_SECONDS
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > until:
                raise EngineError(f"the engine did not start; its log is {log}:\n{log.read_text()[-2000:]}")
            time.sleep(0.3)

    def stop(self) -> None:
        """End the engine with all containers, and remove the control groups that it leaves."""
        if self._process is not None and self._process.poll() is None:
            first = self._children()
            subprocess.run(["kill", "-TERM", *first], check=False, capture_output=True)
            try:
                self._process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                stop(self._process, timeout=1.0)
        self._process = None
        for group in Path("/sys/fs/cgroup").glob(f"**/{self._group}"):
            for folder in sorted(group.rglob("*/"), key=lambda path: -len(path.parts)):
                _remove(folder)
            _remove(group)

    @property
    def network(self) -> Path:
        """The network namespace of the containers."""
        assert self._process is not None
        return Path(f"/proc/{self._process.pid}/ns/net")

    def inside(
        self, words: Sequence[str], *, data: bytes | None = None, seconds: float = MOST_SECONDS, check: bool = True
    ) -> str:
        """Run a program of the engine's folder in its namespaces; the output. Raises EngineError."""
        assert self._process is not None
        pid = self._process.pid
        enter = ["nsenter", f"--target={pid}", "--mount", "--net", f"--pid=/proc/{pid}/ns/pid_for_children", "--"]
        clean = ["env", "-i", "PATH=/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root"]
        return _run([*enter, *clean, *words], data=data, seconds=seconds, check=check)

    def docker(self, *words: str, data: bytes | None = None, seconds: float = MOST_SECONDS, check: bool = True) -> str:
        """Raises EngineError."""
        return self.inside(["docker", *words], data=data, seconds=seconds, check=check)

    def base_images(self) -> None:
        """The images that docker-compose.yml and the Dockerfile name. Raises EngineError."""
        for name, image in NAMES.items():
            if not self.has_image(f"base-{name}"):
                tell(f"builds {image}")
                with (self.base / "tar" / f"{name}.tar").open("rb") as tar:
                    self._import(tar.fileno(), f"base-{name}")
            folder = self.root / "srv/images" / name
            shutil.copytree(HERE / "images" / name.rstrip("0123456789"), folder, dirs_exist_ok=True)
            if name == "python":
                _machine_settings(folder)
            version = [f"--build-arg=VERSION={image.partition(':')[2]}"] if name.startswith("postgres") else []
            self.docker("build", "-q", "--network", "host", *version, "-t", image, f"/srv/images/{name}")

    def has_image(self, name: str) -> bool:
        return bool(self.docker("images", "-q", name).strip())

    def build(self, folder: str, image: str) -> None:
        """The image of the project, by its own Dockerfile. folder: in the root of the engine. Raises EngineError."""
        tell(f"builds {image} by deploy/Dockerfile")
        given = [name for name in ("http_proxy", "https_proxy") if name in os.environ]
        proxies = [f"--build-arg={name}={os.environ[name]}" for name in given]
        words = ["build", "-q", "--network", "host", "-f", f"{folder}/deploy/Dockerfile", "-t", image, *proxies, folder]
        self.docker(*words)

    def _import(self, tar: int, name: str) -> None:
        assert self._process is not None
        pid = self._process.pid
        enter = ["nsenter", f"--target={pid}", "--mount", f"--pid=/proc/{pid}/ns/pid_for_children", "--"]
        words = [*enter, "env", "-i", "PATH=/usr/bin:/bin", "HOME=/root", "docker", "import", "-", name]
        subprocess.run(words, stdin=tar, check=True, stdout=subprocess.DEVNULL, timeout=MOST_SECONDS)

    def _answers(self) -> bool:
        return (self.root / "run/docker.sock").exists() and bool(
            self.docker("version", "-f", "{{.Server.Version}}", check=False, seconds=20).strip()
        )

    def _children(self) -> list[str]:
        assert self._process is not None
        return Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children").read_text().split()


def mirror() -> str:
    """The address of Debian's packages that apt of this machine uses; "": mmdebstrap's own default."""
    words = ["apt-get", "indextargets", "--format", "$(REPO_URI)", "Label: Debian", "Created-By: Packages"]
    found = subprocess.run(words, capture_output=True, text=True, check=False, timeout=60)
    return next(iter(found.stdout.split()), "")


def _debootstrap(release: str, packages: str, target: Path) -> None:
    # A mirror may stand still; what it has is signed all the same.
    words = [
        "mmdebstrap",
        "--quiet",
        '--aptopt=Acquire::Check-Valid-Until "false"',
        "--variant=minbase",
        "--components=main",
        f"--include={packages}",
        release,
    ]
    unfinished = target if target.suffix != ".tar" else target.with_suffix(".unfinished.tar")
    _run(["nice", *words, str(unfinished), *filter(None, [mirror()])])
    unfinished.rename(target)


def _machine_settings(folder: Path) -> None:
    """The settings of pip and the authorities of this machine, which may stand behind a mirror and a proxy."""
    settings = Path("/etc/pip.conf")
    (folder / "pip.conf").write_text(settings.read_text() if settings.exists() else "")
    (folder / "ca.crt").write_bytes(AUTHORITIES.read_bytes())


def _remove(group: Path) -> None:
    try:
        group.rmdir()
    except OSError:
        tell(f"{group} is still in use")


def _run(
    words: Sequence[str],
    *,
    data: bytes | None = None,
    seconds: float = MOST_SECONDS,
    check: bool = True,
    environment: Mapping[str, str] | None = None,
) -> str:
    try:
        done = subprocess.run(
            words, input=data, capture_output=True, check=False, timeout=seconds, env=environment or os.environ
        )
    except subprocess.TimeoutExpired:
        raise EngineError(f"{' '.join(words[-4:])}: not done after {seconds:g} s") from None
    if check and done.returncode:
        tail = (done.stdout + done.stderr).decode(errors="replace")[-3000:]
        raise EngineError(f"{' '.join(words[-6:])}: status {done.returncode}\n{tail}")
    return done.stdout.decode(errors="replace")
