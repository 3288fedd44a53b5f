"""In-memory implementations of the engine's ports: no database, no server, no waiting.

    ManualClock, VirtualLoop  virtual time; the loop raises StuckError when nothing could ever happen again
    MemoryStore               the rows of one task; `lease()` returns a TaskStore, and ends the one before
    MemoryTree                the files of one endpoint
    MemorySessions            sessions and lanes between two trees, with faults wherever a test wants them
    MemoryCredentials         the credentials of the user
    Fuse                      a SIGKILL at a chosen step

They follow `workers.engine.ports`, and the facts of GridFTP that matter to the engine: files pass through a lane in
order; a refusal returns all later ones; a lost connection leaves stale writers that damage the files they have open.
"""

from .clock import ManualClock, StuckError, VirtualLoop, run
from .credential_provider import MemoryCredentials
from .fuse import Fuse
from .lane import STALE_WRITE_AFTER, MemoryLane
from .rows import Row, State
from .sessions import FaultScript, FaultSource, MemorySession, MemorySessions
from .store import MemoryLease, MemoryStore
from .tree import MemoryTree, Node

__all__ = [
    "STALE_WRITE_AFTER",
    "FaultScript",
    "FaultSource",
    "Fuse",
    "ManualClock",
    "MemoryCredentials",
    "MemoryLane",
    "MemoryLease",
    "MemorySession",
    "MemorySessions",
    "MemoryStore",
    "MemoryTree",
    "Node",
    "Row",
    "State",
    "StuckError",
    "VirtualLoop",
    "run",
]
