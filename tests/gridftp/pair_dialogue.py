"""The dialogue of a pair with two servers that answer anything: their unanswered commands, and what they see.

The servers keep to one rule only, which no server can break: the final reply to a command ends it, and replies are in
the order of the commands.
"""

from __future__ import annotations

import abc
from collections import deque
from typing import Generic, TypeVar

from endpoints.gridftp.control import ControlChannel
from endpoints.gridftp.faults import Kind, Side, make_fault
from endpoints.gridftp.third_party.listening_source import ListeningSourcePair
from endpoints.gridftp.third_party.pair import ThirdPartyPair

P = TypeVar("P", ThirdPartyPair, ListeningSourcePair)


class PairDialogue(abc.ABC, Generic[P]):
    """Subclasses make `pair` on `channels`, and judge what it sends and gives back."""

    pair: P

    def __init__(self) -> None:
        self.channels = {Side.SOURCE: ControlChannel(), Side.DESTINATION: ControlChannel()}
        self.commands: dict[Side, deque[bytes]] = {side: deque() for side in self.channels}
        for channel in self.channels.values():
            list(channel.receive(b"220 hello\r\n"))

    def next_verb(self, side: Side) -> bytes:
        """Verb of the command that this side answers next; b"" if there is none."""
        return self.commands[side][0].partition(b" ")[0] if self.commands[side] else b""

    def answer(self, side: Side, reply: bytes) -> None:
        self.note(side, reply)
        for event in self.channels[side].receive(reply):
            self.pair.handle(side, event)
        self.observe()

    def lose(self, side: Side) -> None:
        for event in self.channels[side].receive_eof():
            self.pair.handle(side, event)
        self.observe()

    def give_up(self) -> None:
        self.pair.lose(make_fault(Kind.TIMEOUT, "no answer"))
        self.observe()

    @abc.abstractmethod
    def note(self, side: Side, reply: bytes) -> None:
        """Record the effect of a reply, before the pair sees it."""

    @abc.abstractmethod
    def observe(self) -> None:
        """Check what was sent and what came back."""
