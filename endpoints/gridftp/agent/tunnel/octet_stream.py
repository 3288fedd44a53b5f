"""Frames on a stream of octets, such as a channel of ssh: before each frame its length, 4 octets, big-endian."""

from __future__ import annotations

from .frames import HEAD, MAX_DOCUMENT, MAX_MESSAGE, FrameError

_LENGTH = 4
_LONGEST = max(MAX_MESSAGE, HEAD + MAX_DOCUMENT)


def packed(frame: bytes) -> bytes:
    return len(frame).to_bytes(_LENGTH, "big") + frame


class Unpacker:
    """Holds at most one frame that has not arrived whole, besides the octets that are being fed."""

    def __init__(self) -> None:
        self._held = bytearray()

    def feed(self, octets: bytes) -> list[bytes]:
        """The frames that are whole now. Raises FrameError."""
        self._held += octets
        frames, begin = [], 0
        while len(self._held) - begin >= _LENGTH:
            length = int.from_bytes(self._held[begin : begin + _LENGTH], "big")
            if not HEAD <= length <= _LONGEST:
                raise FrameError(f"a frame of {length} octets")
            end = begin + _LENGTH + length
            if end > len(self._held):
                break
            frames.append(bytes(self._held[begin + _LENGTH : end]))
            begin = end
        del self._held[:begin]
        return frames
