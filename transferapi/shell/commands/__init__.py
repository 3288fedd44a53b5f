"""The commands, one module for each family."""

from __future__ import annotations

import importlib
import pkgutil


def load() -> None:
    """Import each module of this folder: it declares its commands."""
    for module in pkgutil.iter_modules(__path__):
        importlib.import_module(f"{__name__}.{module.name}")
