"""Bandwidth limits of endpoints: what is refused, when a row holds, and its text."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from endpoints import bandwidth
from identity.error_categories import InvalidFieldError

PEER = "0b5c7a1e-2f0d-4a6b-9a43-5f6c1e1a2b3c"


def row(**fields: Any) -> dict[str, Any]:
    return bandwidth.checked("limits", [{"limit": 5_000_000, **fields}])[0]


def holds(at: str, **fields: Any) -> bool:
    return bool(bandwidth.in_force([row(**fields)], datetime.fromisoformat(at).replace(tzinfo=UTC)))


@pytest.mark.parametrize(
    ("value", "place"),
    [
        ("5", ""), ({"limit": 500_000}, ""), ([5000], "[0]"), ([None], "[0]"), ([{}], "[0].limit"),
        ([{"limit": 99_999}], "[0].limit"), ([{"limit": True}], "[0].limit"), ([{"limit": 5e6}], "[0].limit"),
        ([{"limit": 10**12 + 1}], "[0].limit"), ([{"limit": 500_000}, {"limit": "x"}], "[1].limit"),
        ([{"limit": 500_000}] * 33, ""), ([{"limit": 500_000, "form": "08:00"}], "[0]"),
        ([{"limit": 500_000, "peer": "alice#ep1"}], "[0].peer"), ([{"limit": 500_000, "peer": 7}], "[0].peer"),
        ([{"limit": 500_000, "from": "08:00"}], "[0]"), ([{"limit": 500_000, "to": "08:00"}], "[0]"),
        ([{"limit": 500_000, "from": "08:00", "to": "08:00"}], "[0]"),
    ],
)  # fmt: skip
def test_a_bad_limit_is_refused_by_its_place(value: object, place: str) -> None:
    with pytest.raises(InvalidFieldError) as refused:
        bandwidth.checked("limits", value)
    assert refused.value.field == f"limits{place}"


BAD: dict[str, list[Any]] = {
    "from": ["24:00", "8:00", "08:60", "-1:00", "0\u0668:00", 800, "", "08:00:00"],
    "time_zone": ["Berlin", "", "../../etc/passwd", "/etc/localtime", "x" * 5000, 1, "a\0b"],
    "days": ["mon", [], ["monday"], [1], [["mon"]], {}],
}


@pytest.mark.parametrize(("field", "value"), [(field, value) for field, values in BAD.items() for value in values])
def test_a_bad_time_is_refused_by_its_field(field: str, value: Any) -> None:
    with pytest.raises(InvalidFieldError) as refused:
        row(**{"to": "09:00" if field == "from" else None, field: value})
    assert refused.value.field == f"limits[0].{field}"


def test_a_row_is_stored_in_full() -> None:
    assert bandwidth.checked("limits", None) == []
    assert row(peer=PEER.upper(), days=["sun", "mon", "sun"]) == {
        "limit": 5_000_000, "peer": PEER, "from": None, "to": None, "time_zone": "UTC", "days": ["mon", "sun"],
    }  # fmt: skip


@pytest.mark.parametrize(("at", "wanted"), [("07:59", False), ("08:00", True), ("17:59", True), ("18:00", False)])
def test_a_window_has_its_beginning_and_not_its_end(at: str, wanted: bool) -> None:
    assert holds(f"2026-03-04T{at}", **{"from": "08:00", "to": "18:00"}) is wanted


@pytest.mark.parametrize(
    ("at", "wanted"),
    [
        ("2026-03-06T21:59", False), ("2026-03-06T22:00", True), ("2026-03-07T00:00", True),
        ("2026-03-07T05:59", True), ("2026-03-07T06:00", False), ("2026-03-07T22:30", False),
        ("2026-03-06T05:00", False),
    ],
)  # fmt: skip
def test_a_window_over_midnight_belongs_to_the_day_of_its_beginning(at: str, wanted: bool) -> None:
    assert holds(at, **{"from": "22:00", "to": "06:00", "days": ["fri"]}) is wanted


@pytest.mark.parametrize(
    ("at", "wanted"),
    [
        # Winter: an hour ahead of UTC. Summer, from March 29 on: two.
        ("2026-03-28T07:30", True), ("2026-03-28T06:30", False), ("2026-03-29T06:30", True),
        # The hour that the clock leaves out: 01:00 UTC is 03:00.
        ("2026-03-29T00:59", False),
        # The hour that it has twice: both are 02:30.
        ("2026-10-25T00:30", False), ("2026-10-25T01:30", False), ("2026-10-25T06:59", False),
        ("2026-10-25T07:00", True),
    ],
)  # fmt: skip
def test_a_window_follows_the_wall_clock_of_its_zone(at: str, wanted: bool) -> None:
    assert holds(at, **{"from": "08:00", "to": "18:00", "time_zone": "Europe/Berlin"}) is wanted


@pytest.mark.parametrize(
    ("at", "wanted"), [("2026-10-25T00:30", True), ("2026-10-25T01:30", True), ("2026-03-29T01:00", False)]
)
def test_an_hour_that_comes_twice_is_in_the_window_twice_and_one_that_is_left_out_never(at: str, wanted: bool) -> None:
    assert holds(at, **{"from": "02:00", "to": "03:00", "time_zone": "Europe/Berlin"}) is wanted


def test_days_are_those_of_the_zone() -> None:
    assert holds("2026-03-04T23:30", days=["thu"], time_zone="Asia/Tokyo")
    assert not holds("2026-03-04T23:30", days=["wed"], time_zone="Asia/Tokyo")


def test_rows_of_a_newer_version_are_passed_over() -> None:
    assert bandwidth.in_force([{"rate": 5}, {"limit": "x"}], datetime(2026, 1, 1, tzinfo=UTC)) == []


@pytest.mark.parametrize(
    "text",
    [
        "5000000", f"5000000 peer={PEER}", "5000000 time=22:00-06:00 zone=Europe/Berlin days=mon,fri",
        "5000000 zone=Asia/Tokyo days=sat",
    ],
)  # fmt: skip
def test_a_row_reads_back_from_its_text(text: str) -> None:
    found = bandwidth.checked("limits", [bandwidth.row_of_text("limits", text)])
    assert bandwidth.text_of_row(found[0]) == text


@pytest.mark.parametrize(
    "text", ["", "fast", "500000 peer=x", "500000 time=08:00", "500000 zone", "500000 a=4", "-500000"]
)
def test_a_bad_text_is_refused(text: str) -> None:
    with pytest.raises(InvalidFieldError):
        bandwidth.checked("limits", [bandwidth.row_of_text("limits", text)])
