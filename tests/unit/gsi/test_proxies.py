"""Proxies that we make: whoever follows RFC 3820 accepts them."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest
from cryptography import x509

from identity.gsi.errors import Flaw
from identity.gsi.proxies import CLOCK_SKEW, make_proxy, make_request, new_key, sign_proxy
from identity.gsi.trust import TrustFolder
from identity.gsi.x509 import INHERIT_ALL, LIMITED, ProxyInfo, X509Credential, proxy_info
from tests import hostile_certificates as make
from tests.hostile_certificates import DAY, NOW, raises_flaw

CA = make.authority()
ALICE = make.person(CA)
HOUR = timedelta(hours=1)


@pytest.fixture
def trust(tmp_path: Path) -> TrustFolder:
    return TrustFolder(make.trust(tmp_path, CA))


def test_a_proxy_is_admitted_and_has_its_persons_identity(trust: TrustFolder) -> None:
    credential = make_proxy(ALICE.credential, lifetime=HOUR, now=NOW)
    assert trust.admit(credential, now=NOW) == ALICE.certificate
    assert credential.identity == "/O=Grid/OU=Test/CN=Alice"
    assert credential.expires_at == NOW + HOUR
    assert credential.certificate.not_valid_before_utc == NOW - CLOCK_SKEW
    assert X509Credential.parse(credential.to_pem()).chain == ALICE.chain


def test_proxies_of_proxies_are_admitted(trust: TrustFolder) -> None:
    credential = make_proxy(ALICE.credential, lifetime=HOUR, now=NOW)
    for _ in range(3):
        credential = make_proxy(credential, lifetime=HOUR, now=NOW)
    assert trust.admit(credential, now=NOW) == ALICE.certificate


def test_two_proxies_have_different_names_and_numbers() -> None:
    one, two = (sign_proxy(ALICE.credential, make.rsa_key(2).public_key(), lifetime=HOUR, now=NOW) for _ in range(2))
    assert one.subject != two.subject
    assert one.serial_number != two.serial_number
    assert one.subject.rdns[-1].rfc4514_string() == f"CN={one.serial_number}"


def test_a_limited_proxy_is_verified_but_not_admitted(trust: TrustFolder) -> None:
    credential = make_proxy(ALICE.credential, lifetime=HOUR, limited=True, now=NOW)
    assert credential.is_limited
    assert trust.verify((credential.certificate, *credential.chain), now=NOW) == ALICE.certificate
    with raises_flaw(Flaw.LIMITED_PROXY):
        trust.admit(credential, now=NOW)


def test_what_a_limited_proxy_signs_is_limited(trust: TrustFolder) -> None:
    limited = make_proxy(ALICE.credential, lifetime=HOUR, limited=True, now=NOW)
    below = make_proxy(limited, lifetime=HOUR, now=NOW)
    assert below.is_limited
    trust.verify((below.certificate, *below.chain), now=NOW)


def test_a_proxy_never_outlives_its_issuers(trust: TrustFolder) -> None:
    proxy = make.proxy(ALICE, ends=NOW + HOUR)
    below = make_proxy(proxy.credential, lifetime=9 * DAY, now=NOW)
    assert below.expires_at == NOW + HOUR
    trust.admit(below, now=NOW)


def test_the_extension_says_what_it_should() -> None:
    full = sign_proxy(ALICE.credential, make.rsa_key(2).public_key(), lifetime=HOUR, now=NOW)
    limited = sign_proxy(ALICE.credential, make.rsa_key(2).public_key(), lifetime=HOUR, limited=True, now=NOW)
    assert proxy_info(full) == ProxyInfo(critical=True, policy=INHERIT_ALL, path_length=None, has_rules=False)
    assert proxy_info(limited) == ProxyInfo(critical=True, policy=LIMITED, path_length=None, has_rules=False)


def test_a_proxy_may_be_used_for_nothing_but_logins_and_proxies() -> None:
    proxy = sign_proxy(ALICE.credential, make.rsa_key(2).public_key(), lifetime=HOUR, now=NOW)
    usage = proxy.extensions.get_extension_for_class(x509.KeyUsage)
    assert usage.critical
    assert usage.value == make.usage()


def test_a_person_with_a_key_on_a_curve_can_make_a_proxy(trust: TrustFolder) -> None:
    curve = make.person(CA, key=make.ec_key())
    assert trust.admit(make_proxy(curve.credential, lifetime=HOUR, now=NOW), now=NOW) == curve.certificate


def test_the_longest_and_oddest_name_can_have_a_proxy(trust: TrustFolder) -> None:
    odd = make.person(CA, make.name("O=Grid", "OU=a+CN=b", "CN=Zoë / ツ", "emailAddress=a@example.org"))
    assert trust.admit(make_proxy(odd.credential, lifetime=HOUR, now=NOW), now=NOW) == odd.certificate


def test_the_expired_make_no_proxies() -> None:
    expired = make.person(CA, ends=NOW - DAY)
    with raises_flaw(Flaw.PROXY_NOT_POSSIBLE):
        make_proxy(expired.credential, lifetime=HOUR, now=NOW)
    with raises_flaw(Flaw.PROXY_NOT_POSSIBLE):
        make_proxy(ALICE.credential, lifetime=timedelta(0), now=NOW)


def test_a_proxy_that_allows_no_others_makes_none() -> None:
    last = make.proxy(ALICE, path_length=0)
    with raises_flaw(Flaw.PROXY_NOT_POSSIBLE):
        make_proxy(last.credential, lifetime=HOUR, now=NOW)
    one_more = make.proxy(ALICE, path_length=1)
    with raises_flaw(Flaw.PROXY_NOT_POSSIBLE):
        make_proxy(make.proxy(one_more).credential, lifetime=HOUR, now=NOW)
    make_proxy(one_more.credential, lifetime=HOUR, now=NOW)


def test_a_certificate_that_may_not_sign_makes_no_proxies() -> None:
    silent = make.person(CA, key_usage=make.usage(sign=False))
    with raises_flaw(Flaw.PROXY_NOT_POSSIBLE):
        make_proxy(silent.credential, lifetime=HOUR, now=NOW)


def test_a_server_that_asks_with_a_short_key_gets_none() -> None:
    with raises_flaw(Flaw.WEAK_KEY):
        sign_proxy(ALICE.credential, make.rsa_key(0, 1024).public_key(), lifetime=HOUR, now=NOW)


def test_a_request_is_signed_with_its_own_key() -> None:
    key = new_key()
    request = make_request(key)
    assert key.key_size == 2048
    assert request.is_signature_valid
    assert request.public_key() == key.public_key()
