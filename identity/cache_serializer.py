"""A JSON serializer for Django's Redis cache. Django's default, pickle, executes code from the data it reads."""

from __future__ import annotations

import json
import logging
from typing import TypeAlias

log = logging.getLogger(__name__)

#: The values that the cache stores: no objects, and nothing that JSON changes.
Plain: TypeAlias = "bool | int | float | str | list[Plain] | dict[str, Plain] | None"


class JsonSerializer:
    """The option `serializer` of Django's RedisCache. Numbers are plain digits: Redis can increment them."""

    def dumps(self, value: Plain) -> bytes:
        """Raises TypeError for a value that JSON does not have."""
        return json.dumps(value, allow_nan=False).encode()

    def loads(self, octets: bytes) -> Plain:
        """None, as for a missing key, when this service did not write the data."""
        try:
            found: Plain = json.loads(octets)
        except (ValueError, RecursionError):
            log.warning("ignored a cache value that this service did not write")
            return None
        return found
