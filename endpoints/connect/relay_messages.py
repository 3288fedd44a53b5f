"""Requests of this service's own processes to a relay, and data tokens: signed with the secret of the service.

All processes of the service have SECRET_KEY; nobody else can sign. A request is one line, `WAYBILL <signed JSON>`; the
answer is two octets of length and a JSON object; after a successful one the connection carries octets.
"""

from __future__ import annotations

import base64
import json
import secrets
import uuid
from collections.abc import Mapping
from typing import Any, NamedTuple

from django.core import signing

#: The beginning of the line of a request; no HTTP request begins like this.
BEGINNING = b"WAYBILL "
MAX_REQUEST, MAX_ANSWER = 4096, 4096
#: Seconds for which a request is valid: processes on several machines have clocks that differ.
VALID_SECONDS = 60
_REQUEST, _TOKEN = "waybill.relay.request", "waybill.relay.data"
#: The longest life of a data token, in seconds.
MAX_TOKEN_SECONDS = 24 * 3600
#: The names of parties that are no agents: the service itself, and a server that connects to a port of the relay.
SERVICE, SERVER = "service", "server"
_NUMBERS = {SERVICE: uuid.UUID(int=0), SERVER: uuid.UUID(int=1)}
_NAMES = {number: name for name, number in _NUMBERS.items()}
#: Octets of the id of a token.
_ID = 8


class MessageError(Exception):
    """Not signed by this service, too old, or not what it should be."""


class DataToken(NamedTuple):
    """The right of two parties to be joined. parties: ids of endpoints, the second one may be SERVICE or SERVER."""

    id: bytes
    parties: tuple[str, str]
    user: str
    #: Unix time at which no more channels are opened.
    expires: int


def request(content: Mapping[str, Any]) -> bytes:
    return BEGINNING + signing.dumps(dict(content), salt=_REQUEST).encode() + b"\n"


def parse_request(line: bytes) -> dict[str, Any]:
    """line: without its end. Raises MessageError."""
    text = line.removeprefix(BEGINNING).decode("ascii", "replace")
    try:
        found = signing.loads(text, salt=_REQUEST, max_age=VALID_SECONDS)
    except (signing.BadSignature, ValueError):
        raise MessageError("not signed by this service, or too old") from None
    if not isinstance(found, dict):
        raise MessageError("not a request")
    return found


def answer(content: Mapping[str, Any]) -> bytes:
    octets = json.dumps(content).encode()
    return len(octets).to_bytes(2, "big") + octets


def new_token(parties: tuple[str, str], user: uuid.UUID | str, seconds: float, now: float) -> str:
    """At most 200 characters, letters, digits, "-", "_" and "~". now: Unix time.

    Raises ValueError where the parties are one and the same.
    """
    if parties[0] == parties[1] or parties[0] in _NUMBERS:
        raise ValueError("a relayed channel has two parties, the first of them an agent")
    second = _NUMBERS.get(parties[1]) or uuid.UUID(parties[1])
    ids = (uuid.UUID(parties[0]), second, uuid.UUID(str(user)))
    expires = int(now + min(seconds, MAX_TOKEN_SECONDS))
    octets = secrets.token_bytes(_ID) + b"".join(one.bytes for one in ids) + expires.to_bytes(8, "big")
    return _signer().sign(base64.urlsafe_b64encode(octets).decode().rstrip("="))


def parse_token(text: str) -> DataToken:
    """The token, which may have expired. Raises MessageError."""
    try:
        signed = _signer().unsign(text)
        octets = base64.urlsafe_b64decode(signed + "=" * (-len(signed) % 4))
    except (signing.BadSignature, ValueError):
        raise MessageError("not a token of this service") from None
    first, second, user = (uuid.UUID(bytes=octets[_ID + at : _ID + at + 16]) for at in (0, 16, 32))
    other = _NAMES.get(second, str(second))
    return DataToken(octets[:_ID], (str(first), other), str(user), int.from_bytes(octets[_ID + 48 :], "big"))


def _signer() -> signing.Signer:
    return signing.Signer(salt=_TOKEN, sep="~")
