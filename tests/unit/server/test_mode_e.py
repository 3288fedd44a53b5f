"""MODE E headers and the decoder of a stream of blocks."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from endpoints.gridftp.server.data.mode_e import (
    CLOSE,
    EOD,
    EOF,
    HEADER_SIZE,
    RESTART,
    SUSPECT,
    BlockDecoder,
    Header,
    HeaderError,
    Payload,
    decode,
    end_of_data,
)

blocks = st.lists(st.tuples(st.integers(0, 2**50), st.binary(max_size=60)), max_size=12)


def encode(wanted):
    return b"".join(Header(0, len(data), offset).encode() + data for offset, data in wanted) + end_of_data(1)


def drain(decoder, piece):
    """All events of a piece, with payloads copied."""
    at, view = 0, memoryview(piece)
    events: list[object] = []
    while True:
        event, at = decoder.step(view, at)
        if event is None:
            assert at == len(piece)
            return events
        events.append((event.offset, bytes(event.data)) if isinstance(event, Payload) else event)


@given(blocks, st.lists(st.integers(1, 40), min_size=1))
def test_a_stream_decodes_the_same_in_whatever_pieces_it_comes(wanted, sizes):
    stream, decoder, events, at, turn = encode(wanted), BlockDecoder(), [], 0, 0
    while at < len(stream):
        size = sizes[turn % len(sizes)]
        events += drain(decoder, stream[at : at + size])
        at, turn = at + size, turn + 1
    headers = [event for event in events if isinstance(event, Header)]
    assert headers == [Header(0, len(data), offset) for offset, data in wanted] + [Header(EOD | EOF, 0, 1)]
    received = {}
    for offset, data in (event for event in events if not isinstance(event, Header)):
        received.update({offset + n: octet for n, octet in enumerate(data)})
    expected = {}
    for offset, data in wanted:
        expected.update({offset + n: octet for n, octet in enumerate(data)})
    assert received == expected
    assert decoder.at_boundary


@given(st.binary(max_size=200))
def test_hostile_octets_are_events_or_a_header_error(octets):
    decoder = BlockDecoder()
    try:
        drain(decoder, octets)
    except HeaderError:
        return
    assert decoder.remaining >= 0


@given(st.sampled_from([0, EOD, EOD | CLOSE]), st.integers(0, 2**62 - 1), st.integers(0, 2**62))
def test_a_header_reads_back_as_it_was_written(flags, count, offset):
    header = Header(flags, count, offset)
    assert decode(header.encode()) == header


def test_one_stream_says_how_many_streams_end():
    assert decode(end_of_data(4)) == Header(EOD | EOF, 0, 4)
    assert decode(end_of_data()) == Header(EOD, 0, 0)


@pytest.mark.parametrize(
    "header",
    [
        Header(SUSPECT, 5, 0),
        Header(RESTART, 5, 0),
        Header(0, 2**63, 0),
        Header(0, 1, 2**63),
        Header(0, 2**62, 2**62 + 1),
        Header(EOF, 5, 1),
    ],
)
def test_headers_that_no_honest_sender_writes_are_refused(header):
    with pytest.raises(HeaderError):
        decode(header.encode())


@pytest.mark.parametrize("length", [0, HEADER_SIZE - 1, HEADER_SIZE + 1])
def test_a_header_has_seventeen_octets(length):
    with pytest.raises(HeaderError):
        decode(bytes(length))


def test_payload_taken_past_the_decoder_counts():
    decoder = BlockDecoder()
    assert drain(decoder, Header(0, 100, 7).encode()) == [Header(0, 100, 7)]
    assert not decoder.at_boundary
    decoder.skip(99)
    assert (decoder.remaining, decoder.offset) == (1, 106)
    with pytest.raises(ValueError, match="remain"):
        decoder.skip(2)
    assert drain(decoder, b"x" + end_of_data(1)) == [(106, b"x"), Header(EOD | EOF, 0, 1)]
