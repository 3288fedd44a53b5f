"""Which chains lead to an authority that is trusted, and what is said about those that do not."""

from __future__ import annotations

from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from hypothesis import given, settings
from hypothesis import strategies as st

from identity.gsi import certificate_path as path
from identity.gsi import errors
from identity.gsi.authority_files import AuthorityFiles
from identity.gsi.distinguished_names import canonical
from identity.gsi.signing_policy import PolicyEntry
from identity.gsi.trust import TrustFolder
from identity.gsi.x509 import LIMITED, MAX_CERTIFICATES, UNREADABLE
from tests import hostile_certificates as make
from tests.hostile_certificates import DAY, NOW, Holder, raises_flaw, refused, verified

CA = make.authority()
#: As long as the object identifier of proxyCertInfo, and one octet away from it.
SUBSTITUTE = x509.ObjectIdentifier("1.3.6.1.5.5.7.1.99")
TRUSTED = AuthorityFiles(
    certificates={canonical(CA.certificate.subject): [CA.certificate]},
    stems={CA.certificate: {"0"}},
    policies={"0": [PolicyEntry("/O=Grid/CN=Test CA", ("/*",))]},
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return make.trust(tmp_path, CA)


def test_a_person_certified_by_a_trusted_authority_is_accepted(folder: Path) -> None:
    assert verified(folder, make.person(CA)) == "/O=Grid/OU=Test/CN=Alice"


def test_the_authority_need_not_be_in_the_chain(folder: Path) -> None:
    alice = make.person(CA)
    assert verified(folder, Holder(alice.certificate, alice.key)) == "/O=Grid/OU=Test/CN=Alice"


def test_a_proxy_of_a_proxy_of_a_proxy_proves_the_person(folder: Path) -> None:
    holder = make.proxy(make.proxy(make.proxy(make.person(CA))))
    assert verified(folder, holder) == "/O=Grid/OU=Test/CN=Alice"


def test_the_issuers_may_lie_in_any_order(folder: Path) -> None:
    holder = make.proxy(make.proxy(make.person(CA)))
    mixed = Holder(holder.certificate, holder.key, tuple(reversed(holder.issuers)))
    assert verified(folder, mixed) == "/O=Grid/OU=Test/CN=Alice"


def test_the_same_certificate_twice_does_no_harm(folder: Path) -> None:
    holder = make.proxy(make.person(CA))
    twice = Holder(holder.certificate, holder.key, (*holder.chain, *holder.issuers))
    assert verified(folder, twice) == "/O=Grid/OU=Test/CN=Alice"


def test_a_limited_proxy_proves_the_person_too(folder: Path) -> None:
    limited = make.proxy(make.person(CA), policy=LIMITED)
    assert verified(folder, limited) == "/O=Grid/OU=Test/CN=Alice"
    assert verified(folder, make.proxy(limited, policy=LIMITED)) == "/O=Grid/OU=Test/CN=Alice"


def test_keys_on_elliptic_curves_are_accepted(folder: Path) -> None:
    alice = make.person(CA, key=make.ec_key())
    assert verified(folder, make.proxy(alice, key=make.ec_key(1))) == "/O=Grid/OU=Test/CN=Alice"
    assert verified(folder, make.proxy(alice)) == "/O=Grid/OU=Test/CN=Alice"


@pytest.mark.parametrize("digest", [hashes.SHA256(), hashes.SHA384(), hashes.SHA512()])
def test_the_digests_of_today_are_accepted(folder: Path, digest: hashes.HashAlgorithm) -> None:
    verified(folder, make.person(CA, digest=digest))


# --- times ----------------------------------------------------------------------------------------------------------


def test_an_expired_person_is_refused_with_the_time(folder: Path) -> None:
    reason = refused(folder, make.person(CA, ends=NOW - DAY), errors.Flaw.EXPIRED)
    assert reason == 'The certificate "/O=Grid/OU=Test/CN=Alice" expired on 2026-06-14 12:00:00 UTC.'


def test_a_person_is_accepted_in_the_last_second_and_not_after(folder: Path) -> None:
    alice = make.person(CA)
    ends = alice.certificate.not_valid_after_utc
    verified(folder, alice, now=ends)
    refused(folder, alice, errors.Flaw.EXPIRED, now=ends + DAY / 86400)


def test_a_person_from_the_future_is_refused(folder: Path) -> None:
    assert "2026-06-16" in refused(folder, make.person(CA, begins=NOW + DAY), errors.Flaw.NOT_YET_VALID)


def test_an_expired_proxy_of_a_valid_person_is_refused(folder: Path) -> None:
    reason = refused(folder, make.proxy(make.person(CA), ends=NOW - DAY), errors.Flaw.EXPIRED)
    assert "CN=Alice/CN=1234567" in reason


def test_a_valid_proxy_of_an_expired_person_is_refused(folder: Path) -> None:
    refused(folder, make.proxy(make.person(CA, ends=NOW - DAY), ends=NOW + DAY), errors.Flaw.EXPIRED)


def test_an_expired_authority_is_refused(tmp_path: Path) -> None:
    old = make.authority("CN=Old CA", ends=NOW - DAY)
    assert "CN=Old CA" in refused(make.trust(tmp_path, old), make.person(old), errors.Flaw.EXPIRED)


# --- who signed -----------------------------------------------------------------------------------------------------


def test_somebody_with_a_self_signed_certificate_is_refused(folder: Path) -> None:
    refused(folder, make.person(None), errors.Flaw.SELF_SIGNED)


def test_an_authority_that_nobody_knows_is_refused_by_name(folder: Path) -> None:
    other = make.authority("CN=Other CA")
    alice = make.person(other)
    assert '"/O=Grid/CN=Other CA"' in refused(folder, alice, errors.Flaw.UNKNOWN_AUTHORITY)
    refused(folder, Holder(alice.certificate, alice.key), errors.Flaw.UNKNOWN_AUTHORITY)


def test_an_authority_of_the_same_name_with_another_key_is_refused(folder: Path) -> None:
    twin = make.authority(key=make.rsa_key(77))
    refused(folder, make.person(twin), errors.Flaw.UNKNOWN_AUTHORITY)
    refused(folder, Holder(make.person(twin).certificate, make.rsa_key(1)), errors.Flaw.BAD_SIGNATURE)


def test_two_authorities_of_one_name_may_both_be_trusted(folder: Path) -> None:
    twin = make.authority(key=make.rsa_key(77))
    (folder / f"{make.stem(CA)}.1").write_bytes(make.certificate_pem(twin.certificate))
    verified(folder, make.person(twin))
    verified(folder, make.person(CA))


def test_a_changed_signature_is_refused(folder: Path) -> None:
    refused(folder, make.with_wrong_signature(make.person(CA)), errors.Flaw.BAD_SIGNATURE)
    refused(folder, make.with_wrong_signature(make.proxy(make.person(CA))), errors.Flaw.BAD_SIGNATURE)


def test_a_proxy_signed_with_another_key_than_the_persons_is_refused(folder: Path) -> None:
    refused(folder, make.proxy(make.person(CA), signed_by=make.rsa_key(55)), errors.Flaw.BAD_SIGNATURE)


def test_a_proxy_without_its_person_is_refused(folder: Path) -> None:
    holder = make.proxy(make.person(CA))
    refused(folder, Holder(holder.certificate, holder.key), errors.Flaw.BAD_PROXY)


def test_a_person_cannot_certify_another_person(folder: Path) -> None:
    refused(folder, make.person(make.person(CA), "CN=Mallory"), errors.Flaw.NOT_AN_AUTHORITY)


def test_a_proxy_cannot_certify_a_person(folder: Path) -> None:
    refused(folder, make.person(make.proxy(make.person(CA)), "CN=Mallory"), errors.Flaw.NOT_AN_AUTHORITY)


def test_an_authority_cannot_make_a_proxy_of_itself(folder: Path) -> None:
    refused(folder, make.proxy(CA), errors.Flaw.NOT_AN_END_ENTITY)


def test_the_authority_itself_is_not_a_person(folder: Path) -> None:
    refused(folder, CA, errors.Flaw.NOT_AN_END_ENTITY)
    signs_too = make.person(CA, more=[(x509.BasicConstraints(True, None), True)])
    assert "authority" in refused(folder, signs_too, errors.Flaw.NOT_AN_END_ENTITY)
    refused(folder, make.proxy(signs_too), errors.Flaw.NOT_AN_END_ENTITY)


@pytest.mark.parametrize("digest", ["md5", "sha1"])
def test_broken_digests_are_refused(folder: Path, digest: str) -> None:
    refused(folder, make.claiming(make.person(CA), digest), errors.Flaw.WEAK_SIGNATURE)
    refused(folder, make.claiming(make.proxy(make.person(CA)), digest), errors.Flaw.WEAK_SIGNATURE)


def test_a_root_may_have_signed_itself_with_sha1(tmp_path: Path) -> None:
    root = make.claiming(make.authority("CN=Root of 2004"), "sha1")
    verified(make.trust(tmp_path, root), make.person(root))


def test_short_keys_are_refused(folder: Path, tmp_path: Path) -> None:
    assert "1024 bits" in refused(folder, make.person(CA, key=make.rsa_key(0, 1024)), errors.Flaw.WEAK_SIGNATURE)
    refused(folder, make.proxy(make.person(CA), key=make.rsa_key(0, 1024)), errors.Flaw.WEAK_SIGNATURE)
    small = make.authority("CN=Small CA", key=make.rsa_key(1, 1024))
    refused(make.trust(tmp_path, small), make.person(small), errors.Flaw.WEAK_SIGNATURE)


def test_odd_curves_are_refused(folder: Path) -> None:
    refused(folder, make.person(CA, key=make.ec_key(0, ec.SECP192R1)), errors.Flaw.WEAK_SIGNATURE)


# --- intermediate authorities ---------------------------------------------------------------------------------------


def test_an_intermediate_authority_in_the_folder_is_used(folder: Path) -> None:
    middle = make.authority("CN=Middle", CA)
    alice = make.person(middle)
    make.trust(folder, middle)
    verified(folder, Holder(alice.certificate, alice.key))


def test_an_intermediate_authority_from_the_chain_needs_a_policy_in_the_folder(folder: Path) -> None:
    middle = make.authority("CN=Middle", CA)
    alice = make.person(middle)
    assert "/O=Grid/CN=Middle" in refused(folder, alice, errors.Flaw.SIGNING_POLICY)
    (folder / f"{make.stem(middle)}.signing_policy").write_text(make.policy_text(middle, "/O=Grid/*"))
    verified(folder, alice)


def test_an_intermediate_authority_whose_root_is_unknown_is_refused(tmp_path: Path) -> None:
    middle = make.authority("CN=Middle", CA)
    refused(make.trust(tmp_path, middle), make.person(middle), errors.Flaw.UNKNOWN_AUTHORITY)


def test_more_authorities_than_the_root_allows_are_refused(tmp_path: Path) -> None:
    root = make.authority("CN=Strict CA", path_length=0)
    middle = make.authority("CN=Middle", root)
    make.trust(make.trust(tmp_path, root), middle)
    verified(tmp_path, make.person(root))
    refused(tmp_path, make.person(middle), errors.Flaw.PATH_TOO_LONG)


def test_proxies_do_not_count_as_authorities(tmp_path: Path) -> None:
    root = make.authority("CN=Strict CA", path_length=0)
    verified(make.trust(tmp_path, root), make.proxy(make.proxy(make.person(root))))


@pytest.mark.parametrize("wrong", [{"is_authority": False}, {"may_certify": False}])
def test_an_issuer_that_may_not_certify_is_refused(folder: Path, wrong: dict[str, bool]) -> None:
    middle = make.authority("CN=Middle", CA, **wrong)  # type: ignore[arg-type]
    refused(make.trust(folder, middle), make.person(middle), errors.Flaw.NOT_AN_AUTHORITY)


def test_authorities_that_certify_each_other_in_a_circle_come_to_an_end(folder: Path) -> None:
    one = make.authority("CN=One", make.authority("CN=Two"))
    two = make.authority("CN=Two", one)
    alice = make.person(two)
    circle = Holder(alice.certificate, alice.key, (two.certificate, one.certificate))
    refused(folder, circle, errors.Flaw.UNKNOWN_AUTHORITY)
    make.trust(folder, one)
    make.trust(folder, two)
    refused(folder, circle, errors.Flaw.PATH_TOO_LONG)


def test_a_chain_of_a_hundred_certificates_is_refused_unread(folder: Path) -> None:
    alice = make.person(CA)
    crowd = Holder(alice.certificate, alice.key, (CA.certificate,) * 100)
    assert str(MAX_CERTIFICATES) in refused(folder, crowd, errors.Flaw.PATH_TOO_LONG)


def test_no_chain_at_all_is_refused(folder: Path) -> None:
    with raises_flaw(errors.Flaw.UNREADABLE_CERTIFICATE):
        TrustFolder(folder).verify((), now=NOW)


# --- what certificates are for --------------------------------------------------------------------------------------


def test_a_certificate_that_may_not_sign_is_refused(folder: Path) -> None:
    alice = make.person(CA, key_usage=make.usage(sign=False))
    refused(folder, alice, errors.Flaw.NOT_AN_END_ENTITY)
    refused(folder, make.proxy(alice), errors.Flaw.NOT_AN_END_ENTITY)


def test_a_proxy_that_may_not_sign_is_refused(folder: Path) -> None:
    refused(folder, make.proxy(make.person(CA), key_usage=make.usage(sign=False)), errors.Flaw.NOT_AN_END_ENTITY)


def test_a_critical_extension_that_nobody_knows_is_refused(folder: Path) -> None:
    unknown = x509.UnrecognizedExtension(x509.ObjectIdentifier("1.2.3.4.5"), b"\x05\x00")
    verified(folder, make.person(CA, more=[(unknown, False)]))
    assert "1.2.3.4.5" in refused(folder, make.person(CA, more=[(unknown, True)]), errors.Flaw.UNKNOWN_EXTENSION)


def test_a_certificate_with_nonsense_in_an_extension_is_refused(folder: Path) -> None:
    nonsense = x509.UnrecognizedExtension(x509.SubjectAlternativeName.oid, b"\x30\x05nope")
    refused(folder, make.person(CA, more=[(nonsense, False)]), errors.Flaw.UNREADABLE_CERTIFICATE)


def test_an_extension_that_comes_twice_is_refused(folder: Path) -> None:
    twice = make.proxy(make.person(CA), more=[(x509.UnrecognizedExtension(SUBSTITUTE, make.proxy_cert_info()), True)])
    data = twice.certificate.public_bytes(Encoding.DER)
    changed = data.replace(bytes.fromhex("2b06010505070163"), bytes.fromhex("2b0601050507010e"))
    refused(
        folder,
        Holder(x509.load_der_x509_certificate(changed), twice.key, twice.issuers),
        errors.Flaw.UNREADABLE_CERTIFICATE,
    )


@pytest.mark.filterwarnings("ignore::cryptography.utils.CryptographyDeprecationWarning")
@settings(max_examples=100, deadline=None)
@given(st.integers(0, 3000), st.integers(1, 255))
def test_a_proxy_with_one_octet_changed_proves_nobody(at: int, change: int) -> None:
    proxy = make.proxy(make.person(CA))
    data = bytearray(proxy.certificate.public_bytes(Encoding.DER))
    data[at % len(data)] ^= change
    try:
        changed = x509.load_der_x509_certificate(bytes(data))
    except UNREADABLE:
        return
    # How many bits of the signature's last octet count may be said in several ways: nobody has signed that.
    if (changed.tbs_certificate_bytes, changed.signature) == (
        proxy.certificate.tbs_certificate_bytes,
        proxy.certificate.signature,
    ):
        return
    with pytest.raises(errors.UntrustedError):
        path.verify((changed, *proxy.issuers), TRUSTED, now=NOW)


# --- proxies --------------------------------------------------------------------------------------------------------


def test_legacy_proxies_are_refused(folder: Path) -> None:
    refused(folder, make.legacy_proxy(make.person(CA)), errors.Flaw.LEGACY_PROXY)
    refused(folder, make.legacy_proxy(make.person(CA), "CN=limited proxy"), errors.Flaw.LEGACY_PROXY)


def test_proxies_of_the_draft_are_refused(folder: Path) -> None:
    draft = x509.UnrecognizedExtension(x509.ObjectIdentifier("1.3.6.1.4.1.3536.1.222"), make.proxy_cert_info())
    alice = make.person(CA)
    subject = x509.Name([*alice.certificate.subject.rdns, *make.name("CN=12345").rdns])
    refused(folder, make.sign(subject, make.rsa_key(2), alice, [(draft, False)]), errors.Flaw.LEGACY_PROXY)


@pytest.mark.parametrize(
    "wrong",
    [
        {"critical": False},
        {"policy": "1.3.6.1.5.5.7.21.2"},  # id-ppl-independent
        {"policy": "1.2.3.4"},
        {"rules": b"rules"},
        {"policy": LIMITED, "rules": b""},
        {"appended": "CN=1+OU=2"},
        {"appended": "OU=1"},
        {"subject": make.name("O=Grid", "OU=Test", "CN=Bob", "CN=1")},
        {"subject": make.name("O=Grid", "OU=Test", "CN=Alice", "CN=1", "CN=2")},
        {"subject": make.name("O=Grid", "OU=Test", "CN=alice", "CN=1")},
        {"more": [(x509.BasicConstraints(True, None), True)]},
        {"key_usage": make.usage(certify=True)},
        {"more": [(x509.SubjectAlternativeName([x509.DNSName("dtn.example.org")]), False)]},
        {"more": [(x509.IssuerAlternativeName([x509.DNSName("dtn.example.org")]), False)]},
    ],
    ids=str,
)
def test_proxies_that_rfc_3820_forbids_are_refused(folder: Path, wrong: dict[str, object]) -> None:
    refused(folder, make.proxy(make.person(CA), **wrong), errors.Flaw.BAD_PROXY)  # type: ignore[arg-type]


def test_a_proxy_with_its_persons_own_name_is_refused(folder: Path) -> None:
    alice = make.person(CA)
    refused(folder, make.proxy(alice, subject=alice.certificate.subject), errors.Flaw.BAD_PROXY)


@pytest.mark.parametrize("info", [b"", b"\x30\x00", b"\x30\x80", b"\x31\x02\x05\x00", b"\x30\x7f\x06"], ids=repr)
def test_an_unreadable_proxy_is_refused(folder: Path, info: bytes) -> None:
    refused(folder, make.proxy(make.person(CA), info=info), errors.Flaw.UNREADABLE_CERTIFICATE)


def test_a_full_proxy_of_a_limited_one_is_refused(folder: Path) -> None:
    refused(folder, make.proxy(make.proxy(make.person(CA), policy=LIMITED)), errors.Flaw.LIMITED_PROXY)


def test_a_proxy_may_say_how_many_follow(folder: Path) -> None:
    one = make.proxy(make.person(CA), path_length=1)
    verified(folder, one)
    verified(folder, make.proxy(one))
    refused(folder, make.proxy(make.proxy(one)), errors.Flaw.PATH_TOO_LONG)
    none = make.proxy(make.person(CA), path_length=0)
    refused(folder, make.proxy(none), errors.Flaw.PATH_TOO_LONG)


def test_a_proxy_cannot_allow_more_than_the_one_before(folder: Path) -> None:
    one = make.proxy(make.proxy(make.person(CA), path_length=1), path_length=5)
    refused(folder, make.proxy(one), errors.Flaw.PATH_TOO_LONG)


def test_a_proxy_that_outlives_its_person_is_refused(folder: Path) -> None:
    alice = make.person(CA)
    outlives = make.proxy(alice, ends=alice.certificate.not_valid_after_utc + DAY)
    refused(folder, outlives, errors.Flaw.OVERLONG_PROXY)
