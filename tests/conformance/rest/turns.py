"""Several threads of which one goes on at a time, from one step to the next, in an order that a seed gives."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

from django.db import connection

#: Seconds until a thread that reaches no step counts as one that hangs.
PATIENCE = 60.0


class Turns:
    """`run` calls the actions, each in a thread of its own; `step` ends the turn of the calling thread."""

    def __init__(self) -> None:
        self._condition = threading.Condition()
        self._mine = threading.local()
        self._waiting: set[int] = set()
        self._running: set[int] = set()
        self._turn: int | None = None
        #: Which thread went on at each step.
        self.order: list[int] = []

    def step(self) -> None:
        """Of threads that `run` has not started: nothing."""
        number = getattr(self._mine, "number", None)
        if number is None:
            return
        with self._condition:
            self._waiting.add(number)
            self._turn = None
            self._condition.notify_all()
            assert self._condition.wait_for(lambda: self._turn == number, PATIENCE)
            self._waiting.discard(number)

    def before(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """The function, with a step before each call."""

        @wraps(function)
        def stepping(*words: Any, **named: Any) -> Any:
            self.step()
            return function(*words, **named)

        return stepping

    def run(self, actions: Sequence[Callable[[], Any]], choices: random.Random) -> list[Any]:
        """Return the result of each action, or the error that it has raised."""
        results: list[Any] = [None] * len(actions)
        self._running, self._waiting, self._turn, self.order = set(range(len(actions))), set(), None, []

        def act(number: int) -> None:
            self._mine.number = number
            try:
                self.step()
                results[number] = actions[number]()
            except BaseException as error:
                results[number] = error
            finally:
                connection.close()
                with self._condition:
                    self._running.discard(number)
                    self._turn = None
                    self._condition.notify_all()

        threads = [threading.Thread(target=act, args=(number,), daemon=True) for number in self._running]
        for thread in threads:
            thread.start()
        with self._condition:
            while self._running:
                assert self._condition.wait_for(self._is_quiet, PATIENCE), (self.order, self._running, self._waiting)
                if self._running:
                    self._turn = choices.choice(sorted(self._waiting))
                    self.order.append(self._turn)
                    self._condition.notify_all()
                    assert self._condition.wait_for(lambda: self._turn is None, PATIENCE), self.order
        for thread in threads:
            thread.join(PATIENCE)
        return results

    def _is_quiet(self) -> bool:
        return self._waiting == self._running
