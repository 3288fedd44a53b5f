"""Checksums in the forms in which servers write them."""

from __future__ import annotations

import pytest

from endpoints.gridftp.streams.digest import normal_checksum

MD5 = "d41d8cd98f00b204e9800998ecf8427e"


@pytest.mark.parametrize(
    ("words", "algorithm", "value"),
    [
        ("03b0c01a", "ADLER32", "03b0c01a"),
        # Servers that print the number without the zeros in front.
        ("3b0c01a", "adler32", "03b0c01a"),
        ("0x3B0C01A", "ADLER32", "03b0c01a"),
        ("0", "CRC32", "00000000"),
        (MD5.upper(), "md5", MD5),
        (f"MD5 {MD5}", "MD5", MD5),
        (f'"{MD5}" /in/beef', "MD5", MD5),
        (f"{MD5} cafe", "MD5", MD5),
        ("abc", "BLAKE3", "abc"),
    ],
)
def test_a_checksum_is_written_in_one_form(words: str, algorithm: str, value: str) -> None:
    assert normal_checksum(words, algorithm) == value


@pytest.mark.parametrize(
    ("words", "algorithm"),
    [
        ("", "MD5"), ("1B2M2Y8AsgTpgAmY7PhCfg==", "MD5"), (MD5[:-1], "MD5"), (MD5 + "0", "MD5"), (MD5, "SHA256"),
        ("123456789", "ADLER32"), ("ok", "ADLER32"), ("-1", "ADLER32"),
    ],
)  # fmt: skip
def test_what_is_no_checksum_of_the_algorithm_is_none(words: str, algorithm: str) -> None:
    assert normal_checksum(words, algorithm) is None
