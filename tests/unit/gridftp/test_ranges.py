"""Sets of octet ranges."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from endpoints.gridftp.ranges import MAX_OFFSET, MAX_RANGES, RangeError, RangeSet

pieces = st.lists(st.tuples(st.integers(0, 120), st.integers(0, 120)).map(lambda pair: (min(pair), max(pair))))


def octets(ranges):
    return {x for start, end in ranges for x in range(start, end)}


@given(pieces)
def test_a_set_holds_exactly_the_octets_that_were_added(added):
    ranges = RangeSet(added)
    assert octets(ranges) == octets(added)
    assert ranges.total == len(octets(added))


@given(pieces)
def test_ranges_are_ascending_and_never_touch(added):
    flat = [edge for pair in RangeSet(added) for edge in pair]
    assert flat == sorted(set(flat))


@given(pieces, st.integers(0, 130))
def test_gaps_are_what_is_missing_of_the_file(added, size):
    gaps = RangeSet(added).gaps(size)
    assert octets(gaps) == set(range(size)) - octets(added)
    assert RangeSet(added).covers(size) == (not gaps)
    assert list(RangeSet(gaps)) == gaps


@given(pieces, pieces)
def test_a_union_leaves_its_parts_as_they_were(first, second):
    a, b = RangeSet(first), RangeSet(second)
    assert octets(a.union(b)) == octets(first) | octets(second)
    assert a == RangeSet(first)
    assert b == RangeSet(second)


@given(pieces)
def test_what_is_formatted_is_parsed_again(added):
    ranges = RangeSet(added)
    assert RangeSet.parse(ranges.format()) == ranges
    assert RangeSet.parse(ranges.format().encode()) == ranges


@given(st.text() | st.binary())
def test_hostile_text_is_a_set_or_a_range_error(text):
    try:
        ranges = RangeSet.parse(text)
    except RangeError:
        return
    assert all(0 <= start < end <= MAX_OFFSET for start, end in ranges)


@pytest.mark.parametrize(
    "text",
    ["5", "-", "1-", "-1", "5-3", "0-9223372036854775808", "1-2-3", "0-1,,2-3", "0-1,", "+0-1", "0_0-1_0",
     "0-\u0663", "0-" + "9" * 5000, "a-b", "0-1;2-3", "0-1\x00"],
)  # fmt: skip
def test_what_is_no_range_is_refused(text):
    with pytest.raises(RangeError):
        RangeSet.parse(text)


def test_the_form_that_rest_takes_is_the_form_of_the_toolkit():
    assert RangeSet([(1000, 2000), (0, 664), (664, 700)]).format() == "0-700,1000-2000"
    assert RangeSet.parse("") == RangeSet()


def test_the_number_of_ranges_is_bounded():
    full = RangeSet((2 * n, 2 * n + 1) for n in range(MAX_RANGES))
    with pytest.raises(RangeError):
        full.add(MAX_OFFSET - 1, MAX_OFFSET)
    full.add(1, 2)
    assert len(full) == MAX_RANGES - 1
    with pytest.raises(RangeError):
        RangeSet.parse(",".join(["0-1"] * (MAX_RANGES + 1)))


def test_an_empty_file_is_always_covered():
    assert RangeSet().covers(0)
    assert not RangeSet().covers(1)
    assert RangeSet([(5, 5)]) == RangeSet()


def test_what_is_beyond_an_offset_is_left_of_a_set() -> None:
    ranges = RangeSet([(0, 10), (20, 30), (40, 50)])
    assert ranges.beyond(0) == ranges
    assert ranges.beyond(10) == RangeSet([(20, 30), (40, 50)])
    assert ranges.beyond(25) == RangeSet([(25, 30), (40, 50)])
    assert ranges.beyond(50) == RangeSet()
