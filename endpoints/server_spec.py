"""The address of a server of an endpoint: scheme, host, port, and what the server must prove."""

from __future__ import annotations

from dataclasses import dataclass, field
from urllib.parse import urlsplit

from identity.gsi.printable import FORBIDDEN

from .addresses.gate import valid_host
from .errors import EndpointInvalidError
from .fields import joined
from .ssh.keys import valid_fingerprint

DEFAULT_PORTS = {"gsiftp": 2811, "ftp": 21, "sshftp": 22, "ssh": 22, "sftp": 22, "ftpes": 21}
#: Servers that are identified by the key of their host.
SSH_SCHEMES = frozenset({"sshftp", "ssh", "sftp"})
#: Servers that are reached through a jump host, where their endpoint names one. All others are connected to directly.
JUMP_SCHEMES = frozenset({"ssh"})
#: Servers that are, or may be, known by the fingerprint of a key in `subject`: of FTP over TLS, without an authority.
PINNED_SCHEMES = SSH_SCHEMES | {"ftpes"}


@dataclass(frozen=True, slots=True)
class ServerSpec:
    """The address of a server, checked when it is created. Raises EndpointInvalidError.

    confirmed: a person has given or compared the host key in `subject`.
    """

    hostname: str
    port: int = 2811
    scheme: str = "gsiftp"
    subject: str = ""
    confirmed: bool = field(default=True, compare=False)

    def __post_init__(self) -> None:
        if self.scheme not in DEFAULT_PORTS:
            raise EndpointInvalidError("scheme", "A server's scheme is one of gsiftp, ftp, ftpes, sshftp, ssh, sftp.")
        if not valid_host(self.hostname):
            raise EndpointInvalidError("hostname", "This is not a host name or an IP address.")
        if not 1 <= self.port <= 65535:
            raise EndpointInvalidError("port", "A port is a number from 1 to 65535.")
        if len(self.subject) > 1024 or FORBIDDEN.search(self.subject):
            raise EndpointInvalidError("subject", "A subject has at most 1024 characters, and no control ones.")
        if self.scheme in PINNED_SCHEMES and self.subject and not valid_fingerprint(self.subject):
            reason = (
                f"For an {self.scheme} server it is the fingerprint of its key, in the form of ssh-keygen -l: "
                "SHA256:..."
            )
            raise EndpointInvalidError("subject", reason)

    @classmethod
    def parse(cls, uri: str, subject: str = "") -> ServerSpec:
        """Parse `gsiftp://host:2811`; the port is optional, and nothing may follow it. Raises EndpointInvalidError."""
        try:
            parts = urlsplit(uri)
            port = parts.port
        except ValueError as error:
            raise EndpointInvalidError("uri", f"This is not an address: {error}.") from error
        if FORBIDDEN.search(uri) or parts.path not in ("", "/") or "@" in parts.netloc or parts.query or parts.fragment:
            raise EndpointInvalidError("uri", "A server's address looks like gsiftp://host:2811, and has no more.")
        default = DEFAULT_PORTS.get(parts.scheme, 1)
        return cls(parts.hostname or "", default if port is None else port, parts.scheme, subject)

    @property
    def columns(self) -> dict[str, object]:
        """The columns of `Server` that hold it."""
        confirmed = self.confirmed and bool(self.subject) and self.scheme in PINNED_SCHEMES
        address = {"scheme": self.scheme, "hostname": self.hostname, "port": self.port, "subject": self.subject}
        return {**address, "host_key_confirmed": confirmed}

    @property
    def uri(self) -> str:
        return f"{self.scheme}://{joined(self.hostname, self.port)}"
