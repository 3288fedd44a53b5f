"""The state diagrams, from the tables of the code, as Mermaid text (GitHub draws it)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import IntEnum
from typing import Any, NamedTuple

from endpoints.gridftp.control import TRANSITIONS, ControlAction, ControlState
from endpoints.gridftp.third_party import listening_states, pair_states
from transferapi.tasks.states import MOVES, Phase, Status

_State = tuple[Status, Phase]

_QUEUED: _State = (Status.ACTIVE, Phase.QUEUED)
_RUNNING: _State = (Status.ACTIVE, Phase.RUNNING)
_PAUSED: _State = (Status.ACTIVE, Phase.PAUSED)
_SUSPENDED: _State = (Status.INACTIVE, Phase.SUSPENDED)
_SUCCEEDED: _State = (Status.SUCCEEDED, Phase.DONE)
_FAILED: _State = (Status.FAILED, Phase.DONE)


class Move(NamedTuple):
    """Why a task moves. label: on the arrow; code: where this is done, as module and function."""

    label: str
    why: str
    code: str


#: The diagram and the table cannot be made where a move of the table has no entry here.
_TAKE = "`transferapi/tasks/worker/leases.py` `acquire`"
_PAUSE = "`transferapi/tasks/managers/pauses.py` `settle`"
_RELEASE = "`transferapi/tasks/worker/slice_end.py` `release`"
_CANCEL = "`transferapi/tasks/moves.py` `cancel`, `transferapi/tasks/moves.py` `expire_overdue`"
ENDED = "The task is canceled, or its deadline passes, while no worker has it."
PAUSED = "A pause rule of an endpoint holds for the task, or a manager of an endpoint paused it."
REASONS = {
    (_QUEUED, _RUNNING): Move("lease", "A worker takes the lease.", _TAKE),
    (_QUEUED, _PAUSED): Move("pause", PAUSED, _PAUSE),
    (_QUEUED, _FAILED): Move("cancel, deadline", ENDED, _CANCEL),
    (_RUNNING, _QUEUED): Move(
        "release",
        "The slice ends before the task does, the worker stops, or several workers in a row were lost with it.",
        f"{_RELEASE}, `transferapi/tasks/worker/losses.py` `wait`",
    ),
    (_RUNNING, _RUNNING): Move("takeover", "The lease expired, and another worker takes the task.", _TAKE),
    (_RUNNING, _PAUSED): Move("pause", PAUSED, _RELEASE),
    (_RUNNING, _SUSPENDED): Move(
        "credential, deletion",
        "An endpoint needs a new credential, or a mirror would delete more than its owner allows without a question.",
        "`transferapi/tasks/worker/slice_end.py` `suspend`, `transferapi/tasks/worker/deletion_requests.py` `ask`",
    ),
    (_RUNNING, _SUCCEEDED): Move(
        "success", "Every file arrived or was skipped.", "`transferapi/tasks/worker/slice_end.py` `finish`"
    ),
    (_RUNNING, _FAILED): Move(
        "failure, cancel, deadline",
        "Files failed, a fault ended the whole task, it was canceled, or its deadline passed.",
        "`transferapi/tasks/worker/slice_end.py` `finish`, `transferapi/tasks/worker/slice_end.py` `fail`",
    ),
    (_PAUSED, _QUEUED): Move("resume", "Nothing pauses the task any more.", "`transferapi/tasks/moves.py` `unpause`"),
    (_PAUSED, _FAILED): Move("cancel, deadline", ENDED, _CANCEL),
    (_SUSPENDED, _QUEUED): Move(
        "renewal, answer",
        "A new credential is in the vault, or the owner has answered about the deletion.",
        "`transferapi/tasks/worker/renewal.py` `resume_waiting`, "
        "`transferapi/tasks/worker/deletion_requests.py` `answer`",
    ),
    (_SUSPENDED, _FAILED): Move("cancel, deadline", ENDED, _CANCEL),
}


def _moves() -> list[tuple[_State, _State]]:
    """The moves of the table, in its order. Raises ValueError where `REASONS` has other ones."""
    moves = [(old, new) for old, targets in MOVES.items() for new in MOVES if new in targets]
    if set(moves) != set(REASONS):
        raise ValueError(f"docs/draw/states.py, REASONS: {sorted(set(moves) ^ set(REASONS))}")
    return moves


def task() -> str:
    """The states of a task, and their moves."""
    ends = [state for state, targets in MOVES.items() if not targets]
    edges = [(_task_id(old), _task_id(new), REASONS[old, new].label) for old, new in _moves()]
    return _diagram(
        [f'state "{_task_name(state)}" as {_task_id(state)}' for state in MOVES],
        [("[*]", _task_id(_QUEUED), "submit"), *edges, *((_task_id(end), "[*]", "") for end in ends)],
    )


def task_moves() -> str:
    """The moves with their reasons."""
    lines = ["| from | to | when | where |", "|---|---|---|---|"]
    for old, new in _moves():
        move = REASONS[old, new]
        lines.append(f"| {_task_name(old)} | {_task_name(new)} | {move.why} | {move.code} |")
    return "\n".join(lines)


def _task_id(state: _State) -> str:
    return f"{state[0]}_{state[1]}"


def _task_name(state: _State) -> str:
    return f"{state[0]}, {state[1]}"


def control() -> str:
    """The states of the client's end of a control connection, without inputs that have no effect."""
    edges = [
        (old.name, new.name, f"{what.name} / {action.name}")
        for (old, what), (action, new) in TRANSITIONS.items()
        if not (old is new and action is ControlAction.IGNORE)
    ]
    return _diagram([], [("[*]", ControlState.GREETING.name, "connected"), *edges])


def pair() -> str:
    """The states of a pair, without the inputs that keep the state and without LOSS."""
    return _without_loss(pair_states.TRANSITIONS, pair_states.PairState.UNCONNECTED)


def listening() -> str:
    """The states of a file whose source listens, without LOSS."""
    return _without_loss(listening_states.TRANSITIONS, listening_states.ListeningState.ASKED)


def _without_loss(table: Mapping[Any, tuple[IntEnum, object]], first: IntEnum) -> str:
    edges = [
        (old.name, new.name, what.name)
        for (old, what), (new, _) in table.items()
        if old is not new and what.name != "LOSS"
    ]
    return _diagram([], [("[*]", first.name, ""), *edges])


def _diagram(declarations: Iterable[str], edges: Iterable[tuple[str, str, str]]) -> str:
    """Edges between the same two states are one arrow with all their labels."""
    labels: dict[tuple[str, str], list[str]] = {}
    for old, new, label in edges:
        labels.setdefault((old, new), []).append(label)
    lines = [
        f"{old} --> {new}" + (f" : {'<br/>'.join(texts)}" if any(texts) else "") for (old, new), texts in labels.items()
    ]
    body = [f"    {line}" for line in ("direction LR", *declarations, *lines)]
    return "\n".join(["```mermaid", "stateDiagram-v2", *body, "```"])
