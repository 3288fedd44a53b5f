"""The offer of an ssh account."""

from __future__ import annotations

from typing import NamedTuple

TOOLKIT, OWN, SFTP = "toolkit", "own", "sftp"


class AccountOffer(NamedTuple):
    """The offer of an account. kind: TOOLKIT, OWN or SFTP. words: for an event, what was found and what runs.

    address: where the ssh server was reached, as the host knows it; "" where that is not known.
    note: how our server got there.
    """

    kind: str
    words: str
    address: str = ""
    note: str = ""
