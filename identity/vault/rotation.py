"""Key rotation of the vault: rows are encrypted again one by one while it runs (docs/decisions/credentials.md).

Packages above this one `register` their tables with encrypted columns, because no import points up.
"""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from django.db import transaction

from . import sealing
from .errors import VaultError, VaultKeyMissingError
from .sealing import CREDENTIALS, PENDING, SealedTable

#: Row ids that one query reads.
PAGE = 500
#: A process that has not read the new key yet may still encrypt by the old one during the rotation.
PASSES = 3

_SEALED = {kind.model: kind for kind in (CREDENTIALS, PENDING)}


def register(kind: SealedTable) -> None:
    """Include this table in every later rotation and status."""
    _SEALED[kind.model] = kind


@dataclass(frozen=True, slots=True)
class Rotation:
    """The result of a rotation: rows encrypted again by the newest key, and rows that no configured key opens."""

    key_id: str
    resealed: int
    unopened: int


@dataclass(slots=True)
class RotationStatus:
    """The contents of the vault by key. `keys`: the ids of the configured keys, the newest first.

    `rows` counts the rows by key id, configured or not; `broken` counts the rows that were changed by somebody else.
    """

    keys: tuple[str, ...]
    rows: Counter[str] = field(default_factory=Counter)
    broken: int = 0

    @property
    def missing(self) -> int:
        """The number of rows that are encrypted by keys that this service does not have."""
        return sum(count for name, count in self.rows.items() if name not in self.keys)


def rotate() -> Rotation:
    """Encrypt all rows by the newest key, each row in its own transaction, while others read and write.

    It may be interrupted at any time and started again. Raises VaultKeyNotConfiguredError.
    """
    name = sealing.newest().name
    resealed = unopened = 0
    for _ in range(PASSES):
        done, unopened = _pass(name)
        resealed += done
        if not done:
            break
    return Rotation(name, resealed, unopened)


def status() -> RotationStatus:
    """Count the rows by key, and try to decrypt each."""
    found = RotationStatus(tuple(key.name for key in sealing.configured()))
    for kind in _SEALED.values():
        for pk in _ids(kind, ""):
            if (row := kind.rows.filter(pk=pk).first()) is not None:
                found.rows[row.key_id] += 1
                found.broken += _is_broken(kind, row)
    return found


def _pass(name: str) -> tuple[int, int]:
    """The number of rows that were encrypted again, and the number that could not be."""
    outcomes = Counter(_reseal(kind, pk, name) for kind in _SEALED.values() for pk in _ids(kind, name))
    return outcomes[True], outcomes[False]


def _reseal(kind: SealedTable, pk: uuid.UUID, name: str) -> bool | None:
    """Whether the row could be encrypted again; None when the row is gone or done already."""
    with transaction.atomic():
        row = kind.rows.select_for_update(of=("self",)).filter(pk=pk).exclude(key_id=name).first()
        if row is None:
            return None
        try:
            kind.seal(row, kind.unseal(row))
        except VaultError:
            return False
        row.save(update_fields=[kind.column, "key_id"])
    return True


def _is_broken(kind: SealedTable, row: Any) -> bool:
    try:
        named = sealing.key_id(bytes(getattr(row, kind.column))) == row.key_id
        kind.unseal(row)
    except VaultKeyMissingError:
        return False
    except VaultError:
        return bool(sealing.configured())
    return not named


def _ids(kind: SealedTable, without: str) -> Iterator[uuid.UUID]:
    """The ids of the rows that are not encrypted by the key `without`, in order, one page per query."""
    rows = kind.rows.exclude(key_id=without).order_by("pk").values_list("pk", flat=True)
    page = list(rows[:PAGE])
    while page:
        yield from page
        page = list(rows.filter(pk__gt=page[-1])[:PAGE])
