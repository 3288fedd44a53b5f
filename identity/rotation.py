"""A new key for the vault without a pause: rows are sealed anew one by one while the service runs (decision 0018)."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from django.db import transaction

from . import keyring
from .errors import VaultError, VaultKeyMissingError
from .hidden import Hidden
from .models import Credential, PendingSecret
from .rows import seal, unseal

#: Row ids that are read at a time.
PAGE = 500
#: A process that has not heard of the new key yet may seal by the old one while we are at it.
PASSES = 3
_MODELS: tuple[type[Credential] | type[PendingSecret], ...] = (Credential, PendingSecret)


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
    for model in _MODELS:
        for pk in _ids(model, ""):
            if (row := model.objects.filter(pk=pk).first()) is not None:
                found.rows[row.key_id] += 1
                found.broken += _is_broken(row)
    return found


def _pass(name: str) -> tuple[int, int]:
    """How many rows were sealed anew, and how many could not be."""
    outcomes = Counter(_reseal(model, pk, name) for model in _MODELS for pk in _ids(model, name))
    return outcomes[True], outcomes[False]


def _reseal(model: type[Credential] | type[PendingSecret], pk: uuid.UUID, name: str) -> bool | None:
    """Whether it could be done; None where there is nothing to do any more."""
    with transaction.atomic():
        row = model.objects.select_for_update().filter(pk=pk).exclude(key_id=name).first()
        if row is None:
            return None
        try:
            seal(row, Hidden(unseal(row)))
        except VaultError:
            return False
        row.save(update_fields=["sealed", "key_id"])
    return True


def _is_broken(row: Credential | PendingSecret) -> bool:
    try:
        named = keyring.key_id(bytes(row.sealed)) == row.key_id
        Hidden(unseal(row))
    except VaultKeyMissingError:
        return False
    except VaultError:
        return bool(keyring.configured())
    return not named


def _ids(model: type[Credential] | type[PendingSecret], without: str) -> Iterator[uuid.UUID]:
    """Rows that are not sealed by the key `without`, by id, a page at a time."""
    rows = model.objects.exclude(key_id=without).order_by("pk").values_list("pk", flat=True)
    page = list(rows[:PAGE])
    while page:
        yield from page
        page = list(rows.filter(pk__gt=page[-1])[:PAGE])
