"""`manage.py migrate`: Django's, with a bounded wait for each lock, and with the effects written for older versions."""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandError
from django.core.management.commands import migrate

from transferapi.schema_migration import BoundedExecutor, LockedError

# Django's command has no other place at which the executor is chosen.
vars(migrate)["MigrationExecutor"] = BoundedExecutor


class Command(migrate.Command):
    """Django's command with our executor."""

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            super().handle(*args, **options)
        except LockedError as error:
            raise CommandError(str(error)) from None
