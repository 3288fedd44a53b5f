"""What a file still needs once both sides have said that it arrived, and before it is settled."""

from __future__ import annotations

from .ledger import Ledger
from .ports import Settled
from .work import Work


class Aftercare:
    """Takes files that have arrived, and settles them."""

    def __init__(self, work: Work, ledger: Ledger) -> None:
        self._work = work
        self._ledger = ledger

    @property
    def idle(self) -> bool:
        """No file is being looked after."""
        return True

    def accept(self, arrived: Settled) -> None:
        """This file has arrived whole, as far as sizes and replies can tell."""
        self._ledger.settle(arrived)

    async def leave(self) -> None:
        """End all at once: what is not settled is looked after by the next slice."""
