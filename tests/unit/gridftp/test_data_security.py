"""Throw-away keys of data channels: what servers take, who shares one, and for how long."""

from __future__ import annotations

import asyncio
import base64
import threading
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, RSAPublicKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from endpoints.gridftp.third_party import dcsc_keys
from endpoints.gridftp.third_party.dcsc_keys import KEY_SECONDS, MAX_PAIRS, DcscKey, DcscKeys, make_throw_away
from identity.gsi.proxies import new_key


@pytest.fixture(scope="module")
def key() -> RSAPrivateKey:
    return new_key()


def pem_of(made: DcscKey) -> bytes:
    letter, _, text = made.argument.partition(b" ")
    assert letter == b"P"
    return base64.b64decode(text, validate=True)


def test_a_throw_away_is_what_the_toolkit_takes(key: RSAPrivateKey) -> None:
    now = datetime.now(UTC)
    pem = pem_of(make_throw_away(key, name="some name", now=now, made_at=0.0))
    certificate, again = x509.load_pem_x509_certificates(pem)

    assert certificate == again
    assert pem.count(b"BEGIN RSA PRIVATE KEY") == 1
    assert list(certificate.extensions) == [], "BasicConstraints make the toolkit refuse it"
    assert certificate.issuer == certificate.subject
    certificate.verify_directly_issued_by(certificate)
    assert certificate.signature_hash_algorithm is not None
    assert certificate.signature_hash_algorithm.name == "sha256"
    public_key = certificate.public_key()
    assert isinstance(public_key, RSAPublicKey)
    assert public_key.key_size == 2048
    private_key = load_pem_private_key(pem, None)
    assert private_key.public_key() == public_key
    assert certificate.not_valid_before_utc <= now - timedelta(days=2, hours=23)
    assert certificate.not_valid_after_utc >= now + timedelta(days=2, hours=23)


def test_its_argument_fits_a_command_line_and_is_not_shown(key: RSAPrivateKey) -> None:
    made = make_throw_away(key, name="some name", now=datetime.now(UTC), made_at=0.0)

    assert len(made.argument) < 8192
    assert repr(made) == str(made) == "ThrowAway('some name')"


async def test_each_pair_of_logins_has_one_key_of_its_own() -> None:
    keys = DcscKeys()

    same = await asyncio.gather(*(keys.take(("one", "two")) for _ in range(8)))
    other = await keys.take(("one", "three"))
    back = await keys.take(("two", "one"))

    assert len({made.argument for made in same}) == 1
    assert len({same[0].argument, other.argument, back.argument}) == 3
    assert len({same[0].name, other.name, back.name}) == 3


async def test_a_pair_gets_a_new_key_after_an_hour() -> None:
    now = 1000.0
    keys = DcscKeys(lambda: now)
    first = await keys.take(("one", "two"))
    now += KEY_SECONDS - 1
    assert await keys.take(("one", "two")) is first
    now += 1

    assert await keys.take(("one", "two")) != first


async def test_pairs_that_nobody_asks_for_are_forgotten(key: RSAPrivateKey, monkeypatch: pytest.MonkeyPatch) -> None:
    keys = DcscKeys()
    monkeypatch.setattr(dcsc_keys, "new_key", lambda: key)
    first = await keys.take(("one", "0"))
    for number in range(1, MAX_PAIRS + 1):
        await keys.take(("one", str(number)))

    assert len(keys._pairs) == MAX_PAIRS
    assert await keys.take(("one", "0")) is not first


async def test_keys_are_made_ahead_in_another_thread(key: RSAPrivateKey, monkeypatch: pytest.MonkeyPatch) -> None:
    threads: list[threading.Thread] = []

    def make() -> RSAPrivateKey:
        threads.append(threading.current_thread())
        return key

    monkeypatch.setattr(dcsc_keys, "new_key", make)
    keys = DcscKeys()
    keys.prepare()
    assert keys._filling
    await keys._filling
    monkeypatch.setattr(dcsc_keys, "new_key", None)
    keys._filling = asyncio.get_running_loop().create_future()  # type: ignore[assignment]

    await asyncio.gather(keys.take(("one", "two")), keys.take(("one", "three")))

    assert threading.main_thread() not in threads
