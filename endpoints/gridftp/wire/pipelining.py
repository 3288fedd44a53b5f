"""Servers that lose commands: they read one, and throw away what else has arrived, or hang up because of it.

Commands are sent without waiting for the replies to earlier ones, which RFC 959 does not forbid and GFD.47 asks for.
Some servers empty their input with the greeting, after a login or after each command, and then wait for a command that
they have thrown away. Such a server is asked one command at a time. Nobody who answers has to wait for that:

- A login that is not answered any more after the greeting is tried again, one command at a time. Where that works,
  three NOOP together show whether the server loses commands at the login only. It loses them later, too, where it
  answers some of the three and the connection lives. A connection that ends there, or on which none is answered, may
  have other reasons: it counts from the second one in a row on, each after a login that worked.
- A login whose connection ends is tried again as it was. Where that ends, too, the third try is one command at a time,
  and where this one works, the server is asked for the three NOOP as above.
- Later, a NOOP follows commands that have been unanswered for `PROBE_AFTER`. A server that answers it, and not those,
  has lost them.
"""

from __future__ import annotations

import enum

from .server_memory import Server, ServerMemory

#: Seconds without an octet in a login, after the greeting, until commands count as lost.
LOGIN_SILENCE = 5.0
#: Seconds without an answer after which a NOOP shows whether the server waits for commands.
PROBE_AFTER = 20.0
#: Seconds for the answers to commands that are sent together as a test, and their number.
TEST_SECONDS, TEST_COMMANDS = 5.0, 3


class Pipelining(enum.Enum):
    """How a server may be asked, where it is not the usual way."""

    #: A login was not answered, or ended twice: one command at a time, until more is known.
    SUSPECTED = enum.auto()
    #: One command at a time during the login.
    AFTER_LOGIN = enum.auto()
    #: One command at a time.
    NEVER = enum.auto()


_memory: ServerMemory[Pipelining] = ServerMemory()


def of(server: Server | None) -> Pipelining | None:
    """None: the usual way."""
    return _memory.get(server) if server else None


def note(server: Server, fact: Pipelining) -> None:
    _memory.note(server, fact)


def forget(server: Server) -> None:
    _memory.forget(server)
