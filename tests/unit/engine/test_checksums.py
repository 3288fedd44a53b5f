"""Which checksum both sides can make."""

import pytest

from endpoints.gridftp.faults import FaultError, Kind, Side
from workers.engine.settle.checksums import common_algorithm

TOOLKIT = ("MD5", "ADLER32", "SHA1", "SHA256", "SHA512")


def test_the_sources_order_decides() -> None:
    assert common_algorithm(("SHA1", "MD5"), TOOLKIT) == "SHA1"


def test_a_cryptographic_one_goes_before_a_sum_that_the_source_likes_better() -> None:
    assert common_algorithm(("ADLER32", "CRC32", "SHA512", "MD5"), ("CRC32", *TOOLKIT)) == "SHA512"


def test_a_sum_is_better_than_nothing() -> None:
    assert common_algorithm(("ADLER32",), TOOLKIT) == "ADLER32"


def test_what_the_user_wants_is_taken_in_any_case_of_letters() -> None:
    assert common_algorithm(TOOLKIT, ("sha256",), "Sha256") == "SHA256"
    assert common_algorithm(TOOLKIT, TOOLKIT, "adler32") == "ADLER32"


@pytest.mark.parametrize(
    ("source", "destination", "wanted", "side"),
    [
        ((), TOOLKIT, None, Side.SOURCE),
        (TOOLKIT, (), None, Side.DESTINATION),
        ((), (), None, Side.UNKNOWN),
        (("MD5",), ("SHA1",), None, Side.UNKNOWN),
        (TOOLKIT, ("MD5",), "SHA256", Side.DESTINATION),
        (TOOLKIT, TOOLKIT, "CRC32", Side.UNKNOWN),
    ],
)
def test_where_there_is_none_no_repetition_helps(
    source: tuple[str, ...], destination: tuple[str, ...], wanted: str | None, side: Side
) -> None:
    with pytest.raises(FaultError) as caught:
        common_algorithm(source, destination, wanted)
    assert caught.value.fault.kind is Kind.UNSUPPORTED
    assert not caught.value.fault.retryable
    assert caught.value.fault.side is side
