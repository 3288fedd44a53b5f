"""Selects the checksum algorithm of both sides, and compares two checksums. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from endpoints.gridftp.faults import Fault, FaultError, Kind, Side, make_fault
from transferapi.tasks.records import Checksum

#: They find accidental damage only: used where there is nothing better.
WEAK = frozenset({"ADLER32", "CRC32", "CRC32C"})


def common_algorithm(
    source_algorithms: Sequence[str], destination_algorithms: Sequence[str], wanted: str | None = None
) -> str:
    """The algorithm that both sides support: `wanted` if given, else the first of the source's list.

    Names are as FEAT lists them, in upper case; any case is accepted. A cryptographic one goes before a weak one.
    Raises FaultError(UNSUPPORTED), which is not retryable, when there is none.
    """
    there = {name.upper() for name in destination_algorithms}
    common = [name.upper() for name in source_algorithms if name.upper() in there]
    if wanted:
        common = [name for name in common if name == wanted.upper()]
    if not common:
        raise FaultError(_unsupported(source_algorithms, destination_algorithms, wanted))
    return min(common, key=lambda name: name in WEAK)


def mismatch(wanted: Checksum | None, algorithm: str, source: str, destination: str) -> Fault | None:
    """The fault of two checksums of a file, hexadecimal in lower case; None if they agree.

    wanted: the checksum that the user gave. Where the source itself has another one, a retry cannot succeed: the fault
    is not retryable. A file that was damaged or changed during the transfer is tried again.
    """
    raw = f"{algorithm} {source} at the source, {destination} at the destination"
    if wanted and wanted.value:
        raw = f"{raw}, {wanted.value} was given"
        if source != wanted.value:
            return make_fault(Kind.EXTERNAL_CHECKSUM_MISMATCH, raw, side=Side.SOURCE, retryable=False)
        if destination != wanted.value:
            return make_fault(Kind.EXTERNAL_CHECKSUM_MISMATCH, raw, side=Side.DESTINATION)
    return make_fault(Kind.VERIFY_CHECKSUM, raw, side=Side.DESTINATION) if source != destination else None


def _unsupported(source: Sequence[str], destination: Sequence[str], wanted: str | None) -> Fault:
    """The fault names a side if only that side lacks the algorithm."""
    known = {Side.SOURCE: {name.upper() for name in source}, Side.DESTINATION: {name.upper() for name in destination}}
    lacking = [side for side, names in known.items() if not (wanted.upper() in names if wanted else names)]
    side = lacking[0] if len(lacking) == 1 else Side.UNKNOWN
    what = f"checksums of the algorithm {wanted.upper()}" if wanted else "a checksum that both sides support"
    advice = f"The endpoints cannot make {what}: choose another algorithm, or transfer without checksums."
    raw = f"source: {' '.join(source) or 'none'}; destination: {' '.join(destination) or 'none'}"
    return Fault(Kind.UNSUPPORTED, side, retryable=False, advice=advice, raw=raw)
