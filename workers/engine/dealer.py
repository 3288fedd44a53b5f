"""The pending files in hand, sorted into chunks and dealt to lanes. Pure: no clock, nothing awaited."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence

from .plan import Plan, SizeClass, Summary, lane_share, size_class
from .ports import FileRow

#: Files held in memory at most, under way and not yet written off included, whatever the size of the task (truth 7).
CAPACITY = 5000
#: With fewer than this left to deal, more are fetched.
LOW = 1000


def by_size(row: FileRow) -> tuple[int, int]:
    """The order of the paper: by size, and as found where equal."""
    return (row.size, row.id)


class Dealer:
    """Chunks are formed by size class, the smallest first; a chunk is what of its class is known when it begins.

    make_plan: the plan to begin a chunk of this class with, for what is known of the class so far.
    """

    def __init__(self, make_plan: Callable[[SizeClass, Summary], Plan]) -> None:
        self._make_plan = make_plan
        self._queues: dict[SizeClass, list[FileRow]] = {kind: [] for kind in SizeClass}
        #: All that was ever seen of a class: a plan does not fall back to that for few files near the end.
        self._seen = {kind: Summary() for kind in SizeClass}
        self._files: deque[FileRow] = deque()
        self._plan: Plan | None = None
        self._waiting = 0
        self._in_hand: set[int] = set()
        self._begun: list[FileRow] = []
        self._links: list[FileRow] = []
        #: Files given to lanes and not come back.
        self.under_way = 0
        #: Whether few small files may be planned for: not while the scan may find many more any moment.
        self.decided = False

    @property
    def in_hand(self) -> Sequence[int]:
        """Ids of all files that are dealt with here: waiting, under way, or not yet written."""
        return list(self._in_hand)

    @property
    def empty(self) -> bool:
        return not self._in_hand

    @property
    def room(self) -> int:
        """How many more files there is room for."""
        return CAPACITY - len(self._in_hand)

    @property
    def waiting(self) -> int:
        """Files that no lane has yet."""
        return self._waiting

    def admit(self, rows: Iterable[FileRow]) -> bool:
        """Take these files in hand; those that are already are passed over. False: no room for all."""
        in_hand = self._in_hand
        for row in rows:
            if row.id in in_hand:
                continue
            if len(in_hand) >= CAPACITY:
                return False
            in_hand.add(row.id)
            if row.link_target is not None:
                self._links.append(row)
                continue
            kind = size_class(row.size)
            self._seen[kind].add(row.size)
            if row.ranges:
                self._begun.append(row)
            else:
                self._queues[kind].append(row)
                self._waiting += 1
        return True

    def take_begun(self) -> Sequence[FileRow]:
        """Files in hand that are to be continued: not dealt before somebody has looked, and put them back."""
        begun, self._begun = self._begun, []
        return begun

    def take_links(self) -> Sequence[FileRow]:
        """Symlinks in hand that are to be made: no lane has anything to do with them."""
        links, self._links = self._links, []
        return links

    def plan(self) -> Plan | None:
        """The plan of the chunk that is being dealt; None when there is nothing to deal."""
        if not self._files:
            self._next_chunk()
        return self._plan if self._files else None

    def replan(self, plan: Plan) -> None:
        """The chunk under way goes on with this plan."""
        self._plan = plan

    def deal(self, lane: int, parallelism: int, have: int) -> Sequence[FileRow]:
        """More files for the lane of this number, which has so many streams and so many files under way."""
        current = self.plan()
        if current is None or lane >= current.concurrency or current.parallelism != parallelism:
            return ()
        return self.take(lane_share(current, len(self._files) + self.under_way) - have)

    def take(self, most: int) -> Sequence[FileRow]:
        """The next files of the chunk, whoever takes them."""
        if self.plan() is None:
            return ()
        count = min(most, len(self._files))
        if count <= 0:
            return ()
        self.under_way += count
        self._waiting -= count
        take = self._files.popleft
        return [take() for _ in range(count)]

    def lanes_wanted(self) -> int:
        """How many lanes have something to do now."""
        plan = self.plan()
        return min(plan.concurrency, len(self._files) + self.under_way) if plan else 0

    def came_back(self, count: int = 1) -> None:
        """So many files are no longer in a lane."""
        self.under_way -= count

    def put_first(self, rows: Sequence[FileRow]) -> None:
        """These, which were just dealt, are dealt again before all others."""
        self._files.extendleft(reversed(rows))
        self._waiting += len(rows)

    def put_back(self, rows: Iterable[FileRow]) -> None:
        """Files in hand that no lane has any more are dealt again, with the next chunk of their class."""
        for row in rows:
            self._queues[size_class(row.size)].append(row)
            self._waiting += 1

    def release(self, ids: Iterable[int]) -> None:
        """These files are written off: they may come again from the store."""
        self._in_hand.difference_update(ids)

    def _next_chunk(self) -> None:
        for kind, queue in self._queues.items():
            if not queue:
                continue
            seen = self._seen[kind]
            if kind is SizeClass.SMALL and not (self.decided or seen.many_small):
                continue
            self._files = deque(sorted(queue, key=by_size))
            self._queues[kind] = []
            self._plan = self._make_plan(kind, seen)
            return
