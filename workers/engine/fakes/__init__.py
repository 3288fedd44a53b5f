"""In-memory stand-ins for the engine's ports, so that all of it runs without a database, a server, or waiting.

    ManualClock, run          time that passes at once, and a loop that notices when nothing would ever happen again
    MemoryStore               the rows of one task; `lease()` gives what a worker holds, and takes it from the last one
    MemoryTree                the files of one endpoint
    MemorySessions            sessions and lanes between two trees, with faults wherever a test wants them
    MemoryWallet              the credentials of the user
    Fuse                      a SIGKILL at a chosen step

They keep the promises of `workers.engine.ports` and of the facts of GridFTP that matter to the engine: files flow
through a lane in order; a refusal gives back all later ones; a lost connection leaves writers behind that spoil what
they have open.
"""

from .clock import ManualClock, StuckError, run
from .sessions import HAUNT_AFTER, FaultScript, FaultSource, MemoryLane, MemorySession, MemorySessions
from .store import Fuse, MemoryLease, MemoryStore, Row, State
from .tree import MemoryTree, Node
from .wallet import MemoryWallet

__all__ = [
    "HAUNT_AFTER",
    "FaultScript",
    "FaultSource",
    "Fuse",
    "ManualClock",
    "MemoryLane",
    "MemoryLease",
    "MemorySession",
    "MemorySessions",
    "MemoryStore",
    "MemoryTree",
    "MemoryWallet",
    "Node",
    "Row",
    "State",
    "StuckError",
    "run",
]
