"""The configuration: environment variables, read once into a typed object.

The names below are loaded when they are used: a health check uses only modules that load little.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .reading import KNOWN, SECRETS, Config, ConfigError, load, load_or_exit
    from .sections import CHECKOUT, LOOPBACK_HOSTS

__all__ = ["CHECKOUT", "KNOWN", "LOOPBACK_HOSTS", "SECRETS", "Config", "ConfigError", "load", "load_or_exit"]


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from . import reading, sections

    return getattr(sections if name in ("CHECKOUT", "LOOPBACK_HOSTS") else reading, name)
