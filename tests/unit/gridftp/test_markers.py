"""Markers 111 and 112."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from endpoints.gridftp.markers import MarkerError, PerfMarker, RangeMarker, parse_marker
from endpoints.gridftp.ranges import RangeSet

TOOLKIT_112 = [
    b"112-Perf Marker",
    b" Timestamp:  1795202866.8",
    b" Stripe Index: 0",
    b" Stripe Bytes Transferred: 67108864",
    b" Total Stripe Count: 1",
    b"112 End.",
]


def test_the_toolkits_performance_marker_is_understood():
    expected = PerfMarker(timestamp=1795202866.8, stripe=0, total_stripes=1, bytes=67108864)
    assert parse_marker(112, TOOLKIT_112) == expected
    assert parse_marker(112, [line + b"\r" for line in TOOLKIT_112]) == expected


def test_the_toolkits_range_marker_is_understood_with_and_without_its_code():
    expected = RangeMarker(RangeSet([(0, 664), (1000, 2000)]))
    assert parse_marker(111, [b"111 Range Marker 0-664,1000-2000"]) == expected
    assert parse_marker(111, [b"Range Marker 0-664,1000-2000\r\n"]) == expected


@given(st.integers(0, 2**31), st.integers(0, 2**10), st.integers(1, 2**10), st.integers(0, 2**63))
def test_a_performance_marker_reads_back_as_it_was_written(tenths, stripe, stripes, octets):
    marker = PerfMarker(tenths / 10, stripe, stripes, octets)
    assert parse_marker(112, marker.format().splitlines()) == marker


@given(st.lists(st.tuples(st.integers(0, 2**40), st.integers(1, 2**20)), max_size=50))
def test_a_range_marker_reads_back_as_it_was_written(pieces):
    marker = RangeMarker(RangeSet((start, start + length) for start, length in pieces))
    assert parse_marker(111, [marker.format()]) == marker


@given(st.integers(0, 999), st.lists(st.binary()))
def test_hostile_lines_are_a_marker_or_a_marker_error(code, lines):
    try:
        marker = parse_marker(code, lines)
    except MarkerError:
        return
    assert code in (111, 112)
    assert isinstance(marker, RangeMarker | PerfMarker)


@pytest.mark.parametrize(
    ("code", "lines"),
    [
        (111, []),
        (111, [b"111 Range Marker 5-3"]),
        (111, [b"111 Range Marker 5"]),
        (112, TOOLKIT_112[:3]),
        (112, [b"Stripe Bytes Transferred: many", b"Timestamp: 1"]),
        (113, [b"113-Status Marker"]),
        (226, [b"226 Transfer Complete."]),
    ],
)
def test_what_is_no_marker_is_refused(code, lines):
    with pytest.raises(MarkerError):
        parse_marker(code, lines)
