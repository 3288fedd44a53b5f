"""Spellings of attributes in names in slash form. Standard library and Python 3.8: our GridFTP server uses it, too."""

from __future__ import annotations

#: The names of the same attributes in older software, and in many policies and gridmaps.
_SPELLINGS = (("/Email=", "/emailAddress="), ("/E=", "/emailAddress="), ("/USERID=", "/UID="))


def modern(text: str) -> str:
    """A name in slash form with the present names of its attributes."""
    for old, new in _SPELLINGS:
        text = text.replace(old, new)
    return text
