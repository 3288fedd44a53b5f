"""The ways of files from one server to the other."""

from __future__ import annotations

from enum import Enum


class Way(Enum):
    """How files get from one server to the other."""

    #: A third-party transfer as GridFTP has it.
    BLOCKS = "third party"
    #: A third-party transfer in MODE S: plain FTP servers, if they connect to each other at all.
    PLAIN = "third party in MODE S"
    STREAM = "through the service"
