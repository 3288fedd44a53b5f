"""The bandwidth and streams of one worker process, and the memory and checksums of one task in it."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from dataclasses import dataclass, field

from endpoints.gridftp.streams.file_streams import OctetBudget
from transferapi.tasks.records import Checksum

from .bandwidth import Bandwidth
from .pacer import Pacer
from .rate_share import RateShare

#: Octets of one task between its sources and its destinations. Copies in ssh's and TLS's buffers take as much again.
TASK_OCTETS = 24 * 2**20
#: Files that one worker process streams at the same time.
MAX_STREAMS = 32
#: Checksums of files that were read, and not compared yet.
MAX_DIGESTS = 5000


class StreamingHost:
    """One for each worker process. rate: octets a second for all streamed tasks; 0: no limit. share: `Bandwidth`."""

    def __init__(self, rate: int = 0, streams: int = MAX_STREAMS, share: RateShare | None = None) -> None:
        self.bandwidth = Bandwidth(rate, share)
        self.streams = asyncio.Semaphore(streams)
        self._most = streams

    @property
    def running(self) -> int:
        """Files that are streamed now."""
        return self._most - self.streams._value

    def task(self, task_id: str) -> TaskStreams:
        """The part of one task, for one slice."""
        return TaskStreams(task_id, self)


@dataclass(slots=True)
class TaskStreams:
    """The part of one task in one slice."""

    task_id: str
    host: StreamingHost
    memory: OctetBudget = field(default_factory=lambda: OctetBudget(TASK_OCTETS))
    #: The rate of the slice; None: nothing can limit it.
    pacer: Pacer | None = None
    #: Checksums of what was read at the source, by path.
    _read: OrderedDict[str, Checksum] = field(default_factory=OrderedDict)

    def note_checksum(self, source_path: str, checksum: Checksum) -> None:
        """Remember the checksum of the whole file as it was read, until it is compared."""
        self._read[source_path] = checksum
        if len(self._read) > MAX_DIGESTS:
            self._read.popitem(last=False)

    def take_checksum(self, source_path: str, algorithm: str) -> str | None:
        """The checksum of what was read, once: a file that is compared again is read again."""
        held = self._read.pop(source_path, None)
        return held.value if held and held.algorithm == algorithm.upper() else None

    async def pace(self, octets: int) -> None:
        """Wait until so many octets may be moved."""
        if self.pacer is not None:
            await self.pacer.take(octets)
        await self.host.bandwidth.take(self.task_id, octets)
