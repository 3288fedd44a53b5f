"""A real nginx or HAProxy in front of a real web server: with our configuration, or with one of the test."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple, Self

from deploy.stack.child import spawn, stop
from deploy.stack.free_ports import free_port
from tests.waiting import eventually
from transferapi.config import CHECKOUT

FOLDER = CHECKOUT / "deploy" / "front"
_PATH = os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin"])


def installed() -> bool:
    return shutil.which("nginx", path=_PATH) is not None


def haproxy_installed() -> bool:
    return shutil.which("haproxy", path=_PATH) is not None


class Nginx:
    """Runs in the foreground, in a folder of its own that its unprivileged account can pass through."""

    def __init__(self, port: int, files: Mapping[str, str]) -> None:
        """files: what they hold, by name; nginx.conf is the first."""
        self.port = port
        #: Of the server for http, where the mode has one.
        self.redirect_port = free_port()
        self.folder = Path(tempfile.mkdtemp(prefix="waybill-nginx-"))
        self.folder.chmod(0o711)
        for name, text in files.items():
            (self.folder / name).write_text(text)

    @classmethod
    def of_the_product(cls, port: int, **values: str) -> Self:
        """Configure nginx from deploy/front as its image does. values: the variables of the templates."""
        made = cls(port, {})
        given = {
            "FRONT_FOLDER": str(made.folder),
            "FRONT_RUN": str(made.folder),
            "FRONT_LISTEN": f"127.0.0.1:{port}",
            "FRONT_REDIRECT": f"127.0.0.1:{made.redirect_port}",
            "FRONT_ACME": str(made.folder / "acme"),
            "FRONT_TLS": "tls",
            "PUBLIC_URL": "https://data.example.org",
            "RELAY": "127.0.0.1:9",
        }
        given["WEB_SECOND"] = given["EVENTS"] = values["WEB"]
        for template in FOLDER.glob("*.template"):
            text = re.sub(r"\$\{WAYBILL_([A-Z_]+)\}", lambda found: {**given, **values}[found[1]], template.read_text())
            (made.folder / template.stem).write_text(text)
        return made

    def __enter__(self) -> Self:
        log = self.folder / "log"
        words = [str(shutil.which("nginx", path=_PATH)), "-e", "stderr", "-g", "daemon off;"]
        self._process = spawn([*words, "-c", str(self.folder / "nginx.conf")], log=log, env=dict(os.environ))
        eventually(lambda: self._process.poll() is not None or (self.folder / "nginx.pid").exists())
        assert self._process.poll() is None, log.read_text()
        return self

    def reload(self) -> None:
        """As the page says. Raises CalledProcessError."""
        words = [str(shutil.which("nginx", path=_PATH)), "-e", "stderr", "-c", str(self.folder / "nginx.conf")]
        subprocess.run([*words, "-s", "reload"], check=True, capture_output=True, timeout=20)

    def __exit__(self, *_: object) -> None:
        stop(self._process)
        shutil.rmtree(self.folder)


class Haproxy(NamedTuple):
    """Its ports: the one with its options, and that for http."""

    port: int
    redirect_port: int


@contextmanager
def haproxy(web: str, options: str = "proto h1", **values: str) -> Iterator[Haproxy]:
    """Run HAProxy with our configuration. web: address and port. values: more variables, such as RELAY."""
    ports, folder = Haproxy(free_port(), free_port()), Path(tempfile.mkdtemp(prefix="waybill-haproxy-"))
    given = {
        "FRONT_LISTEN": f"127.0.0.1:{ports.port}",
        "FRONT_OPTIONS": options,
        "FRONT_REDIRECT": f"127.0.0.1:{ports.redirect_port}",
        "FRONT_SECRET": "",
        "PUBLIC_URL": "https://data.example.org",
        "REQUEST_SECONDS": "60",
        "WEB": web,
        "WEB_SECOND": web,
        "EVENTS": web,
        "RELAY": "127.0.0.1:9",
    }
    environment = {f"WAYBILL_{name}": text for name, text in (given | values).items()}
    words = [str(shutil.which("haproxy", path=_PATH)), "-W", "-db", "-f", str(FOLDER / "haproxy" / "haproxy.cfg")]
    log = folder / "log"
    process = spawn(words, log=log, env={**os.environ, **environment})

    def answers() -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", ports.redirect_port)) == 0

    try:
        eventually(lambda: process.poll() is not None or answers())
        assert process.poll() is None, log.read_text()
        yield ports
    finally:
        stop(process)
        shutil.rmtree(folder)
