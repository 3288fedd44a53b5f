"""Secrets that are given as NAME, or as NAME_FILE: the path of a file that holds the secret.

No error holds a part of a secret: it names the variable, the path, and what is wrong with it.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping

#: Octets of a file: as many as Linux lets a variable have (MAX_ARG_STRLEN).
MAX_OCTETS = 128 << 10


def variable_of(environ: Mapping[str, str], name: str) -> str:
    """The variable that gives this secret, for error messages."""
    return f"{name}_FILE" if environ.get(f"{name}_FILE") and not environ.get(name) else name


def secret_text(environ: Mapping[str, str], name: str) -> str:
    """A secret variable, or the text of the file that NAME_FILE names; "": neither. Raises ValueError."""
    text, path = environ.get(name, ""), environ.get(f"{name}_FILE", "")
    if text and path:
        raise ValueError(f"given twice, also as {name}_FILE")
    return _text_of(path) if path else text


def _text_of(path: str) -> str:
    try:
        octets = _read(path)
    except OSError as error:
        raise ValueError(f"the file {path} cannot be read: {error.strerror}") from None
    if len(octets) > MAX_OCTETS:
        raise ValueError(f"the file {path} has more than {MAX_OCTETS} octets")
    try:
        text = octets.decode().strip()
    except UnicodeDecodeError:
        raise ValueError(f"the file {path} is not a text in UTF-8") from None
    if not text:
        raise ValueError(f"the file {path} is empty")
    if "\0" in text:
        raise ValueError(f"the file {path} has a NUL character")
    return text


def _read(path: str) -> bytes:
    """At most one octet more than is allowed. Raises OSError, ValueError."""
    # A named pipe without a writer would keep the program waiting.
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise ValueError(f"{path} is not a file")
        return file.read(MAX_OCTETS + 1)
