"""A new key for the vault without a pause: rows are sealed anew one by one while the service runs (decision 0018).

Rooms above that keep sealed things of their own `register` them here: no import points up.
"""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from django.db import models, transaction

from . import keyring
from .errors import VaultError, VaultKeyMissingError
from .hidden import Hidden
from .models import Credential, PendingSecret
from .rows import associated

#: Row ids that are read at a time.
PAGE = 500
#: A process that has not heard of the new key yet may seal by the old one while we are at it.
PASSES = 3


@dataclass(frozen=True, slots=True)
class Sealed:
    """Rows with something sealed in `column`, by the key that their column `key_id` names.

    associated: what a row's octets are sealed with, see `keyring.seal`.
    """

    model: type[models.Model]
    column: str
    associated: Callable[[Any], bytes]

    @property
    def rows(self) -> models.QuerySet[Any]:
        return self.model._default_manager.all()

    def unseal(self, row: Any) -> Hidden:
        return Hidden(keyring.unseal(bytes(getattr(row, self.column)), self.associated(row)))

    def seal(self, row: Any, secret: Hidden) -> None:
        setattr(row, self.column, keyring.seal(secret, self.associated(row)))
        row.key_id = keyring.key_id(getattr(row, self.column))


_SEALED = {kind.model: kind for kind in (Sealed(one, "sealed", associated) for one in (Credential, PendingSecret))}


def register(kind: Sealed) -> None:
    """From now on these rows are sealed anew too, and counted."""
    _SEALED[kind.model] = kind


@dataclass(frozen=True, slots=True)
class Rotation:
    """What a rotation did: rows sealed anew by the newest key, and rows that stay as they are for no key opens them."""

    key_id: str
    resealed: int
    unopened: int


@dataclass(slots=True)
class Status:
    """What the vault holds. Keys are named by id: `keys` those that are configured, the newest first.

    `rows` counts what is sealed by each key, configured or not; `broken` those that were changed since.
    """

    keys: tuple[str, ...]
    rows: Counter[str] = field(default_factory=Counter)
    broken: int = 0

    @property
    def missing(self) -> int:
        """Rows that are sealed by keys that we do not have."""
        return sum(count for name, count in self.rows.items() if name not in self.keys)


def rotate() -> Rotation:
    """Seal everything by the newest key, each row in a transaction of its own, while others read and write.

    May be stopped at any moment and begun again. Raises VaultKeyNotConfiguredError.
    """
    name = keyring.newest().name
    resealed = unopened = 0
    for _ in range(PASSES):
        done, unopened = _pass(name)
        resealed += done
        if not done:
            break
    return Rotation(name, resealed, unopened)


def status() -> Status:
    """Count the rows by key, and try whether each can be opened."""
    found = Status(tuple(key.name for key in keyring.configured()))
    for kind in _SEALED.values():
        for pk in _ids(kind, ""):
            if (row := kind.rows.filter(pk=pk).first()) is not None:
                found.rows[row.key_id] += 1
                found.broken += _is_broken(kind, row)
    return found


def _pass(name: str) -> tuple[int, int]:
    """How many rows were sealed anew, and how many could not be."""
    outcomes = Counter(_reseal(kind, pk, name) for kind in _SEALED.values() for pk in _ids(kind, name))
    return outcomes[True], outcomes[False]


def _reseal(kind: Sealed, pk: uuid.UUID, name: str) -> bool | None:
    """Whether it could be done; None where there is nothing to do any more."""
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


def _is_broken(kind: Sealed, row: Any) -> bool:
    try:
        named = keyring.key_id(bytes(getattr(row, kind.column))) == row.key_id
        kind.unseal(row)
    except VaultKeyMissingError:
        return False
    except VaultError:
        return bool(keyring.configured())
    return not named


def _ids(kind: Sealed, without: str) -> Iterator[uuid.UUID]:
    """Rows that are not sealed by the key `without`, by id, a page at a time."""
    rows = kind.rows.exclude(key_id=without).order_by("pk").values_list("pk", flat=True)
    page = list(rows[:PAGE])
    while page:
        yield from page
        page = list(rows.filter(pk__gt=page[-1])[:PAGE])
