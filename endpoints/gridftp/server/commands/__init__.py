"""The commands of the server, one module for each family.

To add a command, write its handler in a module of this package, an old or a new one; no other file changes:

    @command("XCUP", feature="XCUP")
    def change_to_parent(session: ServerSession, argument: bytes) -> None:
        session.current = normalize(b"..", session.current)
        session.reply(250, "OK.")

A handler replies with `session.reply` (one line) or `session.say` (the octets of a reply), or raises
CommandRefusedError with the reply's code and text, or OSError, which `os_error_reply` turns into a reply. It runs in
the session's worker thread, and so may block. The options of `command` are in `table`; `site` and `options` register
the words after SITE and OPTS. HELP and FEAT list the command by themselves.

All modules of this package are imported here, in the order of their names, and fill the tables.
"""

from __future__ import annotations

import importlib
import pkgutil

from .table import COMMANDS, ServerCommand

__all__ = ["COMMANDS", "ServerCommand"]

for _module in sorted(module.name for module in pkgutil.iter_modules(__path__)):
    importlib.import_module(f"{__name__}.{_module}")
