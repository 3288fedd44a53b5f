"""Which checksum both sides of a task can make. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from endpoints.gridftp.faults import Fault, FaultError, Kind, Side, make_fault

from .ports import Checksum

#: They find damage, not design: taken only where there is nothing better.
WEAK = frozenset({"ADLER32", "CRC32", "CRC32C"})


def common_algorithm(
    source_algorithms: Sequence[str], destination_algorithms: Sequence[str], wanted: str | None = None
) -> str:
    """The algorithm that both sides know: `wanted` if one is, else the one that the source likes best.

    Names are as FEAT has them, in upper case; any case is taken. A cryptographic one goes before a mere sum, whatever
    the source likes. Raises FaultError(UNSUPPORTED), which no repetition mends, when there is none.
    """
    there = {name.upper() for name in destination_algorithms}
    common = [name.upper() for name in source_algorithms if name.upper() in there]
    if wanted:
        common = [name for name in common if name == wanted.upper()]
    if not common:
        raise FaultError(_unsupported(source_algorithms, destination_algorithms, wanted))
    return min(common, key=lambda name: name in WEAK)


def mismatch(wanted: Checksum | None, algorithm: str, source: str, destination: str) -> Fault | None:
    """What these two checksums of a file say, hexadecimal in lower case; None: all is well.

    wanted: what the user says that the content has. Where the source itself has another one, sending it again would
    only bring the same again: given up at once. What was only spoiled on its way, or was changed under way, is not.
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
    """The fault names the side that is to blame, where one alone is."""
    known = {Side.SOURCE: {name.upper() for name in source}, Side.DESTINATION: {name.upper() for name in destination}}
    lacking = [side for side, names in known.items() if not (wanted.upper() in names if wanted else names)]
    side = lacking[0] if len(lacking) == 1 else Side.UNKNOWN
    what = f"checksums of the algorithm {wanted.upper()}" if wanted else "a checksum that both sides know"
    advice = f"The endpoints cannot make {what}: choose another algorithm, or do without checksums."
    raw = f"source: {' '.join(source) or 'none'}; destination: {' '.join(destination) or 'none'}"
    return Fault(Kind.UNSUPPORTED, side, retryable=False, advice=advice, raw=raw)
