"""A folder of authorities that changes, and TLS that trusts what is in it."""

from __future__ import annotations

import os
import shutil
import ssl
import stat
import tempfile
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import ExtendedKeyUsageOID as Usage

from identity.gsi import authority_files
from identity.gsi.distinguished_names import openssl_hash
from identity.gsi.errors import Flaw, NoAuthoritiesError, RevokedError, StaleRevocationListError
from identity.gsi.trust import TrustFolder, explain, peer_chain
from identity.gsi.x509 import LIMITED, X509Credential
from tests import hostile_certificates as make
from tests.hostile_certificates import DAY, NOW, Holder, raises_flaw

CA = make.authority()
ALICE = make.person(CA)


def test_a_folder_is_read_when_it_is_asked_and_not_before(tmp_path: Path) -> None:
    folder = TrustFolder(tmp_path / "certificates")
    with pytest.raises(NoAuthoritiesError):
        folder.verify(ALICE.chain, now=NOW)
    (tmp_path / "certificates").mkdir()
    with raises_flaw(Flaw.UNKNOWN_AUTHORITY):
        folder.verify(ALICE.chain, now=NOW)
    make.trust(tmp_path / "certificates", CA)
    assert folder.verify(ALICE.chain, now=NOW) == ALICE.certificate


def test_a_folder_that_cannot_be_read_is_not_said_to_be_missing(tmp_path: Path) -> None:
    # A link to itself: permissions do not stop root.
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(NoAuthoritiesError, match="cannot read its folder of trusted authorities"):
        _ = TrustFolder(tmp_path / "loop").store
    with pytest.raises(NoAuthoritiesError, match="must name a folder"):
        _ = TrustFolder(tmp_path / "missing").store


def test_what_changes_in_the_folder_counts_from_then_on(tmp_path: Path) -> None:
    folder = TrustFolder(make.trust(tmp_path, CA))
    folder.verify(ALICE.chain, now=NOW)
    make.publish(tmp_path, CA, make.revocation_list(CA, [ALICE]))
    with pytest.raises(RevokedError):
        folder.verify(ALICE.chain, now=NOW)
    make.publish(tmp_path, CA, make.revocation_list(CA))
    folder.verify(ALICE.chain, now=NOW)
    make.trust(tmp_path, CA, "/O=Elsewhere/*")
    with raises_flaw(Flaw.SIGNING_POLICY):
        folder.verify(ALICE.chain, now=NOW)
    (tmp_path / f"{make.stem(CA)}.0").unlink()
    with raises_flaw(Flaw.UNKNOWN_AUTHORITY):
        folder.verify(ALICE.chain, now=NOW)


def test_a_file_behind_a_link_may_change_too(tmp_path: Path) -> None:
    real, folder = tmp_path / "real", tmp_path / "folder"
    real.mkdir()
    folder.mkdir()
    make.trust(real, CA)
    for path in real.iterdir():
        (folder / path.name).symlink_to(path)
    trust = TrustFolder(folder)
    trust.verify(ALICE.chain, now=NOW)
    make.trust(real, CA, "/O=Elsewhere/*")
    with raises_flaw(Flaw.SIGNING_POLICY):
        trust.verify(ALICE.chain, now=NOW)


def test_a_folder_that_has_not_changed_is_not_read_again(tmp_path: Path) -> None:
    folder = TrustFolder(make.trust(tmp_path, CA))
    assert folder.store is folder.store


def test_an_authority_under_two_hashes_is_one(tmp_path: Path) -> None:
    make.trust(tmp_path, CA)
    for path in list(tmp_path.iterdir()):
        shutil.copy(path, tmp_path / path.name.replace(make.stem(CA), "0123abcd"))
    folder = TrustFolder(tmp_path)
    assert folder.store.all_authorities() == [CA.certificate]
    folder.verify(ALICE.chain, now=NOW)


def test_other_files_are_not_looked_at(tmp_path: Path) -> None:
    make.trust(tmp_path, CA)
    for name in ("README", "ca.pem", "12345678.namespaces", "nothash.0", "12345678.0.orig", "12345678.", ".r0"):
        (tmp_path / name).write_text("rubbish")
    folder = TrustFolder(tmp_path)
    folder.verify(ALICE.chain, now=NOW)
    assert folder.store.problems == []


def test_what_cannot_be_read_is_reported_and_does_no_harm_to_others(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    make.trust(tmp_path, CA)
    (tmp_path / "00000000.0").write_text("-----BEGIN CERTIFICATE-----\n")
    (tmp_path / "00000001.0").write_bytes(b"\xff" * 300_000)
    (tmp_path / "00000002.signing_policy").write_text("what is this")
    (tmp_path / "00000003.signing_policy").write_bytes(b"\xff\xfe")
    (tmp_path / "00000004.r0").write_text("no list")
    (tmp_path / "00000005.0").mkdir()
    (tmp_path / "00000006.0").symlink_to("nowhere")
    folder = TrustFolder(tmp_path)
    folder.verify(ALICE.chain, now=NOW)
    assert [problem.split()[0] for problem in folder.store.problems] == [
        *("00000000.0", "00000001.0", "00000002.signing_policy", "00000003.signing_policy", "00000004.r0"),
        *("00000005.0", "00000006.0"),
    ]
    folder.verify(ALICE.chain, now=NOW)
    assert len(caplog.records) == 7, "each is told once, when the folder is read"


def test_a_broken_policy_allows_nobody(tmp_path: Path) -> None:
    make.trust(tmp_path, CA, policy=make.policy_text(CA, "/*") + "what is this")
    with raises_flaw(Flaw.SIGNING_POLICY):
        TrustFolder(tmp_path).verify(ALICE.chain, now=NOW)


def test_a_revocation_list_may_be_der(tmp_path: Path) -> None:
    make.trust(tmp_path, CA)
    pem = make.revocation_list(CA, [ALICE])
    make.publish(tmp_path, CA, x509.load_pem_x509_crl(pem).public_bytes(Encoding.DER))
    with pytest.raises(RevokedError):
        TrustFolder(tmp_path).verify(ALICE.chain, now=NOW)


def test_a_revocation_list_that_is_too_long_refuses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(authority_files, "MAX_REVOCATION_LIST", 100)
    make.trust(tmp_path, CA)
    make.publish(tmp_path, CA, make.revocation_list(CA))
    with pytest.raises(StaleRevocationListError):
        TrustFolder(tmp_path).verify(ALICE.chain, now=NOW)


def test_a_crowded_folder_is_read_up_to_a_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(authority_files, "MAX_FILES", 10)
    for number in range(30):
        (tmp_path / f"{number:08x}.signing_policy").touch()
    assert len(TrustFolder(tmp_path).store.policies) <= 10


def test_a_limited_proxy_is_not_admitted(tmp_path: Path) -> None:
    folder = TrustFolder(make.trust(tmp_path, CA))
    folder.admit(make.proxy(ALICE).credential, now=NOW)
    with raises_flaw(Flaw.LIMITED_PROXY):
        folder.admit(make.proxy(ALICE, policy=LIMITED).credential, now=NOW)


def test_a_credential_of_an_unknown_authority_is_not_admitted(tmp_path: Path) -> None:
    folder = TrustFolder(make.trust(tmp_path, CA))
    with raises_flaw(Flaw.UNKNOWN_AUTHORITY):
        folder.admit(make.proxy(make.person(make.authority("CN=Other CA"))).credential, now=NOW)


# --- TLS: at real times, because OpenSSL asks the machine's clock ----------------------------------------------------

TODAY = datetime.now(UTC).replace(microsecond=0)


def live_host(issuer: Holder) -> Holder:
    return make.host(issuer, x509.DNSName("localhost"), begins=TODAY - DAY, ends=TODAY + DAY)


def live_person(issuer: Holder | None, **others: object) -> Holder:
    return make.person(issuer, **{"begins": TODAY - DAY, "ends": TODAY + DAY, **others})  # type: ignore[arg-type]


@pytest.fixture
def live(tmp_path: Path) -> TrustFolder:
    return TrustFolder(make.trust(tmp_path, CA))


def server_context(trust: TrustFolder, credential: X509Credential) -> ssl.SSLContext:
    """The context of a web server that requires a client certificate."""
    with tempfile.NamedTemporaryFile() as file:
        file.write(credential.to_pem())
        file.flush()
        context = trust.web_context(Path(file.name), Path(file.name))
    context.verify_mode = ssl.CERT_REQUIRED
    return context


def shake(client: ssl.SSLContext, server: ssl.SSLContext) -> tuple[ssl.SSLObject, ssl.SSLObject]:
    """Both sides after a handshake in memory. -> ssl.SSLError"""
    to_client, to_server = ssl.MemoryBIO(), ssl.MemoryBIO()
    here = client.wrap_bio(to_client, to_server, server_hostname="localhost")
    there = server.wrap_bio(to_server, to_client, server_side=True)
    waiting = [here, there]
    for turn in range(12):
        if not waiting:
            break
        side = (here, there)[turn % 2]
        try:
            side.do_handshake()
        except ssl.SSLWantReadError:
            continue
        if side in waiting:
            waiting.remove(side)
    assert not waiting
    return here, there


def test_a_proxy_logs_in_by_tls_and_each_side_sees_the_chain_of_the_other(live: TrustFolder) -> None:
    host, proxy = live_host(CA), make.proxy(live_person(CA), begins=TODAY - DAY)
    client, server = shake(live.client_context(proxy.credential), server_context(live, host.credential))
    assert peer_chain(client) == host.chain
    assert peer_chain(server)[:2] == proxy.chain[:2]
    assert live.verify(peer_chain(server), now=TODAY) == proxy.issuers[0]
    live.check_host(live.verify(peer_chain(client), now=TODAY), "localhost")


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_both_versions_of_tls_are_spoken(live: TrustFolder, version: ssl.TLSVersion) -> None:
    context = live.client_context(live_person(CA).credential)
    context.maximum_version = version
    client, server = shake(context, server_context(live, live_host(CA).credential))
    assert client.version() == version.name.replace("_", ".")
    assert peer_chain(server)[0] == live.verify(peer_chain(server), now=TODAY)


def test_nothing_older_is_spoken(live: TrustFolder) -> None:
    assert live.client_context(None).minimum_version == ssl.TLSVersion.TLSv1_2
    assert server_context(live, live_host(CA).credential).minimum_version == ssl.TLSVersion.TLSv1_2


def test_a_client_without_a_certificate_is_possible(live: TrustFolder) -> None:
    context = server_context(live, live_host(CA).credential)
    with pytest.raises(ssl.SSLError):
        shake(live.client_context(None), context)
    context.verify_mode = ssl.CERT_NONE
    client, server = shake(live.client_context(None), context)
    assert peer_chain(client)[0].subject == live_host(CA).certificate.subject
    assert peer_chain(server) == ()


@pytest.mark.parametrize(
    ("bad", "flaw"),
    [
        (lambda: live_host(make.authority("CN=Other CA")), Flaw.UNKNOWN_AUTHORITY),
        (lambda: live_person(None), Flaw.SELF_SIGNED),
        (lambda: live_person(CA, begins=TODAY - 2 * DAY, ends=TODAY - DAY), Flaw.EXPIRED),
    ],
    ids=["unknown authority", "self-signed", "expired"],
)
def test_what_openssl_refuses_is_explained(live: TrustFolder, bad: Callable[[], Holder], flaw: Flaw) -> None:
    server = server_context(live, X509Credential(bad().certificate, bad().key))
    with pytest.raises(ssl.SSLCertVerificationError) as raised:
        shake(live.client_context(None), server)
    assert explain(raised.value).flaw is flaw


def test_an_empty_folder_trusts_nobody(live: TrustFolder, tmp_path_factory: pytest.TempPathFactory) -> None:
    empty = TrustFolder(tmp_path_factory.mktemp("empty"))
    with pytest.raises(ssl.SSLCertVerificationError):
        shake(empty.client_context(None), server_context(live, live_host(CA).credential))


@pytest.mark.parametrize("folder", ["plain", "with:colon"])
@pytest.mark.parametrize("file", ["{hash}.0", "{hash}.1", "0123abcd.0"])
def test_openssl_finds_every_authority_whatever_its_file_is_called(
    live: TrustFolder, tmp_path: Path, folder: str, file: str
) -> None:
    path = tmp_path / folder
    path.mkdir()
    certificate = make.certificate_pem(CA.certificate)
    (path / file.format(hash=openssl_hash(CA.certificate.subject))).write_bytes(certificate)
    trust, server = TrustFolder(path), server_context(live, live_host(CA).credential)
    server.verify_mode = ssl.CERT_NONE
    client, _ = shake(trust.client_context(None), server)
    assert peer_chain(client)
    found_by_itself = file == "{hash}.0"
    assert trust.store.misnamed() == ([] if found_by_itself else [CA.certificate])


def test_a_certificate_that_is_for_servers_only_is_not_admitted(tmp_path: Path) -> None:
    folder = TrustFolder(make.trust(tmp_path, CA))
    server, client = (x509.ExtendedKeyUsage([oid]) for oid in (Usage.SERVER_AUTH, Usage.CLIENT_AUTH))
    folder.admit(make.person(CA, more=[(client, False)]).credential, now=NOW)
    with raises_flaw(Flaw.NOT_AN_END_ENTITY):
        folder.admit(make.proxy(make.person(CA, more=[(server, False)])).credential, now=NOW)


def test_weak_keys_are_an_error_of_ours(live: TrustFolder) -> None:
    with raises_flaw(Flaw.WEAK_KEY):
        live.client_context(live_person(CA, key=make.rsa_key(0, 1024)).credential)


def test_the_key_is_never_a_file(live: TrustFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[os.stat_result] = []
    load = ssl.SSLContext.load_cert_chain

    def watched(self: ssl.SSLContext, certfile: str) -> None:
        seen.append(os.stat(certfile))
        load(self, certfile)

    monkeypatch.setattr(ssl.SSLContext, "load_cert_chain", watched)
    before = set(os.listdir("/proc/self/fd"))
    live.client_context(live_person(CA).credential)
    assert set(os.listdir("/proc/self/fd")) == before
    [about] = seen
    assert stat.S_ISREG(about.st_mode)
    assert about.st_nlink == 0


def test_a_proxy_that_expired_between_login_and_now_is_refused(live: TrustFolder) -> None:
    proxy = make.proxy(live_person(CA), begins=TODAY - DAY, ends=TODAY + timedelta(hours=1))
    _, server = shake(live.client_context(proxy.credential), server_context(live, live_host(CA).credential))
    with raises_flaw(Flaw.EXPIRED):
        live.verify(peer_chain(server), now=TODAY + timedelta(hours=2))
