"""How hard one task may work an endpoint: `network_use` of the Transfer API, and what its words stand for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from .errors import EndpointInvalidError
from .models import Endpoint

#: The largest number there is for lanes, and for the streams of one.
MOST = 64


class Limits(NamedTuple):
    """Concurrency: sessions of one task side by side; parallelism: streams of each. None: no word about it.

    preferred: what a task begins with, where nobody asked for something else.
    """

    max_concurrency: int | None = None
    preferred_concurrency: int | None = None
    max_parallelism: int | None = None
    preferred_parallelism: int | None = None


#: "normal" says nothing: the plan is left to the rules and the tuner.
WORDS = {
    "normal": Limits(),
    "minimal": Limits(1, 1, 1, 1),
    "aggressive": Limits(MOST, 8, MOST, 8),
}
#: The numbers are the endpoint's own.
CUSTOM = "custom"


def limits(endpoint: Endpoint) -> Limits:
    """What this endpoint allows one task, and would like it to begin with."""
    if endpoint.network_use != CUSTOM:
        return WORDS[endpoint.network_use]
    return Limits(*(getattr(endpoint, name) for name in Limits._fields))


def changed(endpoint: Endpoint, fields: Mapping[str, object]) -> dict[str, object]:
    """The columns as they shall be after these fields of a document; none when it says nothing of them.

    -> EndpointInvalidError. Beside a word, the numbers that it stands for are no contradiction: a document that was
    read can be written back.
    """
    given = {name: _number(name, fields[name]) for name in Limits._fields if fields.get(name) is not None}
    word = fields.get("network_use")
    if word is None and not given:
        return {}
    if word is None:
        word = endpoint.network_use
    if word == CUSTOM:
        return {"network_use": word, **_custom({**limits(endpoint)._asdict(), **given})}
    if not isinstance(word, str) or word not in WORDS:
        raise EndpointInvalidError("network_use", f"One of {', '.join([*WORDS, CUSTOM])} is wanted here.")
    for name, number in given.items():
        if number != getattr(WORDS[word], name):
            raise EndpointInvalidError(name, f'Numbers are for the network_use "{CUSTOM}" only.')
    return {"network_use": word, **dict.fromkeys(Limits._fields)}


def _number(name: str, value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= MOST:
        raise EndpointInvalidError(name, f"A whole number from 1 to {MOST} is wanted here.")
    return value


def _custom(numbers: dict[str, int | None]) -> dict[str, int | None]:
    for name, number in numbers.items():
        if number is None:
            raise EndpointInvalidError(name, f'The network_use "{CUSTOM}" wants all four numbers.')
    found = Limits(**numbers)
    pairs = (found[:2], found[2:])
    for name, (most, preferred) in zip(("concurrency", "parallelism"), pairs, strict=True):
        if (preferred or 0) > (most or 0):
            raise EndpointInvalidError(f"preferred_{name}", f"No more than max_{name} is wanted here.")
    return numbers
