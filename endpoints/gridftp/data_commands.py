"""What a session's server is told of its data connections, and what it refuses (RFC 2228 section 3, GFD.47).

A command that is refused leaves all as it was, so what holds is known after each answer. Who asks for a protection
then looks at `refused`, and asks for another one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from .faults import Fault, FaultError, Kind, Scope, Side, classify
from .replies import Reply
from .throw_away import ThrowAway

if TYPE_CHECKING:
    from .client import GridFTPSession

#: The argument of PBSZ, which must come before PROT (RFC 2228 section 3): what the toolkit's client says.
BUFFER = b"1048576"
#: What another protection can be had without. PROT C is what a session begins with, DCAU N what is left in the end.
GIVES_WAY = frozenset({"DCSC P", "DCSC D", "DCAU A", "DCAU S", "PROT P"})
#: Refusals that another moment may not bring.
_PASSING = frozenset({Kind.ENDPOINT_TOO_BUSY, Kind.NO_SPACE_LEFT, Kind.TIMEOUT})


class Told(NamedTuple):
    """What a session's server was told of its data connections; by default nothing. Only for protected sessions.

    dcsc: the name of the throw-away key; "": its own credential, or the user's proxy. dcau: b"" is what the server does
    by itself: the toolkit's "A" after GSI, and "N" over ssh, where PROT P then would encrypt nothing.
    """

    dcsc: str = ""
    dcau: bytes = b""
    prot: bytes = b"C"


#: Nobody knows: part of what was sent may have been heard.
UNKNOWN = Told("?", b"?", b"?")


class RefusedError(FaultError):
    """The server does not do one of the things that another protection can be had without; `refused` has it now."""


async def tell(session: GridFTPSession, wanted: Told, key: ThrowAway | None = None, side: Side = Side.UNKNOWN) -> None:
    """All that is new to it, in one go. Raises RefusedError, and FaultError for what has no way round it."""
    told = session.data_security or UNKNOWN
    if not session.login.protected or told == wanted:
        return
    # Whoever is interrupted here does not know what was heard.
    session.data_security = None
    answers = await _say(session, list(_commands(told, wanted, key)), key)
    refused = {word: reply for word, reply in answers.items() if _is_refused(session, word, reply)}
    session.data_security = _now(told, wanted, answers.keys() - refused.keys())
    faults = {word: _refusal(word, reply, key, side) for word, reply in refused.items()}
    for word, fault in faults.items():
        if word not in GIVES_WAY:
            raise FaultError(_final(fault))
        session.refused[word] = fault
    if faults:
        raise RefusedError(next(iter(faults.values())))


async def _say(
    session: GridFTPSession, commands: list[tuple[str, bytes]], key: ThrowAway | None
) -> Mapping[str, Reply]:
    """The answer to each command, by its verb and the first letter of its argument."""
    try:
        replies = await asyncio.gather(*(session.connection.request(*command) for command in commands))
    except FaultError as error:
        raise FaultError(_scrubbed(error.fault, key)) from None
    return {f"{verb} {argument[:1].decode()}": reply for (verb, argument), reply in zip(commands, replies, strict=True)}


def _commands(told: Told, wanted: Told, key: ThrowAway | None) -> Iterator[tuple[str, bytes]]:
    """What leads from the one to the other. Where data goes bare, it does not matter which key the server has."""
    if wanted.dcau != b"N" and told.dcsc != wanted.dcsc:
        yield "DCSC", key.argument if key else b"D"
    if told.dcau != wanted.dcau:
        yield "DCAU", wanted.dcau
    if told.prot != wanted.prot:
        yield "PBSZ", BUFFER
        yield "PROT", wanted.prot


def _now(told: Told, wanted: Told, taken: Collection[str]) -> Told:
    """What holds: what was asked for and not refused, and else what held before."""
    heard = {word.partition(" ")[0] for word in taken}
    return Told(
        wanted.dcsc if "DCSC" in heard else told.dcsc,
        wanted.dcau if "DCAU" in heard else told.dcau,
        wanted.prot if "PROT" in heard else told.prot,
    )


def _is_refused(session: GridFTPSession, word: str, reply: Reply) -> bool:
    """Whether something does not hold that was asked for. Of PBSZ the answer to PROT tells enough."""
    bare_anyway = word == "DCAU N" and "DCAU" not in session.features
    return reply.is_error and not word.startswith("PBSZ") and not bare_anyway


def _refusal(word: str, reply: Reply, key: ThrowAway | None, side: Side) -> Fault:
    """retryable: another time the server may take it."""
    fault = classify(reply, side)
    passing = reply.code < 500 or fault.kind in _PASSING
    return _scrubbed(replace(fault, scope=Scope.SESSION, retryable=passing, raw=f"{word}: {fault.raw}"), key)


def _final(fault: Fault) -> Fault:
    """There is no other way to move data to or from this server."""
    if fault.retryable:
        return fault
    advice = "The server takes no command that settles how its data connections are protected; tell its administrator."
    return replace(fault, kind=Kind.UNSUPPORTED, scope=Scope.ENDPOINT, advice=advice)


def _scrubbed(fault: Fault, key: ThrowAway | None) -> Fault:
    return replace(fault, raw=key.scrub(fault.raw)) if key else fault
