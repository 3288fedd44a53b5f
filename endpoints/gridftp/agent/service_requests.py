"""The requests of an agent to its service: set up, renew, and what is the newest program."""

from __future__ import annotations

import base64
import http.client
import json
import platform
import ssl
import sys
from typing import Any

from .keys import AgentIdentity, AgentKey
from .setup_key import SetupKey
from .tunnel.service import ServiceAddress, ServiceError, connect

#: Seconds for a connection, and for each wait for octets.
TIMEOUT = 20.0
#: The most octets of an answer.
MAX_ANSWER = 256 << 10
#: Signed, with the present chain, to renew a certificate.
RENEWAL = b"waybill connect renew 1\0"


class RequestFailedError(Exception):
    """The service cannot be reached, or refuses; the text is for the person.

    code: of the service; "" where it did not answer.
    """

    def __init__(self, reason: str, code: str = "") -> None:
        super().__init__(reason)
        self.code = code


def set_up(key: SetupKey, pair: AgentKey, version: str) -> dict[str, Any]:
    """Exchange the setup key for a certificate: `chain`, `endpoint_id`, `endpoint_name`, `time`.

    Raises RequestFailedError.
    """
    body = {"secret": key.secret, "request": pair.request("agent"), **_about(version)}
    return _checked(_ask(key.service, "POST", "/connect/setup", body), "chain", "endpoint_id", "endpoint_name", "time")


def renew(service: ServiceAddress, identity: AgentIdentity, version: str) -> dict[str, Any]:
    """Ask the service for a new certificate of the same key. Raises RequestFailedError."""
    signature = base64.b64encode(identity.sign(RENEWAL + identity.chain.encode())).decode()
    body = {"chain": identity.chain, "signature": signature, **_about(version)}
    return _checked(_ask(service, "POST", "/connect/renew", body), "chain", "time")


def newest(service: ServiceAddress) -> dict[str, Any]:
    """The program that the service offers: `version`, `sha256`, `pins`; and its `time`. Raises RequestFailedError."""
    return _checked(_ask(service, "GET", "/connect/version", None), "version", "sha256", "time")


def platform_text() -> str:
    """The system and the Python, for the owner to recognise the machine."""
    return f"{platform.system()} {platform.machine()}, Python {platform.python_version()}, {platform.node()}"[:128]


def _about(version: str) -> dict[str, str]:
    return {"version": version, "platform": platform_text()}


def _ask(service: ServiceAddress, method: str, path: str, body: dict[str, Any] | None) -> dict[str, Any]:
    try:
        sock = connect(service, TIMEOUT)
        sock.settimeout(TIMEOUT)
        connection = http.client.HTTPConnection(service.host, service.port, timeout=TIMEOUT)
        connection.sock = sock
        try:
            return _answer(connection, service, method, path, body)
        finally:
            connection.close()
    except ssl.SSLCertVerificationError as error:
        raise RequestFailedError(certificate_problem(service.host, error)) from None
    except ServiceError as error:
        raise RequestFailedError(f"{str(error)[:1].upper()}{str(error)[1:]}") from None
    except (OSError, http.client.HTTPException) as error:
        raise RequestFailedError(f"{service.host} cannot be reached: {str(error) or type(error).__name__}") from None


def _answer(
    connection: http.client.HTTPConnection, service: ServiceAddress, method: str, path: str, body: dict[str, Any] | None
) -> dict[str, Any]:
    headers = {"Host": service.authority, "Accept": "application/json", "Content-Type": "application/json"}
    connection.request(method, path, None if body is None else json.dumps(body).encode(), headers)
    answer = connection.getresponse()
    octets = answer.read(MAX_ANSWER + 1)
    try:
        if len(octets) > MAX_ANSWER:
            raise ValueError("too long")
        document = json.loads(octets)
        if not isinstance(document, dict):
            raise ValueError("no object")
    except (ValueError, RecursionError):
        raise RequestFailedError(
            f"{service.host} does not answer like Waybill (status {answer.status}): is the address right?"
        ) from None
    if answer.status // 100 != 2:
        raise RequestFailedError(
            str(document.get("message", answer.status))[:500], str(document.get("code", "?"))[:100]
        )
    return document


def _checked(document: dict[str, Any], *names: str) -> dict[str, Any]:
    if not all(isinstance(document.get(name), (str, int, float)) for name in names):
        raise RequestFailedError("The service answers in a way that this program does not know; get a newer one.")
    return document


def certificate_problem(host: str, error: ssl.SSLCertVerificationError) -> str:
    """A sentence for a TLS certificate that is not accepted."""
    reason = error.verify_message or str(error)
    return (
        f"The certificate of {host} is not trusted by this computer ({reason}). If a proxy of your network opens "
        f"encrypted connections, its authority must be known to Python {sys.version_info[0]}.{sys.version_info[1]}."
    )
