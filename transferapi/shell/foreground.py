"""Wait for tasks, with a progress line: `scp`, `rm` and `wait`.

The line is `[XXXX      ] done/total RATE mbps`, redrawn in its place. At a terminal that is wide enough, the octets and
the time that is left follow: `34% of 1.2 TB, 0:05:10 left`.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from enum import Enum, auto

from endpoints.gridftp.faults import Kind
from identity.models import User
from transferapi.rest.transfer import task_documents
from transferapi.tasks import moves, queries
from transferapi.tasks.models import Task
from transferapi.tasks.states import Phase, Status, TaskType

from .context import Context, Signal
from .errors import FAILED, INACTIVE, INTERRUPTED, OK, TIMED_OUT, OperationError, ShellError
from .operation_errors import CAUSES, REFUSED

#: The columns of the whole line where there is no terminal; the fewest of a bar, and the most of the line.
WIDTH = 79
_LEAST_BAR, _WIDEST = 10, 160
#: Octets from which their part is shown.
_LARGE = 10**6
_FIRST, _GROWTH, _LONGEST = 0.02, 1.2, 1.0
#: Larger numbers would leave no room for the bar.
_MOST = 10**15
#: Seconds that are left, above which a forecast says nothing.
_LONGEST_LEFT = 100 * 86400


@dataclass(frozen=True, slots=True)
class Progress:
    """done and total: files. mbps: megabits in a second. ended: nothing of it will change any more.

    octets, all_octets: those of files that have arrived, also in part, and of those that were found.
    """

    done: int
    total: int
    mbps: float
    ended: bool
    octets: int = 0
    all_octets: int = 0


class End(Enum):
    """Why `follow` returned, if no signal ended it."""

    ENDED = auto()
    TIMEOUT = auto()


def render(state: Progress, columns: int | None = None) -> str:
    """The line without a line end: WIDTH columns, or one less than the terminal has, where a line would else break.

    columns: of the terminal; None if there is none.
    """
    done, total = (max(0, min(count, _MOST)) for count in (state.done, state.total))
    text = f" {done}/{total} {max(0.0, min(state.mbps, _MOST)):.2f} mbps"
    width = WIDTH if columns is None else min(columns - 1, _WIDEST)
    if columns is not None:
        text = next((text + more for more in _details(state) if len(text + more) + _LEAST_BAR + 2 <= width), text)
    room = width - len("[]") - len(text)
    if room < 1:
        return text.strip()[: max(1, width)]
    filled = int(room * _share(state))
    return f"[{'X' * filled:<{room}}]{text}"


def _share(state: Progress) -> float:
    """The part that is done, of the files or of their octets: the one that is further, for skipped files have none."""
    parts = ((state.done, state.total), (state.octets, state.all_octets))
    return max(min(1.0, max(0, done) / total) if total > 0 else 0.0 for done, total in parts)


def _details(state: Progress) -> Iterator[str]:
    """The octets and the time that is left, from the longest to the shortest."""
    if state.all_octets < _LARGE or state.ended:
        return
    part = f" {100 * min(state.octets, state.all_octets) // state.all_octets}%"
    of_all = f"{part} of {_readable(state.all_octets)}"
    left = (state.all_octets - state.octets) * 8 / (state.mbps * 1e6) if state.mbps > 0 else 0.0
    if 0 < left < _LONGEST_LEFT:
        yield f"{of_all}, {timedelta(seconds=round(left))} left"
    yield of_all
    yield part


def _readable(octets: int) -> str:
    """Octets in decimal units, as disks are sold: `1.2 TB`."""
    size, unit = float(octets), "B"
    for larger in ("kB", "MB", "GB", "TB", "PB", "EB"):
        if size < 999.95:
            break
        size, unit = size / 1000, larger
    return f"{size:.1f} {unit}"


def follow(
    context: Context, look: Callable[[], Progress], *, show: bool = True, seconds: float | None = None
) -> End | Signal:
    """Look again and again until the progress has ended, `seconds` are over, or the user or the connection ends it.

    show: draw the line on standard output, whether it is a terminal or not. `look` may call the services by
    `context.call`. Raises DisconnectedError where the client has gone while the line was written.
    """
    deadline = None if seconds is None else time.monotonic() + seconds
    end: End | Signal | None = None
    shown = ""
    delays = _delays()
    while end is None:
        state = look()
        if show:
            shown = _draw(context, state, shown)
        end = End.ENDED if state.ended else _wait(context, next(delays), deadline)
    if show and end is not Signal.DISCONNECTED:
        context.out("\n")
    return end


def _draw(context: Context, state: Progress, shown: str) -> str:
    """Draw the line where it differs from what is shown: the file of a redirected output does not grow without end."""
    line = render(state, context.columns)
    if line != shown:
        context.out(f"\r{line}")
    return line


def _wait(context: Context, delay: float, deadline: float | None) -> End | Signal | None:
    """None if it is time to look again."""
    if deadline is not None:
        left = deadline - time.monotonic()
        if left <= 0:
            return End.TIMEOUT
        delay = min(delay, left)
    return context.pause(delay)


def _delays() -> Iterator[float]:
    """Short at first: a small file has arrived within the time of a few looks."""
    delay = _FIRST
    while True:
        yield delay
        delay = min(_LONGEST, delay * _GROWTH)


#: The historical text. CTRL-Z does what `bg` does.
HINT = "Type <CTRL-C> to cancel or bg<ENTER> to background\n"


def run(context: Context, task: Task, *, show: bool) -> int:
    """Follow a new task to its end, and report its failure; CTRL-C cancels it. Returns the exit status.

    A task whose only item is not there is canceled; in the background, it would wait for the file until its deadline.
    show: with the progress line.
    """
    if show:
        context.out(HINT)
    end = follow(context, lambda: context.call(_progress_of_one, context.user, task.pk), show=show)
    if end is Signal.INTERRUPT:
        context.call(moves.cancel, context.user, task.pk)
        context.err(f"Error: You have canceled the task {task.pk}\n")
        return INTERRUPTED
    if end is not End.ENDED:
        return OK
    found = context.call(_read, context.user, [task.pk])[0]
    if found.status == Status.SUCCEEDED:
        return OK
    if found.status == Status.INACTIVE:
        context.err(f"{waits(found)}\n")
        return INACTIVE
    if _is_missing(found):
        context.call(moves.cancel, context.user, task.pk)
    raise context.call(failure, context.user, found)


def wait(
    context: Context, ids: Sequence[uuid.UUID], *, show: bool = True, seconds: float | None = None
) -> End | Signal:
    """Wait until each task is done, or waits for a person. Raises TaskNotFoundError."""
    return follow(context, lambda: context.call(_progress, context.user, ids), show=show, seconds=seconds)


def status(context: Context, ids: Sequence[uuid.UUID]) -> int:
    """The exit status: 0 where all have succeeded, 1 where one has failed, 3 where one waits for a person, else 4."""
    found = {task.status for task in context.call(_read, context.user, ids)}
    for one, exit_status in ((Status.FAILED, FAILED), (Status.INACTIVE, INACTIVE), (Status.ACTIVE, TIMED_OUT)):
        if one in found:
            return exit_status
    return OK


def waits(task: Task) -> str:
    """The error for a task that waits for a person."""
    why = task.nice_status_details or "its owner must activate an endpoint"
    return f"Error: The task {task.pk} waits for you: {why}"


def failure(user: User, task: Task) -> ShellError:
    """The error for a task that has failed, with the cause of its last fault."""
    why = CAUSES[Kind.FILE_NOT_FOUND] if _is_missing(task) else task.fatal_error_description or ""
    faults = queries.events(user, task.pk, is_error=True, limit=1).rows
    code = faults[0].code if faults else task.fatal_error_code or ""
    cause = CAUSES.get(Kind(code), REFUSED) if code in set(Kind) else None
    details = faults[0].details if faults else ""
    message = f"The task {task.pk} has failed"
    if cause is None:
        return ShellError(f"{message}: {why}", code)
    # The lines after the first one have these words already.
    repeated = not why or why in (cause, details)
    return OperationError(
        message if repeated else f"{message}: {why}", task.command or task.type.lower(), cause, details, code
    )


def _is_missing(task: Task) -> bool:
    """Whether the only item of a task that is in progress is not there."""
    nothing_done = task.items_total == 1 and not task.files_transferred + task.files_skipped
    return task.phase != Phase.DONE and nothing_done and task.nice_status == Kind.FILE_NOT_FOUND


def _read(user: User, ids: Sequence[uuid.UUID]) -> list[Task]:
    return [queries.get(user, one) for one in ids]


def _progress(user: User, ids: Sequence[uuid.UUID]) -> Progress:
    tasks = queries.progress(user, ids)
    counts = [_counts(task) for task in tasks]
    rate = sum(map(task_documents.rate, tasks))
    ended = all(task.phase == Phase.DONE or task.status == Status.INACTIVE for task in tasks)
    return Progress(
        sum(done for done, _ in counts),
        sum(total for _, total in counts),
        rate * 8 / 1e6,
        ended,
        sum(task.bytes_transferred for task in tasks),
        sum(task.bytes_total for task in tasks),
    )


def _counts(task: Task) -> tuple[int, int]:
    """The numbers of things that are done and that were found: files, and in a deletion folders and links too."""
    done = task.files_transferred + task.files_skipped + task.files_failed
    if task.type != TaskType.DELETE:
        return done, task.files
    found = task.files + task.directories + task.symlinks
    return found if task.status == Status.SUCCEEDED else done, found


def _progress_of_one(user: User, task_id: uuid.UUID) -> Progress:
    found = _progress(user, [task_id])
    return replace(found, ended=found.ended or _is_missing(queries.get(user, task_id)))
