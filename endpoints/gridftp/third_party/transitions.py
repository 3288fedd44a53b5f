"""The lookup in a transition table: for a state and an input, the next state and the actions in their order. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import IntEnum
from typing import TypeVar

State = TypeVar("State", bound=IntEnum)
Input = TypeVar("Input", bound=IntEnum)
Action = TypeVar("Action", bound=IntEnum)


class ImpossibleInputError(Exception):
    """An input that cannot occur in this state: a defect of this service."""

    def __init__(self, state: IntEnum, what: IntEnum) -> None:
        super().__init__(f"{what.name} in state {state.name}")
        self.state = state
        self.what = what


def transition_of(
    table: Mapping[tuple[State, Input], tuple[State, tuple[Action, ...]]], states: type[State], inputs: type[Input]
) -> Callable[[State, Input], tuple[State, tuple[Action, ...]]]:
    """The function that looks a row up; it raises ImpossibleInputError where there is none.

    The rows by number are faster than a dictionary of pairs: five steps for each file. Both enums begin at 1.
    """
    rows = [[table.get((state, what)) for what in inputs] for state in states]

    def transition(state: State, what: Input) -> tuple[State, tuple[Action, ...]]:
        row = rows[state - 1][what - 1]
        if row is None:
            raise ImpossibleInputError(state, what)
        return row

    return transition
