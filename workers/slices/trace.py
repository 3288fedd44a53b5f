"""The spans of one slice: the turn itself, its steps, and batches of small pieces. Their number is bounded.

A task of a million files, or of a month, has few spans (docs/decisions/metrics-and-traces.md): a batch lasts twice as
long as the one before it, a slice has at most STEPS steps, and slices after the first DETAILED ones have spans only
where their number is a power of two, where they take the task from a lost worker, or where they end it.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from endpoints.gridftp.faults import FaultError
from transferapi.tasks import task_spans
from transferapi.tasks.worker.leases import Grant
from transferapi.traces import spans
from transferapi.traces.spans import Span
from workers.engine.slice import SliceResult

#: Slices of a task that all have spans, steps of one slice, and seconds of the first batch of a kind.
DETAILED, STEPS, FIRST_BATCH = 64, 24, 5.0


@dataclass(slots=True)
class _Batch:
    """Pieces of one kind. longest: seconds after which the next piece begins another batch."""

    begun: int
    last: int
    longest: float
    pieces: int = 0
    files: int = 0
    octets: int = 0
    busy: int = 0
    faults: int = 0


class SliceTrace:
    """An implementation of `workers.engine.trace.Trace`. Lives on the loop until `close`."""

    def __init__(self, grant: Grant) -> None:
        self._grant = grant
        self._task = task_spans.span_of_task(grant.task_id, grant.trace_context)
        self._is_detailed = has_details(grant.epoch)
        self._span = self._span_of(grant.epoch)
        self._steps_left = STEPS
        self._batches: dict[str, _Batch] = {}

    def leased(self, begun: int, worker: str) -> None:
        """The lease was taken. begun: nanoseconds. The slice of a lost worker, which it could not record, is ended."""
        if self._span is None:
            return
        self._span.attributes["waybill.worker"] = worker
        if self._grant.taken_over:
            self._span.attributes["waybill.taken_over"] = True
            self._end_lost()
        if self._is_detailed or self._grant.taken_over:
            self._child("lease", begun, time.time_ns(), above=self._task)

    def _span_of(self, epoch: int) -> Span | None:
        """The span of the slice of this number."""
        facts: dict[str, spans.Value] = {"waybill.task": str(self._grant.task_id), "waybill.slice": epoch}
        number = task_spans.number_of_slice(self._grant.task_id, epoch)
        return spans.below(self._task, "slice", span=number, attributes=facts)

    def _end_lost(self) -> None:
        """When it began is not known; its steps and batches that were exported are below it."""
        lost = self._span_of(self._grant.epoch - 1)
        if lost is not None:
            lost.error = "worker lost"
            lost.end()

    # ---- workers.engine.trace.Trace

    @contextmanager
    def step(self, name: str, side: str = "") -> Iterator[None]:
        begun, error = time.time_ns(), ""
        try:
            yield
        except FaultError as fault:
            error = fault.fault.kind.value
            raise
        finally:
            if self._is_detailed and self._steps_left > 0:
                self._steps_left -= 1
                self._child(name, begun, time.time_ns(), {"waybill.side": side} if side else {}, error)

    @contextmanager
    def work(self, name: str, files: int = 0, octets: int = 0) -> Iterator[None]:
        begun, faults = time.time_ns(), 0
        try:
            yield
        except Exception:
            faults = 1
            raise
        finally:
            self._note(
                name, begun, _Batch(begun, time.time_ns(), 0.0, 1, files, octets, time.time_ns() - begun, faults)
            )

    def add(self, name: str, files: int = 0, octets: int = 0) -> None:
        now = time.time_ns()
        self._note(name, now, _Batch(now, now, 0.0, 1 if files else 0, files, octets))

    def _note(self, name: str, begun: int, piece: _Batch) -> None:
        if not self._is_detailed:
            return
        batch = self._batches.get(name)
        if batch is None or batch.last - batch.begun > batch.longest * 1e9:
            longest = 2 * batch.longest if batch else FIRST_BATCH
            if batch is not None:
                self._end_batch(name, batch)
                begun = max(begun, batch.last)
            batch = self._batches[name] = _Batch(begun, begun, longest)
        batch.last = max(batch.last, piece.last)
        batch.pieces += piece.pieces
        batch.files += piece.files
        batch.octets += piece.octets
        batch.busy += piece.busy
        batch.faults += piece.faults

    # ---- the end

    def close(self, outcome: SliceResult | None) -> None:
        """The slice has ended. outcome: None where it failed within this service."""
        for name, batch in self._batches.items():
            self._end_batch(name, batch)
        self._batches.clear()
        ends_task = outcome in (SliceResult.FINISHED, SliceResult.FAILED)
        if self._span is None or not (self._is_detailed or self._grant.taken_over or ends_task):
            return
        self._span.attributes["waybill.outcome"] = outcome.value if outcome else "error"
        if outcome in (None, SliceResult.LEASE_LOST):
            self._span.error = str(self._span.attributes["waybill.outcome"])
        self._span.end()

    def _end_batch(self, name: str, batch: _Batch) -> None:
        facts: dict[str, spans.Value] = {"waybill.pieces": batch.pieces, "waybill.faults": batch.faults}
        for word, value in (("files", batch.files), ("bytes", batch.octets)):
            if value:
                facts[f"waybill.{word}"] = value
        if batch.busy:
            facts["waybill.busy_seconds"] = round(batch.busy / 1e9, 6)
        self._child(name, batch.begun, batch.last, facts)

    def _child(
        self,
        name: str,
        begun: int,
        ended: int,
        facts: dict[str, spans.Value] | None = None,
        error: str = "",
        above: str | None = None,
    ) -> None:
        context = above or (self._span.id.text if self._span else None)
        made: Span | None = spans.below(context, name, begun=begun, attributes=facts)
        if made is not None:
            made.error = error
            made.end(ended)


def has_details(epoch: int) -> bool:
    """Whether the slice of this number has spans whatever becomes of it."""
    return epoch <= DETAILED or epoch & (epoch - 1) == 0


def of(grant: Grant) -> SliceTrace | None:
    """The trace of this slice; None: the task has none, or traces are off."""
    return SliceTrace(grant) if grant.trace_context and spans.is_on() else None
