"""A task in words and numbers: its state, its phases, its rate, and the time that is left."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from endpoints.registry import canonical_name
from transferapi.tasks import names, standstill
from transferapi.tasks.display_state import DisplayState, display_state
from transferapi.tasks.forecast.model import Forecast
from transferapi.tasks.managers import pauses
from transferapi.tasks.models import Task
from transferapi.tasks.states import Phase, TaskType
from webui.states import SHOWN, STALLED, ShownState
from webui.templatetags.waybill import count, duration, octets

from . import advice

#: A forecast whose ends differ by more than this factor, or that is longer than this, says nothing.
TOO_WIDE, TOO_LONG = 10.0, 999 * 3600.0
#: Seconds that a span is rounded to, from this length on.
_ROUNDED = ((6 * 3600, 1800), (3600, 300), (600, 60), (60, 10), (0, 1))


@dataclass(frozen=True)
class PhaseShown:
    """A phase of the progress. name: the part of the addresses of its elements. percent None: the end is not known."""

    name: str
    title: str
    now: bool
    over: bool
    percent: float | None
    text: str

    @property
    def classes(self) -> str:
        return "over" if self.over else "now" if self.now else ""


@dataclass(frozen=True)
class StallShown:
    """Why a task does not go on. where: an endpoint, or "". next_try: None while it is being tried, and if it waits."""

    title: str
    where: str
    since: datetime | None
    next_try: datetime | None
    waits: bool


@dataclass(frozen=True)
class TaskSummary:
    """A task as lists and its page show it."""

    task: Task
    state: ShownState
    source: str
    destination: str
    stall: StallShown | None = None
    #: Why it has failed.
    why: str = ""

    @property
    def name(self) -> str:
        return names.of(self.task)

    @property
    def trouble(self) -> str:
        """The reason of the end of a task that has failed, in a few words; "" for others."""
        is_failed = display_state(self.task) is DisplayState.FAILED
        return advice.title_of(self.task.fatal_error_code or "") if is_failed else ""

    @property
    def source_folder(self) -> str:
        return _folder(self.task.first_item.source_path) if self.task.first_item else ""

    @property
    def destination_folder(self) -> str:
        return _folder(self.task.first_item.destination_path or "") if self.task.first_item else ""

    @property
    def is_delete(self) -> bool:
        return self.task.type == TaskType.DELETE

    @property
    def is_over(self) -> bool:
        return self.task.phase == Phase.DONE

    @property
    def stands(self) -> bool:
        """Whether nothing moves now: a bar without an end must not look as if something did."""
        return self.state.key != DisplayState.ACTIVE.value

    @property
    def percent(self) -> float | None:
        """The progress of the whole; None while it cannot be known. It is 100 only at the end."""
        if self.is_over:
            return 100.0
        if self.task.is_scanning or not self.task.files:
            return None
        return min(99.0, _percent(self.task.bytes_transferred, self.task.bytes_total, self._settled, self.task.files))

    @property
    def rate(self) -> float | None:
        """The mean rate from the request to the end or the last progress."""
        end = self.task.completion_time or self.task.last_progress_at
        seconds = (end - self.task.request_time).total_seconds() if end else 0.0
        return self.task.bytes_transferred / seconds if seconds > 0 and self.task.bytes_transferred else None

    @property
    def _settled(self) -> int:
        return self.task.files_transferred + self.task.files_skipped + self.task.files_failed

    @property
    def progress_text(self) -> str:
        """Files and bytes in a few words."""
        task = self.task
        if self.is_delete:
            return _("%(done)s of %(files)s") % {"done": count(self._settled), "files": count(task.files)}
        if task.is_scanning and not self.is_over:
            if not task.files:
                return _("Looks for files")
            return _("%(files)s files found so far") % {"files": count(task.files)}
        if task.bytes_transferred >= task.bytes_total:
            return octets(task.bytes_transferred)
        return _("%(done)s of %(all)s") % {"done": octets(task.bytes_transferred), "all": octets(task.bytes_total)}

    @property
    def sentence(self) -> str:
        """The task in one sentence."""
        state, task = display_state(self.task), self.task
        texts: dict[DisplayState, Any] = {**_SENTENCES, **(_OF_DELETES if self.is_delete else {})}
        end: datetime | None = task.completion_time
        if state is DisplayState.PAUSED and task.nice_status == pauses.BY_OWNER:
            return _("Paused by its owner.")
        if state is DisplayState.PAUSED and task.nice_status == pauses.BY_OPERATOR:
            return _("Held by the operator of this service, who has to release it.")
        return str(texts[state]) % {
            "source": self.source,
            "destination": self.destination,
            "files": _files(task.files if self.is_delete else task.files_transferred),
            "bytes": octets(task.bytes_transferred),
            "time": duration(max(1, (end - task.request_time).total_seconds())) if end else "",
            "skips": _files(task.skipped_errors),
            "why": self.why,
        }

    @property
    def phases(self) -> list[PhaseShown]:
        phases = [_scanning(self.task), _deleting(self) if self.is_delete else _transferring(self)]
        verifies = not self.is_delete and self.task.options.get("verify_checksum")
        return [*phases, _verifying(self)] if verifies else phases


def _folder(path: str) -> str:
    """The folder in which this path is."""
    folder = path.rstrip("/").rpartition("/")[0]
    return f"{folder}/" if path else ""


def of(task: Task, now: datetime | None = None) -> TaskSummary:
    """task: with its endpoints and their owners."""
    destination = canonical_name(task.destination) if task.destination else ""
    state, stall = display_state(task), _stall(task, now or datetime.now(UTC))
    # One that waits for its turn after a fault has not begun for that fault.
    shown = STALLED if stall and state in (DisplayState.ACTIVE, DisplayState.QUEUED) else SHOWN[state]
    return TaskSummary(task, shown, canonical_name(task.source), destination, stall)


def _stall(task: Task, now: datetime) -> StallShown | None:
    found = standstill.of(task)
    if found is None or task.phase == Phase.PAUSED or found.code not in advice.KNOWN:
        return None
    end = task.ends.get(found.side)
    where = canonical_name(end) if end else ""
    later = found.next_try if found.next_try and found.next_try > now else None
    return StallShown(advice.title_of(found.code), where, found.since, later, waits=task.phase == Phase.SUSPENDED)


def time_left(found: Forecast | None) -> str:
    """The time that is left, as a range."""
    if found is None or _says_nothing(found):
        return _("remaining time unknown")
    low, high = duration(_rounded(found.low)), duration(_rounded(found.high))
    if low == high:
        return _("about %(time)s left") % {"time": high}
    return _("%(low)s to %(high)s left") % {"low": low, "high": high}


def time_range(found: Forecast | None) -> str:
    """The time that is left, for a narrow column; "" where it is not known."""
    if found is None or _says_nothing(found):
        return ""
    low, high = duration(_rounded(found.low)), duration(_rounded(found.high))
    return high if low == high else f"{low} – {high}"


def _says_nothing(found: Forecast) -> bool:
    return found.high > TOO_LONG or found.high > TOO_WIDE * max(found.low, 1.0) + 60


def _rounded(seconds: float) -> float:
    step = next(step for longer, step in _ROUNDED if seconds >= longer)
    return max(1, round(seconds / step) * step)


def _percent(done: int, all_of: int, files_done: int = 0, files: int = 0) -> float:
    """By the first two numbers, such as octets; where there are none, as of empty files, by files."""
    part = done / all_of if all_of else files_done / files if files else 0.0
    return round(100 * min(1.0, part), 1)


# ---- phases


def _scanning(task: Task) -> PhaseShown:
    scanning = task.is_scanning
    text = f"{_files(task.files)}, {octets(task.bytes_total)}" if task.files else ""
    if scanning and text:
        text = _("%(found)s so far") % {"found": text}
    return PhaseShown("scan", _("Scanning"), scanning, not scanning, None if scanning else 100.0, text)


def _transferring(seen: TaskSummary) -> PhaseShown:
    task = seen.task
    over = seen.is_over or (not task.is_scanning and task.bytes_transferred >= task.bytes_total > 0)
    text = _("%(done)s of %(all)s") % {"done": octets(task.bytes_transferred), "all": octets(task.bytes_total)}
    text = text if task.files else ""
    percent = _percent(task.bytes_transferred, task.bytes_total, seen._settled, task.files)
    now, well = bool(task.files) and not over, over and _went_well(seen)
    return PhaseShown("move", _("Transferring"), now, well, percent, text)


def _verifying(seen: TaskSummary) -> PhaseShown:
    """A file is settled when the checksums of both sides agree."""
    task = seen.task
    over = _went_well(seen)
    text = _("%(done)s of %(files)s files") % {"done": count(task.files_transferred), "files": count(task.files)}
    percent = _percent(task.files_transferred + task.files_skipped, task.files)
    return PhaseShown("verify", _("Verifying"), bool(task.files_transferred) and not seen.is_over, over, percent, text)


def _deleting(seen: TaskSummary) -> PhaseShown:
    task = seen.task
    percent = _percent(seen._settled, task.files)
    text = _("%(done)s of %(files)s files") % {"done": count(seen._settled), "files": count(task.files)}
    return PhaseShown("move", _("Deleting"), bool(task.files) and not seen.is_over, _went_well(seen), percent, text)


def _went_well(seen: TaskSummary) -> bool:
    return display_state(seen.task) in (DisplayState.DONE, DisplayState.SKIPS)


def _files(number: int) -> str:
    return ngettext("%(files)s file", "%(files)s files", number) % {"files": count(number)}


# ---- the sentence

_SENTENCES = {
    DisplayState.QUEUED: gettext_lazy("Waits for its turn to move files from %(source)s to %(destination)s."),
    DisplayState.ACTIVE: gettext_lazy("Moves files from %(source)s to %(destination)s."),
    DisplayState.NEEDS_YOU: gettext_lazy("Waits for a credential, and goes on by itself when it is there."),
    DisplayState.PAUSED: gettext_lazy("Paused by a manager of an endpoint."),
    DisplayState.DONE: gettext_lazy("%(files)s (%(bytes)s) went from %(source)s to %(destination)s in %(time)s."),
    DisplayState.SKIPS: gettext_lazy(
        "%(files)s (%(bytes)s) went from %(source)s to %(destination)s in %(time)s; %(skips)s could not be read."
    ),
    DisplayState.FAILED: gettext_lazy("Ended after %(time)s: %(why)s"),
    DisplayState.CANCELED: gettext_lazy("Canceled after %(time)s. What had arrived stays."),
}
_OF_DELETES = {
    DisplayState.QUEUED: gettext_lazy("Waits for its turn to delete files on %(source)s."),
    DisplayState.ACTIVE: gettext_lazy("Deletes files on %(source)s."),
    DisplayState.DONE: gettext_lazy("%(files)s were deleted on %(source)s in %(time)s."),
}
