"""The steps of a `ThirdPartyPair`: the purpose of each command that it sends, and the tag of its replies. Pure."""

from __future__ import annotations

from typing import NamedTuple

from .slots import FileSide, Slot


class Setup(NamedTuple):
    """A command that prepares others. required: a refusal loses the pair."""

    required: bool


class Listen(NamedTuple):
    """PASV, EPSV or SPAS to the listener; `number` counts them."""

    number: int


class Connect(NamedTuple):
    """PORT to a connector that may refuse it: nothing else is sent to it before it has accepted one."""


class Close(NamedTuple):
    """PASV to the connector, which closes its cached data connections."""


class Restart(NamedTuple):
    """REST before a STOR or RETR."""

    slot: Slot


class Move(NamedTuple):
    """STOR or RETR. progress: of the side that it goes to."""

    slot: Slot
    progress: FileSide


class Rename(NamedTuple):
    """RNTO."""

    slot: Slot


class Remove(NamedTuple):
    """DELE of what holds another file's octets; a refusal changes nothing."""


REQUIRED = Setup(required=True)
OPTIONAL = Setup(required=False)
CONNECT = Connect()
CLOSE = Close()
REMOVE = Remove()
