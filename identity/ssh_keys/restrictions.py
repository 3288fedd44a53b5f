"""Restrictions of an ssh key: the commands that its sessions may run, and the endpoints that exist for them."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from uuid import UUID

from .errors import KeyFieldInvalidError

#: The most commands and endpoints of one key.
MAX_COMMANDS, MAX_ENDPOINTS = 64, 100
_COMMAND = re.compile(r"[a-z][a-z0-9-]{0,31}")


@dataclass(frozen=True, slots=True)
class KeyRestrictions:
    """The limits of a session that signed in by this key. None: no limit.

    commands: names of commands of the shell. endpoints: enforced by `endpoints.permissions.restricted_to`.
    """

    commands: frozenset[str] | None = None
    endpoints: frozenset[UUID] | None = None

    @property
    def sorted_commands(self) -> list[str]:
        """The commands for people; empty without a limit."""
        return sorted(self.commands or ())


UNRESTRICTED = KeyRestrictions()


def checked(commands: Collection[str] | None, endpoints: Collection[str | UUID] | None) -> KeyRestrictions:
    """Restrictions from names and UUIDs as a user wrote them. Raises KeyFieldInvalidError."""
    return KeyRestrictions(_commands(commands), _endpoints(endpoints))


def _commands(given: Collection[str] | None) -> frozenset[str] | None:
    if given is None:
        return None
    _check_number("commands", given, MAX_COMMANDS)
    if not all(_COMMAND.fullmatch(name) for name in given):
        raise KeyFieldInvalidError("commands", "A command is a name such as ls or endpoint-list.")
    return frozenset(given)


def _endpoints(given: Collection[str | UUID] | None) -> frozenset[UUID] | None:
    if given is None:
        return None
    _check_number("endpoints", given, MAX_ENDPOINTS)
    try:
        return frozenset(UUID(str(one)) for one in given)
    except ValueError:
        raise KeyFieldInvalidError("endpoints", "An endpoint is given by its UUID.") from None


def _check_number(field: str, given: Collection[object], most: int) -> None:
    if not 1 <= len(given) <= most:
        reason = f"Give 1 to {most} of them, or leave the field out for a key without this restriction."
        raise KeyFieldInvalidError(field, reason)
