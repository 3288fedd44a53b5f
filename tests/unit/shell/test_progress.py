"""The progress line of scp, rm and wait."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transferapi.shell.context import Signal
from transferapi.shell.foreground import WIDTH, End, Progress, follow, render


@pytest.mark.parametrize(
    ("done", "total", "mbps", "expected"),
    [
        (0, 0, 0.0, f"[{'':63}] 0/0 0.00 mbps"),
        (1, 2, 94.5, f"[{'X' * 31}{'':31}] 1/2 94.50 mbps"),
        (10, 10, 1234.567, f"[{'X' * 58}] 10/10 1234.57 mbps"),
    ],
)
def test_the_line_has_a_bar_the_files_and_the_rate(done: int, total: int, mbps: float, expected: str) -> None:
    assert render(Progress(done, total, mbps, ended=False)) == expected


@given(st.integers(), st.integers(), st.floats(allow_nan=False), st.integers(), st.integers())
def test_the_line_has_79_columns_whatever_the_numbers(
    done: int, total: int, mbps: float, octets: int, of_all: int
) -> None:
    assert len(render(Progress(done, total, mbps, False, octets, of_all))) == WIDTH == 79


@given(st.integers(1, 400), st.integers(), st.integers(0, 10**18), st.floats(0, 1e6))
def test_the_line_fits_into_each_terminal(columns: int, done: int, octets: int, mbps: float) -> None:
    line = render(Progress(done, 10**6, mbps, False, octets, 10**18), columns)
    assert 0 < len(line) <= max(1, columns - 1)


def test_one_large_file_moves_the_bar_and_shows_what_is_left() -> None:
    half = Progress(0, 1, 800.0, False, 18 * 10**9, 36 * 10**9)
    assert render(half).count("X") == (render(half).index("]") - 1) // 2
    assert render(half, 100).endswith(" 0/1 800.00 mbps 50% of 36.0 GB, 0:03:00 left")
    assert render(half, 55).endswith(" 0/1 800.00 mbps 50% of 36.0 GB")
    assert render(half, 30).endswith(" 0/1 800.00 mbps")
    assert render(half, 100).count("X") == (render(half, 100).index("]") - 1) // 2


def test_small_files_and_a_task_that_has_ended_show_no_octets() -> None:
    for state in (Progress(1, 2, 8.0, False, 500, 1000), Progress(1, 1, 8.0, True, 10**9, 10**9)):
        assert render(state, 100).endswith(" mbps")


class Recorded:
    """A context whose pauses give the signals of a list, and then take no time."""

    columns = None

    def __init__(self, *signals: Signal) -> None:
        self.text = ""
        self.pauses: list[float] = []
        self._signals: Iterator[Signal] = iter(signals)

    def out(self, text: str) -> None:
        self.text += text

    def pause(self, seconds: float) -> Signal | None:
        self.pauses.append(seconds)
        return next(self._signals, None)


def states(*done: int) -> Any:
    rest = iter(done)
    return lambda: Progress(count := next(rest), done[-1], 8.0, count == done[-1])


def line(done: int, total: int) -> str:
    return render(Progress(done, total, 8.0, ended=False))


def test_the_line_is_redrawn_in_its_place_and_ends_with_a_line_end() -> None:
    context: Any = Recorded()
    assert follow(context, states(0, 1, 1, 2)) is End.ENDED
    assert context.text == f"\r{line(0, 2)}\r{line(1, 2)}\r{line(2, 2)}\n"


@pytest.mark.parametrize("signal", [Signal.INTERRUPT, Signal.BACKGROUND])
def test_a_signal_ends_the_line(signal: Signal) -> None:
    context: Any = Recorded(signal)
    assert follow(context, states(0, 1)) is signal
    assert context.text == f"\r{line(0, 1)}\n"


def test_nothing_is_written_to_a_client_that_has_gone() -> None:
    context: Any = Recorded(Signal.DISCONNECTED)
    assert follow(context, states(0, 1), show=False) is Signal.DISCONNECTED
    assert context.text == ""


def test_a_wait_ends_after_its_time() -> None:
    context: Any = Recorded()
    assert follow(context, states(*range(50)), show=False, seconds=0) is End.TIMEOUT
    assert context.pauses == []


def test_the_looks_grow_rare_but_stay_within_a_second() -> None:
    context: Any = Recorded()
    follow(context, states(*range(60)), show=False)
    assert context.pauses == sorted(context.pauses)
    assert context.pauses[0] < 0.05
    assert context.pauses[-1] == 1.0
