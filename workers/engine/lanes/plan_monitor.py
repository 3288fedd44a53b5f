"""Measures how the plan of the current chunk performs, and announces each new plan to the user."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from identity.gsi.sentences import Sentence
from workers.engine.queue.file_queue import FileQueue
from workers.engine.tuning.plan import Plan
from workers.engine.tuning.tuner import Tuner
from workers.engine.work import SliceContext

from .background_tasks import BackgroundTasks
from .counter import TransferCounter
from .lane_pool import LaneSlot

#: Seconds between two measurements.
INTERVAL = 0.5


class PlanMonitor:
    """lane_slots: the lanes in use. waiting: returns the number of files that wait for a lane."""

    def __init__(
        self,
        work: SliceContext,
        file_queue: FileQueue,
        tuner: Tuner,
        counter: TransferCounter,
        background: BackgroundTasks,
        lane_slots: Mapping[int, LaneSlot],
        waiting: Callable[[], int],
    ) -> None:
        self._work = work
        self._file_queue = file_queue
        self._tuner = tuner
        self._counter = counter
        self._background = background
        self._lane_slots = lane_slots
        self._waiting = waiting
        self.announced: Plan | None = None

    def announce(self, plan: Plan) -> None:
        """Write an event for a plan that differs from the one announced last."""
        if plan == self.announced:
            return
        first = self.announced is None and not self._work.spec.started
        self.announced = plan
        details = {
            "type": "GridFTP Transfer",
            "concurrency": plan.concurrency,
            "parallelism": plan.parallelism,
            "pipelining": plan.pipelining,
            "reason": plan.reason,
        }
        code, text = "PROGRESS", Sentence("The plan has changed.", reason=plan.reason)
        if first:
            code, text = "STARTED", Sentence("The transfer has begun.", reason=plan.reason)
        self._background.start(self._work.store.event(code, text, details))

    async def run(self) -> None:
        """Measure at intervals, and continue with the plan that the tuner returns."""
        clock = self._work.clock
        begun = clock.now()
        while True:
            await clock.sleep(INTERVAL)
            active = [lane_slot for lane_slot in self._lane_slots.values() if lane_slot.under_way]
            if not active or self.announced is None:
                continue
            # Lanes of an earlier plan still finish their files: they do not measure this one.
            streams = self.announced.parallelism
            lanes = sum(lane_slot.parallelism == streams for lane_slot in active)
            at = (clock.now() - begun).total_seconds()
            sample = self._counter.sample(at, lanes=lanes, waiting=self._waiting())
            plan = self._tuner.measured(sample)
            if plan is not None and self._file_queue.plan() is not None:
                self._file_queue.replan(plan)
                self.announce(plan)
                self._work.more_to_do()
