"""The configuration: environment variables, read once into a typed object."""

from .reading import KNOWN, SECRETS, Config, ConfigError, load, load_or_exit
from .sections import CHECKOUT, LOOPBACK_HOSTS

__all__ = ["CHECKOUT", "KNOWN", "LOOPBACK_HOSTS", "SECRETS", "Config", "ConfigError", "load", "load_or_exit"]
