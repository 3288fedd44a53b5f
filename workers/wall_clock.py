"""Whether the wall clock of this machine is that of the database. A worker whose clock is wrong takes nothing.

Decisions about tasks follow the database's clock (`slice_preparation.SystemClock`). Certificates, tokens and signatures
are judged by the machine's own: with a wrong one, each sign-in at an endpoint fails, or one that must fail does not.
Other workers do the work meanwhile.
"""

from __future__ import annotations

import logging

from identity import clock
from identity.clock import MOST_DIFFERENCE, boottime

log = logging.getLogger(__name__)

#: Seconds for which a comparison counts.
FRESH = 10.0

_compared_at: float | None = None
_ahead = 0.0


def is_wrong() -> bool:
    """Compare the clocks, unless that was done just now; a change of the answer is logged. Raises DatabaseError."""
    global _compared_at, _ahead
    if _compared_at is None or boottime() - _compared_at > FRESH:
        before, _ahead = _is_wrong(), clock.ahead()
        _compared_at = boottime()
        if _is_wrong() != before:
            _tell()
    return _is_wrong()


def gauges() -> dict[str, int]:
    """For the report of this worker (`WorkerProcess.gauges`): seconds, negative where this clock is behind."""
    return {"clock_ahead": round(_ahead)}


def _is_wrong() -> bool:
    return abs(_ahead) > MOST_DIFFERENCE


def _tell() -> None:
    if not _is_wrong():
        log.warning("the clock of this machine is right again: this worker takes tasks")
        return
    where = "ahead of" if _ahead > 0 else "behind"
    log.error(
        "the clock of this machine is %.0f s %s that of PostgreSQL: this worker takes no task and does no periodic job "
        "until a time service (chrony, systemd-timesyncd) has set it; compare with `waybill doctor clock`",
        abs(_ahead),
        where,
    )
