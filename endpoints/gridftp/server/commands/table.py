"""The tables of commands: filled by the modules of this package, read by `SessionWorker`, HELP and FEAT."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Callable, Union

from endpoints.gridftp.server.session import ServerSession

Handler = Callable[[ServerSession, bytes], None]
#: A line of FEAT (RFC 2389 section 3.2): a text, or a function of the session.
Feature = Union[str, Callable[[ServerSession], str]]


@dataclass(frozen=True)
class ServerCommand:
    """One command. The handler replies, or raises.

    before_login: allowed without USER and PASS.
    sends, receives: it moves data; when it fails, the data channel is closed (see the server's package).
    makes_name: it makes a name; an obstacle to that is 553 (RFC 959 section 4.2.2).
    """

    handler: Handler
    before_login: bool = False
    sends: bool = False
    receives: bool = False
    makes_name: bool = False


COMMANDS: dict[bytes, ServerCommand] = {}
#: By the first word after SITE, SITE WAYBILL (our extensions) and OPTS.
SITE: dict[bytes, Handler] = {}
WAYBILL: dict[bytes, Handler] = {}
OPTIONS: dict[bytes, Handler] = {}
#: TVFS is RFC 3659 section 6: paths are those of one tree, and no command is needed for it.
FEATURES: list[Feature] = ["TVFS"]


def command(
    verb: str,
    *,
    before_login: bool = False,
    sends: bool = False,
    receives: bool = False,
    makes_name: bool = False,
    feature: Feature | None = None,
) -> Callable[[Handler], Handler]:
    """Register a handler. For the flags see `ServerCommand`; feature: its line in FEAT."""

    def register(handler: Handler) -> Handler:
        COMMANDS[verb.encode()] = ServerCommand(handler, before_login, sends, receives, makes_name)
        return _announce(feature, handler)

    return register


def site(verb: str, *, feature: Feature | None = None) -> Callable[[Handler], Handler]:
    """Register a handler of the arguments after `SITE verb`."""
    return _into(SITE, verb, feature)


def waybill(verb: str, *, feature: Feature | None = None) -> Callable[[Handler], Handler]:
    """Register a handler of the arguments after `SITE WAYBILL verb`."""
    return _into(WAYBILL, verb, feature)


def options(verb: str, *, feature: Feature | None = None) -> Callable[[Handler], Handler]:
    """Register a handler of the arguments after `OPTS verb`."""
    return _into(OPTIONS, verb, feature)


def _into(table: dict[bytes, Handler], verb: str, feature: Feature | None) -> Callable[[Handler], Handler]:
    def register(handler: Handler) -> Handler:
        table[verb.encode()] = handler
        return _announce(feature, handler)

    return register


def _announce(feature: Feature | None, handler: Handler) -> Handler:
    if feature is not None:
        FEATURES.append(feature)
    return handler
