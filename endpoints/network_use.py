"""Load limits of one task on an endpoint: `network_use` of the Transfer API and its preset values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from identity.error_categories import InvalidFieldError

from .models import Endpoint

#: The largest value for concurrency and for parallelism.
MOST = 64


class NetworkLimits(NamedTuple):
    """Concurrency: parallel sessions of one task; parallelism: streams of each session. None: not limited here.

    preferred: the value with which a task begins, unless its user asked for another.
    """

    max_concurrency: int | None = None
    preferred_concurrency: int | None = None
    max_parallelism: int | None = None
    preferred_parallelism: int | None = None


#: "normal" sets no limit: planner and tuner decide.
WORDS = {
    "normal": NetworkLimits(),
    "minimal": NetworkLimits(1, 1, 1, 1),
    "aggressive": NetworkLimits(MOST, 8, MOST, 8),
}
#: The endpoint has numbers of its own.
CUSTOM = "custom"


def limits(endpoint: Endpoint) -> NetworkLimits:
    """The limits and the preferred values of this endpoint for one task."""
    if endpoint.network_use != CUSTOM:
        return WORDS.get(endpoint.network_use, NetworkLimits())
    return NetworkLimits(*(getattr(endpoint, name) for name in NetworkLimits._fields))


def changed(endpoint: Endpoint, fields: Mapping[str, object]) -> dict[str, object]:
    """The column values that these fields of a document set; empty when the fields do not concern them.

    Numbers beside a word are accepted when they equal its preset values, so that a document that was read can be
    written back. Raises InvalidFieldError.
    """
    given = {name: _number(name, fields[name]) for name in NetworkLimits._fields if fields.get(name) is not None}
    word = fields.get("network_use")
    if word is None and not given:
        return {}
    if word is None:
        word = endpoint.network_use
    if word == CUSTOM:
        return {"network_use": word, **_custom({**limits(endpoint)._asdict(), **given})}
    if not isinstance(word, str) or word not in WORDS:
        raise InvalidFieldError("network_use", f"Expected one of {', '.join([*WORDS, CUSTOM])}.")
    for name, number in given.items():
        if number != getattr(WORDS[word], name):
            raise InvalidFieldError(name, f'Numbers are for the network_use "{CUSTOM}" only.')
    return {"network_use": word, **dict.fromkeys(NetworkLimits._fields)}


def _number(name: str, value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= MOST:
        raise InvalidFieldError(name, f"Expected a whole number from 1 to {MOST}.")
    return value


def _custom(numbers: dict[str, int | None]) -> dict[str, int | None]:
    for name, number in numbers.items():
        if number is None:
            raise InvalidFieldError(name, f'The network_use "{CUSTOM}" requires all four numbers.')
    found = NetworkLimits(**numbers)
    pairs = (found[:2], found[2:])
    for name, (most, preferred) in zip(("concurrency", "parallelism"), pairs, strict=True):
        if (preferred or 0) > (most or 0):
            raise InvalidFieldError(f"preferred_{name}", f"Expected no more than max_{name}.")
    return numbers
