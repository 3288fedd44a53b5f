"""The setup key that a person copies from the service to this machine."""

from __future__ import annotations

import base64
import binascii
import json
from dataclasses import dataclass, field

from .tunnel.service import ServiceAddress

PREFIX = "wb1."
#: Characters.
MAX_KEY = 4096


class SetupKeyFormatError(ValueError):
    """The text is no setup key; the text of the error is for the person."""


@dataclass(frozen=True)
class SetupKey:
    """service: where to go; secret: what is shown there, once; endpoint: its id."""

    service: ServiceAddress
    endpoint: str
    secret: str = field(repr=False)

    @classmethod
    def parse(cls, text: str) -> SetupKey:
        """Parse a text that begins with `PREFIX`. Raises SetupKeyFormatError."""
        coded = "".join(text.split())
        if not coded.startswith(PREFIX) or len(coded) > MAX_KEY:
            raise SetupKeyFormatError(f"This is not a setup key of Waybill: one begins with {PREFIX}")
        try:
            held = json.loads(base64.b64decode(_padded(coded[len(PREFIX) :]), b"-_", validate=True))
            url, secret, endpoint, pins = held["u"], held["s"], held["e"], held.get("p", [])
            if not all(isinstance(one, str) for one in (url, secret, endpoint)) or not isinstance(pins, list):
                raise TypeError("texts, and a list of pins")
        except (binascii.Error, ValueError, TypeError, KeyError, AttributeError, RecursionError):
            raise SetupKeyFormatError("This setup key is damaged. Copy all of it, in one piece.") from None
        return cls(ServiceAddress(url.rstrip("/"), tuple(map(str, pins))), endpoint, secret)


def _padded(text: str) -> str:
    return text + "=" * (-len(text) % 4)
