"""The settings of a session's data connections: DCSC, DCAU, PBSZ and PROT (RFC 2228 section 3, GFD.47).

A refused command changes nothing, so that the settings in force are known after each answer. A caller that is refused
one protection reads `GridFTPSession.refused` and asks for another one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from typing import NamedTuple, Protocol

from .connection import ControlConnection
from .faults import Fault, FaultError, FaultScope, Kind, Side, classify
from .features import Features
from .login import Login
from .replies import Reply
from .third_party.dcsc_keys import DcscKey

#: The argument of PBSZ, which must come before PROT (RFC 2228 section 3), as the toolkit's client sends it.
BUFFER = b"1048576"
#: Settings that another protection does without. PROT C is the initial setting, DCAU N the last resort.
DISPENSABLE = frozenset({"DCSC P", "DCSC D", "DCAU A", "DCAU S", "PROT P"})
#: Refusals that may be over at another time.
_PASSING = frozenset({Kind.ENDPOINT_TOO_BUSY, Kind.NO_SPACE_LEFT, Kind.TIMEOUT})


class SessionSettings(NamedTuple):
    """The settings in force, or those wanted; by default those of a new session. Only for protected sessions.

    dcsc: the name of the throw-away key; "": the server's own credential, or the user's proxy. dcau: b"" is the
    server's default: the toolkit's is "A" after GSI, and "N" over ssh, where PROT P then would encrypt nothing.
    None: in force, unknown; wanted, of no importance.
    """

    dcsc: str | None = ""
    dcau: bytes | None = b""
    prot: bytes | None = b"C"

    def bare(self) -> SessionSettings:
        """DCAU N and PROT C; the server's key is of no importance then."""
        return self._replace(dcau=b"N", prot=b"C")


#: While commands are unanswered, or for good when their answers never came.
UNKNOWN = SessionSettings(None, None, None)


class SecuredSession(Protocol):
    """The part of `client.GridFTPSession` that has the settings."""

    connection: ControlConnection
    login: Login
    features: Features
    data_security: SessionSettings
    refused: dict[str, Fault]


class SettingRefusedError(FaultError):
    """The server refused a setting of `DISPENSABLE`; `GridFTPSession.refused` has it now."""


async def apply(
    session: SecuredSession, wanted: SessionSettings, key: DcscKey | None = None, side: Side = Side.UNKNOWN
) -> None:
    """Send the settings that are not in force yet, pipelined.

    Raises SettingRefusedError, and FaultError where a setting is refused that no other protection does without.
    """
    held = session.data_security
    if not session.login.protected or held == wanted:
        return
    # After an interruption of this request it is not known which settings the server has accepted.
    session.data_security = UNKNOWN
    answers = await _send(session, list(_commands(held, wanted, key)), key)
    refused = {word: reply for word, reply in answers.items() if _is_refused(session, word, reply)}
    session.data_security = _in_force(held, wanted, answers.keys() - refused.keys())
    faults = {word: _refusal(word, reply, key, side) for word, reply in refused.items()}
    for word, fault in faults.items():
        if word not in DISPENSABLE:
            raise FaultError(_final(fault))
        session.refused[word] = fault
    if faults:
        raise SettingRefusedError(next(iter(faults.values())))


async def _send(session: SecuredSession, commands: list[tuple[str, bytes]], key: DcscKey | None) -> Mapping[str, Reply]:
    """The answer to each command, by its verb and the first letter of its argument."""
    try:
        replies = await asyncio.gather(*(session.connection.request(*command) for command in commands))
    except FaultError as error:
        raise FaultError(_scrubbed(error.fault, key)) from None
    return {f"{verb} {argument[:1].decode()}": reply for (verb, argument), reply in zip(commands, replies, strict=True)}


def _commands(held: SessionSettings, wanted: SessionSettings, key: DcscKey | None) -> Iterator[tuple[str, bytes]]:
    """The commands that lead from one to the other. With DCAU N the server's key is of no importance."""
    if wanted.dcau != b"N" and held.dcsc != wanted.dcsc:
        yield "DCSC", key.argument if key else b"D"
    if wanted.dcau is not None and held.dcau != wanted.dcau:
        yield "DCAU", wanted.dcau
    if wanted.prot is not None and held.prot != wanted.prot:
        yield "PBSZ", BUFFER
        yield "PROT", wanted.prot


def _in_force(held: SessionSettings, wanted: SessionSettings, accepted: Collection[str]) -> SessionSettings:
    """The wanted settings where the server accepted them, and else those before."""
    verbs = {word.partition(" ")[0] for word in accepted}
    return SessionSettings(
        wanted.dcsc if "DCSC" in verbs else held.dcsc,
        wanted.dcau if "DCAU" in verbs else held.dcau,
        wanted.prot if "PROT" in verbs else held.prot,
    )


def _is_refused(session: SecuredSession, word: str, reply: Reply) -> bool:
    """Whether a wanted setting is not in force. A refused PBSZ does not matter: PROT is refused with it."""
    bare_anyway = word == "DCAU N" and "DCAU" not in session.features
    return reply.is_error and not word.startswith("PBSZ") and not bare_anyway


def _refusal(word: str, reply: Reply, key: DcscKey | None, side: Side) -> Fault:
    """The fault of a refused setting. retryable: the server may accept it at another time."""
    fault = classify(reply, side)
    passing = reply.code < 500 or fault.kind in _PASSING
    return _scrubbed(replace(fault, scope=FaultScope.SESSION, retryable=passing, raw=f"{word}: {fault.raw}"), key)


def _final(fault: Fault) -> Fault:
    """The fault of a refused setting without which no data can be moved to or from this server."""
    if fault.retryable:
        return fault
    advice = "The server refuses the commands that protect its data connections; inform its administrator."
    return replace(fault, kind=Kind.UNSUPPORTED, scope=FaultScope.ENDPOINT, advice=advice)


def _scrubbed(fault: Fault, key: DcscKey | None) -> Fault:
    return replace(fault, raw=key.scrub(fault.raw)) if key else fault
