"""The pending files in memory, sorted into chunks and given to lanes. Pure: no clock, nothing awaited."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence

from transferapi.tasks.records import FileRow
from workers.engine.tuning.plan import ChunkSummary, Plan, SizeClass, lane_share, size_class

#: Maximum number of files in memory, those under way and not yet written included (truth 7).
CAPACITY = 5000
#: With fewer waiting files than this, more are fetched.
LOW = 1000


def by_size(row: FileRow) -> tuple[int, int]:
    """The order of the paper: by size, then as found."""
    return (row.size, row.id)


class FileQueue:
    """Forms chunks by size class, the smallest first. A chunk is all known files of its class when it begins.

    make_plan: returns the plan for a chunk of this class, from the files of the class seen so far.
    """

    def __init__(self, make_plan: Callable[[SizeClass, ChunkSummary], Plan]) -> None:
        self._make_plan = make_plan
        self._queues: dict[SizeClass, list[FileRow]] = {kind: [] for kind in SizeClass}
        #: All files seen of a class, so that the few files near the end do not change the plan.
        self._seen = {kind: ChunkSummary() for kind in SizeClass}
        self._files: deque[FileRow] = deque()
        self._plan: Plan | None = None
        self._waiting = 0
        self._loaded: set[int] = set()
        self._partial: list[FileRow] = []
        self._links: list[FileRow] = []
        #: Files in lanes.
        self.under_way = 0
        #: Whether a few small files may get a plan: False while the scan may soon find many more.
        self.decided = False

    @property
    def loaded(self) -> Sequence[int]:
        """Ids of all loaded files: waiting, under way, or not yet written."""
        return list(self._loaded)

    @property
    def empty(self) -> bool:
        return not self._loaded

    @property
    def room(self) -> int:
        """How many more files can be loaded."""
        return CAPACITY - len(self._loaded)

    @property
    def waiting(self) -> int:
        """Files that are in no lane yet."""
        return self._waiting

    def admit(self, rows: Iterable[FileRow]) -> bool:
        """Load these files, except those that are loaded already. Returns False when there is no room for all."""
        loaded = self._loaded
        for row in rows:
            if row.id in loaded:
                continue
            if len(loaded) >= CAPACITY:
                return False
            loaded.add(row.id)
            if row.link_target is not None:
                self._links.append(row)
                continue
            kind = size_class(row.size)
            self._seen[kind].add(row.size)
            if row.ranges:
                self._partial.append(row)
            else:
                self._queues[kind].append(row)
                self._waiting += 1
        return True

    def take_partial(self) -> Sequence[FileRow]:
        """Loaded files that are to be continued. They must be checked on the server, then put back."""
        partial, self._partial = self._partial, []
        return partial

    def take_links(self) -> Sequence[FileRow]:
        """Loaded symlinks that are to be made; they need no lane."""
        links, self._links = self._links, []
        return links

    def plan(self) -> Plan | None:
        """The plan of the current chunk; None when no file waits."""
        if not self._files:
            self._next_chunk()
        return self._plan if self._files else None

    def replan(self, plan: Plan) -> None:
        """Continue the current chunk with this plan."""
        self._plan = plan

    def take_for_lane(self, lane: int, parallelism: int, have: int) -> Sequence[FileRow]:
        """More files for the lane of this number, which has so many streams and so many files under way."""
        current = self.plan()
        if current is None or lane >= current.concurrency or current.parallelism != parallelism:
            return ()
        return self.take(lane_share(current, len(self._files) + self.under_way) - have)

    def take(self, most: int) -> Sequence[FileRow]:
        """The next files of the chunk, at most so many."""
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
        """How many lanes have work now."""
        plan = self.plan()
        return min(plan.concurrency, len(self._files) + self.under_way) if plan else 0

    def left_lanes(self, count: int) -> None:
        """Record that `count` files have left their lanes."""
        self.under_way -= count

    def put_first(self, rows: Sequence[FileRow]) -> None:
        """Put back files that were just taken, before all others."""
        self._files.extendleft(reversed(rows))
        self._waiting += len(rows)

    def put_back(self, rows: Iterable[FileRow]) -> None:
        """Put back files that have left their lanes, into the next chunk of their class."""
        for row in rows:
            self._queues[size_class(row.size)].append(row)
            self._waiting += 1

    def release(self, ids: Iterable[int]) -> None:
        """Forget these files, whose results are written: the store may return them again."""
        self._loaded.difference_update(ids)

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
