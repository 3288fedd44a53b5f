"""The table of commands: filled by the modules that hold them, read by `Session`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .session import Session

Handler = Callable[["Session", bytes], None]


@dataclass(frozen=True, slots=True)
class Command:
    """handler says the replies itself, or raises. When one that moves data fails, the data channel is closed."""

    handler: Handler
    before_login: bool = False
    sends: bool = False
    receives: bool = False


COMMANDS: dict[bytes, Command] = {}
#: By the first word after SITE and after OPTS.
SITE: dict[bytes, Handler] = {}
OPTIONS: dict[bytes, Handler] = {}


def command(
    verb: str, *, before_login: bool = False, sends: bool = False, receives: bool = False
) -> Callable[[Handler], Handler]:
    def register(handler: Handler) -> Handler:
        COMMANDS[verb.encode()] = Command(handler, before_login, sends, receives)
        return handler

    return register


def site(verb: str) -> Callable[[Handler], Handler]:
    return _into(SITE, verb)


def options(verb: str) -> Callable[[Handler], Handler]:
    return _into(OPTIONS, verb)


def _into(table: dict[bytes, Handler], verb: str) -> Callable[[Handler], Handler]:
    def register(handler: Handler) -> Handler:
        table[verb.encode()] = handler
        return handler

    return register
