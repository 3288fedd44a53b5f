"""A certificate authority by the `openssl` command, for an endpoint in a box.

Standard library only: it runs on a bare host. Certificates have the form that Grid software expects: RSA 2048, SHA-256,
and a folder of hashed names with a signing policy beside each (the layout of X509_CERT_DIR).
"""

from __future__ import annotations

import ipaddress
import os
import secrets
import subprocess
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

OPENSSL_SECONDS = 60
#: Days. The limits of browsers do not apply here; a site renews its host certificate with `box renew`.
AUTHORITY_DAYS, HOST_DAYS = 3650, 825

_CONFIG = "[req]\ndistinguished_name=names\n[names]\n"
_AUTHORITY = """[extensions]
basicConstraints=critical,CA:TRUE
keyUsage=critical,keyCertSign,cRLSign
subjectKeyIdentifier=hash
"""
LEAF = """basicConstraints=critical,CA:FALSE
keyUsage=critical,digitalSignature,keyEncipherment
subjectKeyIdentifier=hash
authorityKeyIdentifier=keyid
"""
_POLICY = """access_id_CA X509 '{authority}'
pos_rights globus CA:sign
cond_subjects globus '"{namespace}/*"'
"""
_DATABASE = """[ca]
default_ca=authority
[authority]
database={folder}/index.txt
default_md=sha256
unique_subject=no
[req]
distinguished_name=names
[names]
"""


class AuthorityError(Exception):
    """The openssl command is missing, or failed; the text names the step and the reason."""


@dataclass(frozen=True)
class CertificateFiles:
    """A certificate with its key, as two PEM files. Only the owner can read the key."""

    certificate: Path
    key: Path

    @property
    def subject(self) -> str:
        """The slash form of gridmaps: /O=Grid/CN=Alice."""
        return subject_of(self.certificate)


class Authority:
    """A CA in `folder`, created at the first use and used again afterwards. It signs names below `namespace` only.

    `certificates` is the folder to trust (X509_CERT_DIR). Issued certificates lie in `issued`. `note` is called with
    each path before it is created, so that the caller can remove the endpoint later.
    """

    def __init__(
        self,
        folder: Path,
        *,
        namespace: str,
        name: str = "Authority",
        note: Callable[[Path], None] = lambda path: None,
    ) -> None:
        self.folder = folder
        self.note = note
        self.namespace = namespace
        self.subject = f"{namespace}/CN={_escaped(name)}"
        self.certificates = folder / "certificates"
        self.issued = folder / "issued"
        self.ca_certificate = folder / "ca.pem"
        self.ca_key = folder / "ca.key"
        self._create()

    def _create(self) -> None:
        for path in (self.folder, self.certificates, self.issued):
            self.note(path)
            path.mkdir(parents=True, exist_ok=True)
            if path.stat().st_mode & 0o777 != 0o755:  # whatever the umask is: sessions read the files below
                path.chmod(0o755)
        if not self.ca_certificate.exists():
            self._new_key(self.ca_key)
            self._sign_itself()
        self._publish()

    def _keep(self, path: Path, content: bytes, mode: int = 0o644) -> None:
        self.note(path)
        if not path.exists() or path.read_bytes() != content:
            replace_file(path, content, mode)

    def _new_key(self, path: Path) -> None:
        """PKCS#1 ("RSA PRIVATE KEY"), which the oldest Grid programs read, too."""
        self._keep(path, openssl(["genrsa", "-traditional", "2048"]), 0o600)

    def _sign_itself(self) -> None:
        config = _CONFIG + _AUTHORITY
        words = ["req", "-new", "-x509", "-config", "/dev/stdin", "-extensions", "extensions", "-sha256"]
        words += ["-days", str(AUTHORITY_DAYS), "-subj", self.subject, "-key", str(self.ca_key)]
        self._keep(self.ca_certificate, openssl(words, config))

    def _publish(self) -> None:
        """Under the current hash of the subject, and under the MD5 hash that older programs use."""
        policy = _POLICY.format(authority=subject_of(self.ca_certificate), namespace=self.namespace).encode()
        for name in self.hashes():
            self._keep(self.certificates / f"{name}.0", self.ca_certificate.read_bytes())
            self._keep(self.certificates / f"{name}.signing_policy", policy)

    def hashes(self) -> list[str]:
        words = ["x509", "-noout", "-in", str(self.ca_certificate), "-subject_hash", "-subject_hash_old"]
        return openssl(words).decode().split()

    def issue_host(
        self, names: Sequence[str], *, days: int = HOST_DAYS, to: Path | None = None, stem: str = ""
    ) -> CertificateFiles:
        """A certificate for a server: DNS names and addresses. The first one is its common name too."""
        alternatives = ",".join(f"{'IP' if is_address(name) else 'DNS'}:{name}" for name in names)
        extensions = f"{LEAF}extendedKeyUsage=serverAuth,clientAuth\nsubjectAltName={alternatives}\n"
        return self.issue(stem or f"host-{names[0]}", names[0], extensions, days=days, to=to)

    def issue(
        self, stem: str, common_name: str, extensions: str, *, days: int, to: Path | None = None
    ) -> CertificateFiles:
        """Sign a new key; `stem` names its two files in the folder `to`, where they replace earlier ones.

        In the default folder, `issued`, nothing is replaced: the names hold a part of the serial number.
        """
        serial = secrets.randbits(127) + 1
        safe = "".join(letter if letter.isalnum() or letter in "-._" else "_" for letter in stem)
        if to is None:
            safe = f"{safe}-{serial % 16**8:08x}"
        folder = to or self.issued
        identity = CertificateFiles(folder / f"{safe}.pem", folder / f"{safe}.key")
        self._new_key(identity.key)
        subject = f"{self.namespace}/CN={_escaped(common_name)}"
        words = ["req", "-new", "-config", "/dev/stdin", "-subj", subject, "-key", str(identity.key)]
        request = openssl(words, _CONFIG)
        words = ["x509", "-req", "-sha256", "-days", str(days), "-extfile", "/dev/stdin"]
        words += ["-set_serial", str(serial)]
        words += ["-CA", str(self.ca_certificate), "-CAkey", str(self.ca_key), "-in"]
        self._keep(identity.certificate, _with_file(words, request, extensions))
        return identity

    def revoke(self, identities: Iterable[CertificateFiles] = (), *, days: int = 30) -> None:
        """Revoke these, and publish a list that is valid for `days`. Without any, publish a fresh list."""
        index = self.folder / "index.txt"
        config = _DATABASE.format(folder=self.folder)
        for ending in ("", ".attr", ".old", ".attr.old", ".new", ".attr.new"):
            self.note(index.with_name(index.name + ending))
        if not index.exists():
            replace_file(index, b"")
        words = ["ca", "-config", "/dev/stdin", "-keyfile", str(self.ca_key), "-cert", str(self.ca_certificate)]
        for identity in identities:
            openssl([*words, "-revoke", str(identity.certificate)], config)
        content = openssl([*words, "-gencrl", "-crldays", str(days)], config)
        for name in self.hashes():
            self._keep(self.certificates / f"{name}.r0", content)


def subject_of(certificate: Path) -> str:
    """The subject in slash form, as gridmaps and signing policies have it."""
    words = ["x509", "-noout", "-subject", "-nameopt", "compat", "-in", str(certificate)]
    return openssl(words).decode().strip().removeprefix("subject=").strip()


def fits(identity: CertificateFiles) -> bool:
    """Whether both files exist and the key is that of the certificate."""
    try:
        public = openssl(["x509", "-noout", "-pubkey", "-in", str(identity.certificate)])
        return public == openssl(["pkey", "-pubout", "-in", str(identity.key)])
    except AuthorityError:
        return False


def serves(identity: CertificateFiles, host: str, *, days: int) -> bool:
    """Whether this certificate is valid for this host name or address, and stays so for these days."""
    check = "-checkip" if is_address(host) else "-checkhost"
    words = ["x509", "-noout", "-in", str(identity.certificate)]
    try:
        # For another name OpenSSL 3.0 has status 0, and that of Debian 13 has 1.
        matches = fits(identity) and b"does match" in openssl([*words, check, host])
        openssl([*words, "-checkend", str(days * 86400)])
    except AuthorityError:
        return False
    return matches


def expiry_of(certificate: Path) -> str:
    """A time such as `Nov 22 00:20:59 2027 GMT`."""
    words = ["x509", "-noout", "-enddate", "-in", str(certificate)]
    return openssl(words).decode().strip().removeprefix("notAfter=")


def beside(path: Path) -> Path:
    """The path of the new content of `path` until it is complete."""
    return path.with_name(f".{path.name}.new")


def replace_file(path: Path, content: bytes, mode: int = 0o644, owner: tuple[int, int] | None = None) -> None:
    """Write the file completely or not at all: no reader sees a part."""
    new = beside(path)
    with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, mode), "wb") as file:
        os.fchmod(file.fileno(), mode)
        if owner is not None:
            os.fchown(file.fileno(), *owner)
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    new.replace(path)


def openssl(words: Sequence[str], given: str = "") -> bytes:
    """The output of the command. Raises AuthorityError with its error message."""
    try:
        done = subprocess.run(
            ["openssl", *words],
            input=given.encode(),
            capture_output=True,
            timeout=OPENSSL_SECONDS,
            env=os.environ | {"OPENSSL_CONF": "/dev/null"},
        )
    except FileNotFoundError:
        raise AuthorityError("the command `openssl` is not installed (package openssl)") from None
    except subprocess.TimeoutExpired:
        raise AuthorityError(f"openssl {words[0]}: not done after {OPENSSL_SECONDS} s") from None
    if done.returncode:
        raise AuthorityError(f"openssl {words[0]}: {done.stderr.decode(errors='replace').strip()}")
    return done.stdout


def _with_file(words: Sequence[str], content: bytes, given: str) -> bytes:
    """Run the command; its last word names a file with `content`, which is not on the disk."""
    descriptor = os.memfd_create("request")
    try:
        os.write(descriptor, content)
        return openssl([*words, f"/proc/{os.getpid()}/fd/{descriptor}"], given)
    finally:
        os.close(descriptor)


def _escaped(value: str) -> str:
    """Escape for -subj: slashes, backslashes and plus signs separate names there."""
    return value.replace("\\", "\\\\").replace("/", "\\/").replace("+", "\\+")


def is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
