"""Frames of a tunnel on a stream of octets."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from endpoints.gridftp.agent.tunnel.frames import HEAD, MAX_MESSAGE, FrameError
from endpoints.gridftp.agent.tunnel.octet_stream import Unpacker, packed

FRAMES = st.lists(st.binary(min_size=HEAD, max_size=200), max_size=8)


@given(FRAMES, st.integers(1, 50))
def test_frames_arrive_whole_however_the_octets_are_cut(sent, piece):
    octets = b"".join(map(packed, sent))
    unpacker = Unpacker()
    got = [frame for at in range(0, len(octets), piece) for frame in unpacker.feed(octets[at : at + piece])]
    assert got == sent


@pytest.mark.parametrize("length", [0, HEAD - 1, MAX_MESSAGE + 1, 2**32 - 1])
def test_a_length_that_no_frame_has_ends_the_stream_before_its_octets_are_awaited(length):
    with pytest.raises(FrameError):
        Unpacker().feed(length.to_bytes(4, "big"))


def test_the_longest_frame_is_taken():
    assert Unpacker().feed(packed(bytes(MAX_MESSAGE))) == [bytes(MAX_MESSAGE)]
