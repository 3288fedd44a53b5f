"""Which checksum both sides of a task can make. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from endpoints.gridftp.faults import Fault, FaultError, Kind, Side

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


def _unsupported(source: Sequence[str], destination: Sequence[str], wanted: str | None) -> Fault:
    """The fault names the side that is to blame, where one alone is."""
    known = {Side.SOURCE: {name.upper() for name in source}, Side.DESTINATION: {name.upper() for name in destination}}
    lacking = [side for side, names in known.items() if not (wanted.upper() in names if wanted else names)]
    side = lacking[0] if len(lacking) == 1 else Side.UNKNOWN
    what = f"checksums of the algorithm {wanted.upper()}" if wanted else "a checksum that both sides know"
    advice = f"The endpoints cannot make {what}: choose another algorithm, or do without checksums."
    raw = f"source: {' '.join(source) or 'none'}; destination: {' '.join(destination) or 'none'}"
    return Fault(Kind.UNSUPPORTED, side, retryable=False, advice=advice, raw=raw)
