"""One-time codes: the vectors of RFC 6238 and RFC 4226, the window, and the address for authenticators."""

from __future__ import annotations

from urllib.parse import parse_qs, urlsplit

import pytest

from identity import one_time_codes

#: RFC 6238, appendix B: the secret is the ASCII digits, repeated to the length of the hash.
SECRETS = {
    "sha1": b"12345678901234567890",
    "sha256": b"12345678901234567890123456789012",
    "sha512": b"1234567890123456789012345678901234567890123456789012345678901234",
}
VECTORS = {
    59: ("94287082", "46119246", "90693936"),
    1111111109: ("07081804", "68084774", "25091201"),
    1111111111: ("14050471", "67062674", "99943326"),
    1234567890: ("89005924", "91819424", "93441116"),
    2000000000: ("69279037", "90698825", "38618901"),
    20000000000: ("65353130", "77737706", "47863826"),
}
SECRET = SECRETS["sha1"]


@pytest.mark.parametrize("seconds", VECTORS)
def test_the_vectors_of_rfc_6238(seconds: int) -> None:
    step = one_time_codes.step_at(seconds)
    found = tuple(one_time_codes.code_at(SECRETS[digest], step, 8, digest) for digest in ("sha1", "sha256", "sha512"))
    assert found == VECTORS[seconds]


def test_the_vectors_of_rfc_4226() -> None:
    """Appendix D."""
    assert [one_time_codes.code_at(SECRET, step) for step in range(10)] == [
        *("755224", "287082", "359152", "969429", "338314"),
        *("254676", "287922", "162583", "399871", "520489"),
    ]


def test_codes_of_the_neighbouring_steps_are_accepted_and_no_others() -> None:
    now = 1_000_000_000.0
    here = one_time_codes.step_at(now)
    found = {
        off: one_time_codes.matching_step(SECRET, one_time_codes.code_at(SECRET, here + off), now)
        for off in range(-3, 4)
    }
    assert found == {-3: None, -2: None, -1: here - 1, 0: here, 1: here + 1, 2: None, 3: None}


@pytest.mark.parametrize("given", ["", "75522", "7552240", "７５５２２４", "abcdef"])
def test_text_of_another_form_matches_nothing(given: str) -> None:
    assert one_time_codes.matching_step(SECRET, given, 0) is None


def test_the_address_for_authenticators_carries_any_user_name() -> None:
    parts = urlsplit(one_time_codes.provisioning_uri(SECRET, "jo:e&secret=x #é", "Waybill"))
    assert (parts.scheme, parts.netloc, parts.path) == ("otpauth", "totp", "/Waybill%3Ajo%3Ae%26secret%3Dx%20%23%C3%A9")
    assert parse_qs(parts.query) == {
        "secret": ["GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ"],
        "issuer": ["Waybill"],
        "algorithm": ["SHA1"],
        "digits": ["6"],
        "period": ["30"],
    }
    assert not parts.fragment


def test_every_secret_is_new() -> None:
    assert len({one_time_codes.new_secret() for _ in range(100)}) == 100
