"""The settings of a box. Options of an earlier setup stay valid until they are given again. They hold no secret."""

from __future__ import annotations

import dataclasses
import json
import re
import secrets
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from deploy.endpoint.authority import is_address
from deploy.endpoint.boxed.errors import BoxError

FOLDER = Path("/etc/waybill-endpoint")
NAME = "settings.json"
HOST = re.compile(r"(?=.{1,253}$)[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?(\.[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?)*")
ENDPOINT_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,127}")
PAM_SERVICE = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")


#: The prefix of the names that a box issues.
OWN = "/O=Waybill Endpoint/OU=box "


@dataclass(frozen=True)
class BoxSettings:
    """`address`: where to listen ("" for all). `hours`: the lifetime of certificates of the online authority."""

    name: str = ""
    host: str = ""
    port: int = 2811
    myproxy_port: int = 7512
    data_ports: str = "50000-51000"
    address: str = ""
    waybill: str = ""
    public: bool = False
    pam_service: str = "waybill-myproxy"
    hours: int = 24
    systemd: bool = True
    namespace: str = ""
    endpoint_id: str = ""
    #: True from before the request for registration until the id is written here.
    registering: bool = False

    def checked(self) -> BoxSettings:
        """Raises BoxError that names the option."""
        if not (HOST.fullmatch(self.host) or is_address(self.host)):
            raise BoxError("--host: the name under which others reach this machine, such as dtn.example.org")
        if not ENDPOINT_NAME.fullmatch(self.name):
            raise BoxError("--name: letters, digits, '-', '_' and '.', such as dtn")
        if self.address and not is_address(self.address):
            raise BoxError("--address: an IP address of this machine")
        if not self.waybill.startswith(("https://", "http://")):
            raise BoxError("--waybill: the address of the service, such as https://waybill.example.org")
        if not PAM_SERVICE.fullmatch(self.pam_service):
            raise BoxError("--pam-service: the name of a file in /etc/pam.d")
        if not 1 <= self.hours <= 24 * 365:
            raise BoxError("--hours: from 1 to 8760")
        self._check_ports()
        return self

    def _check_ports(self) -> None:
        if not all(1 <= port <= 65535 for port in (self.port, self.myproxy_port)) or self.port == self.myproxy_port:
            raise BoxError("--port and --myproxy-port: two different ports from 1 to 65535")
        first, last = self.data_range
        if not 1 <= first <= last <= 65535:
            raise BoxError("--data-ports: two ports from 1 to 65535, such as 50000-51000")
        if any(first <= port <= last for port in (self.port, self.myproxy_port)):
            raise BoxError("--data-ports: the other ports must not lie among them")

    @property
    def data_range(self) -> tuple[int, int]:
        first, _, last = self.data_ports.partition("-")
        return (int(first), int(last)) if first.isdecimal() and last.isdecimal() else (0, 0)

    @property
    def myproxy_server(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.myproxy_port}"

    @property
    def has_own_name(self) -> bool:
        """False for an old box: other boxes of this host may have an authority of the same name."""
        return self.namespace.startswith(OWN)

    def user_subject(self, name: str) -> str:
        """Users have a branch of their own, so that no account name can be that of a host."""
        return f"{self.namespace}/OU=people/CN={name}"

    def with_options(self, options: dict[str, Any]) -> BoxSettings:
        """Replace the settings that an option gives (not None). The namespace stays that of the first setup."""
        known = {field.name for field in dataclasses.fields(self)}
        said = {name: value for name, value in options.items() if name in known and value is not None}
        after = dataclasses.replace(self, **said)
        if not after.namespace:
            after = dataclasses.replace(after, namespace=new_namespace(after.host))
        return after

    def text(self) -> str:
        return json.dumps(dataclasses.asdict(self), indent=2, sort_keys=True) + "\n"


def new_namespace(host: str) -> str:
    """The namespace of the names that one box may certify. No other box of this host shares it, nor does a box that is
    set up again. Older boxes have `/O=Waybill Endpoint/OU=HOST`, below which no such name can be.
    """
    return f"{OWN}{secrets.token_hex(4)}/OU={host}"


def load(folder: Path) -> BoxSettings | None:
    """The settings of the last setup; None if it did not come so far. Raises BoxError."""
    path = folder / NAME
    try:
        document = json.loads(path.read_text())
        return BoxSettings(**document)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError) as error:
        raise BoxError(f"{path} cannot be read: {error}") from error
