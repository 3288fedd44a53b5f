"""The address of a server of an endpoint: scheme, host, port, and what the server must prove."""

from __future__ import annotations

from dataclasses import dataclass, field
from urllib.parse import urlsplit

from identity.error_categories import InvalidFieldError
from identity.gsi.printable import FORBIDDEN

from . import protocols
from .addresses.gate import valid_host
from .fields import joined
from .protocols import PROTOCOLS, USUAL, of_scheme
from .ssh.keys import valid_fingerprint


@dataclass(frozen=True, slots=True)
class ServerSpec:
    """The address of a server, checked when it is created. Raises InvalidFieldError.

    confirmed: a person has given or compared the host key in `subject`.
    """

    hostname: str
    port: int = PROTOCOLS[USUAL].port
    scheme: str = USUAL
    subject: str = ""
    confirmed: bool = field(default=True, compare=False)

    def __post_init__(self) -> None:
        if self.scheme not in PROTOCOLS:
            raise InvalidFieldError("scheme", f"A server's scheme is {protocols.listed(PROTOCOLS)}.")
        if not valid_host(self.hostname):
            raise InvalidFieldError("hostname", "This is not a host name or an IP address.")
        if not 1 <= self.port <= 65535:
            raise InvalidFieldError("port", "A port is a number from 1 to 65535.")
        if len(self.subject) > 1024 or FORBIDDEN.search(self.subject):
            raise InvalidFieldError("subject", "A subject has at most 1024 characters, and no control ones.")
        if of_scheme(self.scheme).pinned and self.subject and not valid_fingerprint(self.subject):
            reason = (
                f"For an {self.scheme} server it is the fingerprint of its key, in the form of ssh-keygen -l: "
                "SHA256:..."
            )
            raise InvalidFieldError("subject", reason)

    @classmethod
    def parse(cls, uri: str, subject: str = "") -> ServerSpec:
        """Parse `gsiftp://host:2811`; the port is optional, and nothing may follow it. Raises InvalidFieldError."""
        try:
            parts = urlsplit(uri)
            port = parts.port
        except ValueError as error:
            raise InvalidFieldError("uri", f"This is not an address: {error}.") from error
        if FORBIDDEN.search(uri) or parts.path not in ("", "/") or "@" in parts.netloc or parts.query or parts.fragment:
            raise InvalidFieldError("uri", "A server's address looks like gsiftp://host:2811, and has no more.")
        default = of_scheme(parts.scheme).port
        return cls(parts.hostname or "", default if port is None else port, parts.scheme, subject)

    @property
    def columns(self) -> dict[str, object]:
        """The columns of `Server` that hold it."""
        confirmed = self.confirmed and bool(self.subject) and of_scheme(self.scheme).pinned
        address = {"scheme": self.scheme, "hostname": self.hostname, "port": self.port, "subject": self.subject}
        return {**address, "host_key_confirmed": confirmed}

    @property
    def uri(self) -> str:
        return f"{self.scheme}://{joined(self.hostname, self.port)}"
