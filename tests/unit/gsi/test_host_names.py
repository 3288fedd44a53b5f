"""Whether a certificate is that of the host that was meant."""

from __future__ import annotations

import ipaddress

import pytest
from cryptography import x509

from identity.gsi.errors import HostMismatchError
from identity.gsi.host_check import check_host
from tests import hostile_certificates as make

CA = make.authority()


def certificate(*names: str, common_name: str = "dtn.example.org") -> x509.Certificate:
    def general(text: str) -> x509.GeneralName:
        try:
            return x509.IPAddress(ipaddress.ip_address(text))
        except ValueError:
            return x509.RFC822Name(text) if "@" in text else x509.DNSName(text)

    return make.host(CA, *map(general, names), common_name=common_name).certificate


@pytest.mark.parametrize(
    ("names", "host"),
    [
        (["dtn.example.org"], "dtn.example.org"),
        (["other.org", "dtn.example.org"], "DTN.Example.ORG"),
        (["DTN.example.org"], "dtn.example.org."),
        (["*.example.org"], "dtn7.example.org"),
        (["192.0.2.7"], "192.0.2.7"),
        (["2001:db8::7"], "[2001:db8:0::7]"),
        (["xn--mnchen-3ya.example.org"], "münchen.example.org"),
    ],
)
def test_names_and_addresses_fit(names: list[str], host: str) -> None:
    check_host(certificate(*names), host)


@pytest.mark.parametrize(
    ("names", "host"),
    [
        (["other.example.org"], "dtn.example.org"),
        (["example.org"], "dtn.example.org"),
        (["dtn.example.org"], "example.org"),
        (["*.example.org"], "example.org"),
        (["*.example.org"], "a.b.example.org"),
        (["*.org"], "example.org"),
        (["*"], "localhost"),
        (["*.*.org"], "a.b.org"),
        (["d*.example.org"], "dtn.example.org"),
        (["dtn.*.org"], "dtn.example.org"),
        (["*.0.2.7"], "192.0.2.7"),
        (["192.0.2.8"], "192.0.2.7"),
        (["192.0.2.7"], "dtn.example.org"),
        (["dtn.example.org"], "192.0.2.7"),
        (["dtn.example.org"], ""),
        (["dtn.example.org"], "dtn.example.org\0.evil.org"),
        (["dtn.example.org"], "dtn\n.example.org"),
        (["dtn.example.org"], "é" * 300),
    ],
)
def test_others_do_not(names: list[str], host: str) -> None:
    with pytest.raises(HostMismatchError):
        check_host(certificate(*names), host)


@pytest.mark.parametrize("common_name", ["dtn.example.org", "host/dtn.example.org", "ftp/DTN.example.org"])
def test_without_alternative_names_the_common_name_counts_with_its_service(common_name: str) -> None:
    check_host(certificate(common_name=common_name), "dtn.example.org")
    check_host(certificate("someone@example.org", common_name=common_name), "dtn.example.org")
    with pytest.raises(HostMismatchError):
        check_host(certificate(common_name=common_name), "other.example.org")


@pytest.mark.parametrize("name", ["other.example.org", "192.0.2.7"])
def test_with_alternative_names_the_common_name_does_not_count(name: str) -> None:
    with pytest.raises(HostMismatchError):
        check_host(certificate(name), "dtn.example.org")


def test_an_address_in_a_common_name_does_not_count() -> None:
    with pytest.raises(HostMismatchError):
        check_host(certificate(common_name="192.0.2.7"), "192.0.2.7")


def test_a_certificate_without_a_common_name_is_that_of_no_host() -> None:
    with pytest.raises(HostMismatchError):
        check_host(make.person(CA, make.name("O=Grid")).certificate, "dtn.example.org")


def test_a_registered_subject_counts_instead_of_the_host() -> None:
    check_host(certificate("other.org"), "dtn.example.org", "/O=Grid/OU=Test/CN=dtn.example.org")
    with pytest.raises(HostMismatchError) as raised:
        check_host(certificate("dtn.example.org"), "dtn.example.org", "/O=Grid/OU=Test/CN=other")
    assert "/O=Grid/OU=Test/CN=dtn.example.org" in raised.value.reason


def test_a_subject_may_be_registered_as_people_write_it() -> None:
    service = certificate(common_name="host/dtn.example.org")
    check_host(service, "x", "/O=Grid/OU=Test/CN=host/dtn.example.org")
    check_host(service, "x", "/O=Grid/OU=Test/CN=host\\/dtn.example.org")
    mail = make.person(CA, make.name("O=Grid", "CN=A", "emailAddress=a@example.org")).certificate
    for word in ("emailAddress", "Email", "E"):
        check_host(mail, "x", f"/O=Grid/CN=A/{word}=a@example.org")


def test_a_slash_in_a_common_name_makes_no_other_subject_of_it() -> None:
    trick = make.person(CA, make.name("O=Grid", "CN=a/CN=dtn.example.org")).certificate
    with pytest.raises(HostMismatchError):
        check_host(trick, "x", "/O=Grid/CN=a/CN=dtn.example.org")
    with pytest.raises(HostMismatchError):
        check_host(trick, "dtn.example.org")
    plus = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "a+OU=b")])
    with pytest.raises(HostMismatchError):
        check_host(make.person(CA, plus).certificate, "x", "/CN=a+OU=b")
