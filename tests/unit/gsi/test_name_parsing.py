"""Names as people and servers in front write them, against the one form that certificates have."""

from __future__ import annotations

import subprocess

import pytest
from cryptography import x509
from cryptography.x509.oid import NameOID, ObjectIdentifier
from hypothesis import given
from hypothesis import strategies as st

from identity.gsi.distinguished_names import slash_name
from identity.gsi.name_parsing import BadNameError, from_rfc2253, normalized_slash_name

_OIDS = (NameOID.COMMON_NAME, NameOID.ORGANIZATION_NAME, NameOID.USER_ID, NameOID.EMAIL_ADDRESS)
_VALUES = st.text(st.characters(codec="utf-8", exclude_characters="\\\0"), min_size=1, max_size=20)
_NAMES = st.lists(st.tuples(st.sampled_from(_OIDS), _VALUES), min_size=1, max_size=5).map(
    lambda members: x509.Name([x509.NameAttribute(oid, value, _validate=False) for oid, value in members])
)


@given(_NAMES)
def test_what_a_certificate_says_is_in_its_one_form_already(name: x509.Name) -> None:
    assert normalized_slash_name(slash_name(name)) == slash_name(name)


@pytest.mark.parametrize(
    ("written", "form"),
    [
        ("/O=Grid/OU=Site/CN=Alice", "/O=Grid/OU=Site/CN=Alice"),
        ("/o=Grid/cn=Alice", "/O=Grid/CN=Alice"),
        ("/DC=org/UID=alice", "/DC=org/UID=alice"),
        ("/O=Grid/E=a@example.org", "/O=Grid/emailAddress=a@example.org"),
        ("/O=Grid/Email=a@example.org", "/O=Grid/emailAddress=a@example.org"),
        ("/2.5.4.3=Alice", "/CN=Alice"),
        ("/1.2.3.4=x", "/1.2.3.4=x"),
        ("/CN=host/dtn.example.org", r"/CN=host\/dtn.example.org"),
        (r"/CN=host\/dtn.example.org", r"/CN=host\/dtn.example.org"),
        (r"/CN=a\/CN=b", r"/CN=a\/CN=b"),
        ("/CN=C++", r"/CN=C\+\+"),
        ("/O=Grid+OU=Site/CN=x", "/O=Grid+OU=Site/CN=x"),
        ("/CN=Zoë", r"/CN=Zo\xC3\xAB"),
        (r"/CN=Zo\xc3\xab", r"/CN=Zo\xC3\xAB"),
        ("/CN=a=b, c", "/CN=a=b, c"),
    ],
)
def test_a_name_in_slash_form_has_one_form(written: str, form: str) -> None:
    assert normalized_slash_name(written) == form


@pytest.mark.parametrize(
    ("written", "form"),
    [
        ("CN=Alice,OU=Site,O=Grid", "/O=Grid/OU=Site/CN=Alice"),
        (r"CN=Smith\, John,O=Grid", "/O=Grid/CN=Smith, John"),
        (r"CN=a\+b,O=x/y", r"/O=x\/y/CN=a\+b"),
        ("CN=b+OU=a,O=Grid", "/O=Grid/OU=a+CN=b"),
        (r"CN=Zo\C3\AB", r"/CN=Zo\xC3\xAB"),
        (r"CN=\ a\ ", "/CN= a "),
        (r"CN=a/CN\=b", r"/CN=a\/CN=b"),
        ("1.2.3.4=#0C0161", "/1.2.3.4=a"),
        ("emailAddress=a@example.org,CN=a", "/CN=a/emailAddress=a@example.org"),
    ],
)
def test_a_name_of_rfc_2253_is_turned_around(written: str, form: str) -> None:
    assert from_rfc2253(written) == form


@pytest.mark.parametrize(
    "written",
    ["", "Alice", "CN=Alice", "/CN", "/CN=", "+CN=a", "x/CN=a", "/=a", r"/CN=a\b", r"/CN=a\\", "/CN=a\\", r"/CN=a\x5C"],
)
def test_what_is_no_name_in_slash_form_is_refused(written: str) -> None:
    with pytest.raises(BadNameError):
        normalized_slash_name(written)


@pytest.mark.parametrize(
    "written",
    ["", "Alice", "CN=", "CN=a,", ",CN=a", "CN=a,,O=b", "CN=a;O=b", 'CN="a"', "CN=a\\", r"CN=a\\b", "CN=#zz", "CN=#0C"],
)
def test_what_is_no_name_of_rfc_2253_is_refused(written: str) -> None:
    with pytest.raises(BadNameError):
        from_rfc2253(written)


def test_what_openssl_writes_for_servers_in_front_is_read(tmp_path) -> None:
    subject = "/O=Grid \\+ Co/OU=Site, North/OU=a\\/b/emailAddress=a@example.org/CN=Zoë \\#1"
    words = ["openssl", "req", "-new", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
    words += ["-utf8", "-keyout", "/dev/null", "-subj", subject, "-out", str(tmp_path / "one.pem")]
    subprocess.run(words, check=True, capture_output=True, timeout=30)
    told = ["openssl", "x509", "-noout", "-subject", "-nameopt", "RFC2253", "-in", str(tmp_path / "one.pem")]
    out = subprocess.run(told, check=True, capture_output=True, text=True, timeout=30).stdout
    certificate = x509.load_pem_x509_certificate((tmp_path / "one.pem").read_bytes())
    assert from_rfc2253(out.strip().removeprefix("subject=")) == slash_name(certificate.subject)


def test_an_attribute_that_nobody_knows_is_read_from_its_encoding() -> None:
    name = x509.Name([x509.NameAttribute(ObjectIdentifier("1.2.3.4"), "value")])
    assert from_rfc2253("1.2.3.4=#0c0576616c7565") == slash_name(name)
