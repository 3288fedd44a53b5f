"""Resources that a process of the service uses: its connections to PostgreSQL, its memory and its processor time."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType

from django.conf import settings

from transferapi.outages import database

_PAGE = os.sysconf("SC_PAGE_SIZE")
#: Folders whose free space is reported, by the value of the label.
FOLDERS: Mapping[str, Callable[[], str]] = MappingProxyType(
    {"home": lambda: str(settings.CONFIG.home), "temporary": tempfile.gettempdir}
)
#: Processor milliseconds that are in the table of tallies already.
_counted = 0


def gauges() -> dict[str, int]:
    """For the report of this process (`figures.OF_PROCESSES`). memory: resident octets; shared pages count too."""
    free = {f"free_{name}": octets for name, folder in FOLDERS.items() if (octets := _free(folder())) is not None}
    return {
        "connections": database.open_now(),
        "connections_most": database.bounds().most,
        "memory": resident_memory(),
        **free,
    }


def _free(folder: str) -> int | None:
    """Octets that an account which is not root may write; None: the folder cannot be looked at."""
    try:
        about = os.statvfs(folder)
    except OSError:
        return None
    return about.f_bavail * about.f_frsize


def resident_memory() -> int:
    """Octets; 0 where the system does not report it."""
    try:
        return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * _PAGE
    except (OSError, IndexError, ValueError):
        return 0


def take_processor_milliseconds(least: int = 1) -> int:
    """The processor time of this process since it was last taken; 0, and it is kept, where it is less than `least`."""
    global _counted
    now = int(time.process_time() * 1000)
    if now - _counted < least:
        return 0
    taken, _counted = now - _counted, now
    return taken
