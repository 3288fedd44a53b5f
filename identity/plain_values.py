"""How values lie in Redis, for Django's cache: as JSON. Django's own way, pickle, runs what it reads."""

from __future__ import annotations

import json
import logging
from typing import TypeAlias

log = logging.getLogger(__name__)

#: What may be kept: no objects, and nothing that JSON would change.
Plain: TypeAlias = "bool | int | float | str | list[Plain] | dict[str, Plain] | None"


class PlainValues:
    """For the option `serializer` of Django's RedisCache. Numbers are written plainly, so that Redis can count."""

    def dumps(self, value: Plain) -> bytes:
        """Raises TypeError for what is not plain."""
        return json.dumps(value, allow_nan=False).encode()

    def loads(self, octets: bytes) -> Plain:
        """None, as where there is no value, for what we have not written."""
        try:
            found: Plain = json.loads(octets)
        except (ValueError, RecursionError):
            log.warning("a value of the cache was passed over: it is none of ours")
            return None
        return found
