"""Which names an authority may certify, and whom it has revoked."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable
from pathlib import Path

import pytest
from cryptography import x509

from identity.gsi import errors
from tests import hostile_certificates as make
from tests.hostile_certificates import DAY, NOW, Holder, refused, verified

CA = make.authority()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return make.trust(tmp_path, CA)


# --- names ----------------------------------------------------------------------------------------------------------


def constraints(permitted: list[x509.GeneralName] | None, excluded: list[x509.GeneralName] | None = None) -> Holder:
    more = [(x509.NameConstraints(permitted, excluded), True)]
    return make.authority("CN=Bound CA", more=more)


def below(*parts: str) -> x509.GeneralName:
    return x509.DirectoryName(make.name(*parts))


def test_an_authority_may_be_bound_to_names_of_persons(tmp_path: Path) -> None:
    bound = constraints([below("O=Grid", "OU=Test")], [below("O=Grid", "OU=Test", "OU=Admins")])
    make.trust(tmp_path, bound)
    verified(tmp_path, make.person(bound))
    verified(tmp_path, make.proxy(make.person(bound)))
    refused(tmp_path, make.person(bound, make.name("O=Grid", "CN=Alice")), errors.Flaw.NAME_CONSTRAINT)
    admin = make.name("O=Grid", "OU=Test", "OU=Admins", "CN=Root")
    refused(tmp_path, make.person(bound, admin), errors.Flaw.NAME_CONSTRAINT)


def test_an_authority_may_be_bound_to_names_of_hosts(tmp_path: Path) -> None:
    network = x509.IPAddress(ipaddress.ip_network("192.0.2.0/24"))
    bound = constraints([x509.DNSName("example.org"), network])
    make.trust(tmp_path, bound)
    verified(tmp_path, make.host(bound, x509.DNSName("dtn.example.org")))
    verified(tmp_path, make.host(bound, x509.IPAddress(ipaddress.ip_address("192.0.2.7"))))
    verified(tmp_path, make.host(bound, common_name="host/dtn.example.org"))
    for bad in (
        make.host(bound, x509.DNSName("dtn.example.org"), x509.DNSName("dtn.example.com")),
        make.host(bound, x509.DNSName("badexample.org")),
        make.host(bound, x509.IPAddress(ipaddress.ip_address("192.0.3.7"))),
        make.host(bound, common_name="host/dtn.example.com"),
    ):
        refused(tmp_path, bad, errors.Flaw.NAME_CONSTRAINT)


def test_an_authority_may_be_bound_to_mail_addresses(tmp_path: Path) -> None:
    bound = constraints([x509.RFC822Name("example.org")])
    make.trust(tmp_path, bound)
    verified(tmp_path, make.person(bound, make.name("O=Grid", "CN=A", "emailAddress=a@example.org")))
    other = make.name("O=Grid", "CN=A", "emailAddress=a@example.com")
    refused(tmp_path, make.person(bound, other), errors.Flaw.NAME_CONSTRAINT)


def test_constraints_that_cannot_be_judged_refuse_what_they_are_about(tmp_path: Path) -> None:
    uri = x509.UniformResourceIdentifier("example.org")
    bound = constraints([uri])
    make.trust(tmp_path, bound)
    verified(tmp_path, make.person(bound))
    named = x509.UniformResourceIdentifier("https://example.org/alice")
    refused(tmp_path, make.host(bound, named), errors.Flaw.NAME_CONSTRAINT)


def test_the_signing_policy_says_whom_an_authority_may_certify(tmp_path: Path) -> None:
    make.trust(tmp_path, CA, "/O=Grid/OU=Test/*", "/O=Grid/CN=robot ?")
    verified(tmp_path, make.person(CA))
    verified(tmp_path, make.person(CA, make.name("O=Grid", "CN=robot 7")))
    reason = refused(tmp_path, make.person(CA, make.name("O=Elsewhere", "CN=Alice")), errors.Flaw.SIGNING_POLICY)
    assert reason == 'The authority "/O=Grid/CN=Test CA" may not sign the certificate "/O=Elsewhere/CN=Alice".'


def test_proxies_are_no_matter_of_the_signing_policy(tmp_path: Path) -> None:
    make.trust(tmp_path, CA, "/O=Grid/OU=Test/CN=Alice")
    verified(tmp_path, make.proxy(make.person(CA)))


def test_an_authority_without_a_signing_policy_may_certify_nobody(tmp_path: Path) -> None:
    refused(make.trust(tmp_path, CA, policy=""), make.person(CA), errors.Flaw.SIGNING_POLICY)


def test_a_signing_policy_for_another_authority_is_none(tmp_path: Path) -> None:
    policy = make.policy_text(make.authority("CN=Other CA"), "/*")
    refused(make.trust(tmp_path, CA, policy=policy), make.person(CA), errors.Flaw.SIGNING_POLICY)


def test_the_policy_of_one_authority_cannot_speak_for_another(folder: Path) -> None:
    other = make.authority("CN=Other CA")
    make.trust(folder, other, policy=make.policy_text(CA, "/O=Elsewhere/*"))
    refused(folder, make.person(CA, make.name("O=Elsewhere", "CN=Alice")), errors.Flaw.SIGNING_POLICY)


def test_old_words_for_mail_and_user_in_policies_are_understood(tmp_path: Path) -> None:
    make.trust(tmp_path, CA, "/O=Grid/Email=*", "/O=Grid/USERID=*")
    verified(tmp_path, make.person(CA, make.name("O=Grid", "emailAddress=a@example.org")))
    verified(tmp_path, make.person(CA, make.name("O=Grid", "UID=alice")))


def test_a_slash_in_a_name_may_stand_plain_in_a_policy(tmp_path: Path) -> None:
    make.trust(tmp_path, CA, "/O=Grid/CN=host/*")
    verified(tmp_path, make.person(CA, make.name("O=Grid", "CN=host/dtn.example.org")))


def test_a_slash_in_a_name_makes_no_other_name_of_it(tmp_path: Path) -> None:
    make.trust(tmp_path, CA, "/O=Grid/OU=Admins/*")
    trick = make.name("O=Grid/OU=Admins/x", "CN=Mallory")
    refused(tmp_path, make.person(CA, trick), errors.Flaw.SIGNING_POLICY)


def test_names_that_differ_in_case_only_are_one_name(tmp_path: Path) -> None:
    make.trust(tmp_path, CA)
    shouting = Holder(make.authority(make.name("O=GRID", "CN=TEST  CA"), key=CA.key).certificate, CA.key)
    alice = make.person(shouting)
    verified(tmp_path, Holder(alice.certificate, alice.key))


# --- revocation -----------------------------------------------------------------------------------------------------


def test_a_revoked_person_is_refused_and_so_are_the_proxies(folder: Path) -> None:
    alice, bob = make.person(CA), make.person(CA, "CN=Bob")
    make.publish(folder, CA, make.revocation_list(CA, [bob]))
    verified(folder, alice)
    refused(folder, bob, errors.Flaw.REVOKED)
    refused(folder, make.proxy(bob), errors.Flaw.REVOKED)


def test_a_revoked_intermediate_authority_is_refused(folder: Path) -> None:
    middle = make.authority("CN=Middle", CA)
    make.trust(folder, middle)
    make.publish(folder, CA, make.revocation_list(CA, [middle]))
    refused(folder, make.person(middle), errors.Flaw.REVOKED)


def test_the_number_of_a_certificate_counts_with_its_own_authority_only(folder: Path) -> None:
    other = make.authority("CN=Other CA")
    make.trust(folder, other)
    alice = make.person(CA, serial=4711)
    make.publish(folder, other, make.revocation_list(other, [make.person(other, serial=4711)]))
    verified(folder, alice)


@pytest.mark.parametrize(
    "published",
    [
        lambda: make.revocation_list(CA, begins=NOW - 9 * DAY, ends=NOW - DAY),
        lambda: make.revocation_list(CA, begins=NOW + DAY, ends=NOW + 2 * DAY),
        lambda: make.revocation_list(CA, signed_by=make.rsa_key(66)),
        lambda: make.revocation_list(CA, more=[(x509.DeltaCRLIndicator(1), True)]),
        lambda: b"-----BEGIN X509 CRL-----\nAAAA\n-----END X509 CRL-----\n",
        lambda: b"",
        lambda: b"rubbish",
    ],
    ids=["out of date", "from the future", "forged", "a delta", "unreadable", "empty", "rubbish"],
)
def test_a_list_that_cannot_be_used_refuses_all_of_its_authority(folder: Path, published: Callable[[], bytes]) -> None:
    make.publish(folder, CA, published())
    assert "/O=Grid/CN=Test CA" in refused(folder, make.person(CA), errors.Flaw.STALE_REVOCATION_LIST)


def test_an_old_list_beside_a_current_one_still_revokes(folder: Path) -> None:
    bob = make.person(CA, "CN=Bob")
    make.publish(folder, CA, make.revocation_list(CA, [bob], begins=NOW - 9 * DAY, ends=NOW - DAY))
    make.publish(folder, CA, make.revocation_list(CA), 1)
    verified(folder, make.person(CA))
    refused(folder, bob, errors.Flaw.REVOKED)


def test_a_forged_list_beside_a_genuine_one_revokes_nobody(folder: Path) -> None:
    alice = make.person(CA)
    make.publish(folder, CA, make.revocation_list(CA))
    make.publish(folder, CA, make.revocation_list(CA, [alice], signed_by=make.rsa_key(66)), 1)
    verified(folder, alice)
