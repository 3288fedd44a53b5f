"""Capabilities of Linux (capabilities(7)), by which a process that is not root's may do what its account may not."""

from __future__ import annotations

import codecs
import ctypes
import os
import sys
from importlib import import_module

_PR_SET_NO_NEW_PRIVS, _PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL = 38, 47, 4
_VERSION_3 = 0x20080522
#: Modules of the standard library that would be loaded later, perhaps from a folder that is closed to the account.
_LOADED_LATE = (
    *("encodings.ascii", "encodings.idna", "encodings.latin_1", "encodings.utf_8", "encodings.utf_8_sig"),
    *("concurrent.futures.thread", "linecache", "traceback"),
)


class _Header(ctypes.Structure):
    _fields_ = (("version", ctypes.c_uint32), ("pid", ctypes.c_int))


class _Sets(ctypes.Structure):
    _fields_ = (("effective", ctypes.c_uint32), ("permitted", ctypes.c_uint32), ("inheritable", ctypes.c_uint32))


def give_up_capabilities() -> None:
    """Leave this thread, and those that it starts, only the rights of its account; root keeps all.

    Files and folders that are open stay open. On other systems than Linux there are none. Raises OSError where the
    kernel refuses.
    """
    if sys.platform != "linux" or os.geteuid() == 0:
        return
    for name in _LOADED_LATE:
        import_module(name)
        if name.startswith("encodings."):
            codecs.lookup(name.partition(".")[2])
    libc = ctypes.CDLL(None, use_errno=True)
    # Kernels before 4.3 have no ambient capabilities.
    libc.prctl(_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)
    sets = (_Sets * 2)()
    if libc.capset(ctypes.byref(_Header(_VERSION_3, 0)), sets) or libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
