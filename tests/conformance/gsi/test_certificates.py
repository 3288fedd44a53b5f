"""The same certificates, judged by the toolkit, by OpenSSL and by us."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, load_pem_private_key

from deploy.endpoint.authority import CertificateFiles, openssl
from endpoints.gridftp.faults import FaultError
from endpoints.gridftp.login import GsiLogin
from identity.gsi.errors import Flaw, RevokedError, StaleRevocationListError, UntrustedError
from identity.gsi.proxies import make_proxy
from identity.gsi.trust import TrustFolder
from identity.gsi.x509 import LIMITED, X509Credential
from tests import hostile_certificates as make
from tests.gridftp.authority import Authority
from tests.gridftp.grid import credential_of, open_session
from tests.gridftp.toolkit import ToolkitServer
from tests.hostile_certificates import DAY, NOW, Holder, raises_flaw

toolkit = pytest.mark.toolkit

HOURS = timedelta(hours=12)


def now() -> datetime:
    return datetime.now(UTC)


def run(words: list[str], trusted: Path | None = None) -> subprocess.CompletedProcess[str]:
    environment = {"PATH": os.environ["PATH"]} | ({"X509_CERT_DIR": str(trusted)} if trusted else {})
    return subprocess.run(words, capture_output=True, text=True, timeout=60, env=environment, stdin=subprocess.DEVNULL)


@pytest.fixture
def alice(identity_of: Callable[..., CertificateFiles]) -> CertificateFiles:
    return identity_of("alice")


@pytest.fixture
def proxy_file(tmp_path: Path) -> Callable[[X509Credential], Path]:
    def write(credential: X509Credential) -> Path:
        path = tmp_path / f"{credential.fingerprint}.pem"
        path.touch(mode=0o600)
        path.write_bytes(credential.to_pem())
        return path

    return write


@pytest.fixture
def init(authority: Authority, tmp_path: Path) -> Callable[..., X509Credential]:
    """A proxy that the toolkit makes."""

    def make_one(certificate: Path, key: Path, *options: str) -> X509Credential:
        out = tmp_path / "made.pem"
        words = ["grid-proxy-init", "-cert", str(certificate), "-key", str(key), "-out", str(out), "-pwstdin", *options]
        done = run(words, authority.certificates)
        assert done.returncode == 0, done.stdout + done.stderr
        return X509Credential.parse(out.read_bytes())

    return make_one


# --- proxies, ours at the toolkit and the toolkit's here ------------------------------------------------------------


@toolkit
@pytest.mark.parametrize(
    ("limited", "kind"),
    [(False, "RFC 3820 compliant impersonation proxy"), (True, "RFC 3820 compliant limited proxy")],
)
def test_the_toolkit_understands_our_proxies(
    alice: CertificateFiles,
    authority: Authority,
    proxy_file: Callable[[X509Credential], Path],
    limited: bool,
    kind: str,
) -> None:
    credential = make_proxy(credential_of(alice), lifetime=HOURS, limited=limited, now=now())
    for one in (credential, make_proxy(credential, lifetime=HOURS, now=now())):
        told = run(["grid-proxy-info", "-f", str(proxy_file(one))], authority.certificates)
        facts = dict(line.split(" : ", 1) for line in told.stdout.replace("  : ", " : ").splitlines() if " : " in line)
        facts = {word.strip(): fact for word, fact in facts.items()}
        assert (facts["type"], facts["strength"]) == (kind, "2048 bits")
        assert (facts["subject"], facts["identity"]) == (one.subject, one.identity)
        assert facts["identity"] == alice.subject


@toolkit
def test_the_toolkit_makes_proxies_of_our_proxies_and_we_admit_them(
    alice: CertificateFiles,
    authority: Authority,
    proxy_file: Callable[[X509Credential], Path],
    init: Callable[..., X509Credential],
) -> None:
    ours = proxy_file(make_proxy(credential_of(alice), lifetime=HOURS, now=now()))
    theirs = init(ours, ours, "-verify")
    assert theirs.identity == alice.subject
    below = make_proxy(theirs, lifetime=HOURS, now=now())
    found = TrustFolder(authority.certificates).admit(below, now=now())
    assert found == credential_of(alice).certificate


@toolkit
@pytest.mark.parametrize(
    "options", [[], ["-rfc"], ["-bits", "4096"], ["-valid", "1:00"], ["-path-length", "3"]], ids=str
)
def test_we_admit_the_toolkits_proxies(
    alice: CertificateFiles, authority: Authority, init: Callable[..., X509Credential], options: list[str]
) -> None:
    credential = init(alice.certificate, alice.key, *options)
    assert credential.is_proxy
    assert TrustFolder(authority.certificates).admit(credential, now=now()) == credential_of(alice).certificate


@toolkit
def test_limited_proxies_of_the_toolkit_are_known_as_such(
    alice: CertificateFiles, authority: Authority, init: Callable[..., X509Credential]
) -> None:
    credential = init(alice.certificate, alice.key, "-limited")
    assert credential.is_limited
    with raises_flaw(Flaw.LIMITED_PROXY):
        TrustFolder(authority.certificates).admit(credential, now=now())


@toolkit
def test_a_path_length_of_the_toolkits_is_kept(
    alice: CertificateFiles, authority: Authority, init: Callable[..., X509Credential]
) -> None:
    # With 0 it writes no path length at all, and so does not limit anything.
    credential = init(alice.certificate, alice.key, "-path-length", "1")
    trust = TrustFolder(authority.certificates)
    trust.admit(credential, now=now())
    holder = Holder(credential.certificate, credential.key, credential.chain)
    today = datetime.now(UTC)
    below = make.proxy(holder, begins=today - DAY, key=make.rsa_key(2))
    trust.verify(below.chain, now=today)
    with raises_flaw(Flaw.PATH_TOO_LONG):
        trust.verify(make.proxy(below, begins=today - DAY).chain, now=today)


@toolkit
@pytest.mark.parametrize("kind", ["-old", "-draft"])
def test_proxies_of_the_old_kinds_are_not_taken(
    alice: CertificateFiles, authority: Authority, tmp_path: Path, kind: str
) -> None:
    out = tmp_path / "old.pem"
    words = ["grid-proxy-init", "-cert", str(alice.certificate), "-key", str(alice.key), "-out", str(out), kind]
    assert run(words, authority.certificates).returncode == 0
    with raises_flaw(Flaw.LEGACY_CREDENTIAL):
        X509Credential.parse(out.read_bytes())


# --- verdicts of OpenSSL --------------------------------------------------------------------------------------------

CA = make.authority()
ALICE = make.person(CA)
STRICT = make.authority("CN=Strict CA", path_length=0)
BOUND = make.authority(
    "CN=Bound CA",
    more=[(x509.NameConstraints([x509.DirectoryName(make.name("O=Grid", "OU=Test"))], None), True)],
)
UNKNOWN = x509.UnrecognizedExtension(x509.ObjectIdentifier("1.2.3.4.5"), b"\x05\x00")

GOOD: dict[str, tuple[Holder, Holder]] = {
    "a person": (CA, ALICE),
    "a proxy": (CA, make.proxy(ALICE)),
    "a proxy of a proxy": (CA, make.proxy(make.proxy(ALICE))),
    "a limited proxy": (CA, make.proxy(ALICE, policy=LIMITED)),
    "a proxy that others may follow": (CA, make.proxy(make.proxy(ALICE, path_length=1))),
    "proxies below an authority without a path": (STRICT, make.proxy(make.proxy(make.person(STRICT)))),
    "an intermediate authority": (CA, make.person(make.authority("CN=Middle", CA))),
    "a key on a curve": (CA, make.proxy(make.person(CA, key=make.ec_key()))),
    "names within bounds": (BOUND, make.proxy(make.person(BOUND))),
    "a name with everything": (CA, make.person(CA, make.name("O=Grid", "OU=a+CN=b", "CN=Zoë/x"))),
}
BAD: dict[str, tuple[Holder, Holder]] = {
    "expired": (CA, make.person(CA, ends=NOW - DAY)),
    "not yet valid": (CA, make.person(CA, begins=NOW + DAY)),
    "an expired proxy": (CA, make.proxy(ALICE, ends=NOW - DAY)),
    "self-signed": (CA, make.person(None)),
    "unknown authority": (CA, make.person(make.authority("CN=Other CA"))),
    "another key of the same authority": (CA, make.person(make.authority(key=make.rsa_key(77)))),
    "a changed signature": (CA, make.with_wrong_signature(ALICE)),
    "a proxy signed by another": (CA, make.proxy(ALICE, signed_by=make.rsa_key(55))),
    "a person certified by a person": (CA, make.person(ALICE, "CN=Mallory")),
    "a proxy with another name": (CA, make.proxy(ALICE, subject=make.name("O=Grid", "CN=Bob", "CN=1"))),
    "a proxy with two more names": (
        CA,
        make.proxy(ALICE, subject=make.name("O=Grid", "OU=Test", "CN=Alice", "CN=1", "CN=2")),
    ),
    "a proxy with its person's name": (CA, make.proxy(ALICE, subject=ALICE.certificate.subject)),
    "a proxy that calls itself an authority": (CA, make.proxy(ALICE, more=[(x509.BasicConstraints(True, None), True)])),
    "a proxy with alternative names": (
        CA,
        make.proxy(ALICE, more=[(x509.SubjectAlternativeName([x509.DNSName("a.org")]), False)]),
    ),
    "a proxy too many": (CA, make.proxy(make.proxy(ALICE, path_length=0))),
    "an authority too many": (STRICT, make.person(make.authority("CN=Middle", STRICT))),
    "an authority that is none": (CA, make.person(make.authority("CN=Middle", CA, is_authority=False))),
    "an authority that may not certify": (CA, make.person(make.authority("CN=Middle", CA, may_certify=False))),
    "a name out of bounds": (BOUND, make.person(BOUND, make.name("O=Grid", "CN=Alice"))),
    "an unknown critical extension": (CA, make.person(CA, more=[(UNKNOWN, True)])),
    "unreadable proxy information": (CA, make.proxy(ALICE, info=b"\x30\x00")),
}


@pytest.fixture
def verdicts(tmp_path: Path) -> Callable[[Holder, Holder], tuple[bool, bool]]:
    """Whether (OpenSSL, Waybill) accept the chain below this root."""

    def judge(root: Holder, holder: Holder) -> tuple[bool, bool]:
        files = {
            "root": [root.certificate],
            "leaf": [holder.certificate],
            "between": list(holder.issuers) or [root.certificate],
        }
        for stem, certificates in files.items():
            (tmp_path / f"{stem}.pem").write_bytes(b"".join(map(make.certificate_pem, certificates)))
        words = ["openssl", "verify", "-allow_proxy_certs", "-attime", str(int(NOW.timestamp())), "-no-CApath"]
        words += ["-CAfile", str(tmp_path / "root.pem"), "-untrusted", str(tmp_path / "between.pem")]
        done = run([*words, str(tmp_path / "leaf.pem")])
        folder = tmp_path / "folder"
        folder.mkdir()
        make.trust(folder, root)
        for number, issuer in enumerate(holder.issuers):
            # OpenSSL knows no policies: here every authority has one.
            policy = make.policy_text(Holder(issuer, root.key), "/*")
            (folder / f"{number:08x}.signing_policy").write_text(policy)
        try:
            TrustFolder(folder).verify(holder.chain, now=NOW)
        except UntrustedError:
            return done.returncode == 0, False
        return done.returncode == 0, True

    return judge


@pytest.mark.parametrize("case", GOOD)
def test_openssl_accepts_what_we_accept(case: str, verdicts: Callable[[Holder, Holder], tuple[bool, bool]]) -> None:
    assert verdicts(*GOOD[case]) == (True, True)


@pytest.mark.parametrize("case", BAD)
def test_openssl_refuses_what_we_refuse(case: str, verdicts: Callable[[Holder, Holder], tuple[bool, bool]]) -> None:
    assert verdicts(*BAD[case]) == (False, False)


# --- authorities made by openssl ------------------------------------------------------------------------------------


@pytest.fixture
def own_authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path / "own", name="Own Authority")


def test_revocation_lists_of_openssl_are_heeded(own_authority: Authority) -> None:
    alice, bob = own_authority.issue_user("alice"), own_authority.issue_user("bob")
    trust = TrustFolder(own_authority.certificates)
    own_authority.revoke([bob], days=3)
    trust.admit(make_proxy(credential_of(alice), lifetime=HOURS, now=now()), now=now())
    with pytest.raises(RevokedError):
        trust.admit(credential_of(bob), now=now())
    with pytest.raises(StaleRevocationListError):
        trust.admit(credential_of(alice), now=now() + timedelta(days=4))


def test_names_are_those_of_openssl(own_authority: Authority) -> None:
    identity = own_authority.issue_user("Zoë O'Hara, host/x")
    assert credential_of(identity).identity == identity.subject


@pytest.mark.filterwarnings("ignore::cryptography.utils.CryptographyDeprecationWarning")
def test_an_authority_with_the_number_zero_is_an_authority(tmp_path: Path) -> None:
    key = tmp_path / "ca.key"
    key.write_bytes(make.key_pem(make.rsa_key(5)))
    words = ["req", "-new", "-x509", "-sha256", "-set_serial", "0", "-days", "9", "-subj", "/O=Grid/CN=Zero", "-key"]
    root = x509.load_pem_x509_certificate(openssl([*words, str(key)]))
    holder = Holder(root, make.rsa_key(5))
    folder = tmp_path / "folder"
    folder.mkdir()
    make.trust(folder, holder)
    today = datetime.now(UTC)
    TrustFolder(folder).verify(make.person(holder, begins=today - DAY, ends=today + DAY).chain, now=today)
    assert root.public_bytes(Encoding.DER)


# --- where the toolkit is strict, so are we ---------------------------------------------------------------------------


def without_policies(issuer: Authority) -> None:
    for path in issuer.certificates.glob("*.signing_policy"):
        path.unlink()


def with_another_policy(issuer: Authority) -> None:
    for path in issuer.certificates.glob("*.signing_policy"):
        path.write_text(path.read_text().replace(f"{issuer.namespace}/*", "/O=Elsewhere/*"))


def with_an_old_list(issuer: Authority) -> None:
    key = load_pem_private_key(issuer.ca_key.read_bytes(), None)
    assert isinstance(key, rsa.RSAPrivateKey)
    holder = Holder(x509.load_pem_x509_certificate(issuer.ca_certificate.read_bytes()), key)
    content = make.revocation_list(holder, begins=now() - 9 * DAY, ends=now() - DAY)
    for name in issuer.hashes():
        (issuer.certificates / f"{name}.r0").write_bytes(content)


def with_a_forged_list(issuer: Authority) -> None:
    root = x509.load_pem_x509_certificate(issuer.ca_certificate.read_bytes())
    content = make.revocation_list(Holder(root, make.rsa_key(3)), begins=now() - DAY, ends=now() + DAY)
    for name in issuer.hashes():
        (issuer.certificates / f"{name}.r0").write_bytes(content)


@toolkit
@pytest.mark.parametrize("spoil", [without_policies, with_another_policy, with_an_old_list, with_a_forged_list])
async def test_what_spoils_a_folder_for_the_toolkit_spoils_it_for_us(
    own_authority: Authority,
    gsi_server_factory: Callable[..., ToolkitServer],
    tmp_path: Path,
    spoil: Callable[[Authority], None],
) -> None:
    ours, served = tmp_path / "ours", tmp_path / "served"
    served.mkdir()
    shutil.copytree(own_authority.certificates, ours)
    server = gsi_server_factory(served, issuer=own_authority)
    alice = credential_of(own_authority.issue_user("alice"))
    login = GsiLogin(alice, TrustFolder(ours), "localhost")
    await (await open_session(server.port, login)).close()
    TrustFolder(own_authority.certificates).admit(alice, now=now())

    spoil(own_authority)
    with pytest.raises(FaultError):
        await open_session(server.port, login)
    with pytest.raises(UntrustedError):
        TrustFolder(own_authority.certificates).admit(alice, now=now())
