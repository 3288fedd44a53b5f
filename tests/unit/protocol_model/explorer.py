"""Visits every state that a model can reach, breadth first, so that a counter-example is a shortest one."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from typing import Generic, TypeVar

S = TypeVar("S", bound=Hashable)


@dataclass(frozen=True)
class Exploration(Generic[S]):
    """reached: all states, or those before the first wrong one. steps: how a wrong one is reached, or None.

    problem: what is wrong with it.
    """

    reached: frozenset[S]
    steps: tuple[str, ...] | None = None
    problem: str = ""


def explore(start: S, moves: Callable[[S], Iterable[tuple[str, S]]], problem: Callable[[S], str]) -> Exploration[S]:
    """Follow all moves from all states, until nothing is new or a state has a problem ("" where it has none)."""
    came_from: dict[S, tuple[S, str] | None] = {start: None}
    waiting = deque([start])
    while waiting:
        state = waiting.popleft()
        if wrong := problem(state):
            return Exploration(frozenset(came_from), _steps(state, came_from), wrong)
        for step, after in moves(state):
            if after not in came_from:
                came_from[after] = (state, step)
                waiting.append(after)
    return Exploration(frozenset(came_from))


def _steps(state: S, came_from: dict[S, tuple[S, str] | None]) -> tuple[str, ...]:
    steps = []
    while (before := came_from[state]) is not None:
        state, step = before
        steps.append(step)
    return tuple(reversed(steps))
